// Which kills are one decision, and whose.
#include <gtest/gtest.h>

#include "model/episode_machine.h"
#include "model/episodes.h"

namespace oomcast {
namespace {

using namespace test;

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
  EXPECT_LE(bytes, EpisodeBuilder::kMaxArguments + 2000 + 200 * (TaskTable::kCutOff + 1));
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
  EXPECT_EQ(e->request.order, -1);
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
  std::vector<wire::Memcg> shown = {level(11, MiB(9), std::nullopt, true)};
  for (std::uint64_t inode = 50; shown.size() < 16; ++inode)
    shown.push_back(level(inode, MiB(9), std::nullopt, true));
  wire::OomMark deep = mark(ms(5001), victim, trigger, shown);
  deep.owner = level(10, MiB(20), MiB(21), true);
  m.builder.on_mark(deep);
  auto e = m.only_episode(ms(7000));
  ASSERT_TRUE(e && e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/job");
  EXPECT_EQ(e->usage, MiB(20));
  EXPECT_EQ(e->limit, MiB(21));
}

TEST(Episode, whose_trigger_is_spared_by_the_kill_of_its_group_is_over_when_that_triggers_the_next) {
  Machine m;
  wire::Task postmaster = task(500, 11);
  postmaster.oom_score_adj = -1000;
  for (std::uint32_t i = 0; i < 4; ++i)
    m.kill(ms(5000 + i), task(100 + i, 11), postmaster, Machine::chain_of_job(true));
  m.kill(ms(9000), task(200, 11), postmaster, Machine::chain_of_job(true));
  auto closed = m.builder.take_closed(ms(20'000));
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].victims.size(), 4u);
  EXPECT_EQ(closed[1].victims.size(), 1u);
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
  EXPECT_EQ(e->request.order, 3);
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
  EXPECT_EQ(m.only_episode(ms(7000))->request.order, std::nullopt);
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
  auto closed = m.builder.take_closed(ms(8000));
  ASSERT_EQ(closed.size(), 2u);
  for (const Episode& e : closed) {
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

TEST(LimitOwner, is_none_that_the_victim_is_not_below) {
  std::vector<wire::Memcg> elsewhere = {level(5, MiB(80), std::nullopt), level(1, GiB(1), std::nullopt)};
  EXPECT_EQ(limit_owner(mark_with({level(2, MiB(100), MiB(100)), level(1, GiB(1), std::nullopt)}, elsewhere)),
            std::nullopt)
      << "the trigger's container is full of page cache, the machine of somebody else's memory";
  EXPECT_EQ(
      limit_owner(mark_with({level(2, MiB(100), MiB(100), true), level(1, GiB(1), std::nullopt)}, elsewhere)),
      std::nullopt)
      << "another thread has locked it, and waits";
}

TEST(LimitOwner, is_none_when_no_cgroup_is_full) {
  EXPECT_EQ(limit_owner(mark_with({level(2, MiB(1), MiB(50)), level(1, GiB(1), std::nullopt)},
                                  {level(3, MiB(1), std::nullopt)})),
            std::nullopt);
  EXPECT_EQ(limit_owner(mark_with({}, {})), std::nullopt);
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
