// A whole run on a machine of files: no root, no kernel programs.
#include "app/session.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fixture_tree.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Machine {
  FixtureTree tree;
  Options options;
  std::unique_ptr<Session> session;
  std::vector<Fact> told;
  std::uint64_t seq = 0;
  std::uint64_t kills = 5;

  Machine() {
    tree.mount_v1();
    holds("job", MiB(100));
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\n");
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
    auto opened = Session::open(options, [](const std::string&) {});
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
  for (const Sample& sample : m.all<Sample>()) {
    ASSERT_TRUE(sample.cgroup);
    EXPECT_EQ(sample.cgroup->path, "/late");
  }
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
