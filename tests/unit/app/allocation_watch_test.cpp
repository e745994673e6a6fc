#include "app/allocation_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collect/bpf_source_allocations.h"
#include "fixture_tree.h"

namespace oomcast {
namespace {

/// Says whose allocations it was to watch.
class ProbedFaultSource final : public FaultSource {
 public:
  std::vector<std::uint32_t> watched, dropped, adding;
  bool refuses = false, breakpoints = true;
  std::string why;  // to drop what is watched

  Status begin(MonoTime) override { return Ok{}; }
  int fd() const override { return -1; }
  Status drain(const Sink&, MonoTime) override { return Ok{}; }
  Nanos next_look() const override { return Nanos{}; }
  double watched_share() const override { return 1; }
  Status set_python(std::uint32_t, std::span<const std::byte>) override { return Ok{}; }
  Status set_baseline(std::uint32_t, Bytes) override { return Ok{}; }
  bool sets_code_breakpoints() const override { return breakpoints; }
  std::string why_drop(std::uint32_t) const override { return why; }
  Status watch_allocations(std::uint32_t tgid, const Allocator&, double, MonoTime, MonoTime) override {
    watched.push_back(tgid);
    return Ok{};
  }
  Status watch_additions(std::uint32_t tgid, std::span<const std::uint64_t>, MonoTime) override {
    adding.push_back(tgid);
    return refuses ? Status(Error::failed("no data breakpoints")) : Ok{};
  }
  void end_additions() override {}
  void drop_allocations(std::uint32_t tgid, MonoTime) override { dropped.push_back(tgid); }
  std::vector<WatchedAllocations> end_allocations(MonoTime) override { return {}; }
  std::optional<std::uint32_t> waits_for() const override { return std::nullopt; }
  Result<std::vector<wire::LivingBlock>> living_blocks(std::uint32_t) const override {
    return std::vector<wire::LivingBlock>{};
  }
  std::map<std::string, std::uint64_t> lost() const override { return {}; }
};

// Processes 7 and 8 in /job, which has a limit of 2 GiB.
struct WatchedJob {
  FixtureTree tree;
  std::optional<ProcFs> procfs;
  std::optional<CgroupFs> fs;
  ScopeNow scope;
  BlameReader reader{"", {}, MiB(64), {}};  // never started: what it is asked for stays in its queue
  ProbedFaultSource source;
  std::optional<AllocationWatch> watch;
  const MonoTime begin{std::chrono::seconds(100)}, end{std::chrono::seconds(110)};

  explicit WatchedJob(std::vector<std::uint32_t> pids) {
    tree.mount_v2();
    uses(50);
    pressure(0);
    available(GiB(4));
    for (std::uint32_t pid : {7u, 8u}) {
      std::string dir = "proc/" + std::to_string(pid);
      tree.write(dir + "/cgroup", "0::/job\n");
      tree.write(dir + "/status", "Tgid:\t" + std::to_string(pid) + "\nTracerPid:\t0\n");
      resident(pid, 1000);
    }
    procfs.emplace(tree.roots());
    fs.emplace(*CgroupFs::open(tree.roots()));
    scope.pids = std::move(pids);
    watch.emplace(scope, *procfs, *fs, reader);
  }
  void uses(int percent) const {
    tree.cgroup("sys/fs/cgroup/job", {{"memory.max", std::to_string(GiB(2).count) + "\n"},
                                      {"memory.current", std::to_string(GiB(2).count / 100 * percent) + "\n"},
                                      {"memory.stat", "active_file 0\ninactive_file 0\n"}});
  }
  void available(Bytes left) const {  // of 64 GiB
    tree.write("proc/meminfo",
               "MemTotal: 67108864 kB\nMemAvailable: " + std::to_string(left.count >> 10) + " kB\n");
  }
  void pressure(double percent) const {
    std::string average = std::to_string(percent);
    tree.write("proc/pressure/memory", "some avg10=" + average +
                                           " avg60=0.00 avg300=0.00 total=0\nfull avg10=" + average +
                                           " avg60=0.00 avg300=0.00 total=0\n");
  }
  void resident(std::uint32_t pid, int pages) const {
    std::string number = std::to_string(pages);
    tree.write("proc/" + std::to_string(pid) + "/statm", number + " " + number + " 0 0 0 0 0\n");
  }
  void answer(std::uint32_t pid) { watch->on_allocator(&source, pid, Allocator{}); }
};

using Watched = std::vector<std::uint32_t>;

TEST(AllocationWatch, sets_code_breakpoints_in_a_process_whose_cgroup_has_room) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.answer(7);
  EXPECT_TRUE(job.watch->watch_found(&job.source, job.end));
  EXPECT_EQ(job.source.watched, Watched{7});
}

TEST(AllocationWatch, sets_none_where_the_room_has_gone_while_the_allocator_was_looked_for) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.answer(7);
  job.uses(99);
  EXPECT_TRUE(job.watch->watch_found(&job.source, job.end)) << "it is not asked for again";
  EXPECT_EQ(job.source.watched, Watched{});
}

TEST(AllocationWatch, sets_none_on_a_machine_that_has_become_nearly_full_and_takes_away_those_that_are_set) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.answer(7);
  job.available(GiB(3));
  job.watch->watch_found(&job.source, job.end);
  EXPECT_EQ(job.source.watched, Watched{});
  job.available(GiB(4));
  job.answer(7);
  job.watch->watch_found(&job.source, job.end);
  EXPECT_EQ(job.source.watched, Watched{7});
  job.watch->check_room(job.source, mono_now() + std::chrono::seconds(1));
  EXPECT_EQ(job.source.dropped, Watched{});
  job.available(GiB(3));
  job.watch->check_room(job.source, mono_now() + std::chrono::seconds(2));
  EXPECT_EQ(job.source.dropped, Watched{7});
}

TEST(AllocationWatch, sets_none_where_processes_have_begun_to_wait_for_memory_meanwhile) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.watch->begin(&job.source, job.begin, job.end, true);
  job.watch->choose(job.begin);
  job.pressure(2.5);
  job.answer(7);
  EXPECT_EQ(job.source.watched, Watched{});
}

TEST(AllocationWatch, sets_no_breakpoints_while_processes_wait_for_memory_and_some_when_that_is_over) {
  WatchedJob job({7, 8});
  job.watch->prepare(&job.source);
  job.watch->begin(&job.source, job.begin, job.end, true);
  job.resident(8, 9000);
  job.pressure(2.5);
  MonoTime first = job.watch->next_choice();
  job.watch->choose(first);
  EXPECT_EQ(job.watch->why_not(8), "processes of this machine wait for memory");
  MonoTime second = job.watch->next_choice();
  ASSERT_GT(second, first);
  ASSERT_LT(second, job.end);
  job.pressure(0);
  job.watch->choose(second);
  EXPECT_EQ(job.watch->why_not(7), "by half of the time it had grown little");
  EXPECT_EQ(job.watch->why_not(8), "by half of the time it had grown little") << "it was chosen";
  job.answer(8);
  EXPECT_EQ(job.source.watched, Watched{8});
}

TEST(AllocationWatch, reads_objects_and_watches_who_adds_while_processes_wait_for_memory) {
  for (std::vector<std::uint32_t> pids : {std::vector<std::uint32_t>{7}, {7, 8}}) {
    WatchedJob job(pids);
    job.source.breakpoints = false;
    job.pressure(2.5);
    job.watch->prepare(&job.source);
    job.watch->begin(&job.source, job.begin, job.end, true);
    job.resident(7, 9000);
    job.watch->choose(job.watch->next_choice());
    EXPECT_TRUE(job.reader.wants_to_write());
    constexpr std::uint64_t kLengths[] = {0x7000};
    job.watch->on_growing(&job.source, 7, kLengths);
    EXPECT_EQ(job.source.adding, Watched{7});
  }
}

TEST(AllocationWatch, asks_what_grows_each_time_after_twice_as_long_and_watches_who_adds_to_it) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.answer(7);
  job.watch->watch_found(&job.source, job.end);
  job.watch->begin(&job.source, job.begin, job.end, false);
  for (int after : {1, 3, 7}) {
    EXPECT_EQ(job.watch->next_choice(), job.begin + std::chrono::seconds(after));
    job.watch->choose(job.watch->next_choice());
  }
  EXPECT_EQ(job.watch->next_choice(), MonoTime::max()) << "it ends before that";
  constexpr std::uint64_t kLengths[] = {0x7000};
  job.watch->on_growing(&job.source, 7, kLengths);
  EXPECT_EQ(job.source.adding, Watched{7});
  EXPECT_EQ(job.watch->why_not_added(7), "");
  job.source.refuses = true;
  job.watch->on_growing(&job.source, 7, kLengths);
  EXPECT_EQ(job.watch->why_not_added(7), "no data breakpoints");
}

TEST(AllocationWatch, watches_nobody_who_adds_under_a_debugger_which_needs_data_breakpoints_itself) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.watch->begin(&job.source, job.begin, job.end, false);
  job.tree.write("proc/7/status", "Tgid:\t7\nTracerPid:\t9\n");
  constexpr std::uint64_t kLengths[] = {0x7000};
  job.watch->on_growing(&job.source, 7, kLengths);
  EXPECT_EQ(job.source.adding, Watched{});
  EXPECT_NE(job.watch->why_not_added(7), "");
}

TEST(AllocationWatch, drops_a_process_that_maps_its_allocator_too_often_meanwhile) {
  WatchedJob job({7});
  job.watch->prepare(&job.source);
  job.answer(7);
  job.watch->watch_found(&job.source, job.end);
  job.watch->check_room(job.source, mono_now() + std::chrono::seconds(1));
  EXPECT_EQ(job.source.dropped, Watched{});
  job.source.why = "it has mapped its allocator 20000 times";
  job.watch->check_room(job.source, mono_now() + std::chrono::seconds(2));
  EXPECT_EQ(job.source.dropped, Watched{7});
}

TEST(AllocationWatch, asks_for_no_allocator_where_the_source_sets_no_breakpoints_and_says_so) {
  for (std::vector<std::uint32_t> pids : {std::vector<std::uint32_t>{7}, {7, 8}}) {
    WatchedJob job(pids);
    job.source.breakpoints = false;
    job.uses(99);  // it takes no page of the cgroup
    job.watch->prepare(&job.source);
    EXPECT_FALSE(job.watch->watch_found(&job.source, job.end));
    job.watch->begin(&job.source, job.begin, job.end, true);
    job.resident(7, 9000);
    job.watch->choose(job.watch->next_choice());
    EXPECT_TRUE(job.reader.wants_to_write()) << "Python's objects are counted";
    EXPECT_EQ(job.source.watched, Watched{});
    EXPECT_EQ(job.watch->why_not(7), kNoBreakpoints);
    constexpr std::uint64_t kLengths[] = {0x7000};
    job.watch->on_growing(&job.source, 7, kLengths);
    EXPECT_EQ(job.source.adding, Watched{7}) << "nor does a data breakpoint";
  }
}

TEST(AllocationWatch, has_no_room_in_a_cgroup_that_cannot_be_read) {
  WatchedJob job({7});
  job.tree.remove("proc/7/cgroup");
  job.tree.make_dir("proc/7/cgroup");
  job.watch->prepare(&job.source);
  job.watch->begin(&job.source, job.begin, job.end, true);
  job.watch->choose(job.begin);
  EXPECT_EQ(job.watch->why_not(7), "its cgroup could not be read, and breakpoints take some of its pages");
}

}  // namespace
}  // namespace oomcast
