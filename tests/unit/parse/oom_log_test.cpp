#include "parse/oom_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace oomcast {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace std::string_literals;
using Lines = std::vector<std::string>;

std::vector<OomDump> dumps_of(const Lines& lines, OomLogLimits limits = {}) {
  OomLogParser parser(limits);
  for (const std::string& text : lines) parser.feed({.time = std::nullopt, .text = text});
  return parser.finish();
}

// "T1|text": a line with its caller.
std::vector<OomDump> dumps_by_caller(const Lines& lines) {
  OomLogParser parser;
  for (const std::string& line : lines) {
    std::size_t bar = line.find('|');
    std::string_view whole = line;
    parser.feed({.time = std::nullopt, .text = whole.substr(bar + 1), .caller = whole.substr(0, bar)});
  }
  return parser.finish();
}

std::string kill_line(int tid, const std::string& comm = "a") {
  return "Memory cgroup out of memory: Killed process " + std::to_string(tid) + " (" + comm +
         ") total-vm:40kB, anon-rss:30kB, file-rss:20kB, shmem-rss:10kB, UID:0 pgtables:44kB oom_score_adj:0";
}
std::string reason_line(int pid, const std::string& path = "/a", const std::string& comm = "a") {
  return "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=" + path +
         ",task_memcg=" + path + ",task=" + comm + ",pid=" + std::to_string(pid) + ",uid=0";
}
std::string invoked_line(const std::string& comm = "a") {
  return comm + " invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
}

// ---- whole reports

const Lines& report_3_10() {
  static const Lines lines = {
      "sh invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0",
      "sh cpuset=/ mems_allowed=0",
      "CPU: 0 PID: 2687 Comm: sh Tainted: G           OE  ------------   3.10.0-327.36.3.el7.x86_64 #1",
      "Call Trace:",
      " [<ffffffff81636431>] dump_stack+0x19/0x1b",
      "Task in /foo/bar killed as a result of limit of /foo",
      "memory: usage 4096kB, limit 4096kB, failcnt 8",
      "memory+swap: usage 4100kB, limit 9007199254740991kB, failcnt 0",
      "kmem: usage 0kB, limit 9007199254740991kB, failcnt 0",
      "Memory cgroup stats for /foo: cache:0KB rss:4KB rss_huge:0KB mapped_file:0KB swap:0KB "
      "inactive_anon:0KB",
      "Memory cgroup stats for /foo/bar: cache:0KB rss:4092KB rss_huge:0KB mapped_file:0KB swap:0KB",
      "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
      "[ 2687]     0  2687    28281      347      12        0             0 sh",
      "[ 2702]     0  2702    28281       50       7        0             0 sh",
      "Memory cgroup out of memory: Kill process 2687 (sh) score 0 or sacrifice child",
      "Killed process 2702 (sh) total-vm:113124kB, anon-rss:200kB, file-rss:0kB",
      "Kill process 2703 (vforked) sharing same memory",
  };
  return lines;
}

TEST(OomLogParser, reads_a_report_of_3_10) {
  auto dumps = dumps_of(report_3_10());
  ASSERT_EQ(dumps.size(), 1u);
  const OomDump& d = dumps[0];
  EXPECT_EQ(d.invoked->trigger_comm, "sh");
  EXPECT_EQ(d.trigger_tid, 2687u);
  EXPECT_EQ(d.scope(), OomScope::memcg);
  EXPECT_EQ(d.limit_cgroup(), "/foo");
  EXPECT_EQ(d.memcg_task->task_memcg, "/foo/bar");
  EXPECT_EQ(d.usage_of(MemcgCounter::memory)->limit, MiB(4));
  EXPECT_FALSE(d.usage_of(MemcgCounter::memory_swap)->limit);
  EXPECT_EQ(d.usage_of(MemcgCounter::swap), nullptr);
  ASSERT_EQ(d.stats.size(), 2u);
  EXPECT_EQ(d.stats[1].cgroup, "/foo/bar");
  EXPECT_EQ(d.stats[1].stats[1].value, 4092u * 1024);
  ASSERT_EQ(d.tasks.size(), 2u);
  EXPECT_EQ(d.tasks[1].pgtables_pages, 7u);
  EXPECT_EQ(d.chosen->tid, 2687u);
  ASSERT_EQ(d.victims.size(), 1u);
  EXPECT_EQ(d.victims[0].tid, 2702u);
  EXPECT_FALSE(d.victims[0].shmem_rss || d.victims[0].pgtables);
  ASSERT_EQ(d.also_killed.size(), 1u);
  EXPECT_EQ(d.also_killed[0].tid, 2703u);
  EXPECT_FALSE(d.constraint || d.group_kill || d.interleaved);
}

TEST(OomLogParser, sums_only_the_columns_that_the_table_has) {
  auto dumps = dumps_of({
      "httpd invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0, oom_score_adj=0",
      "[ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name",
      "[ 1905]     0  1905     3236     1714   0     -17         -1000 sshd",
      "[ 2000]   100  2000   900000   700000   1       0             0 java",
      "Out of memory: Kill process 2000 (java) score 850 or sacrifice child",
      "Killed process 2000, UID 100, (java) total-vm:3600000kB, anon-rss:2799000kB, file-rss:1000kB",
  });
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].counts.rss_pages, 701714u);
  EXPECT_EQ(dumps[0].counts.swap_pages, std::nullopt)
      << "without swapents nobody knows, and 0 would be a claim";
}

TEST(OomLogParser, reads_a_machine_wide_report_of_4_4) {
  auto dumps = dumps_of({
      "apt invoked oom-killer: gfp_mask=0x24201ca, order=0, oom_score_adj=0",
      "apt cpuset=/ mems_allowed=0",
      "CPU: 2 PID: 77 Comm: apt Not tainted 4.4.0-210-generic #242-Ubuntu",
      "Mem-Info:",
      "active_anon:1813257 inactive_anon:37301 isolated_anon:0",
      "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
      "[ 1905]     0  1905     3236     1714      10       4        0         -1000 systemd-journal",
      "[ 2000]   100  2000   900000   700000     900       5       12             0 java",
      "Out of memory: Kill process 2000 (java) score 850 or sacrifice child",
      "Killed process 2000 (java) total-vm:3600000kB, anon-rss:2799000kB, file-rss:1000kB",
  });
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].chosen->scope, OomScopeWord::machine);
  EXPECT_EQ(dumps[0].scope(), std::nullopt);  // cpuset and mempolicy say "Out of memory" too
  EXPECT_EQ(dumps[0].limit_cgroup(), std::nullopt);
  EXPECT_EQ(dumps[0].tasks[1].pgtables_pages, 905u);
  EXPECT_EQ(dumps[0].victims[0].tid, 2000u);
}

TEST(OomLogParser, reads_a_group_kill_of_4_19) {
  auto dumps = dumps_of({
      "a.out invoked oom-killer: gfp_mask=0x600040(GFP_NOFS), nodemask=(null), order=0, oom_score_adj=0",
      "CPU: 1 PID: 9185 Comm: a.out Not tainted 4.19.0 #20",
      "Task in /test1 killed as a result of limit of /test1",
      "memory: usage 51200kB, limit 51200kB, failcnt 125",
      "memory+swap: usage 0kB, limit 9007199254740988kB, failcnt 0",
      "kmem: usage 0kB, limit 9007199254740988kB, failcnt 0",
      "Memory cgroup stats for /test1: cache:0KB rss:49484KB rss_huge:30720KB shmem:0KB",
      "Tasks state (memory values in pages):",
      "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
      "[   9188]     0  9188     3614     2707    53248        0             0 a.out",
      "Memory cgroup out of memory: Kill process 9188 (a.out) score 998 or sacrifice child",
      "Killed process 9188 (a.out) total-vm:14456kB, anon-rss:10324kB, file-rss:504kB, shmem-rss:0kB",
      "Tasks in /test1 are going to be killed due to memory.oom.group set",
      "oom_reaper: reaped process 9188 (a.out), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
      "Killed process 9188 (a.out) total-vm:14456kB, anon-rss:10324kB, file-rss:504kB, shmem-rss:0kB",
      "Killed process 9182 (a.out) total-vm:14456kB, anon-rss:76kB, file-rss:588kB, shmem-rss:0kB",
      "oom_reaper: reaped process 9182 (a.out), now anon-rss:4kB, file-rss:0kB, shmem-rss:0kB",
  });
  ASSERT_EQ(dumps.size(), 1u);
  const OomDump& d = dumps[0];
  EXPECT_EQ(d.invoked->nodemask, "(null)");
  EXPECT_EQ(d.group_kill->cgroup, "/test1");
  ASSERT_EQ(d.victims.size(), 2u);  // the first is printed twice
  EXPECT_EQ(d.victims[1].tid, 9182u);
  ASSERT_EQ(d.reaped.size(), 2u);
  EXPECT_EQ(d.reaped[1].anon_rss, KiB(4));
}

TEST(OomLogParser, reads_the_memory_cgroup_that_5_0_calls_no_constraint) {
  auto dumps = dumps_of({
      invoked_line(),
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/t,task_memcg=/"
      "t,task=a,"
      "pid=9,uid=0",
      "Killed process 9 (a) total-vm:14456kB, anon-rss:10324kB, file-rss:504kB, shmem-rss:0kB",
  });
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].scope(), OomScope::memcg);
  EXPECT_EQ(dumps[0].limit_cgroup(), "/t");
}

TEST(OomLogParser, corrects_the_page_tables_of_5_4_by_the_table) {
  auto dumps = dumps_of({
      invoked_line(),
      "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
      "[      9]     0     9 90000000     2707   159744        0             0 a",
      reason_line(9),
      "Memory cgroup out of memory: Killed process 9 (a) total-vm:360000000kB, anon-rss:10324kB, "
      "file-rss:504kB, "
      "shmem-rss:0kB, UID:0 pgtables:159744kB oom_score_adj:0",
  });
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].victims[0].pgtables, Bytes{159744});
}

const Lines& report_6_18() {
  static const Lines lines = {
      "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
      "CPU: 3 UID: 0 PID: 4515 Comm: python3 Not tainted 6.18.44 #1 PREEMPT",
      "Call Trace:",
      " <TASK>",
      " dump_stack_lvl+0x5d/0x80",
      " </TASK>",
      "memory: usage 51200kB, limit 51200kB, failcnt 0",
      "memory+swap: usage 51200kB, limit 51200kB, failcnt 0",
      "kmem: usage 260kB, limit 9007199254740988kB, failcnt 0",
      "Memory cgroup stats for /kmsg_probe:",
      "cache 135168",
      "rss 52027392",
      "workingset_refault_file 3253",
      "Tasks state (memory values in pages):",
      "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
      "oom_score_adj name",
      "[   4515]     0  4515    15192    13290    12672      618         0   159744        0             0 "
      "python3",
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/"
      "kmsg_probe,task_memcg="
      "/kmsg_probe,task=python3,pid=4515,uid=0",
      "Memory cgroup out of memory: Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:2472kB, shmem-rss:0kB, UID:0 pgtables:156kB oom_score_adj:0",
  };
  return lines;
}

TEST(OomLogParser, reads_a_report_of_6_18) {
  auto dumps = dumps_of(report_6_18());
  ASSERT_EQ(dumps.size(), 1u);
  const OomDump& d = dumps[0];
  EXPECT_EQ(d.trigger_tid, 4515u);
  EXPECT_EQ(d.scope(), OomScope::memcg);
  EXPECT_EQ(d.limit_cgroup(), "/kmsg_probe");
  ASSERT_EQ(d.usage.size(), 3u);
  EXPECT_EQ(d.usage_of(MemcgCounter::memory)->usage, MiB(50));
  ASSERT_EQ(d.stats.size(), 1u);
  ASSERT_EQ(d.stats[0].stats.size(), 3u);
  EXPECT_EQ(d.stats[0].stats[1].key, "rss");
  ASSERT_EQ(d.tasks.size(), 1u);
  EXPECT_EQ(d.tasks[0].rss_anon_pages, 12672u);
  ASSERT_EQ(d.victims.size(), 1u);
  EXPECT_EQ(d.victims[0].pgtables, Bytes{159744});
}

TEST(OomLogParser, tells_the_scopes_apart) {
  auto scope = [](const std::string& constraint, const std::string& order = "0") {
    auto dumps =
        dumps_of({"a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=" + order + ", oom_score_adj=0",
                  "oom-kill:constraint=" + constraint +
                      ",nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=a,pid=1,uid=0"});
    return dumps.at(0).scope();
  };
  EXPECT_EQ(scope("CONSTRAINT_NONE"), OomScope::global);
  EXPECT_EQ(scope("CONSTRAINT_CPUSET"), OomScope::cpuset);
  EXPECT_EQ(scope("CONSTRAINT_MEMORY_POLICY"), OomScope::mempolicy);
  EXPECT_EQ(scope("CONSTRAINT_NONE", "-1"), OomScope::sysrq);
}

// ---- incomplete reports

TEST(OomLogParser, keeps_the_victims_of_decisions_whose_reports_were_rate_limited) {
  auto dumps = dumps_of({kill_line(1), kill_line(2), kill_line(3)});
  ASSERT_EQ(dumps.size(), 3u);
  for (const OomDump& d : dumps) {
    EXPECT_EQ(d.victims.size(), 1u);
    EXPECT_EQ(d.scope(), OomScope::memcg);
    EXPECT_FALSE(d.invoked || d.constraint);
    EXPECT_TRUE(d.usage.empty());
  }
}

TEST(OomLogParser, does_not_give_a_rate_limited_victim_to_the_report_before_it) {
  auto dumps = dumps_of({invoked_line(), reason_line(1), kill_line(1), kill_line(2)});
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_FALSE(dumps[1].invoked);
  dumps = dumps_of({invoked_line(), reason_line(1), kill_line(2)});  // the victim's own line was lost
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_TRUE(dumps[0].victims.empty());
}

TEST(OomLogParser, does_not_give_a_headless_report_to_the_kill_before_it) {
  Lines lines = {invoked_line(), reason_line(1, "/old"), kill_line(1)};
  lines.insert(lines.end(), report_6_18().begin() + 6, report_6_18().end());
  auto dumps = dumps_of(lines);
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].limit_cgroup(), "/old");
  EXPECT_TRUE(dumps[0].usage.empty());
  EXPECT_EQ(dumps[1].limit_cgroup(), "/kmsg_probe");
  EXPECT_EQ(dumps[1].usage.size(), 3u);
}

TEST(OomLogParser, keeps_a_victim_whose_main_thread_had_left) {
  auto dumps = dumps_of({
      invoked_line(),
      "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
      "[      9]     0     7     3614     2707    53248        0             0 a",
      reason_line(7),
      kill_line(9),
  });
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].constraint->pid, 7u);
  EXPECT_EQ(dumps[0].victims[0].tid, 9u);
}

TEST(OomLogParser, loses_only_what_is_missing_of_a_report_without_its_head) {
  for (std::size_t from = 1; from < report_6_18().size(); ++from) {
    Lines rest(report_6_18().begin() + static_cast<std::ptrdiff_t>(from), report_6_18().end());
    auto dumps = dumps_of(rest);
    ASSERT_EQ(dumps.size(), 1u) << from;
    EXPECT_FALSE(dumps[0].invoked);
    EXPECT_EQ(dumps[0].victims.size(), 1u);
    EXPECT_EQ(dumps[0].constraint.has_value(), from <= 16) << from;
    EXPECT_EQ(dumps[0].tasks.size(), from <= 14 ? 1u : 0u) << from;
    EXPECT_EQ(dumps[0].usage_of(MemcgCounter::memory) != nullptr, from <= 6) << from;
  }
}

TEST(OomLogParser, loses_only_the_line_that_is_missing) {
  for (std::size_t gone = 0; gone < report_6_18().size(); ++gone) {
    Lines lines = report_6_18();
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(gone));
    auto dumps = dumps_of(lines);
    ASSERT_EQ(dumps.size(), 1u) << gone;
    EXPECT_EQ(dumps[0].invoked.has_value(), gone != 0);
    EXPECT_EQ(dumps[0].usage.size(), gone >= 6 && gone <= 8 ? 2u : 3u);
    EXPECT_EQ(dumps[0].tasks.size(), gone == 14 || gone == 15 ? 0u : 1u) << gone;
    EXPECT_EQ(dumps[0].victims.size(), gone == 17 ? 0u : 1u);
  }
}

TEST(OomLogParser, survives_a_report_cut_at_every_byte) {
  for (const Lines& report : {report_3_10(), report_6_18()}) {
    for (std::size_t last = 0; last < report.size(); ++last) {
      for (std::size_t n = 0; n < report[last].size(); ++n) {
        OomLogParser parser;
        for (std::size_t i = 0; i < last; ++i) parser.feed({.time = std::nullopt, .text = report[i]});
        parser.feed({.time = std::nullopt, .text = std::string_view(report[last]).substr(0, n), .cut = true});
        auto dumps = parser.finish();
        ASSERT_LE(dumps.size(), 1u);
        for (const OomDump& d : dumps)
          for (const OomVictimLine& v : d.victims) EXPECT_TRUE(v.tid == 2702 || v.tid == 4515) << v.tid;
      }
    }
  }
}

TEST(OomLogParser, keeps_statistics_and_rows_apart_from_other_lines) {
  Lines lines = report_6_18();
  lines.insert(lines.begin() + 11, "eth0: link up");
  lines.insert(lines.begin() + 16, "[drm] something else");
  lines.push_back("count 5");
  auto dumps = dumps_of(lines);
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].stats[0].stats.size(), 3u);
  EXPECT_EQ(dumps[0].tasks.size(), 1u);
}

// ---- several reports at once

TEST(OomLogParser, separates_interleaved_reports_by_their_callers) {
  auto dumps = dumps_by_caller({
      "T1|" + invoked_line("one"),
      "T2|" + invoked_line("two"),
      "T2|CPU: 1 PID: 2 Comm: two Not tainted",
      "T1|CPU: 0 PID: 1 Comm: one Not tainted",
      "T1|memory: usage 100kB, limit 100kB, failcnt 1",
      "T2|memory: usage 200kB, limit 200kB, failcnt 2",
      "T2|Memory cgroup stats for /two:",
      "T1|Memory cgroup stats for /one:",
      "T2|anon 2",
      "T1|anon 1",
      "T1|[  pid  ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
      "T2|[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
      "T1|[     11]     0    11     3614     2707       53        0             0 one",
      "T2|[     22]     0    22     3614     2707    53248        0             0 two",
      "T2|" + reason_line(22, "/two", "two"),
      "T1|" + reason_line(11, "/one", "one"),
      "T1|" + kill_line(11, "one"),
      "T2|" + kill_line(22, "two"),
      "T54|oom_reaper: reaped process 11 (one), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
  });
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].trigger_tid, 1u);
  EXPECT_EQ(dumps[1].trigger_tid, 2u);
  EXPECT_EQ(dumps[0].usage_of(MemcgCounter::memory)->usage, KiB(100));
  EXPECT_EQ(dumps[1].usage_of(MemcgCounter::memory)->usage, KiB(200));
  EXPECT_EQ(dumps[0].stats.at(0).stats.at(0).value, 1u);
  EXPECT_EQ(dumps[0].tasks.at(0).pgtables_pages, 53u);
  EXPECT_EQ(dumps[1].tasks.at(0).pgtables, Bytes{53248});
  EXPECT_EQ(dumps[0].limit_cgroup(), "/one");
  EXPECT_EQ(dumps[0].victims.at(0).tid, 11u);
  EXPECT_EQ(dumps[1].victims.at(0).tid, 22u);
  EXPECT_EQ(dumps[0].reaped.size(), 1u);
  EXPECT_TRUE(dumps[1].reaped.empty());
  EXPECT_FALSE(dumps[0].interleaved || dumps[1].interleaved);
}

TEST(OomLogParser, matches_interleaved_reports_without_callers_by_their_tables) {
  auto dumps = dumps_of({
      invoked_line("one"),
      "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
      "[   11]     0    11     3614     2707       53        0             0 one",
      invoked_line("two"),
      "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
      "[   22]     0    22     3614     2707       53        0             0 two",
      "Memory cgroup out of memory: Kill process 11 (one) score 9 or sacrifice child",
      "Memory cgroup out of memory: Kill process 22 (two) score 9 or sacrifice child",
      "Killed process 22 (two) total-vm:4kB, anon-rss:3kB, file-rss:2kB",
      "Killed process 11 (one) total-vm:4kB, anon-rss:3kB, file-rss:2kB",
  });
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].invoked->trigger_comm, "one");
  EXPECT_EQ(dumps[0].victims.at(0).tid, 11u);
  EXPECT_EQ(dumps[1].victims.at(0).tid, 22u);
  EXPECT_TRUE(dumps[0].interleaved && dumps[1].interleaved);
}

TEST(OomLogParser, lets_a_victim_stand_alone_that_two_reports_could_own) {
  auto dumps = dumps_of({
      invoked_line("one"),
      invoked_line("two"),
      "Killed process 11 (one) total-vm:4kB, anon-rss:3kB, file-rss:2kB",
  });
  ASSERT_EQ(dumps.size(), 3u);
  EXPECT_TRUE(dumps[0].victims.empty() && dumps[1].victims.empty());
  EXPECT_EQ(dumps[2].victims.size(), 1u);
}

TEST(OomLogParser, does_not_mix_a_cut_report_with_the_next) {
  Lines lines(report_6_18().begin(), report_6_18().begin() + 12);
  for (const std::string& line : report_3_10()) lines.push_back(line);
  auto dumps = dumps_of(lines);
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_TRUE(dumps[0].victims.empty());
  EXPECT_EQ(dumps[1].victims.at(0).tid, 2702u);
  EXPECT_EQ(dumps[1].limit_cgroup(), "/foo");
  EXPECT_FALSE(dumps[1].interleaved);
}

// ---- lines in pieces

TEST(OomLogParser, puts_a_line_together_that_the_log_split) {
  std::string whole = reason_line(9, "/a");
  std::size_t first = std::string_view("oom-kill:constraint=").size();  // less cannot be told
  for (std::size_t at = first; at + 1 < whole.size(); ++at) {
    OomLogParser parser;
    parser.feed({.time = std::nullopt, .text = invoked_line()});
    parser.feed({.time = std::nullopt, .text = std::string_view(whole).substr(0, at)});
    parser.feed({.time = std::nullopt, .text = std::string_view(whole).substr(at), .continuation = true});
    parser.feed({.time = std::nullopt, .text = kill_line(9)});
    auto dumps = parser.finish();
    ASSERT_EQ(dumps.size(), 1u);
    EXPECT_EQ(dumps[0].limit_cgroup(), "/a") << at;
    EXPECT_EQ(dumps[0].victims.size(), 1u);
  }
}

TEST(OomLogParser, keeps_the_pieces_of_two_callers_apart) {
  auto dumps = dumps_by_caller({"T1|Tasks in /a", "T2|Tasks in /b",
                                "T1| are going to be killed due to memory.oom.group set",
                                "T2| are going to be killed due to memory.oom.group set"});
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].group_kill->cgroup, "/a");
  EXPECT_EQ(dumps[1].group_kill->cgroup, "/b");
}

TEST(OomLogParser, gives_up_a_line_whose_rest_never_comes) {
  auto dumps =
      dumps_of({invoked_line(), "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpus", kill_line(9)});
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].constraint->scope, OomConstraintScope::memcg);
  EXPECT_FALSE(dumps[0].constraint->pid);
  EXPECT_EQ(dumps[0].victims.at(0).tid, 9u);
}

// ---- when a dump is handed out

TEST(OomLogParser, hands_a_dump_out_once_when_it_has_settled) {
  OomLogParser parser;
  parser.feed({.time = seconds(10), .text = invoked_line()});
  parser.feed({.time = seconds(10) + milliseconds(5), .text = kill_line(9)});
  EXPECT_TRUE(parser.take_finished().empty());
  EXPECT_TRUE(parser.take_finished(seconds(12)).empty());
  auto dumps = parser.take_finished(seconds(12) + milliseconds(6));
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].time.first, seconds(10));
  EXPECT_EQ(dumps[0].time.kill, seconds(10) + milliseconds(5));
  EXPECT_TRUE(parser.finish().empty());
}

TEST(OomLogParser, hands_out_a_dump_that_names_its_victim_to_who_cannot_wait) {
  OomLogParser parser;
  parser.feed({.time = seconds(10), .text = invoked_line(), .caller = "T1"});
  parser.feed({.time = seconds(10), .text = kill_line(9), .caller = "T1"});
  parser.feed({.time = seconds(10), .text = invoked_line(), .caller = "T2"});
  EXPECT_TRUE(parser.take_named(seconds(10), {8}).empty());
  auto named = parser.take_named(seconds(10), {9});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].victims.at(0).tid, 9u);
  parser.feed({.time = seconds(10), .text = kill_line(8), .caller = "T2"});
  auto rest = parser.finish();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_TRUE(rest[0].invoked) << "the other one was begun before, and is whole";
}

TEST(OomLogParser, waits_longer_for_the_victim_of_a_report_that_has_begun) {
  OomLogParser parser({.settle = milliseconds(50), .unfinished = seconds(2)});
  parser.feed({.time = seconds(10), .text = invoked_line()});
  EXPECT_TRUE(parser.take_finished(seconds(12)).empty());
  parser.feed({.time = seconds(12), .text = kill_line(9)});
  auto dumps = parser.take_finished(seconds(12) + milliseconds(51));
  ASSERT_EQ(dumps.size(), 1u) << "then it is settled as any other";
  EXPECT_TRUE(dumps[0].invoked);
  ASSERT_EQ(dumps[0].victims.size(), 1u);
  EXPECT_EQ(dumps[0].victims[0].tid, 9u);
}

TEST(OomLogParser, does_not_wait_for_ever_for_a_victim) {
  OomLogParser parser({.settle = milliseconds(50), .unfinished = seconds(2)});
  parser.feed({.time = seconds(10), .text = invoked_line()});
  auto dumps = parser.take_finished(seconds(12) + milliseconds(1));
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_TRUE(dumps[0].victims.empty());
}

TEST(OomLogParser, ends_a_group_when_it_has_settled) {
  OomLogParser parser;
  parser.feed({.time = seconds(10), .text = kill_line(1)});
  parser.feed(
      {.time = seconds(10), .text = "Tasks in /a are going to be killed due to memory.oom.group set"});
  parser.feed({.time = seconds(10), .text = kill_line(2)});
  parser.feed({.time = seconds(20), .text = kill_line(3)});
  auto dumps = parser.finish();
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].victims.size(), 2u);
}

// A report of a group kill in /a for the limit of `limit`, up to its first victim: of 1, 2 and 3, where no
// kill may take 3.
OomLogParser parser_of_a_group_kill(const std::string& limit) {
  OomLogParser parser({.settle = milliseconds(300), .unfinished = seconds(2)});
  for (const std::string& text :
       {invoked_line(), "[ pid ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"s,
        "[   1]     0     1     3614     2707    53248        0             0 a"s,
        "[   2]     0     2     3614     2707    53248        0             0 a"s,
        "[   3]     0     3     3614     2707    53248        0         -1000 a"s,
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=" + limit +
            ",task_memcg=/a,task=a,pid=1,uid=0",
        kill_line(1), "Tasks in /a are going to be killed due to memory.oom.group set"s})
    parser.feed({.time = seconds(10), .text = text});
  return parser;
}

TEST(OomLogParser, waits_for_those_of_a_group_that_are_not_named_yet) {
  OomLogParser parser = parser_of_a_group_kill("/a");
  EXPECT_TRUE(parser.take_finished(seconds(11)).empty());
  parser.feed({.time = seconds(11), .text = kill_line(2)});
  EXPECT_TRUE(parser.take_finished(seconds(11) + milliseconds(300)).empty());
  auto dumps = parser.take_finished(seconds(11) + milliseconds(301));
  ASSERT_EQ(dumps.size(), 1u) << "all that can be killed are named: it settles as any other";
  EXPECT_EQ(dumps[0].victims.size(), 2u);
}

TEST(OomLogParser, does_not_wait_for_ever_for_the_rest_of_a_group) {
  OomLogParser parser = parser_of_a_group_kill("/a");
  EXPECT_EQ(parser.take_finished(seconds(12) + milliseconds(1)).size(), 1u);
}

TEST(OomLogParser, does_not_take_all_below_a_limit_for_the_group_of_one_cgroup) {
  OomLogParser parser = parser_of_a_group_kill("/");
  EXPECT_EQ(parser.take_finished(seconds(10) + milliseconds(301)).size(), 1u);
}

TEST(OomLogParser, yields_each_fact_with_its_line) {
  OomLogParser parser;
  std::size_t facts = 0;
  for (const std::string& text : report_6_18())
    facts += parser.feed({.time = std::nullopt, .text = text}).size();
  EXPECT_EQ(facts, 13u);
}

TEST(OomLogParser, ignores_what_user_space_wrote) {
  EXPECT_FALSE(line_of(*parse_kmsg_record("11,1,2,-;" + kill_line(1) + "\n")));
  auto record = parse_kmsg_record("3,1,2,-,caller=T5;" + kill_line(1) + "\n");
  auto line = line_of(*record);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->caller, "T5");
  EXPECT_EQ(line->time, std::chrono::microseconds(2));
}

// ---- bounds

TEST(OomLogParser, keeps_no_more_than_its_limits_and_counts_the_rest) {
  OomLogLimits limits{.open_dumps = 2, .rows = 3, .victims = 2, .stats_blocks = 1, .stats = 2};
  Lines lines = {invoked_line(), "Memory cgroup stats for /a:", "anon 1", "file 2", "sock 3"};
  lines.push_back("Memory cgroup stats for /a/b:");
  lines.push_back("anon 9");
  lines.push_back("[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name");
  for (int i = 0; i < 5; ++i)
    lines.push_back("[   11]     0    11     3614     2707       53        0             0 x");
  lines.push_back(kill_line(1));
  lines.push_back("Tasks in /a are going to be killed due to memory.oom.group set");
  for (int i = 2; i < 6; ++i) lines.push_back(kill_line(i));
  auto dumps = dumps_of(lines, limits);
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].stats.size(), 1u);
  EXPECT_EQ(dumps[0].stats[0].stats.size(), 2u);
  EXPECT_EQ(dumps[0].tasks.size(), 3u);
  EXPECT_EQ(dumps[0].victims.size(), 2u);
  EXPECT_EQ(dumps[0].dropped, 1u + 1u + 2u + 3u);
}

TEST(OomLogParser, finishes_the_oldest_dump_when_too_many_are_open) {
  OomLogParser parser(OomLogLimits{.open_dumps = 2});
  for (int i = 1; i <= 5; ++i) parser.feed({.time = std::nullopt, .text = kill_line(i)});
  auto early = parser.take_finished();
  ASSERT_EQ(early.size(), 3u);
  EXPECT_EQ(early[0].victims.at(0).tid, 1u);
  EXPECT_EQ(parser.finish().size(), 2u);
}

TEST(OomLogParser, loses_the_oldest_dump_that_nobody_took_and_counts_it) {
  OomLogParser parser(OomLogLimits{.open_dumps = 1, .finished_dumps = 2});
  for (int i = 1; i <= 5; ++i) parser.feed({.time = std::nullopt, .text = kill_line(i)});
  EXPECT_EQ(parser.lost_dumps(), 2u);
  EXPECT_EQ(parser.take_finished().at(0).victims.at(0).tid, 3u);
}

TEST(OomLogParser, cuts_a_line_that_is_too_long) {
  OomLogParser parser(OomLogLimits{.line_bytes = 60});
  parser.feed({.time = std::nullopt, .text = kill_line(1)});
  auto dumps = parser.finish();
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].victims.at(0).tid, 1u);
  EXPECT_FALSE(dumps[0].victims[0].anon_rss);
}

TEST(OomLogParser, each_reason_alone_is_a_decision) {
  auto dumps = dumps_of({reason_line(7), reason_line(8, "/b"), reason_line(8, "/b")});
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].constraint->pid, 7u);
  EXPECT_EQ(dumps[1].constraint->pid, 8u);
}

TEST(OomLogParser, survives_any_order_of_lines) {
  std::uint32_t state = 1;  // a fixed sequence
  auto next = [&] { return state = state * 1664525u + 1013904223u, state >> 8; };
  for (int round = 0; round < 200; ++round) {
    OomLogParser parser(OomLogLimits{.open_dumps = 3, .rows = 4});
    for (int i = 0; i < 100; ++i) {
      const Lines& report = next() % 2 ? report_3_10() : report_6_18();
      std::string_view text = report[next() % report.size()];
      if (next() % 4 == 0) text = text.substr(next() % (text.size() + 1));
      std::string caller = next() % 2 ? "T1" : "";
      parser.feed({.time = seconds(i / 10),
                   .text = text,
                   .caller = caller,
                   .continuation = next() % 8 == 0,
                   .cut = next() % 8 == 0});
    }
    for (const OomDump& d : parser.finish())
      for (const OomVictimLine& v : d.victims) EXPECT_TRUE(v.tid == 2702 || v.tid == 4515);
  }
}

}  // namespace
}  // namespace oomcast
