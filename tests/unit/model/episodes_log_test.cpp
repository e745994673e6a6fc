// What the kernel log adds to episodes.
#include <gtest/gtest.h>

#include "model/episode_machine.h"
#include "model/episodes.h"

namespace oomcast {
namespace {

using namespace test;

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
  EXPECT_EQ(e->request.order, 0);
  EXPECT_EQ(e->request.gfp, "0xcc0(GFP_KERNEL)");
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

TEST(KernelLog, of_a_kill_of_the_machine_takes_back_the_limit_that_the_mark_seemed_to_tell) {
  Machine m;
  m.kill(ms(5000), task(100, 11), task(500, 11), Machine::chain_of_job());
  OomDump report = dump({line(100)});
  report.constraint = OomConstraint{};
  report.constraint->scope = OomConstraintScope::cpuset;
  m.builder.on_dump(report, ms(5100));
  auto e = m.only_episode(ms(7300));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->scope, OomScope::cpuset);
  EXPECT_EQ(e->limit_cgroup, nullptr);
  EXPECT_EQ(e->usage, std::nullopt);
  EXPECT_EQ(e->limit, std::nullopt);
}

TEST(KernelLog, of_a_limit_that_is_not_in_the_tree_still_names_it) {
  Machine m;
  m.builder.on_dump(dump({line(100)}, "/gone/job"), ms(5300));
  auto e = m.only_episode(ms(7300));
  ASSERT_TRUE(e && e->limit_cgroup);
  EXPECT_EQ(e->limit_cgroup->path, "/gone/job");
  EXPECT_EQ(e->limit_cgroup->id.inode, 0u) << "which is shown as unknown";
  EXPECT_EQ(e->limit_cgroup->id.hierarchy, Hierarchy::v1) << "the machine's";
}

TEST(KernelLog, has_the_path_of_a_limit_that_is_not_in_the_tree_and_of_which_the_mark_has_the_number) {
  for (bool log_first : {false, true}) {
    Machine m;
    auto logged = [&] { m.builder.on_dump(dump({line(100)}, "/pods/late"), ms(5040)); };
    if (log_first) logged();
    m.kill(ms(5000), task(100, 77), task(100, 77),
           {level(77, MiB(64), MiB(64), true), level(1, GiB(2), std::nullopt)});
    if (!log_first) logged();
    auto e = m.only_episode(ms(7100));
    ASSERT_TRUE(e && e->limit_cgroup) << log_first;
    EXPECT_EQ(e->limit_cgroup->path, "/pods/late") << log_first;
    EXPECT_EQ(e->limit_cgroup->id.inode, 77u) << log_first;
    ASSERT_TRUE(e->victims[0].process.cgroup) << log_first;
    EXPECT_EQ(e->victims[0].process.cgroup->path, "/pods/late") << log_first;
  }
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
  EXPECT_EQ(closed[0].request.gfp, std::nullopt);
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

}  // namespace
}  // namespace oomcast
