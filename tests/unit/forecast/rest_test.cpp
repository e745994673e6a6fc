#include "forecast/rest.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

struct Told {
  Forecast forecast;
  Sentence sentence;
};

/// What is said of value(t) GiB at t = 0, 1 … `span` s.
Told told_of(double span, const std::function<double(double)>& value, double least_change = 0) {
  History history;
  for (double t = 0; t <= span; ++t) history.add(at_s(t), Bytes{std::llround(value(t) * kGiB)});
  Told out;
  out.sentence =
      tell_rest(windows_until(history, 0, history.newest_time()), history, least_change, out.forecast);
  return out;
}

TEST(Rest, is_stable_where_nothing_rises_above_the_noise) {
  Noise noise;
  Told told = told_of(600, [&](double) { return 8 + 0.02 * noise(); });
  EXPECT_EQ(told.forecast.verdict, Verdict::stable);
  EXPECT_EQ(told.sentence.said, "no rise above noise in 10 min 00 s");
  EXPECT_NEAR(told.forecast.evidence.floor.value_or(Bytes{}).as_double(), 8 * kGiB, 0.1 * kGiB);
  ASSERT_TRUE(told.forecast.growth);
  EXPECT_LE(told.forecast.growth->low.value, 0);
  EXPECT_GE(told.forecast.growth->high.value, 0);
}

TEST(Rest, is_spikes_with_their_height_and_how_far_they_are_apart) {
  Noise noise;
  Told told = told_of(1'200, [&](double t) {
    return 8 + (std::fmod(t, 200) >= 100 && std::fmod(t, 200) < 120 ? 2 : 0) + 0.02 * noise();
  });
  EXPECT_EQ(told.forecast.verdict, Verdict::spikes) << told.sentence.said;
  EXPECT_EQ(told.forecast.evidence.peaks, 6u);
  EXPECT_NEAR(told.forecast.evidence.period.value_or(Seconds{}).count(), 200, 15);
  EXPECT_NEAR(told.forecast.evidence.peak_above.value_or(Bytes{}).as_double(), 2 * kGiB, 0.2 * kGiB);
  EXPECT_EQ(told.sentence.claim, ", the baseline between them does not rise");
}

TEST(Rest, is_a_step_with_its_height_and_its_age) {
  Noise noise;
  Told told = told_of(1'000, [&](double t) { return (t < 600 ? 8 : 10) + 0.02 * noise(); });
  EXPECT_EQ(told.forecast.verdict, Verdict::step) << told.sentence.said;
  EXPECT_NEAR(told.forecast.evidence.stepped.value_or(Bytes{}).as_double(), 2 * kGiB, 0.1 * kGiB);
  EXPECT_NEAR(told.forecast.evidence.step_ago.value_or(Seconds{}).count(), 400, 16) << "a bucket of 16 s";
  EXPECT_EQ(told.sentence.claim, ", and is flat since");
}

TEST(Rest, is_a_start_up_where_it_rose_at_first_alone) {
  Noise noise;
  Told told = told_of(1'000, [&](double t) { return 8 * std::min(1.0, t / 150) + 0.02 * noise(); });
  EXPECT_EQ(told.forecast.verdict, Verdict::ramp) << told.sentence.said;
  EXPECT_EQ(told.sentence.claim, " and levelled off");
}

TEST(Rest, of_a_young_rise_that_goes_on_is_unknown_with_its_age) {
  Told told = told_of(20, [](double t) { return 1 + t / 10; });
  EXPECT_EQ(told.forecast.verdict, Verdict::unknown);
  EXPECT_EQ(told.forecast.evidence.regime, Seconds(20));
  EXPECT_EQ(told.sentence.said, "too early to tell a start-up from a leak: 2.00 GiB in 20 s");
  EXPECT_TRUE(told.sentence.rises);
}

TEST(Rest, does_not_tell_of_a_shift_that_is_smaller_than_what_is_worth_it) {
  Noise noise;
  auto shifts = [&](double t) { return (t < 600 ? 8 : 10) + 0.02 * noise(); };
  EXPECT_EQ(told_of(1'000, shifts, 1 * kGiB).forecast.verdict, Verdict::step);
  EXPECT_EQ(told_of(1'000, shifts, 3 * kGiB).forecast.verdict, Verdict::stable);
}

TEST(Rest, has_no_growth_of_a_half_with_fewer_than_five_dots) {
  EXPECT_FALSE(told_of(4, [](double) { return 8; }).forecast.growth);
  EXPECT_TRUE(told_of(12, [](double) { return 8; }).forecast.growth);
}

}  // namespace
}  // namespace oomcast
