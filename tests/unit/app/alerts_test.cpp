#include "app/alerts.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/unique_fd.h"
#include "moment.h"

namespace oomcast {
namespace {

using namespace test;

constexpr std::uint64_t kRoot = 1, kJob = 2, kOther = 3;
int answers = -1;  // in a child: where its handler writes

/// A process of this machine that writes a byte for each SIGUSR1, or one that would die of it.
class Child {
 public:
  enum class On { handles, dies };

  explicit Child(On on) {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      answers = ends[1];
      auto answer = [](int) { (void)!write(answers, "!", 1); };
      if (on == On::handles) signal(SIGUSR1, answer);
      (void)!write(answers, "r", 1);
      for (;;) pause();
    }
    close(ends[1]);
    from_ = UniqueFd(ends[0]);
    EXPECT_TRUE(hears());  // it is ready
    id_ = ProcFs(Roots{}).read_task_id(tgid())->value();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    if (!died_of_) waitpid(pid_, nullptr, 0);
  }

  TaskId id() const { return id_; }
  std::uint32_t tgid() const { return static_cast<std::uint32_t>(pid_); }
  // Whether it wrote; its end says no.
  bool hears() const {
    char byte = 0;
    return read(from_.get(), &byte, 1) == 1;
  }
  // Of those that are sent in order, what came before this has arrived.
  bool heard_nothing() const {
    pollfd wait{from_.get(), POLLIN, 0};
    return poll(&wait, 1, 0) == 0;
  }
  int died_of() {
    int status = 0;
    waitpid(pid_, &status, 0);
    died_of_ = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
    return *died_of_;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd from_;
  TaskId id_;
  std::optional<int> died_of_;
};

/// A machine with two cgroups, and a rule that is true of one of them.
class AlertSignal : public testing::Test {
 protected:
  AlertSignal() {
    model_.on_cgroup({{Hierarchy::v2, kRoot}, std::nullopt, "/"});
    model_.on_cgroup({{Hierarchy::v2, kJob}, CgroupId{Hierarchy::v2, kRoot}, "/job"});
    model_.on_cgroup({{Hierarchy::v2, kOther}, CgroupId{Hierarchy::v2, kRoot}, "/other"});
  }

  // `grew`: its RSS by now, from 100 MiB.
  void knows(TaskId id, Bytes grew, std::uint64_t cgroup = kJob, std::optional<TaskId> parent = {},
             std::uint32_t uid = 1000) {
    model_.on_process({id, parent, "python3", uid, std::nullopt, cgroup});
    for (double at : {1.0, 2.0}) {
      wire::ProcessSample sample;
      sample.time = at_s(at);
      sample.task.id = id;
      sample.task.parent = parent;
      sample.task.comm = "python3";
      sample.task.cgroup = cgroup;
      sample.memory.emplace();
      sample.memory->anon = MiB(100) + (at > 1 ? grew : Bytes{});
      model_.on_record(sample);
    }
  }

  ActionRun alert(int signal = SIGUSR1, std::optional<TaskId> named = {}, bool host = false) {
    AlertOptions options;
    options.rules.push_back(*parse_alert_rule("level>1G"));
    options.signal = signal;
    std::vector<AlertFact> told;
    Alerts alerts(options, model_,
                  {[&](const Fact& fact) { told.push_back(std::get<AlertFact>(fact)); },
                   [](const std::string& reason) { ADD_FAILURE() << reason; }});
    if (named) alerts.set_process(*named);
    AlertInput of;
    of.host = host;
    of.cgroup = model_.cgroups().ref(host ? kRoot : kJob);
    of.level = GiB(2);
    alerts.check(at_s(3), std::span(&of, 1));
    EXPECT_EQ(told.size(), 1u);
    return told.empty() || told[0].actions.empty() ? ActionRun{} : told[0].actions[0];
  }

  MachineModel model_{MachineConfig{}};
};

using RunResult = ActionRun::Result;

TEST_F(AlertSignal, goes_to_the_process_of_its_cgroup_that_grew_most) {
  Child small(Child::On::handles), large(Child::On::handles), elsewhere(Child::On::handles);
  knows(small.id(), MiB(10));
  knows(large.id(), MiB(50));
  knows(elsewhere.id(), MiB(900), kOther);
  ActionRun run = alert();
  EXPECT_EQ(run.result, RunResult::ok) << run.error.value_or("");
  ASSERT_TRUE(run.process);
  EXPECT_EQ(run.process->id, large.id());
  EXPECT_TRUE(large.hears());
  EXPECT_TRUE(small.heard_nothing() && elsewhere.heard_nothing());
}

TEST_F(AlertSignal, of_the_host_goes_to_any_cgroups_process) {
  Child small(Child::On::handles), elsewhere(Child::On::handles);
  knows(small.id(), MiB(10));
  knows(elsewhere.id(), MiB(900), kOther);
  EXPECT_EQ(alert(SIGUSR1, {}, true).process->id, elsewhere.id());
  EXPECT_TRUE(elsewhere.hears());
}

TEST_F(AlertSignal, that_means_something_only_to_who_waits_for_it_kills_nobody) {
  Child deaf(Child::On::dies), handles(Child::On::handles);
  knows(deaf.id(), MiB(500));
  ActionRun run = alert();
  EXPECT_EQ(run.result, RunResult::failed);
  EXPECT_EQ(run.error, "no process there handles it; it would end one that does not");
  knows(handles.id(), MiB(1));
  EXPECT_EQ(alert().process->id, handles.id()) << "it grew less, but is the one that waits for it";
  EXPECT_EQ(alert(SIGTERM).process->id, deaf.id());
  EXPECT_EQ(deaf.died_of(), SIGTERM) << "and not of the SIGUSR1 before";
}

TEST_F(AlertSignal, of_a_forked_worker_goes_to_the_process_it_was_forked_from) {
  Child parent(Child::On::handles), worker(Child::On::handles);
  knows(parent.id(), MiB(1));
  knows(worker.id(), MiB(500), kJob, parent.id());
  EXPECT_EQ(alert().process->id, parent.id());
  EXPECT_TRUE(parent.hears());
  EXPECT_TRUE(worker.heard_nothing());
}

TEST_F(AlertSignal, does_not_leave_the_worker_for_a_parent_that_is_of_another_user_or_does_not_handle_it) {
  Child others(Child::On::handles), deaf(Child::On::dies);
  Child worker(Child::On::handles), second(Child::On::handles);
  knows(others.id(), MiB(1), kJob, {}, 0);
  knows(worker.id(), MiB(500), kJob, others.id());
  EXPECT_EQ(alert().process->id, worker.id());
  knows(deaf.id(), MiB(1));
  knows(second.id(), MiB(900), kJob, deaf.id());
  EXPECT_EQ(alert().process->id, second.id());
  EXPECT_TRUE(others.heard_nothing());
}

TEST_F(AlertSignal, never_reaches_a_process_that_has_only_the_number) {
  Child other(Child::On::handles), next(Child::On::handles);
  TaskId before = other.id();
  before.start_ticks -= 1;
  knows(before, MiB(500));
  ActionRun run = alert();
  EXPECT_EQ(run.result, RunResult::failed);
  EXPECT_EQ(run.error, "the process has ended, or has another number here");
  knows(next.id(), MiB(1));
  EXPECT_EQ(alert().process->id, next.id()) << "the next one, then";
  EXPECT_TRUE(next.hears());
  EXPECT_TRUE(other.heard_nothing());
}

TEST_F(AlertSignal, reaches_neither_oomcast_nor_init) {
  static volatile std::sig_atomic_t hit = 0;
  auto before = signal(SIGUSR1, [](int) { hit = 1; });
  TaskId own = ProcFs(Roots{}).read_task_id(static_cast<std::uint32_t>(getpid()))->value();
  TaskId init = ProcFs(Roots{}).read_task_id(1)->value();
  knows(own, MiB(500));
  knows(init, MiB(900));
  for (const ActionRun& run : {alert(), alert(SIGUSR1, {}, true)}) EXPECT_FALSE(run.process);
  for (TaskId named : {own, init})
    EXPECT_EQ(alert(SIGCONT, named).error, "neither init nor oomcast itself is signalled");
  EXPECT_EQ(hit, 0);
  signal(SIGUSR1, before);
}

TEST_F(AlertSignal, of_a_named_launcher_that_does_not_handle_it_is_its_descendants) {
  Child launcher(Child::On::dies), script(Child::On::handles), stranger(Child::On::handles);
  knows(launcher.id(), MiB(1), kOther);
  knows(script.id(), MiB(2), kOther, launcher.id(), 1001);
  knows(stranger.id(), MiB(900));
  EXPECT_EQ(alert(SIGUSR1, launcher.id()).process->id, script.id());
  EXPECT_TRUE(script.hears());
  EXPECT_TRUE(stranger.heard_nothing());
  Child named(Child::On::handles);
  knows(named.id(), MiB(1), kOther);
  EXPECT_EQ(alert(SIGUSR1, named.id()).process->id, named.id()) << "whatever cgroup the alert is of";
}

}  // namespace
}  // namespace oomcast
