#include "model/logged_kill.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

std::vector<Episode> kills_of(const std::vector<std::string>& lines) {
  OomReports reports;
  for (const std::string& line : lines) reports.line("[   13.5] " + line);
  std::vector<Episode> out;
  for (const LoggedOom& oom : reports.finish())
    if (auto kill = logged_kill(oom.dump)) out.push_back(*std::move(kill));
  return out;
}
Episode kill_of(const std::string& line) {
  auto kills = kills_of({line});
  EXPECT_EQ(kills.size(), 1u) << line;
  return kills.empty() ? Episode{} : kills[0];
}

TEST(LoggedKill, of_a_line_alone_is_what_the_line_says) {
  Episode old = kill_of("Out of memory: Kill process 1234 (x y) score 77 or sacrifice child");
  EXPECT_EQ(old.scope, OomScope::global);
  EXPECT_FALSE(old.limit_cgroup);
  ASSERT_EQ(old.victims.size(), 1u);
  EXPECT_EQ(old.victims[0].process.comm, "x y");
  EXPECT_EQ(old.victims[0].anon, std::nullopt);
  EXPECT_FALSE(old.victims[0].logged);
  EXPECT_EQ(kill_of("Out of memory: kill process 1234 (x) score 77 or a child").victims.at(0).tid, 1234u);
  EXPECT_EQ(kill_of("Kill process 5861 (trinity-c10)").victims.at(0).process.comm, "trinity-c10");
  EXPECT_EQ(kill_of("Out of Memory: Killed process 1234 (x).").victims.at(0).process.comm, "x");
  EXPECT_EQ(kill_of("Killed process 12 (x) vsz:8kB, anon-rss:4kB, file-rss:0kB").victims.at(0).total_vm,
            KiB(8));
  Episode reaped =
      kill_of("oom_reaper: reaped process 16949 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB");
  ASSERT_EQ(reaped.victims.size(), 1u);
  EXPECT_EQ(reaped.victims[0].process.comm, "java");
  EXPECT_EQ(reaped.victims[0].anon, std::nullopt) << "what was left is not what it had";
  EXPECT_EQ(kill_of("oom_reaper: reaped process 16949 (java)").victims.at(0).tid, 16949u);
  Episode limit = kill_of("Task in /a/b killed as a result of limit of /a");
  EXPECT_EQ(limit.scope, OomScope::memcg);
  ASSERT_TRUE(limit.limit_cgroup);
  EXPECT_EQ(limit.limit_cgroup->path, "/a");
}

// Of a mail in which the lines of the counters are broken, "swap 0" stands in both hierarchies.
TEST(LoggedKill, knows_the_hierarchy_without_the_line_that_a_mail_program_broke) {
  auto kills =
      kills_of({"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                "Memory cgroup stats for /a:", "cache 0", "rss 100384768", "swap 0", "total_cache 0",
                "total_rss 100384768", "total_swap 0",
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,"
                "task_memcg=/a,task=python3,pid=7,uid=0",
                "Memory cgroup out of memory: Killed process 7 (python3) total-vm:40kB, anon-rss:30kB, "
                "file-rss:20kB, shmem-rss:10kB"});
  ASSERT_EQ(kills.size(), 1u);
  ASSERT_TRUE(kills[0].limit_cgroup);
  EXPECT_EQ(kills[0].limit_cgroup->id.hierarchy, Hierarchy::v1);
}

TEST(LoggedKill, of_a_line_as_people_paste_it_is_the_same) {
  Episode broken = kill_of(
      "Memory cgroup out of memory: Killed process 2269 (python)               total-vm:40kB, anon-rss:30kB, "
      "file-rss:20kB,          shmem-rss:10kB");
  ASSERT_EQ(broken.victims.size(), 1u);
  EXPECT_EQ(broken.victims[0].process.comm, "python");
  EXPECT_EQ(broken.victims[0].anon, KiB(30));
  EXPECT_EQ(kill_of("Out of memory: Kill process 28536 (java) score 673 or sacrifice childSep ").scope,
            OomScope::global);
  Episode found = kill_of(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=aegis,mems_allowed=0,global_oom,"
      "task_memcg=/system.slice/docker-0f.scope,task=java,pid=7134,uid=1000");
  EXPECT_EQ(found.scope, OomScope::global);
  EXPECT_EQ(found.victims.at(0).process.comm, "java");
  Episode commas = kill_of(
      "Out of memory: Killed process 7899 (python) total-vm:26,184,840kB, anon-rss:153,700,88kB, "
      "file-rss:0kB, "
      "shmem-rss:0kB");
  EXPECT_EQ(commas.victims.at(0).anon, std::nullopt);
  auto glued = kills_of(
      {"Killed process 19271 (applet)Out of memory: kill process 12475 (qemu) score 7899 or a childKilled "
       "process 12475 (qemu)"});
  ASSERT_EQ(glued.size(), 2u);
  EXPECT_EQ(glued[0].victims.at(0).process.comm, "applet");
  EXPECT_EQ(glued[0].scope, std::nullopt);
  EXPECT_EQ(glued[1].victims.at(0).process.comm, "qemu");
  EXPECT_EQ(glued[1].scope, OomScope::global);
}

TEST(LoggedKill, of_a_line_that_is_cut_has_what_is_whole) {
  Episode cut = kill_of("Out of memory: Killed process 2737 (dhcpd) total-vm:9448kB, a");
  ASSERT_EQ(cut.victims.size(), 1u);
  EXPECT_EQ(cut.victims[0].process.comm, "dhcpd");
  EXPECT_EQ(cut.victims[0].total_vm, KiB(9448));
  EXPECT_EQ(cut.victims[0].anon, std::nullopt);
}

TEST(LoggedKill, names_the_trigger_also_without_its_number) {
  Episode e = kill_of("python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0");
  ASSERT_TRUE(e.trigger);
  EXPECT_EQ(e.trigger->comm, "python3");
  EXPECT_EQ(e.trigger->id.tgid, 0u);
  EXPECT_TRUE(e.victims.empty());
}

TEST(LoggedKill, tells_a_policy_and_a_cpuset_without_the_first_line_and_with_parts_missing) {
  auto scope = [](const std::string& rest) { return kill_of("oom-kill:constraint=" + rest).scope; };
  const std::string end = ",task=x,pid=77,uid=0";
  EXPECT_EQ(
      scope("CONSTRAINT_MEMORY_POLICY,nodemask=0,cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/" + end),
      OomScope::mempolicy);
  EXPECT_EQ(scope("CONSTRAINT_CPUSET,nodemask=(null),mems_allowed=0,global_oom,task_memcg=/" + end),
            OomScope::cpuset);
  EXPECT_EQ(scope("CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,mems_allowed=0,global_oom" + end),
            OomScope::cpuset);
  Episode no_sets = kill_of("oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a/b" + end);
  ASSERT_TRUE(no_sets.limit_cgroup);
  EXPECT_EQ(no_sets.limit_cgroup->path, "/a");
  EXPECT_EQ(no_sets.victims.at(0).process.comm, "x");
  Episode no_task = kill_of(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a" + end);
  ASSERT_TRUE(no_task.limit_cgroup);
  EXPECT_EQ(no_task.limit_cgroup->path, "/a");
}

TEST(LoggedKill, of_an_oom_without_anybody_to_kill_names_nobody) {
  auto kills = kills_of({"x invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0",
                         "Out of memory and no killable processes..."});
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_TRUE(kills[0].victims.empty());
}

}  // namespace
}  // namespace oomcast
