// The kernel programs on this kernel: that they load, and what they tell of things this test does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <thread>
#include <utility>

#include "app/child_cgroup.h"
#include "collect/bpf_source.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// Why these tests cannot run here; nullopt: they can.
std::optional<std::string> obstacle() {
  if (geteuid() != 0) return "loading kernel programs needs root";
  if (auto fs = CgroupFs::open(Roots{}); !fs) return fs.error().message;
  return std::nullopt;
}
#define SKIP_IF_IMPOSSIBLE() \
  if (auto why = obstacle()) GTEST_SKIP() << *why

BpfOptions options() {
  BpfOptions out;
  auto fs = CgroupFs::open(Roots{});
  out.memory_hierarchy = fs->mount().hierarchy_id;
  out.cgroup_mount = fs->mount().mount_point;
  out.interval = 1s;
  out.host_memory = GiB(64);
  out.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  return out;
}

// A child that waits for go() before it does what it was made for.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char byte = 0;
      if (read(pipe[0], &byte, 1) == 1) work();
      _exit(7);
    }
    close(pipe[0]);
    go_.reset(pipe[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }
  std::uint32_t tgid() const { return static_cast<std::uint32_t>(pid_); }
  void go() {
    if (write(go_.get(), "g", 1) != 1) ADD_FAILURE() << "the child is gone";
  }
  int wait() {
    if (!waited_) waitpid(pid_, &status_, 0);
    waited_ = true;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd go_;
  int status_ = 0;
  bool waited_ = false;
};

void eat_memory(Bytes bytes = MiB(512)) {
  auto size = static_cast<std::size_t>(bytes.count);
  auto* memory = static_cast<volatile char*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::size_t i = 0; i < size; i += 4096) memory[i] = 1;
}

struct Watch {
  std::unique_ptr<BpfSource> source;
  std::vector<wire::Record> records;

  Watch() {
    auto loaded = BpfSource::load(options());
    if (loaded)
      source = *std::move(loaded);
    else
      ADD_FAILURE() << loaded.error().message;
  }
  // Reads until `enough`, for at most ten seconds.
  bool read_until(const std::function<bool()>& enough) {
    for (int tries = 0; tries < 200; ++tries) {
      while (source->drain([&](const wire::Record& r) { records.push_back(r); })) {
      }
      if (enough()) return true;
      pollfd ready{source->fd(), POLLIN, 0};
      poll(&ready, 1, 50);
    }
    return false;
  }
  std::uint64_t lost(std::string_view reason) const {
    auto reasons = wire::lost_reasons();
    return source->lost().at(
        static_cast<std::size_t>(std::find(reasons.begin(), reasons.end(), reason) - reasons.begin()));
  }
  template <typename T, typename F>
  const T* find(F matches) const {
    for (const auto& record : records)
      if (auto* r = std::get_if<T>(&record); r && matches(*r)) return r;
    return nullptr;
  }
};

// Kills a child by the limit of a cgroup of its own.
struct OomKill {
  OomKill() : child([] { eat_memory(); }) {
    auto fs = CgroupFs::open(Roots{});
    auto made = ChildCgroup::make(*fs, MiB(32), child.pid());
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    cgroup.emplace(*std::move(made));
    auto entry = fs->lookup(cgroup->path());
    if (entry)
      inode = entry->id.inode;
    else
      ADD_FAILURE() << entry.error().message;
    child.go();
    int status = child.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child was not killed: " << status;
  }
  std::optional<ChildCgroup> cgroup;  // goes after the child, which must have left it
  Child child;
  std::uint64_t inode = 0;
};

// Each process is two samples of 88 and 96 bytes: 920 KB for a ring of 512.
constexpr std::uint64_t kForks = 5'000;
void fill_samples() {
  for (std::uint64_t i = 0; i < kForks; ++i) {
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) _exit(0);
    ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  }
}

TEST(Programs, all_load_and_attach_where_their_hook_exists) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  ASSERT_GE(watch.source->programs().size(), 20u);
  for (const ProgramState& p : watch.source->programs()) {
    if (p.why_not.empty()) {
      bool on_demand = p.name == "on_rss_stat" || p.name == "on_clock";
      EXPECT_EQ(p.attached, !on_demand) << p.name;
    } else {
      EXPECT_TRUE(p.why_not.starts_with("this kernel")) << p.name << ": " << p.why_not;
    }
  }
  EXPECT_EQ(watch.source->undecodable(), 0u);
}

TEST(Programs, of_both_forms_of_mark_victim_one_is_used) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  int attached = 0;
  for (const ProgramState& p : watch.source->programs())
    attached += p.name.starts_with("on_mark_victim") && p.attached;
  EXPECT_EQ(attached, 1);
}

TEST(Programs, follow_every_change_of_rss_when_asked_to) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  EXPECT_TRUE(watch.source->set_exact(true));
  EXPECT_TRUE(watch.source->set_exact(true)) << "again";
  EXPECT_TRUE(watch.source->set_exact(false));
  EXPECT_TRUE(watch.source->set_exact(false));
}

TEST(Programs, tell_the_whole_story_of_an_oom_kill) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  OomKill oom;
  std::uint32_t pid = oom.child.tgid();
  auto exit_of = [&] { return watch.find<wire::Exit>([&](auto& r) { return r.task.id.tgid == pid; }); };
  ASSERT_TRUE(watch.read_until([&] { return exit_of() != nullptr; }));

  auto* sent = watch.find<wire::KernelKill>([&](auto& r) { return r.victim.id.tgid == pid; });
  auto* mark = watch.find<wire::OomMark>([&](auto& r) { return r.victim.id.tgid == pid; });
  auto* dying = watch.find<wire::Dying>([&](auto& r) { return r.task.id.tgid == pid; });
  ASSERT_TRUE(sent) << "no SIGKILL";
  ASSERT_TRUE(mark) << "no mark";
  ASSERT_TRUE(dying) << "no last words";
  EXPECT_LE(sent->time, mark->time);
  EXPECT_EQ(sent->victim.tid, mark->victim.tid);
  EXPECT_EQ(sent->sender.tid, mark->trigger.tid);
  EXPECT_EQ(mark->trigger.id.tgid, pid) << "it met the limit itself";
  EXPECT_EQ(mark->victim.parent->tgid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(mark->victim.cgroup, oom.inode);
  ASSERT_FALSE(mark->chain.empty());
  EXPECT_EQ(mark->chain[0].inode, oom.inode);
  EXPECT_EQ(mark->chain[0].limit, MiB(32));
  EXPECT_GE(mark->chain[0].usage, MiB(31));
  EXPECT_LE(mark->chain[0].usage, MiB(32));
  ASSERT_TRUE(mark->memory);
  EXPECT_GT(mark->memory->anon, MiB(20));
  EXPECT_LT(mark->memory->anon, MiB(64)) << "with what it shares with its parent";
  EXPECT_EQ(mark->memory->total_vm.count / GiB(4).count, 0) << "pages, not bytes, were multiplied";
  ASSERT_TRUE(dying->args);
  EXPECT_NE(dying->args->argv[0].find("bpf_tests"), std::string_view::npos);
  EXPECT_FALSE(dying->stack.empty());
  EXPECT_TRUE(exit_of()->killed_by_kernel);
  EXPECT_TRUE(exit_of()->by_sigkill());
  EXPECT_EQ(exit_of()->task.id, mark->victim.id);
  EXPECT_EQ(watch.source->undecodable(), 0u);
}

TEST(Programs, tell_of_an_oom_kill_though_its_user_has_the_kernel_send_more_sigkills_than_may_be_told) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  std::vector<std::unique_ptr<Child>> limited;
  for (int i = 0; i < 400; ++i) {
    limited.push_back(std::make_unique<Child>([] {
      rlimit none{0, 0};
      setrlimit(RLIMIT_CPU, &none);
      for (volatile bool forever = true; forever;) {
      }
    }));
    limited.back()->go();
  }
  OomKill oom;
  for (auto& child : limited) child->wait();
  std::uint32_t pid = oom.child.tgid();
  EXPECT_TRUE(watch.read_until([&] {
    return watch.find<wire::Exit>([&](auto& r) { return r.task.id.tgid == pid && r.killed_by_kernel; });
  }));
  auto* sent = watch.find<wire::KernelKill>([&](auto& r) { return r.victim.id.tgid == pid; });
  auto* mark = watch.find<wire::OomMark>([&](auto& r) { return r.victim.id.tgid == pid; });
  ASSERT_TRUE(sent && mark);
  EXPECT_LE(sent->time, mark->time);
  EXPECT_TRUE(watch.find<wire::Dying>([&](auto& r) { return r.task.id.tgid == pid; }));
  auto told =
      static_cast<std::uint64_t>(std::count_if(watch.records.begin(), watch.records.end(), [](auto& r) {
        return std::holds_alternative<wire::KernelKill>(r);
      }));
  EXPECT_GE(told + watch.lost("kernel_kills_over_rate"), limited.size() + 1) << "each one is told or counted";
}

TEST(Programs, tell_of_an_oom_kill_though_nobody_reads_the_samples) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  fill_samples();
  ASSERT_GT(watch.lost("samples_ring_full"), 0u) << "the ring did not fill";

  OomKill oom;
  std::uint32_t pid = oom.child.tgid();
  EXPECT_TRUE(watch.read_until([&] {
    return watch.find<wire::Exit>([&](auto& r) { return r.task.id.tgid == pid && r.killed_by_kernel; });
  }));
  EXPECT_TRUE(watch.find<wire::OomMark>([&](auto& r) { return r.victim.id.tgid == pid; }));
  EXPECT_TRUE(watch.find<wire::Dying>([&](auto& r) { return r.task.id.tgid == pid; }));
  EXPECT_EQ(watch.lost("events_ring_full"), 0u);
  auto own_tgid = static_cast<std::uint32_t>(getpid());
  auto kept =
      static_cast<std::uint64_t>(std::count_if(watch.records.begin(), watch.records.end(), [&](auto& r) {
        auto* fork = std::get_if<wire::Fork>(&r);
        return fork && fork->child.parent && fork->child.parent->tgid == own_tgid;
      }));
  EXPECT_GE(kept + watch.lost("samples_ring_full"), kForks) << "each one is delivered or counted";
  EXPECT_LT(kept, kForks);
}

TEST(Programs, tell_who_sent_a_sigkill) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child(pause);
  child.go();
  kill(child.pid(), SIGKILL);
  child.wait();
  auto find = [&] {
    return watch.find<wire::UserKill>([&](auto& r) { return r.victim.id.tgid == child.tgid(); });
  };
  ASSERT_TRUE(watch.read_until([&] { return find() != nullptr; }));
  EXPECT_EQ(find()->sender.id.tgid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(find()->si_code, SI_USER);
  EXPECT_FALSE(watch.find<wire::KernelKill>([&](auto& r) { return r.victim.id.tgid == child.tgid(); }));
}

TEST(Programs, lay_a_sigkill_by_a_timer_to_the_process_that_made_it_not_to_what_it_interrupted) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child([] {
    sigevent how{};
    how.sigev_notify = SIGEV_SIGNAL;
    how.sigev_signo = SIGKILL;
    timer_t timer{};
    itimerspec soon{};
    soon.it_value.tv_nsec = 50'000'000;  // until it sleeps
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) == 0 && timer_settime(timer, 0, &soon, nullptr) == 0)
      pause();
  });
  child.go();
  int status = child.wait();
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  auto find = [&] {
    return watch.find<wire::UserKill>([&](auto& r) { return r.victim.id.tgid == child.tgid(); });
  };
  ASSERT_TRUE(watch.read_until([&] { return find() != nullptr; }));
  EXPECT_EQ(find()->sender.id, find()->victim.id);
  EXPECT_EQ(find()->si_code, SI_TIMER);
  EXPECT_FALSE(find()->may_kill_anybody);
}

TEST(Programs, tell_of_a_sigkill_by_the_death_of_a_parent_that_the_sender_was_exiting) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child parent([] {
    pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pause();
    }
    usleep(50'000);  // until it has asked for the signal
  });
  parent.go();
  parent.wait();
  auto find = [&] {
    return watch.find<wire::UserKill>([&](auto& r) { return r.sender.id.tgid == parent.tgid(); });
  };
  ASSERT_TRUE(watch.read_until([&] { return find() != nullptr; }));
  EXPECT_EQ(find()->si_code, std::nullopt);
  EXPECT_TRUE(find()->sender.exiting);
  EXPECT_FALSE(find()->by_tracer);
}

TEST(Programs, tell_of_a_sigkill_whether_its_sender_traces_the_victim) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child traced([] {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
  });
  Child other(pause);
  traced.go();
  int status = 0;
  ASSERT_EQ(waitpid(traced.pid(), &status, 0), traced.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  for (Child* child : {&traced, &other}) {
    kill(child->pid(), SIGKILL);
    child->wait();
  }
  auto find = [&](const Child& child) {
    return watch.find<wire::UserKill>([&](auto& r) { return r.victim.id.tgid == child.tgid(); });
  };
  ASSERT_TRUE(watch.read_until([&] { return find(traced) && find(other); }));
  EXPECT_TRUE(find(traced)->by_tracer);
  EXPECT_FALSE(find(other)->by_tracer);
}

TEST(Programs, lay_a_sigkill_that_claims_to_be_a_timers_to_who_sent_it) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child(pause);
  child.go();
  siginfo_t made_up{};
  made_up.si_code = SI_TIMER;
  ASSERT_EQ(syscall(SYS_rt_sigqueueinfo, child.pid(), SIGKILL, &made_up), 0);
  child.wait();
  auto find = [&] {
    return watch.find<wire::UserKill>([&](auto& r) { return r.victim.id.tgid == child.tgid(); });
  };
  ASSERT_TRUE(watch.read_until([&] { return find() != nullptr; }));
  EXPECT_EQ(find()->sender.id.tgid, static_cast<std::uint32_t>(getpid()));
}

TEST(Programs, tell_of_fork_exec_and_exit_with_the_same_identity_as_proc) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child([] { execl("/bin/sh", "sh", "-c", "exit 3", "two words", "", nullptr); });
  auto id = ProcFs(Roots{}).read_task_id(child.tgid());
  ASSERT_TRUE(id.ok() && *id);
  child.go();
  child.wait();
  auto exit_of = [&] { return watch.find<wire::Exit>([&](auto& r) { return r.task.id == **id; }); };
  ASSERT_TRUE(watch.read_until([&] { return exit_of() != nullptr; }));
  auto* fork = watch.find<wire::Fork>([&](auto& r) { return r.child.id == **id; });
  auto* exec = watch.find<wire::Exec>([&](auto& r) { return r.task.id == **id; });
  ASSERT_TRUE(fork && exec);
  EXPECT_EQ(fork->child.parent->tgid, static_cast<std::uint32_t>(getpid()));
  ASSERT_TRUE(exec->args);
  EXPECT_EQ(exec->args->argv, (std::vector<std::string>{"sh", "-c", "exit 3", "two words", ""}));
  EXPECT_FALSE(exec->args->truncated);
  EXPECT_EQ(exec->task.comm, "sh");
  EXPECT_EQ(exit_of()->exit_code, 3 << 8);
  EXPECT_FALSE(exit_of()->killed_by_kernel);
}

TEST(Programs, tell_the_exit_code_that_wait_gives_and_not_that_of_the_last_thread) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child([] {
    std::thread([] {
      usleep(100'000);
      syscall(SYS_exit, 5);
    }).detach();
    syscall(SYS_exit, 3);
  });
  child.go();
  int status = child.wait();  // 3 or, since 5.19, 5
  auto find = [&] { return watch.find<wire::Exit>([&](auto& r) { return r.task.id.tgid == child.tgid(); }); };
  ASSERT_TRUE(watch.read_until([&] { return find() != nullptr; }));
  EXPECT_EQ(find()->exit_code, status);
}

TEST(Programs, tell_the_end_of_a_process_of_many_threads_once) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child([] {
    for (int i = 0; i < 200; ++i) std::thread(pause).detach();
    _exit(0);
  });
  child.go();
  child.wait();  // and so for all its threads
  auto ends = [&] {
    return std::count_if(watch.records.begin(), watch.records.end(), [&](auto& r) {
      auto* exit = std::get_if<wire::Exit>(&r);
      return exit && exit->task.id.tgid == child.tgid();
    });
  };
  ASSERT_TRUE(watch.read_until([&] { return ends() > 0; }));
  EXPECT_LE(ends(), 2) << "its leader may come when all others are gone";
}

TEST(Programs, cut_a_long_argv_and_say_so) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  std::string longest(5000, 'x');
  Child child([&] { execl("/bin/true", "true", longest.c_str(), nullptr); });
  child.go();
  child.wait();
  auto exec = [&] { return watch.find<wire::Exec>([&](auto& r) { return r.task.id.tgid == child.tgid(); }); };
  ASSERT_TRUE(watch.read_until([&] { return exec() != nullptr; }));
  ASSERT_TRUE(exec()->args);
  EXPECT_TRUE(exec()->args->truncated);
  EXPECT_EQ(exec()->args->argv.size(), 2u);
  EXPECT_EQ(watch.source->undecodable(), 0u);
}

TEST(Programs, tell_of_the_life_of_a_memory_cgroup) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  std::uint64_t inode = 0;
  Child child(pause);
  {
    auto fs = CgroupFs::open(Roots{});
    auto made = ChildCgroup::make(*fs, MiB(32), child.pid());
    ASSERT_TRUE(made.ok()) << made.error().message;
    inode = fs->lookup(made->path())->id.inode;
    kill(child.pid(), SIGKILL);
    child.wait();
  }
  auto event = [&](wire::CgroupEvent::Op op) {
    return watch.find<wire::CgroupEvent>([&](auto& r) { return r.inode == inode && r.op == op; });
  };
  ASSERT_TRUE(watch.read_until([&] { return event(wire::CgroupEvent::Op::rmdir) != nullptr; }));
  auto* made = event(wire::CgroupEvent::Op::mkdir);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->name.starts_with("oomcast-run-")) << made->name;
  EXPECT_TRUE(made->parent);
  auto* moved = watch.find<wire::CgroupAttach>(
      [&](auto& r) { return r.task.id.tgid == child.tgid() && r.to == inode; });
  EXPECT_TRUE(moved);
}

// Of a walk that the kernel can do; skips the test where it cannot.
const ProgramState* walk_of(const Watch& watch) {
  for (const ProgramState& p : watch.source->programs())
    if (p.name == "walk_cgroups") return &p;
  return nullptr;
}

TEST(Walk, tells_of_a_changed_limit_although_nothing_runs_in_the_cgroup_and_not_of_what_did_not_change) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  ASSERT_TRUE(walk_of(watch));
  if (!walk_of(watch)->why_not.empty()) GTEST_SKIP() << walk_of(watch)->why_not;
  auto fs = CgroupFs::open(Roots{});
  std::optional<ChildCgroup> cgroup;  // goes after the child, which must have left it
  Child child([] { pause(); });
  auto made = ChildCgroup::make(*fs, MiB(64), child.pid());
  ASSERT_TRUE(made) << made.error().message;
  cgroup.emplace(*std::move(made));
  std::uint64_t inode = fs->lookup(cgroup->path())->id.inode;
  auto samples_of_a_walk = [&] {
    watch.records.clear();
    EXPECT_TRUE(watch.source->walk_cgroups());
    while (watch.source->drain([&](const wire::Record& r) { watch.records.push_back(r); })) {
    }
    std::vector<wire::CgroupSample> out;
    for (const auto& record : watch.records)
      if (auto* r = std::get_if<wire::CgroupSample>(&record); r && r->memcg.inode == inode) out.push_back(*r);
    return out;
  };
  auto first = samples_of_a_walk();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first.front().memcg.limit, MiB(64));
  EXPECT_TRUE(samples_of_a_walk().empty());

  const CgroupMount& mount = fs->mount();
  std::string file = mount.mount_point + *mount.relative_path(cgroup->path()) +
                     (mount.hierarchy == Hierarchy::v1 ? "/memory.limit_in_bytes" : "/memory.max");
  UniqueFd limit(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(limit) << file;
  ASSERT_GT(write(limit.get(), "96M", 3), 0);
  auto changed = samples_of_a_walk();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed.front().memcg.limit, MiB(96));
  child.go();
}

TEST(Walk, counts_what_finds_no_room_so_that_the_files_are_read) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  ASSERT_TRUE(walk_of(watch));
  if (!walk_of(watch)->why_not.empty()) GTEST_SKIP() << walk_of(watch)->why_not;
  struct Busy {
    std::optional<ChildCgroup> cgroup;  // goes after the child, which must have left it
    Child child{[] {
      eat_memory(MiB(8));
      pause();
    }};
  };
  std::array<Busy, 3> news;  // of which one may just fit
  auto fs = CgroupFs::open(Roots{});
  for (Busy& b : news) {
    auto made = ChildCgroup::make(*fs, MiB(64), b.child.pid());
    ASSERT_TRUE(made) << made.error().message;
    b.cgroup.emplace(*std::move(made));
  }
  fill_samples();
  for (Busy& b : news) {
    b.child.go();
    auto usage = [&] { return *fs->open_dir(b.cgroup->path())->read_usage(); };
    for (int tries = 0; tries < 200 && usage() < MiB(8); ++tries) std::this_thread::sleep_for(50ms);
    ASSERT_GE(usage(), MiB(8));
  }
  auto before = watch.lost("samples_ring_full");
  ASSERT_GT(before, 0u) << "the ring did not fill";
  EXPECT_TRUE(watch.source->walk_cgroups());
  EXPECT_GT(watch.lost("samples_ring_full"), before);
}

TEST(Walk, puts_idle_ones_off_while_the_ring_is_half_full_and_tells_of_them_in_the_next) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  ASSERT_TRUE(walk_of(watch));
  if (!walk_of(watch)->why_not.empty()) GTEST_SKIP() << walk_of(watch)->why_not;
  auto fs = CgroupFs::open(Roots{});
  std::optional<ChildCgroup> cgroup;  // goes after the child, which must have left it
  Child child([] { pause(); });
  fill_samples();
  auto made = ChildCgroup::make(*fs, MiB(64), child.pid());
  ASSERT_TRUE(made) << made.error().message;
  cgroup.emplace(*std::move(made));
  std::uint64_t inode = fs->lookup(cgroup->path())->id.inode;
  auto told = [&] {
    return watch.find<wire::CgroupSample>([&](auto& r) { return r.memcg.inode == inode; }) != nullptr;
  };
  EXPECT_TRUE(watch.source->walk_cgroups());
  while (watch.source->drain([&](const wire::Record& r) { watch.records.push_back(r); })) {
  }
  EXPECT_FALSE(told());
  EXPECT_TRUE(watch.source->walk_cgroups());
  while (watch.source->drain([&](const wire::Record& r) { watch.records.push_back(r); })) {
  }
  EXPECT_TRUE(told());
}

TEST(Sleep, of_the_reader_is_ended_by_a_record_that_otherwise_waits_for_the_next_look) {
  SKIP_IF_IMPOSSIBLE();
  Watch watch;
  ASSERT_TRUE(watch.source);
  Child child([] {
    usleep(300'000);  // until the reader sleeps
    execl("/bin/true", "true", nullptr);
  });
  auto executed = [&] {
    return watch.find<wire::Exec>([&](auto& r) { return r.task.id.tgid == child.tgid(); }) != nullptr;
  };
  MonoTime far = MonoTime::max();
  watch.source->sleep_until(far);
  child.go();
  bool woken = true;
  while (woken && !executed()) {
    while (watch.source->drain([&](const wire::Record& r) { watch.records.push_back(r); })) {
    }
    watch.source->sleep_until(far);
    if (executed()) break;
    pollfd ready{watch.source->fd(), POLLIN, 0};
    woken = poll(&ready, 1, 10'000) == 1;
  }
  EXPECT_TRUE(woken);
}

TEST(Load, without_the_kernels_types_says_what_is_missing) {
  SKIP_IF_IMPOSSIBLE();
  BpfOptions wrong = options();
  wrong.roots.root = "/nonexistent";
  auto loaded = BpfSource::load(wrong);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().exit_code, 3);
  EXPECT_NE(loaded.error().message.find("/nonexistent/sys/kernel/btf/vmlinux"), std::string::npos);
  EXPECT_NE(loaded.error().message.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
}

}  // namespace
}  // namespace oomcast
