// When an episode is told, and what it waits for.
#include "model/episodes.h"

#include <gtest/gtest.h>

#include "model/episode_machine.h"

namespace oomcast {
namespace {

using namespace test;

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

TEST(Episode, is_told_when_the_store_has_it_and_without_it_when_that_takes_long) {
  Machine m;
  m.kill(ms(5000), task(100, 11));
  m.confirm(ms(5020), task(100, 11));
  EXPECT_EQ(m.builder.take_opened().size(), 1u);
  m.builder.set_store_behind(true);
  EXPECT_TRUE(m.builder.take_closed(ms(6800)).empty());
  m.builder.set_store_behind(false);
  EXPECT_EQ(m.builder.take_closed(ms(6800)).size(), 1u);
  m.kill(ms(8000), task(101, 11));
  m.builder.set_store_behind(true);
  EXPECT_TRUE(m.builder.take_closed(ms(9800)).empty());
  EXPECT_EQ(m.builder.take_closed(ms(9901)).size(), 1u);
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
    report.counts.named_again = 1;
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

}  // namespace
}  // namespace oomcast
