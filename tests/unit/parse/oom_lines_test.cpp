#include "parse/oom_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace oomcast {
namespace {

template <typename T>
std::optional<T> read(std::string_view text, bool cut = false, std::span<const TaskRow> rows = {}) {
  auto line = parse_oom_line(text, cut, rows);
  if (!line || !line->fact || !std::holds_alternative<T>(*line->fact)) return std::nullopt;
  return std::get<T>(*line->fact);
}

// ---- victims, kernel by kernel

TEST(OomVictimLine, of_3_10_has_no_shmem) {
  auto v = read<OomVictimLine>("Killed process 2702 (sh) total-vm:113124kB, anon-rss:200kB, file-rss:0kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->tid, 2702u);
  EXPECT_EQ(v->comm, "sh");
  EXPECT_EQ(v->total_vm, KiB(113124));
  EXPECT_EQ(v->anon_rss, KiB(200));
  EXPECT_EQ(v->file_rss, KiB(0));
  EXPECT_FALSE(v->scope || v->shmem_rss || v->uid || v->pgtables || v->oom_score_adj);
}

TEST(OomVictimLine, of_el7_has_the_uid_behind_the_name) {
  auto v = read<OomVictimLine>(
      "Killed process 42452 (memcg_test_1), UID 48, total-vm:7296kB, anon-rss:96kB, file-rss:164kB, "
      "shmem-rss:0kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->comm, "memcg_test_1");
  EXPECT_EQ(v->uid, 48u);
  EXPECT_EQ(v->shmem_rss, KiB(0));
}

TEST(OomVictimLine, of_el6_has_the_uid_before_the_name) {
  auto v = read<OomVictimLine>(
      "Killed process 11726, UID 498, (mysqld) total-vm:7823732kB, anon-rss:2539268kB, file-rss:768kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->tid, 11726u);
  EXPECT_EQ(v->comm, "mysqld");
  EXPECT_EQ(v->uid, 498u);
}

TEST(OomVictimLine, of_4_19_has_shmem) {
  auto v = read<OomVictimLine>(
      "Killed process 2746 (leaker) total-vm:536704kB, anon-rss:521176kB, file-rss:1208kB, shmem-rss:12kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->shmem_rss, KiB(12));
}

TEST(OomVictimLine, of_5_1_says_whose_memory_ran_out) {
  auto v = read<OomVictimLine>(
      "Out of memory: Killed process 15784 (python3) total-vm:11964kB, anon-rss:4288kB, file-rss:3028kB, "
      "shmem-rss:0kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->scope, OomScopeWord::machine);
}

TEST(OomVictimLine, of_6_18_has_everything) {
  auto v = read<OomVictimLine>(
      "Memory cgroup out of memory: Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:2472kB, shmem-rss:0kB, UID:1000 pgtables:156kB oom_score_adj:-998");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->scope, OomScopeWord::memcg);
  EXPECT_EQ(v->tid, 4515u);
  EXPECT_EQ(v->comm, "python3");
  EXPECT_EQ(v->total_vm, KiB(60768));
  EXPECT_EQ(v->anon_rss, KiB(50688));
  EXPECT_EQ(v->file_rss, KiB(2472));
  EXPECT_EQ(v->shmem_rss, KiB(0));
  EXPECT_EQ(v->uid, 1000u);
  EXPECT_EQ(v->pgtables, KiB(156));
  EXPECT_EQ(v->oom_score_adj, -998);
}

TEST(OomVictimLine, of_the_allocating_task_says_so) {
  auto v = read<OomVictimLine>(
      "Out of memory (oom_kill_allocating_task): Killed process 5 (a) total-vm:4kB, anon-rss:4kB, "
      "file-rss:0kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->scope, OomScopeWord::allocating_task);
}

TEST(OomVictimLine, survives_fields_it_does_not_know) {
  auto v = read<OomVictimLine>(
      "Killed process 5 (a) total-vm:4kB, anon-rss:3kB, file-rss:2kB, anon-rss-low:9kB, UID:7 new:1 "
      "pgtables:44kB "
      "oom_score_adj:1");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->anon_rss, KiB(3));
  EXPECT_EQ(v->pgtables, KiB(44));
  EXPECT_EQ(v->uid, 7u);
}

TEST(OomVictimLine, reads_the_victim_whose_name_contains_parentheses) {
  auto v = read<OomVictimLine>(
      "Out of memory: Killed process 15925 ((resolved)) total-vm:168424kB, anon-rss:4064kB, file-rss:3584kB, "
      "shmem-rss:0kB");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->comm, "(resolved)");
}

TEST(OomVictimLine, reads_a_name_that_imitates_the_sizes) {
  for (std::string comm :
       {") total-vm:1kB", "a) (b), UID 4,", "x total-vm:9kB,", "\n", "), UID 0, total", " ", ""}) {
    SCOPED_TRACE(comm);
    auto v =
        read<OomVictimLine>("Killed process 7 (" + comm +
                            ") total-vm:4kB, anon-rss:3kB, file-rss:2kB, shmem-rss:1kB, UID:5 pgtables:44kB "
                            "oom_score_adj:6");
    ASSERT_TRUE(v);
    EXPECT_EQ(v->comm, comm);
    EXPECT_EQ(v->total_vm, KiB(4));
    EXPECT_EQ(v->uid, 5u);
  }
}

TEST(OomVictimLine, does_not_believe_sizes_that_fit_into_a_name) {
  auto v = read<OomVictimLine>("Killed process 7 () total-vm:1kB", true);
  ASSERT_TRUE(v);
  EXPECT_FALSE(v->comm);
  EXPECT_FALSE(v->total_vm);
}

TEST(OomVictimLine, is_not_found_in_the_middle_of_a_line) {
  EXPECT_FALSE(parse_oom_line("foo: Killed process 7 (a) total-vm:4kB, anon-rss:3kB, file-rss:2kB"));
  EXPECT_FALSE(parse_oom_line(" Killed process 7 (a) total-vm:4kB, anon-rss:3kB, file-rss:2kB"));
}

TEST(OomVictimLine, does_not_take_a_size_that_overflows) {
  auto v = read<OomVictimLine>(
      "Killed process 7 (a) total-vm:9007199254740992kB, anon-rss:99999999999999999999kB, file-rss:2kB");
  ASSERT_TRUE(v);
  EXPECT_FALSE(v->total_vm);
  EXPECT_FALSE(v->anon_rss);
  EXPECT_EQ(v->file_rss, KiB(2));
}

OomVictimLine victim_with(std::uint64_t pgtables, Bytes total_vm, Bytes anon) {
  OomVictimLine v;
  v.pgtables_printed = pgtables;
  v.total_vm = total_vm;
  v.anon_rss = anon;
  v.file_rss = KiB(0);
  return v;
}

TEST(PgtablesOf, is_what_the_table_says) {
  EXPECT_EQ(pgtables_of(victim_with(159744, MiB(900), MiB(50)), Bytes{159744}), Bytes{159744});
  EXPECT_EQ(pgtables_of(victim_with(156, MiB(900), MiB(50)), Bytes{159744}), Bytes{159744});
  EXPECT_EQ(pgtables_of(victim_with(50, MiB(36), KiB(0)), Bytes{51200}), Bytes{51200});  // 64 KiB pages
}

TEST(PgtablesOf, takes_the_bytes_of_early_5_4_for_bytes) {
  EXPECT_EQ(pgtables_of(victim_with(159744, KiB(60768), KiB(50688)), std::nullopt), Bytes{159744});
}

TEST(PgtablesOf, is_kilobytes_when_bytes_would_be_too_few) {
  EXPECT_EQ(pgtables_of(victim_with(8192, GiB(5), GiB(4)), std::nullopt), KiB(8192));
}

TEST(PgtablesOf, is_unknown_when_both_units_are_possible) {
  EXPECT_EQ(pgtables_of(victim_with(8192, GiB(5), KiB(4)), std::nullopt), std::nullopt);
}

// ---- constraint

TEST(OomConstraint, of_a_memory_cgroup_names_the_limits_owner) {
  auto c = read<OomConstraint>(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/"
      "kubepods,task_memcg="
      "/kubepods/pod1/c2,task=python3,pid=4515,uid=1000");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->scope, OomConstraintScope::memcg);
  EXPECT_EQ(c->nodemask, "(null)");
  EXPECT_EQ(c->cpuset, "/");
  EXPECT_EQ(c->mems_allowed, "0");
  EXPECT_FALSE(c->global_oom);
  EXPECT_EQ(c->oom_memcg, "/kubepods");
  EXPECT_EQ(c->task_memcg, "/kubepods/pod1/c2");
  EXPECT_EQ(c->task_comm, "python3");
  EXPECT_EQ(c->pid, 4515u);
  EXPECT_EQ(c->uid, 1000u);
}

TEST(OomConstraint, of_the_whole_machine_has_no_limits_owner) {
  auto c = read<OomConstraint>(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/"
      ",mems_allowed=0-3,5,global_oom,task_memcg=/"
      "user.slice,task=node,pid=5678,uid=-2");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->scope, OomConstraintScope::none);
  EXPECT_TRUE(c->global_oom);
  EXPECT_EQ(c->mems_allowed, "0-3,5");
  EXPECT_FALSE(c->oom_memcg);
  EXPECT_EQ(c->task_memcg, "/user.slice");
  EXPECT_EQ(c->uid, 4294967294u);
}

TEST(OomConstraint, of_a_cpuset_and_of_a_mempolicy) {
  auto cpuset = read<OomConstraint>(
      "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=low,mems_allowed=1,global_oom,task_memcg="
      "/,"
      "task=a,pid=1,uid=0");
  auto policy = read<OomConstraint>(
      "oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,nodemask=0,2-3,cpuset=/"
      ",mems_allowed=0-3,global_oom,task_memcg="
      "/,task=a,pid=1,uid=0");
  ASSERT_TRUE(cpuset && policy);
  EXPECT_EQ(cpuset->scope, OomConstraintScope::cpuset);
  EXPECT_EQ(cpuset->cpuset, "low");
  EXPECT_EQ(policy->scope, OomConstraintScope::mempolicy);
  EXPECT_EQ(policy->nodemask, "0,2-3");
}

std::string constraint_line(std::string cpuset, std::string oom, std::string task, std::string comm) {
  return fmt::format(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={},mems_allowed=0-1,oom_memcg={},task_"
      "memcg={},"
      "task={},pid=31,uid=7",
      cpuset, oom, task, comm);
}

TEST(OomConstraint, reads_hostile_names_that_leave_one_reading) {
  struct Case {
    std::string cpuset, oom, task, comm;
  };
  for (const Case& c : {
           Case{"a,mems_allowed=9", "/a", "/a/b", "x"},
           Case{"a,mems_allowed=9,global_oom", "/a", "/a/b", "x"},
           Case{"a,mems_allowed=9,oom_memcg=", "/a", "/a", "x"},
           Case{",cpuset=b,mems_allowed=,task=", "/", "/", "x"},
           Case{"/", "/a,b=c", "/a,b=c/pid=1,uid=0", "a,pid=5,uid=1"},
           Case{"/", "/a,task_memcg=/b", "/a,task_memcg=/b/c", "x"},
           Case{"/", "/a,task_memcg=/a", "/a,task_memcg=/a", "x"},
           Case{"/", "/a", "/a/,task=, and a long way to the end", "x"},
           Case{"/", "/a", "/a", "a=b,c,(\n\x01)"},
           Case{"/", "/a", "/a", ""},
       }) {
    SCOPED_TRACE(constraint_line(c.cpuset, c.oom, c.task, c.comm));
    auto got = read<OomConstraint>(constraint_line(c.cpuset, c.oom, c.task, c.comm));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->cpuset, c.cpuset);
    EXPECT_EQ(got->mems_allowed, "0-1");
    EXPECT_EQ(got->oom_memcg, c.oom);
    EXPECT_EQ(got->task_memcg, c.task);
    EXPECT_EQ(got->task_comm, c.comm);
    EXPECT_EQ(got->pid, 31u);
    EXPECT_EQ(got->uid, 7u);
  }
}

TEST(OomConstraint, asks_the_table_when_a_name_imitates_the_key_before_it) {
  std::string text = constraint_line("/", "/a", "/a/b", "c,task=d");
  TaskRow row;
  row.pid = 31;
  row.name = "c,task=d";
  auto known = read<OomConstraint>(text, false, std::span(&row, 1));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->task_comm, "c,task=d");
  EXPECT_EQ(known->task_memcg, "/a/b");
  row.name = "d";
  EXPECT_EQ(read<OomConstraint>(text, false, std::span(&row, 1))->task_memcg, "/a/b,task=c");
}

TEST(OomConstraint, does_not_guess_between_two_readings) {
  auto names = read<OomConstraint>(constraint_line("/", "/a", "/a/b", "c,task=d"));
  ASSERT_TRUE(names);
  EXPECT_FALSE(names->task_comm || names->task_memcg || names->oom_memcg);
  EXPECT_EQ(names->pid, 31u);
  auto paths = read<OomConstraint>(constraint_line("/", "/", "/x,task_memcg=/y", "z"));
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->oom_memcg, "/");
  auto unclear = read<OomConstraint>(constraint_line("/", "/a,task_memcg=/b", "/c", "z"));
  ASSERT_TRUE(unclear);
  EXPECT_FALSE(unclear->oom_memcg || unclear->task_memcg);
}

TEST(OomConstraint, gives_up_on_a_path_of_separators) {
  std::string path;
  for (int i = 0; i < 300; ++i) path += "/,task_memcg=";
  auto got = read<OomConstraint>(constraint_line("/", path, path, "z"));
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->oom_memcg);
  EXPECT_EQ(got->pid, 31u);
}

// ---- the other lines

TEST(OomInvoked, of_3_10_has_a_bare_mask) {
  auto i =
      read<OomInvoked>("httpd invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0, oom_score_adj=-17");
  ASSERT_TRUE(i);
  EXPECT_EQ(i->trigger_comm, "httpd");
  EXPECT_EQ(i->gfp_text, "0x201da");
  EXPECT_EQ(i->gfp_mask, 0x201dau);
  EXPECT_EQ(i->order, 0);
  EXPECT_EQ(i->oom_score_adj, -17);
  EXPECT_FALSE(i->nodemask);
}

TEST(OomInvoked, of_4_9_has_a_nodemask) {
  auto i = read<OomInvoked>(
      "oom02:4583 invoked oom-killer: gfp_mask=0x16080c0(GFP_KERNEL|__GFP_ZERO), nodemask=0,2-3,  order=1, "
      "oom_score_adj=0");
  ASSERT_TRUE(i);
  EXPECT_EQ(i->trigger_comm, "oom02:4583");
  EXPECT_EQ(i->gfp_text, "0x16080c0(GFP_KERNEL|__GFP_ZERO)");
  EXPECT_EQ(i->nodemask, "0,2-3");
  EXPECT_EQ(i->order, 1);
  EXPECT_EQ(
      read<OomInvoked>("a invoked oom-killer: gfp_mask=0x0(), nodemask=(null), order=0, oom_score_adj=0")
          ->nodemask,
      "(null)");
}

TEST(OomInvoked, of_6_18_and_by_sysrq) {
  auto i = read<OomInvoked>(
      "kworker/0:1 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=-1, oom_score_adj=0");
  ASSERT_TRUE(i);
  EXPECT_EQ(i->order, -1);
}

TEST(OomInvoked, reads_hostile_names) {
  for (std::string comm : {"x invoked oom-k", "a: b, order=9", "", " ", "Killed process", "CPU: 1 PID: 2",
                           "Tasks in /a", "[ pid ] uid", "swap: usage 0kB", "Memory cgroup s"}) {
    auto i = read<OomInvoked>(comm + " invoked oom-killer: gfp_mask=0x1(A), order=2, oom_score_adj=3");
    ASSERT_TRUE(i) << comm;
    EXPECT_EQ(i->trigger_comm, comm);
    EXPECT_EQ(i->order, 2);
  }
}

TEST(OomInvoked, is_not_read_from_a_path) {
  EXPECT_FALSE(
      parse_oom_line("longer than a name invoked oom-killer: gfp_mask=0x1(A), order=2, oom_score_adj=3"));
  auto group = read<OomGroupKill>(
      "Tasks in /a invoked oom-killer: gfp_mask=0x1(A), order=2, oom_score_adj=3 are going to be killed due "
      "to "
      "memory.oom.group set");
  EXPECT_TRUE(group);
  auto task = read<MemcgTaskLine>(
      "Task in /a invoked oom-killer: gfp_mask=0x1(A), order=2 killed as a result of limit of /b, "
      "oom_score_adj=3");
  EXPECT_TRUE(task);
}

TEST(OomTriggerTask, is_read_with_and_without_its_uid) {
  EXPECT_EQ(read<OomTriggerTask>("CPU: 1 PID: 2746 Comm: leaker Not tainted 4.18.0+ #20")->tid, 2746u);
  EXPECT_EQ(read<OomTriggerTask>("CPU: 3 UID: 1000 PID: 4515 Comm: a Not tainted 6.12.1")->tid, 4515u);
}

TEST(OomChosen, is_read_until_5_0) {
  auto c = read<OomChosen>(
      "Memory cgroup out of memory: Kill process 2746 (a) score 9 () score 998 or sacrifice child");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->scope, OomScopeWord::memcg);
  EXPECT_EQ(c->tid, 2746u);
  EXPECT_EQ(c->comm, "a) score 9 (");
  EXPECT_EQ(c->score, 998u);
}

TEST(OomSharesMemory, is_read_until_4_6) {
  auto s = read<OomSharesMemory>("Kill process 12 (a) sharing same memory");
  ASSERT_TRUE(s);
  EXPECT_EQ(s->tid, 12u);
  EXPECT_EQ(s->comm, "a");
}

TEST(OomGroupKill, names_the_cgroup_whatever_it_is_called) {
  std::string path = "/a are going to be killed due to memory.oom.group set/b";
  auto g = read<OomGroupKill>("Tasks in " + path + " are going to be killed due to memory.oom.group set");
  ASSERT_TRUE(g);
  EXPECT_EQ(g->cgroup, path);
}

TEST(OomReaped, says_what_was_left) {
  auto r = read<OomReaped>(
      "oom_reaper: reaped process 9188 (a), now b), now anon-rss:1kB, file-rss:2kB, shmem-rss:3lkB");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->tid, 9188u);
  EXPECT_EQ(r->comm, "a), now b");
  EXPECT_EQ(r->anon_rss, KiB(1));
  EXPECT_EQ(r->file_rss, KiB(2));
  EXPECT_EQ(r->shmem_rss, KiB(3));
}

TEST(OomNoVictim, tells_a_panic_from_a_refusal) {
  EXPECT_FALSE(read<OomNoVictim>("Out of memory and no killable processes...")->panic);
  EXPECT_TRUE(
      read<OomNoVictim>("Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled")
          ->panic);
  EXPECT_TRUE(read<OomNoVictim>("Kernel panic - not syncing: System is deadlocked on memory")->panic);
  EXPECT_FALSE(parse_oom_line("Kernel panic - not syncing: Attempted to kill init!"));
}

TEST(MemcgUsageLine, tells_the_counters_apart) {
  auto m = read<MemcgUsageLine>("memory: usage 51200kB, limit 51200kB, failcnt 125");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->counter, MemcgCounter::memory);
  EXPECT_EQ(m->usage, MiB(50));
  EXPECT_EQ(m->limit, MiB(50));
  EXPECT_EQ(m->failcnt, 125u);
  EXPECT_EQ(read<MemcgUsageLine>("memory+swap: usage 0kB, limit 4kB, failcnt 0")->counter,
            MemcgCounter::memory_swap);
  EXPECT_EQ(read<MemcgUsageLine>("swap: usage 0kB, limit 0kB, failcnt 0")->limit, Bytes{0});
  EXPECT_EQ(read<MemcgUsageLine>("kmem: usage 0kB, limit 8kB, failcnt 0")->counter, MemcgCounter::kmem);
}

TEST(MemcgUsageLine, knows_every_way_to_say_that_there_is_no_limit) {
  for (std::string none :
       {"9007199254740988", "9007199254740991", "18014398509481983", "9007199254740928", "8589934588"})
    EXPECT_FALSE(read<MemcgUsageLine>("kmem: usage 260kB, limit " + none + "kB, failcnt 0")->limit) << none;
}

TEST(MemcgTaskLine, names_task_and_limit) {
  auto t = read<MemcgTaskLine>("Task in /a/b killed as a result of limit of /a");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->task_memcg, "/a/b");
  EXPECT_EQ(t->oom_memcg, "/a");
  auto host = read<MemcgTaskLine>("Task in /user.slice killed as a result of limit of host");
  ASSERT_TRUE(host);
  EXPECT_TRUE(host->host);
  EXPECT_FALSE(host->oom_memcg);
  EXPECT_EQ(read<MemcgTaskLine>("Memory limit reached of cgroup /b")->oom_memcg, "/b");
}

TEST(MemcgTaskLine, takes_the_reading_in_which_the_task_is_below_the_limit) {
  auto t = read<MemcgTaskLine>(
      "Task in /a killed as a result of limit of /b/c killed as a result of limit of /a killed as a result "
      "of limit of "
      "/b");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->task_memcg, "/a killed as a result of limit of /b/c");
  EXPECT_EQ(t->oom_memcg, "/a killed as a result of limit of /b");
}

TEST(MemcgStatsHead, of_4_19_has_its_numbers_on_the_line) {
  auto s = read<MemcgStatsHead>("Memory cgroup stats for /a: b/c:1KB: cache:64KB rss:53760KB rss_huge:0KB");
  ASSERT_TRUE(s);
  EXPECT_EQ(s->cgroup, "/a: b/c:1KB");
  ASSERT_EQ(s->stats.size(), 3u);
  EXPECT_EQ(s->stats[0].key, "cache");
  EXPECT_EQ(s->stats[0].value, 64u * 1024);
  EXPECT_EQ(s->stats[2].key, "rss_huge");
}

TEST(MemcgStatsHead, of_6_18_has_them_below) {
  auto s = read<MemcgStatsHead>("Memory cgroup stats for /a b: rss:4KB:");
  ASSERT_TRUE(s);
  EXPECT_EQ(s->cgroup, "/a b: rss:4KB");
  EXPECT_TRUE(s->stats.empty());
  EXPECT_EQ(parse_stat_line("anon 535658496")->value, 535658496u);
  for (std::string other : {"anon 5 6", "anon -5", "anon", "Anon 5", " anon 5", "anon  5", "", "anon 5x"})
    EXPECT_FALSE(parse_stat_line(other)) << other;
}

std::vector<TaskColumn> columns(std::string_view head) {
  return read<TaskTableHead>(head).value().columns;
}

TEST(TaskRow, of_3_10_counts_its_page_tables) {
  auto head = columns("[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name");
  auto row =
      parse_task_row("[14575]     0 14574     4556        1      14      119          -900 bash", head);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->pid, 14575u);
  EXPECT_EQ(row->uid, 0u);
  EXPECT_EQ(row->tgid, 14574u);
  EXPECT_EQ(row->total_vm_pages, 4556u);
  EXPECT_EQ(row->rss_pages, 1u);
  EXPECT_EQ(row->pgtables_pages, 14u);
  EXPECT_EQ(row->swap_pages, 119u);
  EXPECT_EQ(row->oom_score_adj, -900);
  EXPECT_EQ(row->name, "bash");
  EXPECT_FALSE(row->pgtables || row->rss_anon_pages);
}

TEST(TaskRow, of_4_4_adds_up_two_levels_of_page_tables) {
  auto head = columns("[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name");
  auto row = parse_task_row(
      "[ 1905]     0  1905     3236     1714      10       4        0             0 a b", head);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->pgtables_pages, 14u);
  EXPECT_EQ(row->name, "a b");
}

TEST(TaskRow, of_4_19_has_page_tables_in_bytes) {
  auto head = columns("[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name");
  auto row = parse_task_row(
      "[  19331]  1000 19331   226026    29603  1314816        0           999 npm start", head);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->pgtables, Bytes{1314816});
  EXPECT_FALSE(row->pgtables_pages);
}

constexpr std::string_view kNewHead =
    "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
    "oom_score_adj name";

TEST(TaskRow, of_6_18_splits_its_rss) {
  auto row = parse_task_row(
      "[   4515]     0  4515    15192    13290    12672      618         0   159744        0             0 "
      "python3",
      columns(kNewHead));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->rss_anon_pages, 12672u);
  EXPECT_EQ(row->rss_file_pages, 618u);
  EXPECT_EQ(row->rss_shmem_pages, 0u);
  EXPECT_EQ(row->name, "python3");
}

TEST(TaskRow, passes_over_columns_it_does_not_know) {
  auto head = columns("[ pid ]   uid  tgid new total_vm oom_score_adj name");
  auto row = parse_task_row("[ 5] 0 5 x:y 77 -5  x", head);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->total_vm_pages, 77u);
  EXPECT_EQ(row->name, " x");
}

TEST(TaskRow, needs_its_header) {
  EXPECT_FALSE(parse_task_row("[   4515]     0  4515    15192 python3", {}));
}

// ---- lines cut anywhere

void add(std::map<std::string, std::string>& out, const std::string& key, const std::string& value) {
  out[key] = value;
}
void add(std::map<std::string, std::string>& out, const std::string& key, Bytes value) {
  out[key] = std::to_string(value.count) + " bytes";
}
template <typename T>
requires std::is_arithmetic_v<T>
void add(std::map<std::string, std::string>& out, const std::string& key, T value) {
  out[key] = std::to_string(value);
}
template <typename T>
void add(std::map<std::string, std::string>& out, const std::string& key, const std::optional<T>& value) {
  if (!value) return;
  if constexpr (std::is_enum_v<T>)
    add(out, key, static_cast<int>(*value));
  else
    add(out, key, *value);
}

// Everything a fact claims.
struct Claims {
  std::map<std::string, std::string> out;
  void operator()(const OomInvoked& f) {
    add(out, "trigger", f.trigger_comm), add(out, "gfp", f.gfp_text), add(out, "mask", f.gfp_mask);
    add(out, "nodemask", f.nodemask), add(out, "order", f.order), add(out, "adj", f.oom_score_adj);
  }
  void operator()(const OomTriggerTask& f) { add(out, "tid", f.tid); }
  void operator()(const OomConstraint& f) {
    add(out, "scope", f.scope), add(out, "nodemask", f.nodemask), add(out, "cpuset", f.cpuset);
    add(out, "mems", f.mems_allowed), add(out, "oom_memcg", f.oom_memcg),
        add(out, "task_memcg", f.task_memcg);
    add(out, "comm", f.task_comm), add(out, "pid", f.pid), add(out, "uid", f.uid);
    if (f.global_oom) add(out, "global", 1);
  }
  void operator()(const OomChosen& f) {
    add(out, "scope", f.scope), add(out, "tid", f.tid), add(out, "comm", f.comm), add(out, "score", f.score);
  }
  void operator()(const OomVictimLine& f) {
    add(out, "scope", f.scope), add(out, "tid", f.tid), add(out, "comm", f.comm), add(out, "vm", f.total_vm);
    add(out, "anon", f.anon_rss), add(out, "file", f.file_rss), add(out, "shmem", f.shmem_rss);
    add(out, "uid", f.uid), add(out, "pgtables", f.pgtables), add(out, "adj", f.oom_score_adj);
  }
  void operator()(const OomSharesMemory& f) { add(out, "tid", f.tid), add(out, "comm", f.comm); }
  void operator()(const OomCpuset& f) {
    add(out, "comm", f.comm), add(out, "cpuset", f.cpuset), add(out, "mems", f.mems_allowed);
  }
  void operator()(const MemInfoLine&) {}  // never of parse_oom_line()
  void operator()(const OomGroupKill& f) { add(out, "cgroup", f.cgroup); }
  void operator()(const OomReaped& f) {
    add(out, "tid", f.tid), add(out, "comm", f.comm), add(out, "anon", f.anon_rss),
        add(out, "file", f.file_rss);
    add(out, "shmem", f.shmem_rss);
  }
  void operator()(const OomNoVictim& f) { add(out, "panic", f.panic); }
  void operator()(const MemcgUsageLine& f) {
    add(out, "counter", static_cast<int>(f.counter)), add(out, "usage", f.usage),
        add(out, "failcnt", f.failcnt);
    add(out, "limit", f.limit);
  }
  void operator()(const MemcgTaskLine& f) {
    add(out, "task", f.task_memcg), add(out, "limit", f.oom_memcg);
    if (f.host) add(out, "host", 1);
  }
  void operator()(const MemcgStat& f) { add(out, f.key, f.value); }
  void operator()(const MemcgStatsHead& f) {
    add(out, "cgroup", f.cgroup);
    for (const MemcgStat& stat : f.stats) add(out, "stat " + stat.key, stat.value);
  }
  void operator()(const TaskTableHead& f) {
    std::string all;
    for (TaskColumn column : f.columns) all += std::to_string(static_cast<int>(column)) + " ";
    add(out, "columns", all);
  }
  void operator()(const TaskRow& f) {
    add(out, "pid", f.pid), add(out, "uid", f.uid), add(out, "tgid", f.tgid),
        add(out, "vm", f.total_vm_pages);
    add(out, "rss", f.rss_pages), add(out, "swap", f.swap_pages), add(out, "pgtables", f.pgtables);
    add(out, "adj", f.oom_score_adj), add(out, "name", f.name);
  }
};

struct Claimed {
  std::size_t kind = std::variant_npos;
  std::map<std::string, std::string> facts;
};
Claimed claims(std::string_view text, bool cut) {
  std::optional<LogEvent> fact;
  if (auto line = parse_oom_line(text, cut))
    fact = line->fact;
  else if (auto row = parse_task_row(text, columns(kNewHead)))
    fact = *row;
  else if (auto stat = parse_stat_line(text, cut))
    fact = *stat;
  Claims visitor;
  if (!fact) return {};
  std::visit(visitor, *fact);
  return {fact->index(), visitor.out};
}

const std::vector<std::string>& every_form() {
  static const std::vector<std::string> lines = {
      "httpd invoked oom-killer: gfp_mask=0x201da, order=10, oom_adj=12, oom_score_adj=-17",
      "oom02 invoked oom-killer: gfp_mask=0x16080c0(GFP_KERNEL|__GFP_ZERO), nodemask=0-12,  order=10, "
      "oom_score_adj=200",
      "CPU: 31 UID: 1000 PID: 4515 Comm: python3 Not tainted 6.18.44 #1",
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker-12,mems_allowed=0-1,oom_memcg=/"
      "a,task_memcg="
      "/a/b,task=python3,pid=4515,uid=1000",
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=0,1-2,cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/a/"
      "b,task="
      "python3,pid=4515,uid=1000",
      "Memory cgroup out of memory: Kill process 2746 (leaker) score 998 or sacrifice child",
      "Killed process 2702 (sh) total-vm:113124kB, anon-rss:200kB, file-rss:10kB",
      "Killed process 42452 (memcg_test_1), UID 480, total-vm:7296kB, anon-rss:96kB, file-rss:164kB, "
      "shmem-rss:20kB",
      "Killed process 11726, UID 498, (mysqld) total-vm:7823732kB, anon-rss:2539268kB, file-rss:768kB",
      "Memory cgroup out of memory: Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:2472kB, shmem-rss:20kB, UID:1000 pgtables:156kB oom_score_adj:-998",
      "Out of memory: Killed process 4515 () total-vm:1kB) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:2472kB, "
      "shmem-rss:20kB, UID:1000 pgtables:156kB oom_score_adj:200",
      "Kill process 121 (a) sharing same memory",
      "Tasks in /a/b are going to be killed due to memory.oom.group set",
      "oom_reaper: reaped process 9188 (a.out), now anon-rss:10kB, file-rss:20kB, shmem-rss:30kB",
      "memory: usage 51200kB, limit 51200kB, failcnt 125",
      "kmem: usage 260kB, limit 9007199254740988kB, failcnt 10",
      "Task in /a/b killed as a result of limit of /a",
      "Task in /a/b killed as a result of limit of host",
      "Memory limit reached of cgroup /abc",
      "Memory cgroup stats for /a: cache:64KB rss:53760KB rss_huge:0KB",
      "Memory cgroup stats for /a b:",
      "workingset_refault_file 3253",
      std::string(kNewHead),
      "[   4515]     0  4515    15192    13290    12672      618         0   159744        0          -998 "
      "python3",
  };
  return lines;
}

TEST(ParsedLine, cut_anywhere_claims_nothing_that_the_whole_does_not) {
  for (const std::string& whole : every_form()) {
    Claimed all = claims(whole, false);
    ASSERT_NE(all.kind, std::variant_npos) << whole;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      Claimed part = claims(std::string_view(whole).substr(0, n), true);
      if (part.kind == std::variant_npos) continue;
      EXPECT_EQ(part.kind, all.kind) << whole.substr(0, n);
      for (const auto& [key, value] : part.facts) {
        if (key == "name") continue;  // a shorter name is a name
        EXPECT_EQ(value, all.facts[key]) << key << " of: " << whole.substr(0, n);
      }
    }
  }
}

TEST(ParsedLine, cut_without_notice_may_only_shorten_what_ends_it) {
  const std::set<std::string> may_end_a_line = {"adj",   "uid",  "failcnt",
                                                "limit", "name", "workingset_refault_file"};
  for (const std::string& whole : every_form()) {
    Claimed all = claims(whole, false);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      std::string text = whole.substr(0, n);
      for (const auto& [key, value] : claims(text, false).facts) {
        if (value == all.facts[key]) continue;
        EXPECT_TRUE(may_end_a_line.contains(key)) << key << " of: " << text;
        EXPECT_TRUE(all.facts[key].starts_with(value) && text.ends_with(value)) << key << " of: " << text;
      }
    }
  }
}

TEST(ParsedLine, does_not_read_what_is_none) {
  for (std::string text :
       {"", " ", "python3 cpuset=/ mems_allowed=", " oom_kill_process+0x160/0x3d0",
        "Mem-Info:", "[<ffffffff81184c7e>] oom_kill_process+0x24e/0x3c0", "RIP: 0033:0x7f991d38c0ba",
        "memory: something else", "Free swap  = 0kB", "0 pages in swap cache"})
    EXPECT_FALSE(parse_oom_line(text)) << text;
}

}  // namespace
}  // namespace oomcast
