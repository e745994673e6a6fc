// Single findings, each from no more than it rests on; whole reports are in report_test.cpp.
#include <gtest/gtest.h>

#include "moment.h"
#include "present/post_mortem_parts.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using test::at_s;

const CgroupPtr kJob = test::cgroup(10, "/train/job"), kTrain = test::cgroup(9, "/train");
const ProcessRef kTrainer = test::process(4301, "python3", {"python3", "train.py"}, kJob),
                 kLoader = test::process(4312, "python3", {"python3", "loader.py"}, kJob);
constexpr double kKilledAt = 1'000;

Victim victim(const ProcessRef& process, Bytes anon) {
  Victim out;
  out.process = process;
  out.anon = anon;
  return out;
}

/// A kill at 512 MiB of which nothing else is known.
PostMortem kill_of(const ProcessRef& process) {
  PostMortem out;
  Episode& e = out.episode.told.episode;
  e.time = at_s(kKilledAt);
  e.limit_cgroup = kJob;
  e.usage = e.limit = MiB(512);
  e.victims = {victim(process, MiB(20))};
  return out;
}

PostMortemProcess holding(const ProcessRef& process, Bytes anon, bool is_victim = false) {
  PostMortemProcess out;
  out.process = process;
  out.anon = anon;
  out.victim = is_victim;
  return out;
}

/// The finding that begins so; empty: there is none.
Finding found(const PostMortem& report, std::string_view begin) {
  for (const Finding& finding : make_findings(report))
    if (finding.text.starts_with(begin)) return finding;
  return {};
}

TEST(Findings, are_none_where_nothing_is_known_but_the_kill) {
  for (const Finding& finding : make_findings(kill_of(kTrainer))) ADD_FAILURE() << finding.text;
}

TEST(Findings, name_a_limit_that_was_lowered_and_not_how_the_memory_rose) {
  PostMortem report = kill_of(kTrainer);
  report.rise = Rise{Verdict::leak, MiB(100), MiB(512), Seconds(60), false, Seconds(900), {}, {}, {}};
  for (auto [before, limit] : {std::pair(60.0, MiB(1'024)), std::pair(2.0, MiB(512))}) {
    Sample sample;
    sample.time = at_s(kKilledAt - before);
    sample.cgroup = kJob;
    sample.limit = limit;
    report.episode.samples.push_back(sample);
  }
  EXPECT_EQ(make_findings(report)[0].text,
            "The limit of /train/job was lowered from 1.00 GiB to 512 MiB, below what was in use.");
  report.episode.samples.clear();
  EXPECT_TRUE(make_findings(report)[0].text.starts_with("A leak: /train/job grew by "));
}

TEST(Findings, of_a_step_behind_a_slow_leak_name_one_cause) {
  PostMortem report = kill_of(kTrainer);
  Forecast before;
  before.verdict = Verdict::leak;
  before.growth = Growth{{1000}, {900}, {1100}, Seconds(600), 100};
  report.rise =
      Rise{Verdict::step, MiB(100), MiB(512), Seconds(2), true, Seconds(900), {}, before, Seconds(5)};
  Finding step = found(report, "A step: 412 MiB more came at once");
  ASSERT_EQ(step.evidence.size(), 2u);
  EXPECT_NE(step.evidence[1].find("too slowly to matter here"), std::string::npos) << step.evidence[1];
  EXPECT_EQ(found(report, "A leak").text, "");
}

TEST(Findings, say_who_died_in_the_place_of_the_process_that_grew) {
  PostMortem report = kill_of(kLoader);
  report.culprit = GrewProcess{kTrainer, MiB(400), Seconds(30)};
  report.episode.told.episode.victims[0].oom_score_adj = 900;
  Finding taken = found(report, "The memory was taken by ");
  EXPECT_EQ(
      taken.text,
      "The memory was taken by python3[4301] train.py, which was NOT killed: python3[4312] loader.py died "
      "in its place.");
  ASSERT_EQ(taken.evidence.size(), 2u);
  EXPECT_EQ(taken.evidence[0], "its RSS grew by 400 MiB in 30 s");
  EXPECT_NE(taken.evidence[1].find("its oom_score_adj of 900 made it the kernel's first choice"),
            std::string::npos);
  report.episode.told.episode.victims = {victim(kTrainer, MiB(400))};
  EXPECT_EQ(found(report, "The memory was taken by ").text,
            "The memory was taken by python3[4301] train.py, which was killed.");
}

TEST(Findings, name_a_holder_where_nobody_grew_only_if_it_held_a_third) {
  PostMortem report = kill_of(kLoader);
  report.processes = {holding(kTrainer, MiB(400)), holding(kLoader, MiB(20), true)};
  EXPECT_EQ(found(report, "Most was held by").text,
            "Most was held by python3[4301] train.py, which was NOT killed.");
  report.processes[0].anon = MiB(140);
  EXPECT_EQ(found(report, "Most was held by").text, "");
  report.processes[0].anon = MiB(400);
  report.processes[0].ended_before = true;
  EXPECT_EQ(found(report, "Most was held by").text, "") << "its memory was free by then";
}

TEST(Findings, clear_the_process_that_asked_unless_it_grew_or_died) {
  PostMortem report = kill_of(kTrainer);
  report.episode.told.episode.trigger = kLoader;
  std::string cleared =
      "The request that could not be met came from python3[4312] loader.py; that alone makes it no culprit.";
  EXPECT_EQ(found(report, "The request").text, cleared);
  report.culprit = GrewProcess{kLoader, MiB(400), Seconds(30)};
  EXPECT_EQ(found(report, "The request").text, "");
  report = kill_of(kTrainer);
  report.episode.told.episode.trigger = kTrainer;
  EXPECT_EQ(found(report, "The request").text, "");
}

TEST(Findings, tell_a_limit_above_from_the_cgroups_own) {
  PostMortem report = kill_of(kTrainer);
  Episode& e = report.episode.told.episode;
  e.limit_cgroup = kTrain;
  e.chain = {{kJob, MiB(300), {}}, {kTrain, MiB(512), MiB(512)}};
  Finding above = found(report, "The limit is ");
  EXPECT_EQ(above.text, "The limit is that of /train, above the victim's own cgroup /train/job.");
  EXPECT_EQ(above.evidence, std::vector<std::string>{"/train: 512 MiB of 512 MiB"});
  e.limit_cgroup = kJob;
  e.chain = {{kJob, MiB(512), MiB(512)}, {kTrain, MiB(600), GiB(4)}};
  EXPECT_EQ(found(report, "The limit is ").text, "The limit is the cgroup's own; those above it had room.");
}

TEST(Findings, hold_a_forecast_against_the_kill_and_say_so_when_it_came_too_late) {
  PostMortem report = kill_of(kTrainer);
  ForecastFact forecast;
  forecast.time = at_s(kKilledAt - 100);
  forecast.cgroup = kJob;
  forecast.forecast.verdict = Verdict::leak;
  forecast.forecast.eta = Seconds(150);
  forecast.forecast.eta_low = Seconds(120);
  forecast.forecast.eta_high = Seconds(200);
  report.episode.told.forecast_before = forecast;
  report.episode.told.first_forecast = forecast.time;
  Finding foreseen = found(report, "It was foreseen: the deadline was first forecast ");
  ASSERT_FALSE(foreseen.evidence.empty()) << foreseen.text;
  EXPECT_TRUE(foreseen.evidence[0].ends_with("; it came 50 s sooner")) << foreseen.evidence[0];
  report.episode.told.forecast_before->forecast.eta_low = Seconds(90);
  EXPECT_TRUE(found(report, "It was foreseen: ").evidence[0].ends_with("; right"));
  report.episode.told.first_forecast = at_s(kKilledAt - 5);
  EXPECT_NE(found(report, "It was foreseen, but late: ").text, "");
  report.episode.told.first_forecast = at_s(kKilledAt - 0.5);
  EXPECT_NE(found(report, "It was not foreseen in time: ").text, "");
}

TEST(Findings, tell_a_group_that_dies_by_its_setting_from_several_that_had_to) {
  PostMortem report = kill_of(kTrainer);
  report.episode.told.episode.victims.push_back(victim(kLoader, MiB(1)));
  EXPECT_EQ(found(report, "2 processes").text, "2 processes were killed for this one limit.");
  report.episode.told.episode.group_kill = true;
  EXPECT_EQ(found(report, "2 processes").text,
            "2 processes were killed together, because memory.oom.group is set.");
}

}  // namespace
}  // namespace oomcast
