#include "app/process_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fixture_tree.h"
#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;
using namespace std::chrono_literals;

// A trainer (7) with a worker (8), and a process beside them (9).
struct ProcessSampling {
  FixtureTree tree;
  ProcFs procfs{tree.roots(), [] { return Nanos{}; }};  // however slow the machine is
  MachineModel model;
  ProcessSamples samples{model, procfs, 1s};
  std::map<std::uint32_t, Bytes> own;  // private memory, as a reader would find it

  static MachineConfig config(bool one_tree) {
    MachineConfig config;
    config.scope.whole_machine = !one_tree;
    if (one_tree) config.scope.tasks = {TaskId{7, 1007}};
    return config;
  }
  explicit ProcessSampling(bool one_tree) : model(config(one_tree)) {
    for (std::uint32_t pid : {7u, 8u, 9u}) {
      SeenProcess seen;
      seen.id = {pid, 1000 + pid};
      seen.parent = pid == 8 ? TaskId{7, 1007} : TaskId{1, 1};
      seen.comm = "python3";
      model.on_process(seen);
      holds(pid, 100, 100);
    }
  }

  void holds(std::uint32_t pid, int anon_mib, int private_mib, int start = 1000, int locked_mib = 0,
             int tables_mib = 1) {
    std::string number = std::to_string(pid), dir = "proc/" + number;
    auto kib = [](int mib) { return std::to_string(mib * 1024) + " kB\n"; };
    tree.write(dir + "/stat",
               number + " (python3) S 1 1 1 0 -1 4194560 120 0 3 0 5 7 0 0 20 0 9 0 " +
                   std::to_string(start + static_cast<int>(pid)) +
                   " 3133440 427 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
    tree.write(dir + "/status", "Name:\tpython3\nTgid:\t" + number + "\nPid:\t" + number + "\nVmRSS:\t" +
                                    kib(anon_mib) + "RssAnon:\t" + kib(anon_mib) +
                                    "RssFile:\t0 kB\nRssShmem:\t0 kB\nVmSwap:\t0 kB\nVmLck:\t" +
                                    kib(locked_mib) + "VmPTE:\t" + kib(tables_mib));
    own[pid] = MiB(private_mib);
  }
  // What it tells in one interval.
  std::vector<ProcessSampleFact> interval(int s) {
    auto out = samples.moved(at_s(s));
    for (const auto& fact : out) samples.on(fact);
    for (const TaskId& id : samples.to_measure(at_s(s))) {
      auto fact = samples.measured(id, own.at(id.tgid), 1ms, at_s(s));
      if (!fact) continue;
      samples.on(*fact);
      out.push_back(*std::move(fact));
    }
    return out;
  }
  const ProcessSampleFact& newest(std::uint32_t pid) { return samples.newest().at({pid, 1000 + pid}); }
};

TEST(ProcessSamples, tells_of_all_in_a_process_tree_although_none_ran) {
  ProcessSampling f(true);
  auto told = f.samples.moved(at_s(1));
  ASSERT_EQ(told.size(), 2u) << "not of the one beside it";
  for (const auto& fact : told) {
    EXPECT_EQ(fact.anon, MiB(100));
    EXPECT_EQ(fact.process.comm, "python3");
    EXPECT_GT(fact.rss_error.count, 0);
    f.samples.on(fact);
  }
  EXPECT_TRUE(f.samples.moved(at_s(2)).empty());
  f.holds(8, 101, 101);
  EXPECT_EQ(f.samples.moved(at_s(600)).size(), 1u) << "however long it slept";
}

TEST(ProcessSamples, asks_without_a_tree_only_for_those_that_were_sampled_a_moment_ago) {
  ProcessSampling f(false);
  EXPECT_TRUE(f.samples.moved(at_s(1)).empty());
  ProcessSampleFact ran;
  ran.time = at_s(1);
  ran.process.id = {8, 1008};
  f.samples.on(ran);
  EXPECT_EQ(f.samples.moved(at_s(2)).size(), 1u);
  EXPECT_TRUE(f.samples.moved(at_s(60)).empty());
}

TEST(ProcessSamples, asks_for_more_than_fit_into_one_interval_in_turns_and_for_who_grew_first) {
  ProcessSampling f(false);
  constexpr std::uint32_t kFirst = 1000, kMany = 130;
  for (std::uint32_t pid = kFirst; pid < kFirst + kMany; ++pid) {
    f.holds(pid, 100, 100);
    ProcessSampleFact ran;
    ran.time = at_s(1);
    ran.process.id = {pid, 1000 + pid};
    f.samples.on(ran);
  }
  wire::Task task;
  task.id = {8, 1008};
  task.cgroup = 10;
  f.model.on_record(wire::Fork{at_s(0), task});
  f.samples.look_in(10, MiB(100));
  std::set<std::uint32_t> asked;
  for (int i = 0; i < 3; ++i)
    for (const auto& fact : f.samples.moved(at_s(2))) asked.insert(fact.process.id.tgid);
  EXPECT_EQ(asked.size(), kMany + 1);
  EXPECT_TRUE(asked.contains(8));
}

TEST(ProcessSamples, looks_for_who_grew_in_a_cgroup_although_no_tick_met_it) {
  ProcessSampling f(false);
  for (std::uint32_t pid : {7u, 8u, 9u}) {
    wire::Task task;
    task.id = {pid, 1000 + pid};
    task.cgroup = pid == 9 ? 20 : 10;
    f.model.on_record(wire::Fork{at_s(0), task});
  }
  f.holds(8, 20, 20);
  f.samples.look_in(10, MiB(15));
  EXPECT_TRUE(f.samples.moved(at_s(1)).empty()) << "that may be anybody";
  f.samples.look_in(10, MiB(90));
  auto told = f.interval(2);
  ASSERT_EQ(told.size(), 1u) << "8 is too small for a quarter of it, 9 is elsewhere";
  EXPECT_EQ(told[0].process.id.tgid, 7u);
  EXPECT_EQ(told[0].anon, MiB(100));
  EXPECT_TRUE(f.samples.moved(at_s(30)).empty());
  f.holds(7, 300, 300);
  EXPECT_TRUE(f.samples.moved(at_s(60)).empty()) << "nobody has said that its cgroup grew";
  f.samples.look_in(10, MiB(200));
  EXPECT_EQ(f.samples.moved(at_s(61)).size(), 1u);
}

TEST(ProcessSamples, asks_for_small_processes_that_sleep_in_a_followed_cgroup_of_the_machine) {
  ProcessSampling f(false);
  for (std::uint32_t pid : {7u, 8u, 9u}) {
    wire::Task task;
    task.id = {pid, 1000 + pid};
    task.cgroup = pid == 9 ? 20 : 10;
    f.model.on_record(wire::Fork{at_s(0), task});
    f.holds(pid, 12, 12);
  }
  EXPECT_TRUE(f.interval(1).empty());
  f.model.follow({10});
  EXPECT_EQ(f.interval(2).size(), 2u) << "9 is elsewhere";
  f.holds(7, 14, 14);
  auto told = f.interval(3);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rss, MiB(14));
}

TEST(ProcessSamples, ask_for_each_of_a_thousand_workers_of_a_followed_cgroup_in_turns) {
  ProcessSampling f(false);
  constexpr std::uint32_t kFirst = 1000, kMany = 200;
  for (std::uint32_t pid = kFirst; pid < kFirst + kMany; ++pid) {
    wire::Task task;
    task.id = {pid, 1000 + pid};
    task.cgroup = 10;
    f.model.on_record(wire::Fork{at_s(0), task});
    f.holds(pid, pid % 50 == 0 ? 30 : 0, 1);  // most hold nothing, and would be asked again and again
  }
  f.model.follow({10});
  std::set<std::uint32_t> found;
  for (int s = 1; s < 10; ++s)
    for (const auto& fact : f.interval(s)) found.insert(fact.process.id.tgid);
  EXPECT_EQ(found.size(), kMany / 50);
}

TEST(ProcessSamples, finds_who_has_ended_where_records_of_ends_were_lost) {
  ProcessSampling f(false);
  EXPECT_TRUE(f.samples.gone().empty());
  f.tree.remove("proc/8");
  f.holds(9, 100, 100, 5000);  // another has its number
  EXPECT_TRUE(f.samples.gone().empty()) << "nothing was lost";
  f.samples.ends_were_lost();
  auto gone = f.samples.gone();
  std::ranges::sort(gone, {}, &TaskId::tgid);
  EXPECT_EQ(gone, (std::vector<TaskId>{{8, 1008}, {9, 1009}}));
  for (TaskId id : gone) f.model.on_gone(at_s(1), id);
  f.samples.ends_were_lost();
  EXPECT_TRUE(f.samples.gone().empty()) << "7 is there";
}

TEST(ProcessSamples, finds_who_has_ended_behind_hundreds_that_live_while_records_are_being_lost) {
  ProcessSampling f(false);
  for (std::uint32_t pid = 100; pid < 400; ++pid) {
    SeenProcess seen;
    seen.id = {pid, 1000 + pid};
    f.model.on_process(seen);
    f.holds(pid, 1, 1);
  }
  std::size_t found = 0;
  for (std::uint32_t pid : {120u, 220u, 320u}) f.tree.remove("proc/" + std::to_string(pid));
  for (int s = 0; s < 6; ++s) {
    f.samples.ends_were_lost();
    for (TaskId id : f.samples.gone()) {
      ++found;
      f.model.on_gone(at_s(s), id);
    }
  }
  EXPECT_EQ(found, 3u);
}

TEST(ProcessSamples, take_nobody_for_ended_where_none_is_in_this_proc) {
  ProcessSampling f(false);
  for (const char* pid : {"7", "8", "9"}) f.tree.remove(std::string("proc/") + pid);
  f.samples.ends_were_lost();
  EXPECT_TRUE(f.samples.gone().empty()) << "as in another pid namespace";
}

TEST(ProcessSamples, take_a_zombie_for_ended_only_if_all_its_threads_have) {
  ProcessSampling f(false);
  auto zombie = [&](int pid, int threads) {
    f.tree.write("proc/" + std::to_string(pid) + "/stat",
                 std::to_string(pid) + " (python3) Z 1 1 1 0 -1 4194572 120 0 3 0 5 7 0 0 20 0 " +
                     std::to_string(threads) + " 0 " + std::to_string(1000 + pid) +
                     " 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
  };
  zombie(8, 1);
  zombie(9, 2);
  f.samples.ends_were_lost();
  EXPECT_EQ(f.samples.gone(), (std::vector<TaskId>{{8, 1008}}));
}

TEST(ProcessSamples, measures_private_memory_now_and_then_and_it_stands_in_between) {
  ProcessSampling f(true);
  f.holds(8, 100, 20);
  f.interval(1);
  EXPECT_EQ(f.newest(8).private_bytes, std::nullopt) << "whether its RSS stays is not known yet";
  f.interval(2);
  EXPECT_EQ(f.newest(8).private_bytes, MiB(20));
  f.holds(8, 120, 40);
  f.interval(3);
  EXPECT_EQ(f.newest(8).anon, MiB(120));
  EXPECT_EQ(f.newest(8).private_bytes, MiB(20)) << "a second after the last walk";
  f.interval(60);
  EXPECT_EQ(f.newest(8).private_bytes, MiB(40));
}

TEST(ProcessSamples, what_was_measured_before_much_was_freed_does_not_stand_beside_a_smaller_rss) {
  ProcessSampling f(true);
  f.holds(8, 117, 117);
  f.interval(1);
  f.interval(2);
  ASSERT_EQ(f.newest(8).private_bytes, MiB(117));
  f.holds(8, 46, 46);
  f.interval(3);
  EXPECT_EQ(f.newest(8).rss, MiB(46));
  EXPECT_EQ(f.newest(8).private_bytes, std::nullopt);
}

// On 192 CPUs the error of RSS is hundreds of MiB.
TEST(ProcessSamples, private_memory_is_never_more_than_a_rss_that_lags) {
  ProcessSampling f(true);
  f.holds(8, 100, 100);
  f.own[8] = MiB(100) + KiB(300);
  f.interval(1);
  f.interval(2);
  EXPECT_EQ(f.newest(8).private_bytes, MiB(100));
  ProcessSampleFact lower = f.newest(8);
  lower.rss = lower.anon = MiB(100) - KiB(400);
  lower.private_bytes = std::nullopt;
  f.samples.on(lower);
  EXPECT_EQ(f.newest(8).private_bytes, MiB(100) - KiB(400));
}

TEST(ProcessSamples, a_walk_that_found_more_than_the_process_holds_after_it_tells_nothing) {
  ProcessSampling f(true);
  f.holds(8, 46, 117);
  f.interval(1);
  f.interval(2);
  EXPECT_EQ(f.newest(8).private_bytes, std::nullopt);
}

TEST(ProcessSamples, measures_no_private_memory_of_what_grows_by_its_rss) {
  ProcessSampling f(true);
  for (int s = 1; s < 30; ++s) {
    f.holds(8, 100 + 5 * s, 20);
    f.interval(s);
  }
  EXPECT_EQ(f.newest(8).private_bytes, std::nullopt);
}

TEST(ProcessSamples, measures_no_private_memory_of_who_holds_its_lock_for_long_or_has_large_tables) {
  ProcessSampling f(true);
  f.holds(7, 100, 20, 1000, 1);
  f.holds(8, 100, 20, 1000, 0, 129);
  for (int s = 1; s < 70; ++s) f.interval(s);
  EXPECT_EQ(f.newest(7).private_bytes, std::nullopt);
  EXPECT_EQ(f.newest(8).private_bytes, std::nullopt);
}

TEST(ProcessSamples, walks_less_where_a_walk_was_seen_to_take_long) {
  ProcessSampling f(true);
  f.holds(7, 100, 20, 1000, 0, 6);
  f.holds(8, 100, 20, 1000, 0, 4);
  f.interval(1);
  auto asked = [&](int s) { return f.samples.to_measure(at_s(s)).size(); };
  EXPECT_EQ(asked(2), 2u);
  f.samples.measured({8, 1008}, MiB(20), 600ms, at_s(2));  // 4 MiB of tables: 2 are allowed from here on
  EXPECT_EQ(asked(200), 0u);
  f.holds(8, 100, 20, 1000, 0, 2);
  EXPECT_EQ(asked(400), 1u);
}

TEST(ProcessSamples, walks_take_a_hundredth_of_a_cpu_however_many_are_large) {
  ProcessSampling f(true);
  f.interval(1);
  auto asked = [&](int s) { return f.samples.to_measure(at_s(s)).size(); };
  EXPECT_EQ(asked(2), 2u);
  f.samples.measured({7, 1007}, MiB(20), 300ms, at_s(2));
  f.samples.measured({8, 1008}, MiB(20), 500ms, at_s(2));
  EXPECT_EQ(asked(81), 0u);
  EXPECT_EQ(asked(83), 1u) << "7: 8 is due after 100 s";
}

TEST(ProcessSamples, those_whose_walks_are_dear_do_not_keep_the_others_from_theirs) {
  ProcessSampling f(false);
  std::map<std::uint32_t, int> measured;
  for (std::uint32_t pid = 100; pid < 110; ++pid) {
    f.holds(pid, 100, 100);
    ProcessSampleFact seen;
    seen.process.id = {pid, 1000 + pid};
    seen.rss = MiB(100);
    f.samples.on(seen);
  }
  for (int s = 1; s < 600; ++s)
    for (const TaskId& id : f.samples.to_measure(at_s(s))) {
      ++measured[id.tgid];
      (void)f.samples.measured(id, MiB(100), 50ms, at_s(s));
    }
  for (std::uint32_t pid = 100; pid < 110; ++pid) EXPECT_GE(measured[pid], 3) << pid;
}

TEST(ProcessSamples, does_not_walk_again_what_was_given_up_while_it_is_as_large) {
  ProcessSampling f(true);
  f.holds(7, 100, 20, 1000, 0, 6);
  f.holds(8, 100, 20, 1000, 0, 6);
  f.interval(1);
  auto asked = [&](int s) { return f.samples.to_measure(at_s(s)).size(); };
  EXPECT_EQ(asked(2), 2u);
  f.samples.gave_up({8, 1008});
  EXPECT_EQ(asked(200), 1u);
  f.holds(8, 100, 20, 1000, 0, 3);
  EXPECT_EQ(asked(400), 2u);
}

TEST(ProcessSamples, takes_another_process_with_the_same_number_for_none_of_them) {
  ProcessSampling f(true);
  f.interval(1);
  f.interval(2);
  f.holds(8, 500, 500, 2000);
  EXPECT_TRUE(f.interval(3).empty());
  EXPECT_EQ(f.newest(8).anon, MiB(100));
}

TEST(ProcessSamples, tells_once_of_an_end) {
  ProcessSampling f(true);
  f.interval(1);
  EXPECT_TRUE(f.samples.ended(at_s(2)).empty());
  wire::Exit exit;
  exit.time = at_s(2);
  exit.task.id = {8, 1008};
  f.model.on_record(exit);
  auto ended = f.samples.ended(at_s(3));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].process.id.tgid, 8u);
  EXPECT_TRUE(f.samples.ended(at_s(4)).empty());
}

}  // namespace
}  // namespace oomcast
