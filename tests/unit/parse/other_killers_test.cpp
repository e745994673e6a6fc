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
      {"killing process 27541 \"bash\" with signal 15: badness 550, VmRSS 7609 MiB", "earlyoom"},
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
    ASSERT_EQ(reports.others().said().size(), 1u) << c.line;
    EXPECT_EQ(reports.others().said()[0].killer->name, c.killer) << c.line;
    EXPECT_NE(describe(reports.others().said()[0]).find("Next: "), std::string::npos);
  }
}

TEST(OtherKillers, an_exit_code_of_137_may_be_a_kill_of_the_kernels_and_no_more) {
  OomReports reports;
  reports.line("      Exit Code:    137");
  reports.finish();
  ASSERT_EQ(reports.others().said().size(), 1u);
  EXPECT_NE(describe(reports.others().said()[0]).find("may be a kill by the kernel"), std::string::npos);
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
  ASSERT_EQ(reports.others().said().size(), 1u);
  EXPECT_NE(describe(reports.others().said()[0]).find("may be a kill by the kernel"), std::string::npos);
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
  const auto& kills = reports.others().kills();
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

std::vector<OtherKill> kills_in(const std::vector<std::string>& lines) {
  setenv("TZ", "UTC", 1);
  tzset();
  OomReports reports;
  for (const std::string& line : lines) reports.line(line);
  EXPECT_TRUE(reports.finish().empty());
  return {reports.others().kills().begin(), reports.others().kills().end()};
}

TEST(OtherKillers, a_cgroup_that_they_name_is_a_kill_of_theirs) {
  auto kills = kills_in(
      {"2025-11-21T05:24:41Z a1 systemd-oomd[581]: Killed /user.slice/user-1000.slice/app.slice/a.scope due "
       "to "
       "memory pressure for /user.slice being 86.80% > 50.00% for > 20s with reclaim activity",
       "2025-11-21T06:24:41Z a1 systemd-oomd[581]: Marked /system.slice/b.service for killing due to memory "
       "used "
       "(16492552192) / total (16714227712) and swap used (8217554944) / total (8589930496) being more than "
       "90.00%",
       "user: warning: [2025-11-21T07:20:38Z]: [talos] Sending SIGKILL to cgroup {\"component\": "
       "\"controller-runtime\", \"controller\": \"runtime.OOMController\", \"cgroup\": "
       "\"/sys/fs/cgroup/kubepods/burstable/podc11937f9-989d-48ba-8453-06d2baa9392b\"}",
       "2025-11-21T08:24:41Z a1 oomd[7]: oomd kill: 47.85 38.77 10.59 workload.slice/c.service 7614464 "
       "ruleset:[protect] detectorgroup:[io] killer:kill_by_pressure v2"});
  ASSERT_EQ(kills.size(), 4u);
  EXPECT_EQ(kills[0].cgroup, "/user.slice/user-1000.slice/app.slice/a.scope");
  EXPECT_EQ(kills[0].killer->name, "systemd-oomd");
  EXPECT_EQ(kills[0].pid, 0u);
  EXPECT_EQ(kills[0].signal, "SIGKILL");
  EXPECT_EQ(kills[0].host, "a1");
  EXPECT_EQ(kills[0].wall.value().since_epoch, std::chrono::seconds(1763702681));
  EXPECT_EQ(kills[1].cgroup, "/system.slice/b.service");
  EXPECT_EQ(kills[2].cgroup, "/kubepods/burstable/podc11937f9-989d-48ba-8453-06d2baa9392b");
  EXPECT_EQ(kills[2].killer->name, "Talos");
  EXPECT_EQ(kills[3].cgroup, "/workload.slice/c.service");
  EXPECT_EQ(kills[3].killer->name, "oomd");
}

TEST(OtherKillers, a_dry_run_of_oomd_is_no_kill) {
  EXPECT_TRUE(kills_in({"oomd kill: 47.85 38.77 10.59 workload.slice/c.service 7614464 ruleset:[a] "
                        "detectorgroup:[b] killer:(dry)kill_by_pressure v2"})
                  .empty());
}

TEST(OtherKillers, a_kill_of_systemd_oomd_that_the_manager_logs_too_is_one) {
  const std::string
      own =
          "Nov 21 05:24:41 a1 systemd-oomd[581]: Killed /user.slice/a.scope due to memory used (9) / "
          "total (9) and swap used (9) / total (9) being more than 90.00%",
      manager =
          "Nov 21 05:24:43 a1 systemd[1]: a.scope: systemd-oomd killed 29 process(es) in this "
          "unit.",
      later = "Nov 21 05:25:43 a1 systemd[1]: a.scope: systemd-oomd killed 3 process(es) in this unit.";
  for (const auto& lines : {std::vector{own, manager}, std::vector{manager, own}}) {
    auto kills = kills_in(lines);
    ASSERT_EQ(kills.size(), 1u);
    EXPECT_EQ(kills[0].cgroup, "/user.slice/a.scope");
  }
  auto kills = kills_in({own, manager, later});
  ASSERT_EQ(kills.size(), 2u) << "a minute later it is another";
  EXPECT_EQ(kills[1].unit, "a.scope");
  EXPECT_FALSE(kills[1].cgroup) << "no line has its path";
}

TEST(OtherKillers, nohang_kills_whom_it_chose_lines_before_and_nobody_where_memory_came_back) {
  const std::string chosen = "Nov 21 05:24:41 a1 nohang[7]:   PID: 4515, name: my py, badness: 871";
  auto kills = kills_in({chosen, "Nov 21 05:24:42 a1 nohang[7]:   Sending SIGTERM to the victim",
                         "Nov 21 05:24:42 a1 nohang[7]:   [ OK ] Sending SIGTERM to my py: 1"});
  ASSERT_EQ(kills.size(), 1u) << "its statistics are no kill";
  EXPECT_EQ(kills[0].pid, 4515u);
  EXPECT_EQ(kills[0].comm, "my py");
  EXPECT_EQ(kills[0].signal, "SIGTERM");
  EXPECT_EQ(kills[0].killer->name, "nohang");
  EXPECT_TRUE(kills_in({chosen, "Nov 21 05:24:41 a1 nohang[7]: Thresholds is not exceeded now"}).empty());
}

TEST(OtherKillers, a_sentence_in_a_string_within_a_line_is_one_kill) {
  EXPECT_EQ(kills_in({"[0] app.log: [[1763702681.1, {}], {\"msg\"=>\"sending SIGTERM to process 4516 uid 0 "
                      "\\\"java\\\": oom_score 900, VmRSS 10 MiB\"}]"})
                .size(),
            1u);
}

TEST(OtherKillers, of_more_kills_than_are_kept_the_number_is_known) {
  OomReports reports;
  for (std::size_t i = 0; i < OtherKills::kMost + 3; ++i)
    reports.line("earlyoom: sending SIGTERM to process " + std::to_string(i + 1) +
                 " uid 0 \"a\": badness 9, VmRSS 9");
  reports.finish();
  EXPECT_EQ(reports.others().kills().size(), OtherKills::kMost);
  EXPECT_EQ(reports.others().dropped(), 3u);
  EXPECT_EQ(reports.others().kills().front().pid, 4u);
}

TEST(OtherKillers, have_one_table_for_logs_and_for_the_names_of_live_senders) {
  for (const char* name : {"systemd-oomd", "earlyoom", "nohang", "oomd"})
    EXPECT_EQ(other_killer_named(name)->name, name);
  EXPECT_EQ(other_killer_named("lmkd")->name, "lowmemorykiller");
  EXPECT_FALSE(other_killer_named("bash"));
  EXPECT_FALSE(other_killer_named("")) << "some have no name of their own";
}

TEST(OtherKillers, earlyoom_of_2019_names_victim_and_signal) {
  const std::string line = "killing process 27541 \"bash\" with signal 15: badness 550, VmRSS 7609 MiB";
  auto kill = other_kill_in(line, *other_killer_in(line));
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->pid, 27541u);
  EXPECT_EQ(kill->comm, "bash");
  EXPECT_EQ(kill->signal, "SIGTERM");
}

}  // namespace
}  // namespace oomcast
