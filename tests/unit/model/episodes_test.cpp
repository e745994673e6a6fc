#include "model/episodes.h"

#include <gtest/gtest.h>

#include "model/machine.h"

namespace oomcast {
namespace {

using namespace test;

// A machine with /job (10) and its child /job/step (11), and /c0, /c1 … (100, 101 …).
struct Machine {
  explicit Machine(EpisodeSources sources = {}) : builder(sources, tasks, cgroups) {
    cgroups.add(1, std::nullopt, "/");
    cgroups.add_child(10, 1, "job");
    cgroups.add_child(11, 10, "step");
  }

  // In /job/step, by the limit of /job.
  static std::vector<wire::Memcg> chain_of_job(bool group = false) {
    return {level(11, MiB(99), std::nullopt, true), level(10, MiB(100), MiB(100), true, group),
            level(1, GiB(2), std::nullopt)};
  }
  void kill(MonoTime when, const wire::Task& victim, const wire::Task& trigger,
            std::vector<wire::Memcg> chain) {
    builder.on_kernel_kill(kernel_kill(when, victim, trigger));
    builder.on_mark(mark(when + Nanos(20'000), victim, trigger, std::move(chain)));
  }
  void kill(MonoTime when, const wire::Task& victim) {
    kill(when, victim, task(500, 11, "dd"), chain_of_job());
  }
  // All that makes it complete.
  void confirm(MonoTime when, const wire::Task& victim) {
    builder.on_exit(death(when, victim));
    builder.on_reaper(reaped(when, victim.tid));
    builder.on_dump(dump({line(victim.tid)}, "/job"), when);
  }
  std::optional<Episode> only_episode(MonoTime now) {
    auto closed = builder.take_closed(now);
    EXPECT_EQ(closed.size(), 1u);
    if (closed.size() != 1) return std::nullopt;
    return std::move(closed[0]);
  }

  CgroupTree cgroups{Hierarchy::v1};
  TaskTable tasks;
  EpisodeBuilder builder;
};

TEST(Episode, of_a_confirmed_kill_is_told_300_ms_after_its_mark) {
  Machine m;
  wire::Task victim = task(100, 11);
  m.kill(ms(5000), victim);
  m.confirm(ms(5020), victim);
  EXPECT_TRUE(m.builder.take_closed(ms(5300)).empty());
  auto e = m.only_episode(ms(5301));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->time, ms(5000) + Nanos(20'000));
  EXPECT_EQ(e->scope, OomScope::memcg);
  ASSERT_TRUE(e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/job");
  EXPECT_EQ(e->usage, MiB(100));
  EXPECT_EQ(e->limit, MiB(100));
  ASSERT_TRUE(e->trigger);
  EXPECT_EQ(e->trigger->comm, "dd");
  EXPECT_EQ(e->group_kill, false);
  ASSERT_EQ(e->victims.size(), 1u);
  EXPECT_EQ(e->victims[0].process.id, victim.id);
  EXPECT_EQ(e->victims[0].process.cgroup->path, "/job/step");
  EXPECT_EQ(e->victims[0].process.ppid, 1u);
  EXPECT_EQ(e->victims[0].time, ms(5000) + Nanos(20'000));
  EXPECT_EQ(e->victims[0].killed, true);
  EXPECT_EQ(e->victims[0].freed_after, Seconds(0.02 - 20e-6));
  EXPECT_EQ(e->checks.mark_victim, 1u);
  EXPECT_EQ(e->checks.kmsg, 1u);
  ASSERT_EQ(e->chain.size(), 3u);
  EXPECT_EQ(e->chain[0].cgroup->path, "/job/step");
  EXPECT_EQ(e->chain[2].limit, std::nullopt);
  EXPECT_FALSE(m.builder.any_open());
  EXPECT_TRUE(m.builder.take_closed(ms(9000)).empty()) << "told once";
  EXPECT_TRUE(m.builder.take_completed(ms(9000)).empty()) << "it was complete";
}

TEST(Episode, that_was_told_with_something_open_is_completed_when_that_is_known) {
  Machine m;
  wire::Task victim = task(100, 11);
  m.kill(ms(5000), victim);
  auto told = m.only_episode(ms(6701));
  ASSERT_TRUE(told);
  m.builder.on_exit(death(ms(7001), victim));
  EXPECT_TRUE(m.builder.take_completed(ms(8000)).empty())
      << "its memory is not back, and the log is not read";
  m.builder.on_usage(10, ms(21'000), MiB(5));
  m.builder.on_dump(dump({line(100)}, "/job"), ms(8900));
  auto completed = m.builder.take_completed(ms(21'001));
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].serial, told->serial);
  EXPECT_EQ(completed[0].victims[0].killed, true);
  EXPECT_NEAR(completed[0].victims[0].freed_after->count(), 16, 1e-3);
  EXPECT_EQ(completed[0].checks.kmsg, 1u);
  EXPECT_TRUE(m.builder.take_completed(ms(60'000)).empty());
}

TEST(Episode, that_is_never_complete_is_not_followed_for_ever) {
  Machine m;
  wire::Task victim = task(100, 11);
  m.kill(ms(5000), victim);
  ASSERT_TRUE(m.only_episode(ms(6701)));
  m.builder.on_exit(death(ms(7001), victim));
  EXPECT_TRUE(m.builder.any_open_around(11)) << "its memory is still to come back";
  auto completed = m.builder.take_completed(ms(35'001));
  ASSERT_EQ(completed.size(), 1u) << "with what came since";
  EXPECT_EQ(completed[0].victims[0].killed, true);
  EXPECT_FALSE(m.builder.any_open_around(11));
}

TEST(Episode, is_told_at_once_when_nobody_waits_any_more) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  EXPECT_TRUE(m.builder.take_closed(ms(5001)).empty());
  EXPECT_EQ(m.builder.take_closed(ms(5001), true).size(), 1u);
}

TEST(Episode, is_told_after_1_7_s_at_the_latest_with_what_is_open_unknown) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  EXPECT_TRUE(m.builder.take_closed(ms(6699)).empty());
  auto e = m.only_episode(ms(6701));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims[0].killed, std::nullopt);
  EXPECT_EQ(e->victims[0].freed_after, std::nullopt);
  EXPECT_EQ(e->checks.mark_victim, 1u);
  EXPECT_EQ(e->checks.kmsg, 0u);
  EXPECT_EQ(e->checks.vmstat, std::nullopt);
}

TEST(Episode, waits_for_each_thing_that_is_still_open) {
  for (int missing = 0; missing < 3; ++missing) {
    Machine m;
    wire::Task victim = task(100, 11);
    m.kill(ms(5000), victim);
    if (missing != 0) m.builder.on_exit(death(ms(5001), victim));
    if (missing != 1) m.builder.on_reaper(reaped(ms(5001), victim.tid));
    if (missing != 2) m.builder.on_dump(dump({line(100)}), ms(5300));
    EXPECT_TRUE(m.builder.take_closed(ms(6500)).empty()) << missing;
    EXPECT_EQ(m.builder.take_closed(ms(6701)).size(), 1u) << missing;
  }
}

TEST(Episode, does_not_wait_for_a_log_that_nobody_reads) {
  Machine m({true, false});
  wire::Task victim = task(100, 11);
  m.kill(ms(5000), victim);
  m.builder.on_exit(death(ms(5001), victim));
  m.builder.on_reaper(reaped(ms(5001), victim.tid));
  auto e = m.only_episode(ms(6001));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->checks.kmsg, std::nullopt) << "not read is not zero";
}

TEST(Episode, counts_a_process_that_is_marked_again_once) {
  Machine m;
  wire::Task victim = task(100, 11), trigger = task(500, 11);
  m.kill(ms(5000), victim, trigger, Machine::chain_of_job());
  m.kill(ms(5002), thread(victim, 101), trigger, Machine::chain_of_job());
  m.builder.on_mark(mark(ms(5003), victim, trigger, Machine::chain_of_job()));
  auto e = m.only_episode(ms(6800));
  ASSERT_TRUE(e);
  ASSERT_EQ(e->victims.size(), 1u);
  EXPECT_EQ(e->victims[0].tid, 100u) << "the thread that was marked first";
  EXPECT_EQ(e->checks.mark_victim, 1u);
}

TEST(Episode, is_not_made_of_a_mark_without_the_kernels_sigkill) {
  Machine m;
  m.builder.on_mark(mark(ms(5000), task(100, 11), task(500, 11), Machine::chain_of_job()));
  EXPECT_FALSE(m.builder.any_open());
}

TEST(Episode, is_not_made_of_a_mark_with_a_sigkill_of_something_else) {
  wire::Task victim = task(100, 11), trigger = task(500, 11);
  auto opens = [&](const wire::KernelKill& kill) {
    Machine m;
    m.builder.on_kernel_kill(kill);
    m.builder.on_mark(mark(ms(5000), victim, trigger, Machine::chain_of_job()));
    return m.builder.any_open();
  };
  EXPECT_TRUE(opens(kernel_kill(ms(5000), victim, trigger)));
  EXPECT_FALSE(opens(kernel_kill(ms(5000), task(99, 11), trigger))) << "another process";
  EXPECT_FALSE(opens(kernel_kill(ms(5000), thread(victim, 101), trigger))) << "another thread";
  EXPECT_FALSE(opens(kernel_kill(ms(5000), victim, task(501, 11)))) << "another sender";
  EXPECT_FALSE(opens(kernel_kill(ms(5001), victim, trigger))) << "after the mark";
  EXPECT_FALSE(opens(kernel_kill(ms(2999), victim, trigger))) << "long before the mark";
  wire::Task recycled = victim;
  recycled.id.start_ticks += 5;
  EXPECT_FALSE(opens(kernel_kill(ms(5000), recycled, trigger))) << "an earlier process of that pid";
}

TEST(Episode, of_a_group_kill_has_all_its_victims) {
  Machine m;
  wire::Task trigger = task(100, 11);
  for (std::uint32_t pid : {100u, 101u, 102u, 103u})
    m.kill(ms(5000 + pid), task(pid, 11), trigger, Machine::chain_of_job(true));
  std::vector<OomVictimLine> lines;
  for (std::uint32_t pid : {100u, 101u, 102u, 103u}) lines.push_back(line(pid));
  OomDump report = dump(lines, "/job");
  report.group_kill = OomGroupKill{"/job"};
  m.builder.on_dump(report, ms(5400));
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims.size(), 4u);
  EXPECT_EQ(e->group_kill, true);
  EXPECT_EQ(e->checks.mark_victim, 4u);
  EXPECT_EQ(e->checks.kmsg, 4u);
}

TEST(Episode, of_a_group_with_long_command_lines_has_them_as_far_as_a_reader_takes_the_line) {
  Machine m;
  for (std::uint32_t pid = 100; pid < 300; ++pid) {
    TaskState& state = m.tasks.note(task(pid, 11));
    m.tasks.set_cmdline(state, wire::Args{{std::string(1999, 'x')}, false}, CmdlineSource::exec, ms(1));
    m.kill(ms(5000 + pid), task(pid, 11), task(100, 11), Machine::chain_of_job(true));
  }
  auto closed = m.builder.take_closed(ms(9000), true);
  ASSERT_EQ(closed.size(), 1u);
  const auto& victims = closed[0].victims;
  ASSERT_EQ(victims.size(), 200u);
  std::size_t bytes = 0;
  for (const Victim& victim : victims) {
    bytes += victim.process.cmdline.bytes().size();
    EXPECT_EQ(victim.process.cmdline_truncated, victim.process.cmdline.bytes().size() < 2000);
  }
  EXPECT_EQ(victims.front().process.cmdline.bytes().size(), 2000u);
  EXPECT_LE(bytes, EpisodeBuilder::kMostArguments + 2000 + 200 * (TaskTable::kCutOff + 1));
}

TEST(Episode, is_told_when_the_store_has_it_and_without_it_when_that_takes_long) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  m.confirm(ms(5020), task(100, 11));
  EXPECT_EQ(m.builder.take_begun().size(), 1u);
  m.builder.set_store_behind(true);
  EXPECT_TRUE(m.builder.take_closed(ms(6800)).empty());
  m.builder.set_store_behind(false);
  EXPECT_EQ(m.builder.take_closed(ms(6800)).size(), 1u);
  m.kill(ms(8000), task(101, 11));
  m.builder.set_store_behind(true);
  EXPECT_TRUE(m.builder.take_closed(ms(9800)).empty());
  EXPECT_EQ(m.builder.take_closed(ms(9901)).size(), 1u);
}

TEST(Episode, of_a_group_waits_for_those_of_it_that_still_live) {
  Machine m;
  wire::Task trigger = task(100, 11), elsewhere = task(7, 100);
  for (std::uint32_t pid : {100u, 101u, 102u}) m.tasks.note(task(pid, 11));
  m.tasks.note(elsewhere);
  m.tasks.mark_dead(task(102, 11).id, ms(4000));
  m.kill(ms(5000), task(100, 11), trigger, Machine::chain_of_job(true));
  m.confirm(ms(5020), task(100, 11));
  EXPECT_TRUE(m.builder.take_closed(ms(6300)).empty());
  m.kill(ms(6400), task(101, 11), trigger, Machine::chain_of_job(true));
  m.confirm(ms(6420), task(101, 11));
  auto e = m.only_episode(ms(6721));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims.size(), 2u);
}

TEST(Episode, of_a_group_whose_own_thread_kills_it_takes_as_long_as_that_takes) {
  wire::Task trigger = task(100, 11), other = task(7, 100);
  std::vector<wire::Memcg> outside = {level(100, MiB(9), std::nullopt)};
  for (bool inside : {true, false}) {
    Machine one;
    auto chain = Machine::chain_of_job(true);
    auto kill = [&](MonoTime when, std::uint32_t pid) {
      wire::OomMark mark = test::mark(when, task(pid, 11), inside ? trigger : other, chain);
      if (!inside) mark.chain = outside;
      one.builder.on_kernel_kill(kernel_kill(when - Nanos(20'000), task(pid, 11), inside ? trigger : other));
      one.builder.on_mark(mark);
    };
    kill(ms(5000), 100);
    kill(ms(6300), 101);
    EXPECT_EQ(one.builder.take_closed(ms(9000)).size(), inside ? 1u : 2u);
  }
}

TEST(Episode, of_a_group_kill_stays_one_when_the_first_victims_gave_memory_back_before_the_last_are_marked) {
  Machine m;
  wire::Task trigger = task(100, 11);
  std::vector<wire::Memcg> full = {level(11, MiB(100), MiB(100), false, true)};
  std::vector<wire::Memcg> emptied = {level(11, MiB(20), MiB(100), false, true)};
  m.kill(ms(5000), task(100, 11), trigger, full);
  m.kill(ms(5050), task(101, 11), trigger, emptied);
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims.size(), 2u);
  ASSERT_TRUE(e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->id.inode, 11u);
}

TEST(Episode, of_a_thread_that_waited_while_the_first_victim_gave_memory_back_is_of_the_same_limit) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  std::vector<wire::Memcg> emptied = {level(11, MiB(60), std::nullopt), level(10, MiB(61), MiB(100)),
                                      level(1, GiB(2), std::nullopt)};
  m.kill(ms(5030), task(101, 11), task(501, 11), emptied);
  auto closed = m.builder.take_closed(ms(7000));
  ASSERT_EQ(closed.size(), 2u);
  for (const Episode& e : closed) {
    EXPECT_EQ(e.victims.size(), 1u);
    ASSERT_TRUE(e.limit_cgroup);
    EXPECT_EQ(e.limit_cgroup->path, "/job");
  }
  EXPECT_EQ(closed[1].usage, MiB(61)) << "each has its own";
  EXPECT_EQ(closed[1].trigger->id.tgid, 501u);
}

TEST(Episode, of_a_limit_does_not_take_the_machines_kill_of_a_process_below_it) {
  std::vector<wire::Memcg> elsewhere = {level(12, MiB(60), GiB(1)), level(1, GiB(2), std::nullopt)};
  for (bool worker : {false, true}) {
    Machine m;
    m.kill(ms(5000), task(100, 11));
    std::vector<wire::Memcg> below = {level(11, MiB(60), std::nullopt), level(10, MiB(61), MiB(100))};
    wire::Task trigger = task(30, worker ? 11 : 12);
    trigger.workqueue = worker;
    wire::OomMark machines = mark(ms(5030) + Nanos(20'000), task(101, 11), trigger, below);
    if (!worker) machines.chain = elsewhere;
    m.builder.on_kernel_kill(kernel_kill(ms(5030), task(101, 11), trigger));
    m.builder.on_mark(machines);
    auto closed = m.builder.take_closed(ms(7000));
    ASSERT_EQ(closed.size(), 2u) << worker;
    EXPECT_EQ(closed[1].limit_cgroup, nullptr);
  }
}

TEST(Episode, takes_limit_order_and_scope_from_the_decision_where_it_can_be_probed) {
  Machine m;
  wire::Task victim = task(100, 11);
  wire::OomDecision decision;
  decision.time = ms(4999);
  decision.trigger = task(100, 11);
  decision.limit_cgroup = std::nullopt;
  decision.order = -1;
  m.builder.on_decision(decision);
  m.kill(ms(5000), victim, task(100, 11), {level(11, MiB(100), MiB(100))});
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->limit_cgroup, nullptr) << "a cgroup that happens to be full is not the limit that fired";
  EXPECT_EQ(e->order, -1);
  EXPECT_EQ(e->scope, OomScope::sysrq);
}

TEST(Episode, is_one_for_each_of_twenty_limits_that_are_met_at_once) {
  Machine m;
  for (std::uint32_t i = 0; i < 20; ++i) m.cgroups.add_child(100 + i, 1, "c" + std::to_string(i));
  for (std::uint32_t i = 0; i < 20; ++i)
    m.kill(ms(5000 + i), task(200 + i, 100 + i), task(200 + i, 100 + i),
           {level(100 + i, MiB(50), MiB(50), true), level(1, GiB(1), std::nullopt)});
  for (std::uint32_t i = 0; i < 20; ++i)
    m.builder.on_dump(dump({line(200 + i)}, "/c" + std::to_string(i)), ms(5500));
  auto closed = m.builder.take_closed(ms(7000));
  ASSERT_EQ(closed.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(closed[i].limit_cgroup->path, "/c" + std::to_string(i));
    ASSERT_EQ(closed[i].victims.size(), 1u);
    EXPECT_EQ(closed[i].victims[0].process.id.tgid, 200 + i);
    EXPECT_TRUE(closed[i].victims[0].logged);
  }
}

TEST(Episode, is_one_for_each_kill_of_a_limit_that_is_met_again_and_again) {
  Machine m;
  std::vector<Episode> told;
  for (std::uint32_t i = 0; i < 40; ++i) {
    std::int64_t at = 5000 + 200 * i;
    m.kill(ms(at), task(100 + i, 11), task(600 + i, 11), Machine::chain_of_job());
    for (Episode& e : m.builder.take_closed(ms(at + 100))) told.push_back(std::move(e));
    if (!told.empty()) {
      EXPECT_LT(ms(at) - told.back().time, milliseconds(2000)) << "whatever follows";
    }
  }
  for (Episode& e : m.builder.take_closed(ms(15'000))) told.push_back(std::move(e));
  ASSERT_EQ(told.size(), 40u);
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(told[i].victims.size(), 1u);
    EXPECT_EQ(told[i].victims[0].process.id.tgid, 100 + i);
    EXPECT_EQ(told[i].trigger->id.tgid, 600 + i);
    EXPECT_EQ(told[i].time, ms(5000 + 200 * i) + Nanos(20'000));
  }
}

TEST(Episode, of_a_group_that_a_thread_beside_it_kills_again_is_another) {
  Machine m;
  m.cgroups.add_child(12, 10, "beside");
  auto kill = [&](std::int64_t at, std::uint32_t pid, std::uint32_t thread) {
    wire::OomMark mark =
        test::mark(ms(at) + Nanos(20'000), task(pid, 11), task(thread, 12),
                   {level(11, MiB(60), std::nullopt, true, true), level(10, MiB(100), MiB(100), true)});
    mark.chain = {level(12, MiB(40), std::nullopt, true), level(10, MiB(100), MiB(100), true)};
    m.builder.on_kernel_kill(kernel_kill(ms(at), task(pid, 11), task(thread, 12)));
    m.builder.on_mark(mark);
  };
  kill(5000, 100, 500);
  kill(5010, 101, 500);
  kill(5100, 110, 501);
  kill(6500, 120, 501);
  auto closed = m.builder.take_closed(ms(9000));
  ASSERT_EQ(closed.size(), 3u);
  EXPECT_EQ(closed[0].victims.size(), 2u);
  EXPECT_EQ(closed[1].victims.size(), 1u);
}

TEST(Episode, of_a_group_that_the_same_thread_kills_again_is_another_where_the_decision_can_be_probed) {
  Machine m;
  auto decide = [&](std::int64_t at) {
    wire::OomDecision decision;
    decision.time = ms(at);
    decision.trigger = task(500, 11);
    decision.limit_cgroup = 10;
    m.builder.on_decision(decision);
  };
  decide(4999);
  m.kill(ms(5000), task(100, 11), task(500, 11), Machine::chain_of_job(true));
  m.kill(ms(5010), task(101, 11), task(500, 11), Machine::chain_of_job(true));
  decide(5020);
  m.kill(ms(5021), task(102, 11), task(500, 11), Machine::chain_of_job(true));
  EXPECT_EQ(m.builder.take_closed(ms(9000)).size(), 2u);
}

TEST(Episode, of_a_group_whose_last_die_after_it_was_told_has_them_when_it_is_completed) {
  Machine m;
  wire::Task trigger = task(500, 11);
  for (std::uint32_t i = 0; i < 5; ++i)
    m.kill(ms(5000 + 500 * i), task(100 + i, 11), trigger, Machine::chain_of_job(true));
  auto told = m.only_episode(ms(6900));
  ASSERT_TRUE(told);
  for (std::uint32_t i = 5; i < 8; ++i)
    m.kill(ms(5000 + 500 * i), task(100 + i, 11), trigger, Machine::chain_of_job(true));
  EXPECT_FALSE(m.builder.any_open()) << "one decision is one line";
  EXPECT_EQ(m.builder.late_victims(), 3u) << "and says that it lacks some";
  auto completed = m.builder.take_completed(ms(40'000));
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].serial, told->serial);
  EXPECT_EQ(completed[0].victims.size(), 8u);
}

TEST(Episode, of_an_owner_above_the_levels_that_are_shown_has_its_usage_and_limit) {
  Machine m;
  wire::Task victim = task(100, 11), trigger = task(500, 11);
  m.builder.on_kernel_kill(kernel_kill(ms(5000), victim, trigger));
  wire::OomMark deep = mark(ms(5001), victim, trigger, {level(11, MiB(9), std::nullopt, true)});
  deep.owner = level(10, MiB(20), MiB(21), true);
  m.builder.on_mark(deep);
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e && e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/job");
  EXPECT_EQ(e->usage, MiB(20));
  EXPECT_EQ(e->limit, MiB(21));
}

TEST(Episode, of_the_whole_machine_has_no_limits_owner) {
  Machine m;
  std::vector<wire::Memcg> chain{level(11, MiB(9), std::nullopt), level(10, MiB(9), GiB(1)),
                                 level(1, GiB(2), std::nullopt)};
  m.kill(ms(5000), task(100, 11), task(500, 11), chain);
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->limit_cgroup, nullptr);
  EXPECT_EQ(e->scope, OomScope::global);
  EXPECT_EQ(e->usage, std::nullopt);
  EXPECT_EQ(e->limit, std::nullopt);
}

TEST(Episode, that_a_kernel_worker_triggered_was_asked_for_by_sysrq) {
  Machine m;
  wire::Task worker = task(30, 1, "kworker/0:1");
  worker.workqueue = true;
  m.kill(ms(5000), task(100, 11), worker, {level(1, GiB(2), std::nullopt)});
  EXPECT_EQ(m.only_episode(ms(7000))->scope, OomScope::sysrq);
}

TEST(Episode, takes_order_and_scope_from_the_decision_where_it_can_be_probed) {
  Machine m;
  wire::OomDecision decision;
  decision.time = ms(4999);
  decision.trigger = task(500, 11, "dd");
  decision.order = 3;
  decision.constraint = wire::OomDecision::Constraint::cpuset;
  m.builder.on_decision(decision);
  m.kill(ms(5000), task(100, 11));
  auto e = m.only_episode(ms(7000));
  EXPECT_EQ(e->order, 3);
  EXPECT_EQ(e->scope, OomScope::cpuset);
}

TEST(Episode, does_not_take_the_decision_of_another_trigger_or_time) {
  Machine m;
  wire::OomDecision decision;
  decision.order = 3;
  decision.time = ms(4999);
  decision.trigger = task(501, 11);
  m.builder.on_decision(decision);
  decision.time = ms(1000);
  decision.trigger = task(500, 11);
  m.builder.on_decision(decision);
  m.kill(ms(5000), task(100, 11));
  EXPECT_EQ(m.only_episode(ms(7000))->order, std::nullopt);
}

TEST(Episode, names_who_died_because_they_shared_a_victims_memory) {
  Machine m;
  wire::Task victim = task(100, 11), trigger = task(500, 11), child = task(101, 11, "vfork");
  m.kill(ms(5000), victim, trigger, Machine::chain_of_job());
  m.builder.on_kernel_kill(kernel_kill(ms(5001), child, trigger, memory(MiB(90), victim.id.tgid)));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->victims.size(), 1u);
  ASSERT_EQ(e->also_killed.size(), 1u);
  EXPECT_EQ(e->also_killed[0].id, child.id);
}

TEST(Episode, does_not_take_the_victim_of_another_for_one_that_shared_memory) {
  Machine m;
  m.cgroups.add_child(20, 1, "other");
  wire::Task first = task(100, 11), second = task(200, 20);
  m.kill(ms(5000), first);
  // The kernel gives the address of a freed mm to the next process at once.
  m.builder.on_kernel_kill(kernel_kill(ms(5500), second, second, memory(MiB(9), first.id.tgid)));
  m.builder.on_mark(mark(ms(5500), second, second, {level(20, MiB(10), MiB(10), true)}));
  for (const Episode& e : m.builder.take_closed(ms(8000))) {
    EXPECT_EQ(e.victims.size(), 1u);
    EXPECT_TRUE(e.also_killed.empty()) << e.limit_cgroup->path;
  }
}

TEST(Episode, a_process_without_memory_shares_none) {
  Machine m;
  wire::Task victim = task(100, 11), trigger = task(500, 11);
  m.kill(ms(5000), victim, trigger, Machine::chain_of_job());
  wire::KernelKill kill = kernel_kill(ms(5001), task(101, 11), trigger);
  kill.memory.reset();
  m.builder.on_kernel_kill(kill);
  EXPECT_TRUE(m.only_episode(ms(7000))->also_killed.empty());
}

TEST(KernelLog, overrides_the_numbers_it_prints_and_confirms_the_mark) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  OomVictimLine told = line(100, MiB(77));
  told.total_vm.reset();
  OomDump report = dump({told}, "/job");
  report.invoked = OomInvoked{};
  report.invoked->order = 0;
  report.invoked->gfp_text = "0xcc0(GFP_KERNEL)";
  m.builder.on_dump(report, ms(5300));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->victims.size(), 1u);
  EXPECT_EQ(e->victims[0].anon, MiB(77));
  EXPECT_EQ(e->victims[0].oom_score_adj, 7);
  EXPECT_EQ(e->victims[0].total_vm, MiB(110)) << "what the line lacks stays as recorded";
  EXPECT_EQ(e->victims[0].pgtables, KiB(200));
  EXPECT_EQ(e->checks.kmsg, 1u);
  EXPECT_EQ(e->order, 0);
  EXPECT_EQ(e->gfp, "0xcc0(GFP_KERNEL)");
}

TEST(KernelLog, names_the_marked_thread_not_the_process) {
  Machine m;
  m.kill(ms(5000), thread(task(100, 11), 107));
  m.builder.on_dump(dump({line(107)}, "/job"), ms(5300));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->victims.size(), 1u);
  EXPECT_EQ(e->victims[0].process.id.tgid, 100u);
  EXPECT_EQ(e->victims[0].tid, 107u);
  EXPECT_EQ(e->checks.kmsg, 1u);
}

TEST(KernelLog, alone_is_enough_for_a_victim) {
  Machine m;
  m.builder.on_dump(dump({line(100)}, "/job"), ms(5300));
  auto e = m.only_episode(ms(7300));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->limit_cgroup->path, "/job");
  EXPECT_EQ(e->limit_cgroup->id.inode, 10u);
  EXPECT_EQ(e->scope, OomScope::memcg);
  ASSERT_EQ(e->victims.size(), 1u);
  EXPECT_EQ(e->victims[0].anon, MiB(91));
  EXPECT_EQ(e->victims[0].killed, std::nullopt);
  EXPECT_EQ(e->checks.mark_victim, 0u) << "a difference is reported, not hidden";
  EXPECT_EQ(e->checks.kmsg, 1u);
}

TEST(KernelLog, adds_a_victim_whose_mark_was_lost) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  m.builder.on_dump(dump({line(100), line(101)}, "/job"), ms(5300));
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims.size(), 2u);
  EXPECT_EQ(e->checks.mark_victim, 1u);
  EXPECT_EQ(e->checks.kmsg, 2u);
}

TEST(KernelLog, that_was_read_before_the_mark_is_the_same_kill) {
  for (bool known : {false, true}) {
    Machine m;
    wire::Task victim = task(100, 11);
    if (known) m.tasks.note(victim);
    m.builder.on_dump(dump({line(100)}, "/job"), ms(5600));
    m.kill(ms(5000), victim);
    m.builder.on_exit(death(ms(5001), victim));
    auto e = m.only_episode(ms(7400));
    ASSERT_TRUE(e);
    ASSERT_EQ(e->victims.size(), 1u) << (known ? "of a known process" : "of a stranger");
    EXPECT_EQ(e->checks.mark_victim, 1u);
    EXPECT_EQ(e->checks.kmsg, 1u);
    EXPECT_EQ(e->victims[0].process.id, victim.id);
    EXPECT_EQ(e->victims[0].anon, MiB(91)) << "the kernel's own line still is the authority";
    EXPECT_EQ(e->victims[0].pgtables, KiB(200)) << "and the record fills in what the line lacks";
    EXPECT_EQ(e->victims[0].killed, true);
    EXPECT_EQ(e->usage, MiB(100));
    EXPECT_EQ(e->time, ms(5000) + Nanos(20'000)) << "the kill's, not the log's";
  }
}

TEST(KernelLog, of_no_limit_that_was_read_before_its_mark_is_of_the_group_that_the_mark_tells) {
  Machine m;
  m.kill(ms(5000), task(100, 11), task(500, 11), Machine::chain_of_job(true));
  m.builder.on_dump(dump({line(101)}), ms(5040));
  m.kill(ms(5030), task(101, 11), task(500, 11), Machine::chain_of_job(true));
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims.size(), 2u);
  ASSERT_TRUE(e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/job");
  EXPECT_EQ(e->checks.mark_victim, 2u);
  EXPECT_EQ(e->checks.kmsg, 1u);
}

TEST(KernelLog, of_a_limit_that_is_not_in_the_tree_still_names_it) {
  Machine m;
  m.builder.on_dump(dump({line(100)}, "/gone/job"), ms(5300));
  auto e = m.only_episode(ms(7300));
  ASSERT_TRUE(e && e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/gone/job");
  EXPECT_EQ(e->limit_cgroup->id.inode, 0u) << "which is shown as unknown";
}

TEST(KernelLog, alone_takes_the_process_from_the_reports_table) {
  Machine m({false, true});
  OomDump report = dump({line(107)}, "/job");
  TaskRow row;
  row.pid = 107;
  row.tgid = 100;
  report.tasks.push_back(row);
  m.builder.on_dump(report, ms(5300));
  auto e = m.only_episode(ms(6301));
  ASSERT_TRUE(e) << "nothing else is waited for";
  EXPECT_EQ(e->victims[0].process.id.tgid, 100u);
  EXPECT_EQ(e->victims[0].tid, 107u);
  EXPECT_EQ(e->checks.mark_victim, std::nullopt);
}

TEST(KernelLog, alone_takes_the_process_from_the_constraint_line_if_it_has_one_victim) {
  Machine m({false, true});
  OomDump report = dump({line(107)}, "/job");
  report.constraint->pid = 100;
  report.constraint->task_memcg = "/job/step";
  m.builder.on_dump(report, ms(5300));
  auto e = m.only_episode(ms(6301));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims[0].process.id.tgid, 100u);
  EXPECT_EQ(e->victims[0].process.cgroup->path, "/job/step");

  report.victims = {line(107), line(108)};
  Machine two({false, true});
  two.builder.on_dump(report, ms(5300));
  e = two.only_episode(ms(6301));
  ASSERT_EQ(e->victims.size(), 2u);
  EXPECT_EQ(e->victims[0].process.id.tgid, 107u) << "whose number that is cannot be told";
}

TEST(KernelLog, alone_names_the_process_that_proc_showed) {
  Machine m({false, true});
  TaskState& state = m.tasks.note(task(100, 11, "trainer"));
  m.tasks.set_cmdline(state, wire::Args{{"trainer", "--big"}, false}, CmdlineSource::shown, MonoTime{});
  m.builder.on_dump(dump({line(100, MiB(91), "trainer")}, "/job"), ms(5300));
  auto e = m.only_episode(ms(6301));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->victims[0].process.id, (TaskId{100, 1100}));
  EXPECT_EQ(e->victims[0].process.cmdline, (std::vector<std::string>{"trainer", "--big"}));
}

TEST(KernelLog, alone_leaves_unknown_what_it_does_not_say) {
  Machine m({false, true});
  OomVictimLine bare;
  bare.tid = 100;
  m.builder.on_dump(dump({bare}), ms(5300));
  auto e = m.only_episode(ms(6301));
  ASSERT_TRUE(e);
  const Victim& v = e->victims[0];
  EXPECT_EQ(v.anon, std::nullopt);
  EXPECT_EQ(v.oom_score_adj, std::nullopt);
  EXPECT_EQ(v.killed, std::nullopt);
  EXPECT_EQ(v.process.uid, std::nullopt) << "root is not unknown";
  EXPECT_EQ(e->limit_cgroup, nullptr);
  EXPECT_EQ(e->group_kill, std::nullopt);
  EXPECT_EQ(e->usage, std::nullopt);
  EXPECT_FALSE(e->trigger);
}

TEST(KernelLog, read_after_its_episode_was_told_makes_no_second_one) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  ASSERT_TRUE(m.only_episode(ms(7000)));
  m.builder.on_dump(dump({line(100)}, "/job"), ms(7100));
  EXPECT_FALSE(m.builder.any_open());
  m.builder.on_dump(dump({line(100)}, "/job"), ms(60'000));
  EXPECT_TRUE(m.builder.any_open()) << "half a minute later it is another process of that number";
}

TEST(KernelLog, that_waits_behind_thousands_makes_no_second_one_and_the_next_of_its_number_is_another) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  ASSERT_TRUE(m.only_episode(ms(7000)));
  (void)m.builder.take_completed(ms(40'000));  // it is not followed any longer
  m.builder.on_dump(dump({line(100)}, "/job"), ms(95'000));
  EXPECT_FALSE(m.builder.any_open());
  m.builder.on_dump(dump({line(100)}, "/job"), ms(96'000));
  EXPECT_TRUE(m.builder.any_open()) << "it had its line";
}

TEST(KernelLog, joins_nothing_but_what_has_its_victim) {
  Machine m;
  std::vector<wire::Memcg> chain{level(1, GiB(2), std::nullopt)};
  m.kill(ms(5000), task(100, 11), task(500, 11), chain);  // of no limit that is known
  OomDump of_another = dump({line(101)}, "/gone/job");
  of_another.invoked = OomInvoked{};
  of_another.invoked->gfp_text = "0xcc0(GFP_KERNEL)";
  m.builder.on_dump(of_another, ms(5001));
  auto closed = m.builder.take_closed(ms(7000));
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].limit_cgroup, nullptr);
  EXPECT_EQ(closed[0].gfp, std::nullopt);
  ASSERT_TRUE(closed[1].limit_cgroup);
  EXPECT_EQ(closed[1].limit_cgroup->path, "/gone/job");
}

TEST(KernelLog, names_the_limit_of_a_mark_that_has_none) {
  Machine m;
  std::vector<wire::Memcg> deep;
  for (std::uint64_t i = 0; i < 16; ++i) deep.push_back(level(40 - i, MiB(9), std::nullopt));
  m.kill(ms(5000), task(100, 11), task(500, 11), deep);
  m.builder.on_dump(dump({line(100)}, "/job"), ms(5300));
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e && e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->id.inode, 10u);
}

TEST(KernelLog, without_victims_is_no_episode) {
  Machine m;
  m.builder.on_dump(dump({}, "/job"), ms(5000));
  EXPECT_FALSE(m.builder.any_open());
}

TEST(KernelLog, names_the_trigger_only_if_no_record_did) {
  Machine m;
  OomDump report = dump({line(100)}, "/job");
  report.invoked = OomInvoked{};
  report.invoked->trigger_comm = "dd";
  report.trigger_tid = 321;
  m.builder.on_dump(report, ms(5300));
  auto e = m.only_episode(ms(7300));
  ASSERT_TRUE(e && e->trigger);
  EXPECT_EQ(e->trigger->comm, "dd");
  EXPECT_EQ(e->trigger->id.tgid, 321u);
}

TEST(FreedAfter, is_when_the_usage_fell_by_what_the_victim_held) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  EXPECT_EQ(m.builder.watched(), std::vector<std::uint64_t>{10});
  m.builder.on_usage(10, ms(5100), MiB(60));
  EXPECT_FALSE(m.builder.watched().empty()) << "60 of 100 MiB are still there";
  m.builder.on_usage(11, ms(5150), Bytes{});
  EXPECT_FALSE(m.builder.watched().empty()) << "another cgroup's";
  m.builder.on_usage(10, ms(5200), MiB(19));
  EXPECT_TRUE(m.builder.watched().empty());
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e && e->victims[0].freed_after);
  EXPECT_NEAR(e->victims[0].freed_after->count(), 0.2, 1e-3);
}

TEST(FreedAfter, is_the_first_of_reaper_and_usage) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  m.builder.on_reaper({ms(5001), wire::Reaper::Op::queued, 100});
  m.builder.on_reaper({ms(5002), wire::Reaper::Op::started, 100});
  m.builder.on_reaper({ms(5003), wire::Reaper::Op::skipped, 100});
  m.builder.on_reaper(reaped(ms(5004), 999));
  m.builder.on_reaper(reaped(ms(5050), 100));
  m.builder.on_reaper(reaped(ms(5060), 100));
  m.builder.on_usage(10, ms(5200), Bytes{});
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e && e->victims[0].freed_after);
  EXPECT_NEAR(e->victims[0].freed_after->count(), 0.05, 1e-3);
}

TEST(FreedAfter, cannot_be_told_from_the_usage_of_a_victim_without_memory) {
  Machine m;
  wire::Task victim = task(100, 11), trigger = task(500, 11);
  m.builder.on_kernel_kill(kernel_kill(ms(5000), victim, trigger));
  wire::OomMark gone = mark(ms(5000), victim, trigger, Machine::chain_of_job());
  gone.memory.reset();
  m.builder.on_mark(gone);
  m.builder.on_usage(10, ms(5100), Bytes{});
  auto e = m.only_episode(ms(7000));
  EXPECT_EQ(e->victims[0].freed_after, std::nullopt);
  EXPECT_EQ(e->victims[0].anon, std::nullopt);
}

TEST(Killed, is_false_for_a_victim_that_exited_otherwise) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  m.builder.on_exit(death(ms(5001), task(100, 11), 1 << 8));
  m.builder.on_exit(death(ms(5001), task(777, 11)));
  EXPECT_EQ(m.only_episode(ms(7000))->victims[0].killed, false);
}

TEST(Vmstat, counts_the_kills_of_an_episode_that_was_alone) {
  Machine m;
  m.builder.on_vmstat({ms(4000), ms(4000), 40});
  m.kill(ms(5000), task(100, 11));
  m.builder.on_vmstat({ms(5100), ms(5100), 41});
  EXPECT_EQ(m.only_episode(ms(7000))->checks.vmstat, 1u);
}

TEST(Vmstat, is_unknown_without_a_reading_before_and_after) {
  Machine before;
  before.kill(ms(5000), task(100, 11));
  before.builder.on_vmstat({ms(5100), ms(5100), 41});
  EXPECT_EQ(before.only_episode(ms(7000))->checks.vmstat, std::nullopt);
  Machine after;
  after.builder.on_vmstat({ms(4000), ms(4000), 40});
  after.kill(ms(5000), task(100, 11));
  EXPECT_EQ(after.only_episode(ms(7000))->checks.vmstat, std::nullopt);
}

TEST(Vmstat, of_a_logged_kill_counts_from_when_the_log_had_nothing_of_it) {
  Machine m({false, true});
  m.builder.on_log_read(ms(4000));
  m.builder.on_vmstat({ms(3900), ms(3900), 40});
  m.builder.on_vmstat({ms(4500), ms(4500), 41});  // the kill is counted, its line is still to be read
  m.builder.on_dump(dump({line(100)}, "/job"), ms(5000));
  m.builder.on_log_read(ms(5001));
  m.builder.on_vmstat({ms(5100), ms(5100), 41});
  EXPECT_EQ(m.only_episode(ms(7000))->checks.vmstat, 1u);
}

TEST(Episode, is_due_whatever_is_missing_of_it_when_it_has_waited_for_long) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  EXPECT_TRUE(m.builder.due(ms(6000)).empty());
  EXPECT_EQ(m.builder.due(ms(6701)), std::vector<std::uint32_t>{100});
}

TEST(Vmstat, is_unknown_while_episodes_overlap) {
  Machine m;
  m.cgroups.add_child(20, 1, "other");
  m.builder.on_vmstat({ms(4000), ms(4000), 40});
  m.kill(ms(5000), task(100, 11));
  m.kill(ms(5001), task(200, 20), task(200, 20), {level(20, MiB(10), MiB(10), true)});
  m.builder.on_vmstat({ms(5100), ms(5100), 42});
  auto closed = m.builder.take_closed(ms(7000));
  ASSERT_EQ(closed.size(), 2u);
  for (const Episode& e : closed) EXPECT_EQ(e.checks.vmstat, std::nullopt);
}

TEST(GrewMost, tells_who_grew_below_the_limit_before_the_kill) {
  Machine m;
  auto grow = [&](std::uint32_t pid, std::uint64_t cgroup, Bytes from, Bytes to) {
    TaskState& t = m.tasks.note(task(pid, cgroup));
    t.rss.add({ms(2000), from});
    t.rss.add({ms(4000), to});
    t.rss.add({ms(5500), GiB(9)});  // after the kill
  };
  grow(100, 11, MiB(10), MiB(90));
  grow(101, 10, MiB(10), MiB(95));
  grow(102, 11, MiB(50), MiB(40));
  grow(103, 1, MiB(10), MiB(500));
  m.kill(ms(5000), task(100, 11));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->grew_most.size(), 2u);
  EXPECT_EQ(e->grew_most[0].process.id.tgid, 101u);
  EXPECT_EQ(e->grew_most[0].grew, MiB(85));
  EXPECT_EQ(e->grew_most[0].over, Seconds(2));
  EXPECT_EQ(e->grew_most[1].process.id.tgid, 100u);
}

TEST(GrewMost, accuses_nobody_who_was_dead_by_then) {
  Machine m;
  for (std::uint32_t pid : {100u, 101u}) {
    TaskState& t = m.tasks.note(task(pid, 11));
    t.rss.add({ms(2000), MiB(10)});
    t.rss.add({ms(4000), MiB(90)});
  }
  m.tasks.mark_dead(task(100, 11).id, ms(4100));
  m.kill(ms(5000), task(101, 11));
  m.tasks.mark_dead(task(101, 11).id, ms(5001));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->grew_most.size(), 1u);
  EXPECT_EQ(e->grew_most[0].process.id.tgid, 101u);
}

TEST(GrewMost, tells_it_of_one_whose_end_was_seen_in_many_steps) {
  Machine m;
  TaskState& t = m.tasks.note(task(100, 11));
  for (int s = 0; s < 9; ++s) t.rss.add({ms(1000 * s), MiB(10 + 10 * s)});
  m.kill(ms(8500), task(100, 11));
  for (int i = 0; i < 80; ++i) t.rss.add({ms(8510 + i), MiB(80 - i)});
  auto e = m.only_episode(ms(10500));
  ASSERT_EQ(e->grew_most.size(), 1u) << "a series keeps few points";
  EXPECT_EQ(e->grew_most[0].grew, MiB(80));
}

TEST(LastWords, keep_their_stack_though_they_come_before_the_mark) {
  Machine m;
  wire::Dying dying;
  dying.time = ms(4999);
  dying.task = task(100, 11);
  dying.stack = {0x1000, 0x2000};
  m.builder.on_dying(dying);
  m.kill(ms(5000), task(100, 11));
  EXPECT_EQ(m.only_episode(ms(7000))->victims[0].stack, (std::vector<std::uint64_t>{0x1000, 0x2000}));
}

TEST(LastWords, are_those_of_the_thread_that_met_the_limit) {
  Machine m;
  TaskId id = task(100, 11).id;
  m.builder.on_code(id, 103, {{"wait", "threading.py", 324}});
  m.builder.on_code(id, task(100, 11).tid, {{"append_output", "train.py", 41}});
  m.builder.on_code(task(101, 11).id, 101, {{"other", "other.py", 1}});
  m.kill(ms(5000), task(100, 11));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->victims[0].code.size(), 1u);
  EXPECT_EQ(e->victims[0].code[0].function, "append_output");
  EXPECT_EQ(e->victims[0].code[0].line, 41u);
}

TEST(Bounds, of_open_episodes_hold_and_the_rest_is_counted) {
  Machine m;
  for (std::uint32_t i = 0; i < EpisodeBuilder::kMaxOpen + 5; ++i) {
    m.cgroups.add_child(1000 + i, 1, "c" + std::to_string(i));
    m.kill(ms(5000), task(2000 + i, 1000 + i), task(2000 + i, 1000 + i),
           {level(1000 + i, MiB(5), MiB(5), true)});
  }
  EXPECT_EQ(m.builder.dropped(), 5u);
  m.builder.on_dump(dump({line(2000 + EpisodeBuilder::kMaxOpen)}), ms(5001));
  EXPECT_EQ(m.builder.dropped(), 5u) << "each kill once, whoever tells of it";
  EXPECT_EQ(m.builder.take_closed(ms(7000)).size(), EpisodeBuilder::kMaxOpen);
  m.kill(ms(7000), task(100, 11));
  EXPECT_EQ(m.builder.dropped(), 5u) << "what is told makes room";
}

TEST(Bounds, of_victims_hold_and_the_rest_is_another_episode_of_the_same_limit) {
  Machine m;
  for (std::uint32_t i = 0; i < EpisodeBuilder::kMaxVictims + 7; ++i) {
    m.kill(ms(5000), task(2000 + i, 11), task(500, 11), Machine::chain_of_job(true));
    m.builder.on_dump(dump({line(2000 + i)}), ms(5001));
  }
  EXPECT_EQ(m.builder.dropped(), 0u);
  auto closed = m.builder.take_closed(ms(7000));
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].victims.size(), EpisodeBuilder::kMaxVictims);
  ASSERT_EQ(closed[1].victims.size(), 7u);
  ASSERT_TRUE(closed[1].limit_cgroup);
  EXPECT_EQ(closed[1].limit_cgroup->path, "/job");
}

TEST(Bounds, of_victims_hold_for_the_kernel_log_too) {
  Machine m;
  std::vector<OomVictimLine> lines;
  for (std::uint32_t i = 0; i < EpisodeBuilder::kMaxVictims + 3; ++i) lines.push_back(line(2000 + i));
  m.builder.on_dump(dump(lines, "/job"), ms(5000));
  EXPECT_EQ(m.builder.dropped(), 3u);
}

wire::OomMark mark_with(std::vector<wire::Memcg> chain, std::vector<wire::Memcg> victim_chain) {
  wire::OomMark m;
  m.chain = std::move(chain);
  m.victim_chain = std::move(victim_chain);
  return m;
}

TEST(LimitOwner, is_the_topmost_locked_ancestor_of_the_trigger) {
  EXPECT_EQ(limit_owner(mark_with({level(3, MiB(9), MiB(50), true), level(2, MiB(100), MiB(100), true),
                                   level(1, GiB(1), std::nullopt)},
                                  {})),
            2u);
}

TEST(LimitOwner, is_what_the_programs_found_above_the_levels_that_they_show) {
  wire::OomMark mark = mark_with({level(30, MiB(9), std::nullopt, true)}, {});
  mark.owner = level(3, MiB(20), MiB(20), true);
  EXPECT_EQ(limit_owner(mark), 3u);
}

TEST(LimitOwner, is_the_lowest_full_one_where_the_kernel_keeps_no_lock) {
  auto at = [](Bytes usage) {
    return limit_owner(
        mark_with({level(3, MiB(9), std::nullopt), level(2, usage, MiB(100)), level(1, GiB(1), GiB(1))}, {}));
  };
  EXPECT_EQ(at(MiB(100)), 2u);
  EXPECT_EQ(at(MiB(100) - KiB(256)), 2u) << "64 pages may be charged to a CPU in advance";
  EXPECT_EQ(at(MiB(100) - KiB(260)), 1u);
}

TEST(LimitOwner, of_a_limit_lowered_below_the_usage_is_above_the_victim) {
  EXPECT_EQ(limit_owner(mark_with({level(5, MiB(1), std::nullopt), level(1, GiB(1), std::nullopt)},
                                  {level(3, MiB(80), std::nullopt), level(2, MiB(80), MiB(40)),
                                   level(1, GiB(1), std::nullopt)})),
            2u);
}

TEST(LimitOwner, is_none_when_no_cgroup_is_full) {
  EXPECT_EQ(limit_owner(mark_with({level(2, MiB(1), MiB(50)), level(1, GiB(1), std::nullopt)},
                                  {level(3, MiB(1), std::nullopt)})),
            std::nullopt);
  EXPECT_EQ(limit_owner(mark_with({}, {})), std::nullopt);
}

TEST(KernelsCount, that_is_above_ours_for_two_seconds_is_of_kills_that_nobody_saw) {
  Machine m;
  m.builder.on_vmstat({ms(4000), ms(4000), 40});
  m.kill(ms(5000), task(100, 11));
  m.builder.on_vmstat({ms(5100), ms(5100), 43});
  EXPECT_EQ(m.builder.unseen(ms(5100)), 0u) << "a kill is still open";
  m.builder.take_closed(ms(7000));
  EXPECT_EQ(m.builder.unseen(ms(7000)), 0u) << "more may be on its way";
  EXPECT_EQ(m.builder.unseen(ms(8800)), 2u);
  EXPECT_EQ(m.builder.unseen(ms(19'000)), 2u) << "once";
  m.builder.count_unseen({ms(20'000), ms(20'000), 44});
  EXPECT_EQ(m.builder.unseen(ms(20'000)), 3u) << "at the end nothing is waited for";
}

TEST(KernelsCount, has_the_first_of_a_group_twice_if_the_kernel_kills_it_twice) {
  for (bool bpf : {true, false}) {
    Machine m({bpf, true});
    m.builder.on_vmstat({ms(4000), ms(4000), 40});
    wire::Task victim = task(100, 11), trigger = task(500, 11);
    if (bpf) {
      m.kill(ms(5000), victim, trigger, Machine::chain_of_job(true));
      m.builder.on_kernel_kill(kernel_kill(ms(5001), victim, trigger));
    }
    OomDump report = dump({line(100)}, "/job");
    report.named_again = 1;
    m.builder.on_dump(report, ms(5005));
    m.builder.count_unseen({ms(6000), ms(6000), 42});
    EXPECT_EQ(m.builder.unseen(ms(6000)), 0u) << bpf;
  }
}

TEST(KernelsCount, is_ours_with_what_had_no_room) {
  Machine m;
  m.builder.on_vmstat({ms(4000), ms(4000), 0});
  for (std::uint32_t i = 0; i < EpisodeBuilder::kMaxOpen + 5; ++i)
    m.kill(ms(5000), task(2000 + i, 11), task(2000 + i, 11), Machine::chain_of_job());
  m.builder.count_unseen({ms(6000), ms(6000), EpisodeBuilder::kMaxOpen + 7});
  EXPECT_EQ(m.builder.unseen(ms(6000)), 2u);
}

TEST(GroupKill, is_told_by_oom_group_from_the_victim_up_to_the_owner) {
  auto group_at = [](std::uint64_t inode, std::optional<std::uint64_t> owner) {
    std::vector<wire::Memcg> chain;
    for (std::uint64_t i : {4, 3, 2, 1}) chain.push_back(level(i, MiB(1), std::nullopt, false, i == inode));
    return group_of(mark_with({}, chain), owner).has_value();
  };
  EXPECT_TRUE(group_at(4, 3));
  EXPECT_TRUE(group_at(3, 3)) << "the owner's own";
  EXPECT_FALSE(group_at(2, 3)) << "above the owner it has no say";
  EXPECT_TRUE(group_at(2, std::nullopt)) << "of the whole machine, any";
  EXPECT_FALSE(group_at(99, 3));
}

}  // namespace
}  // namespace oomcast
