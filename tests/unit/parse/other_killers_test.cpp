#include "parse/other_killers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "parse/oom_reports.h"

namespace oomcast {
namespace {

struct Case {
  std::string line, killer;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Nov 21 05:24:41 a1 systemd-oomd[581]: Killed /user.slice/a.scope due to memory pressure for "
       "/user.slice being "
       "86.80% > 50.00% for > 20s with reclaim activity",
       "systemd-oomd"},
      {"Nov 21 05:24:41 a1 systemd[1]: a.scope: systemd-oomd killed 29 process(es) in this unit.",
       "systemd-oomd"},
      {"Nov 21 05:24:41 a1 earlyoom[7]: sending SIGTERM to process 4515 uid 1000 \"python3\": badness 871, "
       "VmRSS 11000 MiB",
       "earlyoom"},
      {"Nov 21 05:24:41 a1 nohang[7]:   Sending SIGKILL to the victim", "nohang"},
      {"user: warning: [2026-08-11T17:20:40Z]: [talos] OOM controller triggered {\"controller\": "
       "\"runtime.OOMController\"}",
       "Talos"},
      {"(raylet) node_manager.cc:3040: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
       "Workers crashed",
       "Ray's memory monitor"},
      {"  Warning  Evicted  5m  kubelet  The node was low on resource: memory. Threshold quantity: 100Mi, "
       "available: 80Mi.",
       "kubelet"},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been "
       "OOM Killed.",
       "slurmstepd"},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.", "slurmstepd"},
      {"srun: error: node6156: task 0: Out Of Memory", "srun"},
      {"Nov 21 05:24:41 a1 systemd[1]: a.service: A process of this unit has been killed by the OOM killer.",
       "systemd"},
      {"Nov 21 05:24:41 a1 systemd[1]: a.service: Failed with result 'oom-kill'.", "systemd (result)"},
      {"  Warning  Evicted  5m  kubelet  The node had condition: [MemoryPressure].", "kubelet (admission)"},
      {"      Reason:       OOMKilled", "container runtime"},
      {"            \"OOMKilled\": true,", "container runtime"},
      {"      Exit Code:    137", "exit code 137"},
      {"Terminating due to java.lang.OutOfMemoryError: Java heap space", "Java"},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "GPU"},
      {"Jun 28 14:50:13 ws kernel: NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Out of memory "
       "[NV_ERR_NO_MEMORY]",
       "GPU"},
      {"lowmemorykiller: Killing 'com.example' (4515), adj 900", "lowmemorykiller"}};
  return all;
}

TEST(OtherKillers, are_told_by_their_own_sentence) {
  std::set<std::string> met;
  for (const Case& c : cases()) {
    const OtherKiller* killer = other_killer_in(c.line);
    ASSERT_TRUE(killer) << c.line;
    EXPECT_EQ(killer->name, c.killer) << c.line;
    met.insert(c.killer);
  }
  for (const OtherKiller& killer : other_killers())
    EXPECT_TRUE(met.contains(std::string(killer.name)) || killer.name == "oomd") << killer.name;
}

TEST(OtherKillers, a_sentence_of_the_kernels_is_none_of_theirs) {
  for (const char* line : {"Memory cgroup out of memory: Killed process 7 (a) total-vm:40kB, anon-rss:30kB, "
                           "file-rss:20kB, shmem-rss:10kB",
                           "x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                           "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/"
                           ",mems_allowed=0,global_oom,task_memcg=/,task=a,pid=7,uid=0",
                           "[   4515]     0  4515    15192    12800   139264        0             0 python3"})
    EXPECT_FALSE(other_killer_in(line)) << line;
}

TEST(OtherKillers, each_alone_is_no_kill_of_the_kernels_and_no_line_that_is_not_read) {
  for (const Case& c : cases()) {
    OomReports reports;
    reports.line(c.line);
    EXPECT_TRUE(reports.finish().empty()) << c.line;
    EXPECT_EQ(reports.counts().unread, 0u) << c.line;
    ASSERT_EQ(reports.others().size(), 1u) << c.line;
    EXPECT_EQ(reports.others()[0].killer->name, c.killer) << c.line;
    EXPECT_NE(describe(reports.others()[0]).find("Next: "), std::string::npos);
  }
}

TEST(OtherKillers, an_exit_code_of_137_may_be_a_kill_of_the_kernels_and_no_more) {
  OomReports reports;
  reports.line("      Exit Code:    137");
  reports.finish();
  ASSERT_EQ(reports.others().size(), 1u);
  EXPECT_NE(describe(reports.others()[0]).find("may be a kill by the kernel"), std::string::npos);
}

TEST(OtherKillers, a_number_137_that_is_no_exit_code_is_none) {
  for (const char* line : {"worker: exit 0, took 137 ms", "Exiting after 1370 s", "exited with code 1374",
                           "exit 1 of 137 shards", "[main] exited; queue length was then 137"})
    EXPECT_FALSE(other_killer_in(line)) << line;
  for (const char* line :
       {"exited with code 137", "Main process exited, code=killed: exit status 137.", "exit 137"})
    EXPECT_TRUE(other_killer_in(line)) << line;
}

TEST(OtherKillers, a_result_that_systemd_oomd_leaves_too_is_not_called_the_kernels) {
  OomReports reports;
  reports.line("Nov 21 05:24:41 a1 systemd[1]: a.service: Failed with result 'oom-kill'.");
  reports.finish();
  ASSERT_EQ(reports.others().size(), 1u);
  EXPECT_NE(describe(reports.others()[0]).find("may be a kill by the kernel"), std::string::npos);
}

TEST(OtherKillers, a_process_that_they_name_is_a_kill_of_theirs) {
  setenv("TZ", "UTC", 1);
  tzset();
  OomReports reports;
  reports.line(
      "2025-11-21T05:24:41Z a1 earlyoom[7]: sending SIGKILL to process 4515 uid 1000 \"my \"py\"\": badness "
      "871, "
      "VmRSS 11000 MiB");
  reports.line(
      R"({"_HOSTNAME":"a2","__REALTIME_TIMESTAMP":"1763702681000000","_TRANSPORT":"stdout","MESSAGE":)"
      R"("sending SIGTERM to process 4516 uid 0 \"java\": oom_score 900, VmRSS 10 MiB, cmdline \"java -jar\""})");
  reports.line(
      "Memory on the node (IP: 10.0.0.1) where the task (actor ID: 0d, name=T.train, pid=11362, memory "
      "used=1.25GB) was running was 27.71GB / 28.80GB. Ray killed this worker (ID: 6f)");
  EXPECT_TRUE(reports.finish().empty());
  const auto& kills = reports.other_kills();
  ASSERT_EQ(kills.size(), 3u);
  EXPECT_EQ(kills[0].pid, 4515u);
  EXPECT_EQ(kills[0].comm, "my \"py\"");
  EXPECT_EQ(kills[0].uid, 1000u);
  EXPECT_EQ(kills[0].signal, "SIGKILL");
  EXPECT_EQ(kills[0].host, "a1");
  EXPECT_EQ(kills[0].wall.value().since_epoch, std::chrono::seconds(1763702681));
  EXPECT_EQ(kills[1].comm, "java");
  EXPECT_EQ(kills[1].host, "a2");
  EXPECT_EQ(kills[1].wall.value().since_epoch, std::chrono::seconds(1763702681));
  EXPECT_EQ(kills[2].pid, 11362u);
  EXPECT_EQ(kills[2].comm, "T.train");
}

}  // namespace
}  // namespace oomcast
