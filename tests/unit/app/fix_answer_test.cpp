#include "app/fix_answer.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

RunShown level_run(double lasted_s, Bytes highest = MiB(500), Bytes wobble = MiB(1)) {
  RunShown out;
  out.verdict = Verdict::stable;
  out.lasted = Seconds(lasted_s);
  out.highest = highest;
  out.wobble = wobble;
  return out;
}

RunShown growing_run(double lasted_s, double low, double high, double span_s = 0) {
  RunShown out = level_run(lasted_s);
  out.verdict = Verdict::leak;
  out.growth = Growth{{(low + high) / 2}, {low}, {high}, Seconds(span_s > 0 ? span_s : lasted_s), 100};
  return out;
}

constexpr double kPerS = 1 << 20;

TEST(DidItHelp, is_yes_where_b_ran_long_enough_to_show_what_a_did) {
  FixAnswer answer = did_it_help(growing_run(600, 0.9 * kPerS, 1.1 * kPerS), level_run(300));
  EXPECT_EQ(answer.helped, true) << answer.why;
  EXPECT_EQ(answer.why.find("yes: A grew "), 0u) << answer.why;
}

TEST(DidItHelp, waits_for_b_until_growth_would_stand_out_of_its_ups_and_downs) {
  RunShown b = level_run(60, MiB(500), MiB(100));
  FixAnswer answer = did_it_help(growing_run(600, 0.5 * kPerS, kPerS), b);
  EXPECT_EQ(answer.helped, std::nullopt) << answer.why;
  ASSERT_TRUE(answer.run_for);
  EXPECT_EQ(answer.run_for->count(), 400) << "twice 100 MiB at half a MiB per second";
  b.lasted = *answer.run_for;
  EXPECT_EQ(did_it_help(growing_run(600, 0.5 * kPerS, kPerS), b).helped, true);
}

TEST(DidItHelp, does_not_call_a_leak_cured_that_began_later_than_b_ran) {
  FixAnswer answer = did_it_help(growing_run(3600, kPerS, 1.2 * kPerS, 600), level_run(1800));
  EXPECT_EQ(answer.helped, std::nullopt) << answer.why;
  ASSERT_TRUE(answer.run_for);
  EXPECT_GE(answer.run_for->count(), 3000);
}

TEST(DidItHelp, is_no_where_both_grow_alike_and_both_know_it_well) {
  EXPECT_EQ(
      did_it_help(growing_run(600, 0.95 * kPerS, 1.05 * kPerS), growing_run(600, 0.9 * kPerS, kPerS)).helped,
      false);
}

TEST(DidItHelp, is_open_where_intervals_are_wide_and_overlap) {
  FixAnswer answer =
      did_it_help(growing_run(60, 0.5 * kPerS, 2 * kPerS), growing_run(60, 0.2 * kPerS, 1.5 * kPerS));
  EXPECT_EQ(answer.helped, std::nullopt);
  ASSERT_TRUE(answer.run_for);
  EXPECT_GT(answer.run_for->count(), 60);
  EXPECT_NE(answer.why.find("overlap"), std::string::npos) << answer.why;
}

TEST(DidItHelp, says_that_it_still_grows_where_it_is_slower) {
  FixAnswer answer = did_it_help(growing_run(600, 9 * kPerS, 10 * kPerS), growing_run(600, kPerS, 2 * kPerS));
  EXPECT_EQ(answer.helped, true);
  EXPECT_NE(answer.why.find("still grows"), std::string::npos) << answer.why;
  EXPECT_EQ(did_it_help(growing_run(600, kPerS, 2 * kPerS), growing_run(600, 9 * kPerS, 10 * kPerS)).helped,
            false);
}

TEST(DidItHelp, is_no_where_b_alone_grows) {
  EXPECT_EQ(did_it_help(level_run(600), growing_run(600, kPerS, 2 * kPerS)).helped, false);
  EXPECT_EQ(did_it_help(level_run(60, MiB(500), MiB(400)), growing_run(600, kPerS, 2 * kPerS)).helped,
            std::nullopt)
      << "A may have grown, too, had it run on";
}

TEST(DidItHelp, is_open_while_a_run_is_too_short_and_where_nothing_grew) {
  RunShown young = level_run(3);
  young.verdict = Verdict::unknown;
  FixAnswer answer = did_it_help(level_run(600), young);
  EXPECT_EQ(answer.helped, std::nullopt);
  EXPECT_NE(answer.why.find("B is unknown after"), std::string::npos) << answer.why;
  answer = did_it_help(level_run(600), level_run(600));
  EXPECT_EQ(answer.helped, std::nullopt);
  EXPECT_EQ(answer.run_for, std::nullopt);
}

TEST(DidItHelp, compares_levels_where_neither_grows) {
  EXPECT_EQ(did_it_help(level_run(600, GiB(2)), level_run(600, GiB(1))).helped, true);
  EXPECT_EQ(did_it_help(level_run(600, GiB(1)), level_run(600, GiB(2))).helped, false);
  EXPECT_EQ(did_it_help(level_run(600, GiB(2)), level_run(60, GiB(1))).helped, std::nullopt);
}

TEST(DidItHelp, counts_kills) {
  RunShown killed = level_run(600), alive = level_run(600);
  killed.oom_kills = 2;
  alive.oom_kills = 0;
  EXPECT_EQ(did_it_help(killed, alive).helped, true);
  EXPECT_EQ(did_it_help(alive, killed).helped, false);
}

}  // namespace
}  // namespace oomcast
