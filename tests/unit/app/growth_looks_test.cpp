#include "app/growth_looks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <map>
#include <string>

#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;
using namespace std::chrono_literals;
using Target = LookPlan::Target;

Bytes mib(double n) {
  return {static_cast<std::int64_t>(n * (1 << 20))};
}
Target target(const std::string& path) {
  return {path, std::nullopt};
}

// From `from` on, `rate` MiB/s of a limit of 1 GiB.
void grows(LookPlan& plan, const std::string& path, double from, double to, double rate) {
  for (double t = from; t <= to; t += 0.5)
    plan.on_level(target(path), mib(100 + rate * t), mib(1024), at_s(t));
}

TEST(LookPlan, looks_at_what_has_grown_for_two_seconds_and_by_2_percent_of_its_limit) {
  LookPlan plan;
  grows(plan, "/job", 0, 1.5, 20);
  EXPECT_FALSE(plan.due(at_s(1.5))) << "30 MiB are enough, 1.5 s are not";
  grows(plan, "/job", 2, 2, 20);
  EXPECT_EQ(plan.due(at_s(2)), target("/job"));
  LookPlan slow;
  grows(slow, "/job", 0, 20, 1);
  EXPECT_FALSE(slow.due(at_s(20))) << "20 MiB of 1 GiB";
  grows(slow, "/job", 21, 21, 1);
  EXPECT_EQ(slow.due(at_s(21)), target("/job"));
}

TEST(LookPlan, never_looks_at_what_comes_back) {
  LookPlan plan;
  for (double t = 0; t < 100; t += 0.5)
    plan.on_level(target("/job"), mib(static_cast<int>(t) % 2 ? 100 : 500), mib(1024), at_s(t));
  plan.on_level(target("/job"), mib(100), mib(1024), at_s(100));
  EXPECT_FALSE(plan.due(at_s(100)));
}

TEST(LookPlan, keeps_what_grows_when_cgroups_come_and_go_by_the_thousand) {
  LookPlan plan;
  int made = 0;
  for (double t = 0; t <= 20; t += 0.5) {
    plan.on_level(target("/job"), mib(100 + 2 * t), mib(1024), at_s(t));
    for (int i = 0; i < 1000 && t >= 10; ++i)
      plan.on_level(target("/made-" + std::to_string(made++)), mib(1), mib(64), at_s(t));
  }
  EXPECT_EQ(plan.due(at_s(20)), target("/job"));
}

TEST(LookPlan, keeps_what_grows_when_cgroups_with_paths_of_4_KiB_come_and_go) {
  LookPlan plan;
  int made = 0;
  for (double t = 0; t <= 20; t += 0.5) {
    plan.on_level(target("/job"), mib(100 + 2 * t), mib(1024), at_s(t));
    for (int i = 0; i < 200 && t >= 10; ++i)
      plan.on_level(target("/made-" + std::to_string(made++) + std::string(4000, 'x')), mib(1), mib(64),
                    at_s(t));
  }
  EXPECT_EQ(plan.due(at_s(20)), target("/job"));
}

TEST(LookPlan, takes_the_innermost_cgroup_that_has_most_of_the_growth) {
  LookPlan plan;
  grows(plan, "/pod", 0, 10, 30);
  grows(plan, "/pod/train", 0, 10, 28);
  grows(plan, "/pod/sidecar", 0, 10, 2);
  EXPECT_EQ(plan.due(at_s(10)), target("/pod/train"));
}

TEST(LookPlan, looks_ever_less_often_at_growth_that_goes_on) {
  LookPlan plan;
  std::vector<double> looks;
  for (double t = 0; t < 4000; t += 0.5) {
    plan.on_level(target("/job"), mib(t * 5), mib(65536), at_s(t));
    if (plan.due(at_s(t))) {
      looks.push_back(t);
      plan.looked(target("/job"), at_s(t), at_s(t + 2), 100ms);
    }
  }
  ASSERT_GE(looks.size(), 3u);
  for (std::size_t i = 1; i < looks.size(); ++i)
    EXPECT_GE(looks[i] - looks[i - 1], std::min(300.0, (looks[i - 1] - looks[0]) / 4)) << i;
}

TEST(LookPlan, who_was_just_looked_at_stands_behind_the_others) {
  LookPlan plan;
  std::map<std::string, int> looks;
  for (double t = 0; t < 600; t += 0.5) {
    plan.on_level(target("/tenant"), mib(100 + 40 * t), mib(65536), at_s(t));
    plan.on_level(target("/tenant/in"), mib(100 + 40 * t), mib(65536), at_s(t));
    plan.on_level(target("/job"), mib(100 + 10 * t), mib(65536), at_s(t));
    auto due = plan.due(at_s(t));
    if (!due) continue;
    ++looks[due->cgroup];
    plan.looked(*due, at_s(t), at_s(t + 2), 100ms);
  }
  EXPECT_GE(looks["/job"], 2);
  EXPECT_GE(looks["/tenant/in"], 2);
  EXPECT_EQ(looks["/tenant"], 0);
}

TEST(LookPlan, looks_at_a_surge_at_once) {
  LookPlan plan;
  grows(plan, "/job", 0, 4, 20);
  plan.looked(target("/job"), at_s(4), at_s(6), 10ms);
  grows(plan, "/job", 6.5, 9, 20);
  EXPECT_FALSE(plan.due(at_s(9)));
  for (double t = 9; t < 11; t += 0.5)
    plan.on_level(target("/job"), mib(280 + 60 * (t - 9)), mib(1024), at_s(t));
  EXPECT_TRUE(plan.due(at_s(11)));
}

TEST(LookPlan, takes_two_percent_of_a_cpu_at_most) {
  LookPlan plan;
  double spent = 0;
  for (double t = 0; t < 1000; t += 0.5) {
    plan.on_level(target("/job"), mib(t * 100), mib(1024), at_s(t));
    if (!plan.due(at_s(t))) continue;
    plan.looked(target("/job"), at_s(t), at_s(t + 2), 1500ms);
    spent += 1.5;
  }
  EXPECT_LE(spent, 0.02 * 1000 + 1.5);
  EXPECT_GE(spent, 0.01 * 1000);
}

// It leaves its output open when it is killed, as a look does that the kernel holds.
int be_a_look_that_is_held() {
  if (fork() == 0) {
    bool told = write(STDOUT_FILENO, "x", 1) == 1;
    sleep(told ? 10 : 0);
    _exit(0);
  }
  for (;;) pause();
}

TEST(GrowthLooks, goes_on_without_a_look_that_does_not_end_when_it_is_killed) {
  MachineModel model{MachineConfig{}};
  model.on_cgroup({{Hierarchy::v2, 5}, std::nullopt, "/job"});
  GrowthLooks looks(model, "", {}, be_a_look_that_is_held);
  looks.ask({Hierarchy::v2, 5});
  auto output = looks.advance(at_s(0));
  ASSERT_TRUE(output);
  pollfd wait{*output, POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 20'000), 1);
  ASSERT_TRUE(wait.revents & POLLIN);
  looks.advance(at_s(20));
  EXPECT_EQ(looks.given_up(), 1u);
  looks.advance(at_s(21.9));
  EXPECT_EQ(looks.looking_at(), "/job") << "it may still end";
  looks.advance(at_s(22));
  EXPECT_EQ(looks.looking_at(), "");
  EXPECT_EQ(looks.given_up(), 1u);
  looks.ask({Hierarchy::v2, 5});
  EXPECT_TRUE(looks.advance(at_s(23)));
}

struct Found : testing::Test {
  BlameProcess process(std::uint32_t pid, double grown, std::vector<std::pair<Stack, double>> sites) {
    BlameProcess p;
    p.process.id = {pid, 10 * pid};  // as SetUp() has them
    p.grown_anon = mib(grown);
    for (auto& [stack, bytes] : sites) {
      BlameSite& site = p.sites.emplace_back();
      site.stack = stack;
      site.grown = mib(bytes);
      site.touched = mib(bytes * 2);
    }
    return p;
  }
  BlameReport report(std::vector<BlameProcess> processes) {
    BlameReport r;
    r.window = Seconds(2);
    r.processes = std::move(processes);
    return r;
  }
  std::vector<ProcessRef> process_of(std::uint32_t pid, std::uint64_t start) {
    std::vector<ProcessRef> out(1);
    out[0].id = {pid, start};
    return out;
  }
  void SetUp() override {
    tasks_.note(TaskId{7, 70});
    tasks_.note(TaskId{8, 80});
  }
  Stack python(const std::string& function, std::uint32_t line) {
    return {{Frame::Kind::native, "_start", "/usr/bin/python3", {}},
            {Frame::Kind::python, "main", "/job/train.py", 90},
            {Frame::Kind::python, function, "/job/train.py", line},
            {Frame::Kind::native, "malloc", "/lib/libc.so.6", {}}};
  }
  TaskTable tasks_;
  GrowthFound found_;
};

TEST_F(Found, adds_up_what_the_looks_saw) {
  found_.add(report({process(7, 40, {{python("cache", 41), 30}, {python("load", 9), 10}})}), tasks_, at_s(10),
             at_s(12));
  found_.add(report({process(7, 20, {{python("cache", 41), 20}})}), tasks_, at_s(20), at_s(22));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].code,
            (std::vector<CodePlace>{{"cache", "/job/train.py", 41}, {"main", "/job/train.py", 90}}));
  EXPECT_EQ(told[0].grown, mib(50));
  EXPECT_EQ(told[0].of, mib(60));
  EXPECT_EQ(told[0].watched, Seconds(4));
  EXPECT_EQ(told[0].from, at_s(10));
  EXPECT_EQ(told[0].to, at_s(22));
  EXPECT_EQ(told[1].code[0].function, "load");
}

TEST_F(Found, tells_what_the_looks_lost_beside_what_they_saw) {
  BlameReport first = report({process(7, 40, {{python("cache", 41), 30}})}), second = first;
  first.samples = 60;
  first.lost = {{"faults_ring_full", 10}, {"reader_full", 50}};
  first.watched_share = 0.5;
  second.samples = 20;
  found_.add(first, tasks_, at_s(10), at_s(12));
  found_.add(second, tasks_, at_s(20), at_s(22));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].samples, 80u);
  EXPECT_EQ(told[0].lost, 60u);
  EXPECT_EQ(told[0].faults_watched, 0.75);
}

TEST_F(Found, tells_of_the_processes_that_are_asked_for_alone) {
  found_.add(report({process(7, 40, {{python("cache", 41), 30}}), process(8, 4, {{python("load", 9), 4}})}),
             tasks_, at_s(10), at_s(12));
  EXPECT_EQ(found_.of(process_of(8, 80)).sites.size(), 1u);
  EXPECT_TRUE(found_.of(process_of(7, 71)).sites.empty()) << "another process of that number";
  EXPECT_TRUE(found_.of(process_of(9, 90)).sites.empty());
}

TEST_F(Found, gives_nothing_to_a_process_that_took_over_the_number_meanwhile) {
  BlameProcess p = process(7, 40, {{python("cache", 41), 30}});
  p.process.id.start_ticks = 60;
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  EXPECT_TRUE(found_.of(process_of(7, 70)).sites.empty());
}

TEST_F(Found, leaves_out_what_is_below_every_program) {
  Stack stack;
  for (const char* function : {"_start", "__libc_start_main", "main", "keep", "malloc"})
    stack.push_back({Frame::Kind::native,
                     function,
                     function == std::string("malloc") ? "/lib/libc.so.6" : "/bin/job",
                     {}});
  found_.add(report({process(7, 40, {{stack, 40}})}), tasks_, at_s(10), at_s(12));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].code, (std::vector<CodePlace>{{"keep", "/bin/job", {}}, {"main", "/bin/job", {}}}));
}

TEST_F(Found, takes_what_was_touched_of_one_that_ended_meanwhile) {
  BlameProcess p = process(7, 0, {{python("cache", 41), 5}});
  p.exited = true;
  found_.add(report({p}), tasks_, at_s(10), at_s(11));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].grown, mib(10));
}

TEST_F(Found, keeps_to_what_stayed_when_the_last_look_saw_it_end) {
  found_.add(report({process(7, 40, {{python("cache", 41), 40}})}), tasks_, at_s(10), at_s(12));
  BlameProcess p = process(7, 0, {{python("churn", 9), 400}});
  p.exited = true;
  found_.add(report({p}), tasks_, at_s(20), at_s(21));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].of, mib(40));
  EXPECT_EQ(told[0].to, at_s(12));
}

TEST_F(Found, of_a_line_that_only_touched_is_sure_of_nothing_and_says_why) {
  BlameProcess p = process(7, 40, {{python("temporary", 12), 40}});
  p.why_not_kept = "no breakpoints";
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].evidence.kind(), GrowthEvidence::Kind::touched);
  EXPECT_EQ(told[0].sure_share(), 0);
  EXPECT_EQ(told[0].evidence.kept, std::nullopt);
  EXPECT_EQ(told[0].evidence.kept_unknown, "no breakpoints");
  EXPECT_EQ(told[0].evidence.touched, mib(80));
}

TEST_F(Found, adds_up_what_those_looks_saw_kept_that_knew_it) {
  BlameProcess p = process(7, 40, {{python("cache", 41), 30}, {python("load", 9), 10}});
  p.kept.emplace();
  p.sites[0].kept = {mib(28), mib(2), 14, 14};
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  found_.add(report({process(7, 20, {{python("load", 9), 20}})}), tasks_, at_s(20), at_s(22));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].code[0].function, "cache") << "it is sure of nearly half of the growth";
  EXPECT_EQ(told[0].evidence.kind(), GrowthEvidence::Kind::kept);
  EXPECT_EQ(told[0].evidence.kept, mib(28));
  EXPECT_EQ(told[0].evidence.kept_error, mib(2));
  EXPECT_EQ(told[0].evidence.sure, mib(28));
  EXPECT_EQ(told[1].evidence.kept, Bytes{}) << "in the look that knew, nothing of it stayed";
  EXPECT_EQ(told[1].sure_share(), 0);
}

TEST_F(Found, takes_blocks_that_their_error_swallows_for_nothing_sure) {
  BlameProcess p = process(7, 40, {{python("cache", 41), 40}});
  p.kept.emplace();
  p.sites[0].kept = {mib(10), mib(11), 1, 1};
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  EXPECT_EQ(found_.of(process_of(7, 70)).sites.at(0).evidence.kind(), GrowthEvidence::Kind::touched);
}

BlameHolder holding(const std::string& path, double least, std::vector<BlameAddition> additions) {
  BlameHolder out;
  out.holder.path = path;
  out.holder.type = "list";
  out.holder.length = 50;
  out.holder.added = 20;
  out.holder.least = mib(least);
  out.additions = std::move(additions);
  return out;
}

TEST_F(Found, tells_of_containers_that_hold_growth_of_no_known_line) {
  BlameProcess p = process(7, 40, {{python("temporary", 12), 40}});
  p.holders.emplace().all = {
      holding("small in __main__", 1, {}),
      holding("cache in __main__", 30, {{python("note", 20), 3}, {python("put", 21), 1}})};
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  p.holders->all[1].holder.length = 70;
  found_.add(report({p}), tasks_, at_s(20), at_s(22));
  auto holders = found_.of(process_of(7, 70)).holders;
  ASSERT_EQ(holders.size(), 1u) << "what holds a fortieth is not told";
  EXPECT_EQ(holders[0].path, "cache in __main__");
  EXPECT_EQ(holders[0].length, 70u);
  EXPECT_EQ(holders[0].added, 40u);
  EXPECT_EQ(holders[0].least, mib(60));
  EXPECT_EQ(holders[0].of, mib(80));
  ASSERT_FALSE(holders[0].adder.empty());
  EXPECT_EQ(holders[0].adder[0].function, "note");
  EXPECT_EQ(holders[0].adder_seen, 6u);
  EXPECT_EQ(holders[0].adds_seen, 8u);
  EXPECT_EQ(found_.of(process_of(7, 70)).sites.at(0).sure_share(), 0) << "the temporary has no part in it";
}

TEST_F(Found, is_sure_of_a_line_that_touches_what_it_adds_to_a_container) {
  BlameProcess p = process(7, 40, {{python("note", 20), 38}, {python("load", 9), 2}});
  p.holders.emplace().all = {holding("cache in __main__", 30, {{python("note", 20), 5}})};
  found_.add(report({p}), tasks_, at_s(10), at_s(12));
  auto told = found_.of(process_of(7, 70)).sites;
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].evidence.kind(), GrowthEvidence::Kind::added);
  EXPECT_EQ(told[0].evidence.held_by, "cache in __main__");
  EXPECT_EQ(told[0].evidence.sure, mib(30)) << "no more than what the container holds";
}

TEST_F(Found, has_no_line_where_nothing_is_known_of_the_function) {
  Stack unknown{{Frame::Kind::native, "", "", {}}};
  found_.add(report({process(7, 40, {{unknown, 40}})}), tasks_, at_s(10), at_s(12));
  EXPECT_TRUE(found_.of(process_of(7, 70)).sites.empty());
}

TEST_F(Found, says_nothing_of_what_shrank) {
  found_.add(report({process(7, -40, {{python("cache", 41), 3}})}), tasks_, at_s(10), at_s(12));
  EXPECT_TRUE(found_.of(process_of(7, 70)).sites.empty());
}

}  // namespace
}  // namespace oomcast
