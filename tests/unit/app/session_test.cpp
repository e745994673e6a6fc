// A whole run on a machine of files: no root, and kernel programs that a test speaks for.
#include "app/session.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "app/fake_bpf_source.h"
#include "fixture_tree.h"
#include "model/machine.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Machine {
  FixtureTree tree;
  Options options;
  std::unique_ptr<Session> session;
  std::vector<Fact> told;
  std::shared_ptr<test::FakePrograms> programs;  // null: there are none
  std::uint64_t seq = 0;
  std::uint64_t kills = 5;

  Machine() {
    tree.mount_v1();
    holds("job", MiB(100));
    tree.write("proc/meminfo",
               "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\n"
               "SwapTotal: 0 kB\nSwapFree: 0 kB\n");
    tree.write("dev/kmsg", "");
    count(kills);
    options.sources.root = tree.path();
    options.sources.use_bpf = false;
    options.sources.interval = 20ms;
  }
  void holds(const std::string& path, Bytes usage) {
    std::string bytes = std::to_string(usage.count) + "\n";
    tree.cgroup("sys/fs/cgroup/memory/" + path,
                {{"memory.usage_in_bytes", bytes},
                 {"memory.limit_in_bytes", "1073741824\n"},
                 {"memory.stat", "total_rss " + bytes + "total_active_file 0\ntotal_inactive_file 0\n"}});
  }
  // Kernel programs alone tell of kills.
  test::FakePrograms& with_programs() {
    options.sources.use_bpf = true;
    options.sources.use_kmsg = false;
    programs = std::make_shared<test::FakePrograms>();
    return *programs;
  }
  std::uint64_t inode(const std::string& path) const {
    struct stat file {};
    EXPECT_EQ(::stat(tree.path("sys/fs/cgroup/memory/" + path).c_str(), &file), 0);
    return file.st_ino;
  }
  void count(std::uint64_t oom_kills) {
    tree.write("proc/vmstat", "oom_kill " + std::to_string(oom_kills) + "\n");
  }
  // One record: a read of the file has all that was added.
  void log(const std::string& text) {
    std::ofstream(tree.path("dev/kmsg"), std::ios::app) << "3," << seq++ << ",1000000,-;" << text << "\n";
  }
  void kill(std::uint32_t pid, bool logged = true) {
    count(++kills);
    if (logged)
      log("Memory cgroup out of memory: Killed process " + std::to_string(pid) +
          " (grow) total-vm:66000kB, anon-rss:60000kB, file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:160kB "
          "oom_score_adj:0");
  }
  void open() {
    auto opened = Session::open(
        options, [](const std::string&) {},
        [this](const BpfOptions&) -> Result<std::unique_ptr<BpfSource>> {
          return std::unique_ptr<BpfSource>(std::make_unique<test::FakeBpfSource>(programs));
        });
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    session = *std::move(opened);
  }
  void start() {
    open();
    ASSERT_TRUE(session);
    session->start([this](const Fact& fact) { told.push_back(fact); });
  }
  template <typename T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const Fact& fact : told)
      if (auto* f = std::get_if<T>(&fact)) out.push_back(*f);
    return out;
  }
  template <typename Until>
  void run(Until until) {
    for (MonoTime latest = mono_now() + 20s; !until() && mono_now() < latest;)
      session->step(mono_now() + 10ms);
    EXPECT_TRUE(until());
  }
};

TEST(Session, begins_with_what_it_is_and_ends_with_what_was_lost) {
  Machine m;
  m.start();
  m.session->count_lost("output", 7);
  m.session->finish();
  ASSERT_GE(m.told.size(), 2u);
  auto* start = std::get_if<StartFact>(&m.told.front());
  ASSERT_TRUE(start);
  EXPECT_EQ(start->sources, (std::vector<std::string>{"cgroupfs-v1", "kmsg"}));
  auto* end = std::get_if<EndFact>(&m.told.back());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->lost, (std::map<std::string, std::uint64_t>{{"output", 7}}));
}

TEST(Session, tells_what_a_cgroup_holds_when_it_moves) {
  Machine m;
  m.start();
  ASSERT_FALSE(m.all<Sample>().empty());
  m.holds("job", MiB(300));
  m.run([&] {
    auto samples = m.all<Sample>();
    return std::ranges::any_of(
        samples, [](const Sample& s) { return s.cgroup && s.cgroup->path == "/job" && s.usage == MiB(300); });
  });
}

TEST(Session, tells_a_kill_of_the_log_once) {
  Machine m;
  m.start();
  m.kill(4312);
  m.run([&] { return !m.all<OomEvent>().empty(); });
  m.session->finish();
  auto kills = m.all<OomEvent>();
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].episode.victims[0].process.id.tgid, 4312u);
  EXPECT_EQ(kills[0].episode.victims[0].anon, KiB(60000));
  EXPECT_TRUE(m.session->lost().empty());
}

TEST(Session, that_is_ended_just_after_a_kill_tells_it_first) {
  Machine m;
  m.start();
  m.kill(4312);
  m.session->finish();
  EXPECT_EQ(m.all<OomEvent>().size(), 1u);
  EXPECT_TRUE(std::holds_alternative<EndFact>(m.told.back()));
}

TEST(Session, counts_a_kill_that_the_kernel_counted_and_no_source_told) {
  Machine m;
  m.start();
  m.kill(4312, false);
  m.session->finish();
  EXPECT_EQ(std::get<EndFact>(m.told.back()).lost.at("oom_kill_unseen"), 1u);
}

// While a scope is awaited the log is read, and may be overwritten.
TEST(Session, tells_at_its_start_what_was_lost_before_it) {
  Machine m;
  m.open();
  m.log("one");
  m.session->refresh();
  m.seq += 3;
  m.log("two");
  m.session->refresh();
  m.session->start([&](const Fact& fact) { m.told.push_back(fact); });
  auto lost = m.all<LostFact>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].reason, "kernel_log_overwritten");
  EXPECT_EQ(lost[0].count, 3u);
}

TEST(Session, keeps_no_kill_of_others_while_its_scope_is_awaited) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.open();
  MonoTime began = m.session->now() - 3h;
  for (std::uint32_t n = 0; n < 3000; ++n) {
    wire::Task victim = test::task(5000 + n, m.inode("job"));
    MonoTime when = began + n * 1s;
    programs.send(test::kernel_kill(when, victim, victim));
    programs.send(
        test::mark(when + 20us, victim, victim, {test::level(m.inode("job"), GiB(1), GiB(1), true)}));
    if (n % 100 == 0) m.session->refresh();
  }
  m.session->start([&](const Fact& fact) { m.told.push_back(fact); });
  m.session->finish();
  EXPECT_EQ(std::get<EndFact>(m.told.back()).lost.count("oom_kill_no_room"), 0u);
}

TEST(Session, finds_a_scope_that_appears_while_it_is_awaited) {
  Machine m;
  m.open();
  ScopeOptions scope;
  scope.cgroup = "/late";
  EXPECT_FALSE(m.session->resolve_scope(scope));
  m.holds("late", MiB(10));
  m.session->refresh();
  EXPECT_TRUE(m.session->resolve_scope(scope));
  m.session->start([&](const Fact& fact) { m.told.push_back(fact); });
  m.holds("job", MiB(300));
  m.holds("late", MiB(20));
  m.run([&] {
    auto samples = m.all<Sample>();
    return std::ranges::any_of(samples, [](const Sample& s) { return s.usage == MiB(20); });
  });
  for (const Sample& sample : m.all<Sample>()) {
    ASSERT_TRUE(sample.cgroup);
    EXPECT_EQ(sample.cgroup->path, "/late");
  }
}

TEST(Session, tells_a_kill_of_the_kernel_programs_with_the_limit_that_it_was_for) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.start();
  ASSERT_EQ(std::get<StartFact>(m.told.front()).sources, (std::vector<std::string>{"cgroupfs-v1", "bpf"}));
  MonoTime when = m.session->now();
  wire::Task victim = test::task(4312, m.inode("job"));
  programs.send(test::kernel_kill(when, victim, victim));
  programs.send(test::mark(when + 20us, victim, victim,
                           {test::level(m.inode("job"), GiB(1), GiB(1), true), test::level(1, GiB(3), {})}));
  m.count(++m.kills);
  programs.send(test::death(when + 5ms, victim));
  programs.send(test::reaped(when + 6ms, 4312));
  m.run([&] { return !m.all<OomEvent>().empty(); });
  m.session->finish();
  auto kills = m.all<OomEvent>();
  ASSERT_EQ(kills.size(), 1u);
  const Episode& kill = kills[0].episode;
  ASSERT_TRUE(kill.limit_cgroup);
  EXPECT_EQ(kill.limit_cgroup->path, "/job");
  ASSERT_EQ(kill.victims.size(), 1u);
  EXPECT_EQ(kill.victims[0].anon, MiB(90));
  EXPECT_EQ(kill.victims[0].killed, true);
  EXPECT_TRUE(m.session->lost().empty());
}

TEST(Session, tells_what_the_kernel_programs_lost_by_reason) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.start();
  programs.lost.at(1) = 7;
  m.run([&] { return !m.all<LostFact>().empty(); });
  EXPECT_EQ(m.all<LostFact>()[0].reason, "events_ring_full");
  EXPECT_EQ(m.all<LostFact>()[0].count, 7u);
}

TEST(Session, tells_the_end_of_a_process_although_its_record_was_lost) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.start();
  for (std::uint32_t pid : {50u, 51u})
    programs.send(
        wire::ProcessSample{m.session->now(), test::task(pid, m.inode("job")), test::memory(MiB(90))});
  m.tree.write("proc/50/stat",
               "50 (python3) S 1 1 1 0 -1 4194560 120 0 3 0 5 7 0 0 20 0 9 0 1050 3133440 427 "
               "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
  m.run([&] { return m.all<ProcessSampleFact>().size() == 2; });
  programs.lost.at(0) = 1;
  m.run([&] { return !m.all<ExitFact>().empty(); });
  ASSERT_EQ(m.all<ExitFact>().size(), 1u);
  EXPECT_EQ(m.all<ExitFact>()[0].process.id.tgid, 51u) << "50 is there";
}

TEST(Session, believes_the_kernels_usage_before_a_file_says_it) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.start();
  wire::CgroupSample sample;
  sample.time = m.session->now();
  sample.memcg = test::level(m.inode("job"), MiB(108), GiB(1));
  sample.moved = true;
  programs.send(sample);
  m.run([&] {
    auto samples = m.all<Sample>();
    return std::ranges::any_of(samples, [](const Sample& s) { return s.usage == MiB(108); });
  });
}

TEST(Session, walks_no_cgroups_while_the_machine_has_hardly_any_memory_left) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.tree.write("proc/meminfo",
               "MemTotal: 8388608 kB\nMemFree: 131072 kB\nMemAvailable: 131072 kB\n"
               "SwapTotal: 0 kB\nSwapFree: 0 kB\n");
  m.start();
  m.run([&] { return m.all<TickFact>().size() > 3; });
  int walks = programs.walks;
  EXPECT_LE(walks, 1) << "before the first look at the machine";
  m.tree.write("proc/meminfo",
               "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\n"
               "SwapTotal: 0 kB\nSwapFree: 0 kB\n");
  m.run([&] { return programs.walks > walks + 2; });
}

// What is done meanwhile takes the CPU from the victim, and memory that the kernel has the next one killed
// for.
struct FullMachine : Machine {
  test::FakePrograms& programs = with_programs();
  FullMachine() {
    start();
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 131072 kB\nMemAvailable: 131072 kB\n");
  }
  Nanos killed_with(std::uint32_t pid, std::optional<Bytes> limit = {}) {
    wire::Task victim = test::task(pid, inode("job"));
    MonoTime began = mono_now();
    programs.send(test::kernel_kill(began, victim, victim));
    programs.send(test::mark(began + 20us, victim, victim, {test::level(inode("job"), MiB(100), limit)}));
    count(++kills);
    session->step(began);
    return mono_now() - began;
  }
  std::vector<std::uint32_t> victims() {
    session->finish();
    std::vector<std::uint32_t> out;
    for (const OomEvent& kill : all<OomEvent>())
      for (const Victim& victim : kill.episode.victims) out.push_back(victim.process.id.tgid);
    return out;
  }
};

TEST(Session, does_nothing_until_the_memory_of_a_victim_of_the_machine_is_back) {
  FullMachine m;
  std::atomic<bool> back = false;
  std::thread frees([&] {
    std::this_thread::sleep_for(50ms);
    back = true;
    m.tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\n");
  });
  Nanos took = m.killed_with(51);
  EXPECT_TRUE(back || took >= 500ms);
  frees.join();
  EXPECT_EQ(m.victims(), (std::vector<std::uint32_t>{51}));
}

TEST(Session, does_nothing_for_half_a_second_at_most_and_not_again_at_once) {
  FullMachine m;
  EXPECT_GE(m.killed_with(50), 500ms) << "it does not come back";
  EXPECT_LT(m.killed_with(51), 500ms);
  EXPECT_EQ(m.victims(), (std::vector<std::uint32_t>{50, 51}));
}

// It takes no lock, so that the mark does not say whose limit it was.
TEST(Session, goes_on_beside_a_kill_for_a_limit_that_was_lowered) {
  // Standing still takes half a second each time; on a busy machine another step may, but not all.
  bool goes_on = false;
  for (int i = 0; i < 5 && !goes_on; ++i) goes_on = FullMachine().killed_with(50, MiB(100)) < 500ms;
  EXPECT_TRUE(goes_on);
}

TEST(Session, asks_for_every_change_of_rss_while_a_cgroup_is_nearly_full) {
  Machine m;
  test::FakePrograms& programs = m.with_programs();
  m.start();
  m.run([&] { return programs.walks > 2; });
  EXPECT_FALSE(programs.exact);
  m.holds("job", MiB(1020));
  wire::CgroupSample sample;
  sample.time = m.session->now();
  sample.memcg = test::level(m.inode("job"), MiB(1020), GiB(1));
  programs.send(sample);
  m.run([&] { return programs.exact; });
}

TEST(Session, needs_a_source_of_kills) {
  Machine m;
  m.tree.remove("dev/kmsg");
  auto opened = Session::open(m.options, [](const std::string&) {});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("no OOM kill would be seen"), std::string::npos);
}

}  // namespace
}  // namespace oomcast
