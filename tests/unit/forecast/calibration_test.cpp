#include "forecast/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

// A deadline with an interval from `part` of what is left to as much above it.
Meeting around(double median, double now, double part) {
  double left = median - now;
  return {median, now + left * part, now + left / part};
}

double up(const Meeting& m, double now) {
  return std::log((*m.high - now) / (m.median - now));
}
double down(const Meeting& m, double now) {
  return std::log((m.median - now) / (m.low - now));
}

// What it makes of an interval of 0.8 after a growth of 1,000 s whose deadline was `median(now)` all along.
template <typename Median>
Meeting after(double until, Median median) {
  Calibration calibration;
  for (double t = 100; t < until; t += 5) calibration.scaled(around(median(t), t, 0.8), t, t);
  return calibration.scaled(around(median(until), until, 0.8), until, until);
}

TEST(Calibration, widens_the_interval_of_a_growth_without_a_record_as_others_needed_it) {
  Meeting m = Calibration().scaled(around(1000, 500, 0.8), 500, 500);
  EXPECT_EQ(m.median, 1000);
  EXPECT_NEAR(up(m, 500), 1.6 * std::log(1 / 0.8), 1e-9);
  EXPECT_NEAR(down(m, 500), up(m, 500), 1e-9);
}

TEST(Calibration, leaves_one_that_has_just_begun_nearly_as_its_model_has_it) {
  Meeting m = Calibration().scaled(around(1000, 10, 0.8), 10, 10);
  EXPECT_NEAR(up(m, 10), std::log(1 / 0.8), 0.01);
}

TEST(Calibration, narrows_the_interval_of_a_growth_whose_deadline_has_stood) {
  Meeting m = after(950, [](double) { return 1000.0; });
  EXPECT_LT(up(m, 950), 0.9 * std::log(1 / 0.8));
  EXPECT_LT(down(m, 950), 0.9 * std::log(1 / 0.8));
}

TEST(Calibration, reaches_further_up_where_the_deadline_kept_moving_away_and_no_further_down) {
  Meeting m = after(900, [](double t) { return t + 100; });
  EXPECT_GT(up(m, 900), 1.8 * std::log(1 / 0.8));
  EXPECT_LT(down(m, 900), 1.6 * std::log(1 / 0.8)) << "than without a record";
}

TEST(Calibration, reaches_further_down_where_the_deadline_kept_coming_closer) {
  Meeting m = after(900, [](double t) { return 1000 + 3 * (900 - t); });
  EXPECT_GT(down(m, 900), 1.8 * std::log(1 / 0.8));
  EXPECT_LT(up(m, 900), 1.6 * std::log(1 / 0.8)) << "than without a record";
}

TEST(Calibration, holds_a_deadline_against_no_time_in_which_there_was_none) {
  Calibration once, twice;
  once.scaled(around(400, 100, 0.8), 100, 100);
  twice.scaled(around(400, 100, 0.8), 100, 100);
  twice.scaled(around(400, 101, 0.8), 101, 101);
  Meeting m = once.scaled(around(1000, 900, 0.8), 900, 900);
  EXPECT_NEAR(up(m, 900), 1.6 * std::log(1 / 0.8), 1e-9) << "it stood for no time at all";
  EXPECT_GT(up(twice.scaled(around(1000, 900, 0.8), 900, 900), 900), up(m, 900));
}

TEST(Calibration, leaves_an_end_that_is_not_in_sight_and_a_deadline_that_has_come) {
  Meeting m = Calibration().scaled({1000, 800}, 500, 500);
  EXPECT_FALSE(m.high);
  EXPECT_LT(m.low, 800);
  Meeting here = Calibration().scaled({500, 500, 700}, 500, 500);
  EXPECT_EQ(here.low, 500);
  EXPECT_EQ(here.high, 700);
}

TEST(Calibration, stays_bounded_however_long_a_growth_lasts) {
  Calibration calibration;
  for (int k = 1; k < 100'000; ++k) calibration.scaled(around(1e6, k, 0.8), k, k);
  EXPECT_LE(calibration.footprint(), 64 * 5 * sizeof(double));
}

// Ten minutes of one pace, ten of a slower one, and each time slower than before: a straight line through
// what was seen meets the limit too early again and again.
TEST(Calibration, has_the_intervals_of_a_growth_that_slows_down_again_and_again_reach_its_end) {
  constexpr double kStep = 10, kLimit = 44;  // s, GiB
  Noise noise;
  std::vector<double> levels = {10};
  for (double t = 0; levels.back() < kLimit; t += kStep) {
    int part = static_cast<int>(t / 600);
    double pace = 0.02 * std::pow(0.8, part / 2) * (part % 2 ? 0.6 : 1);
    levels.push_back(levels.back() + kStep * pace);
  }
  double end = kStep * static_cast<double>(levels.size() - 1);
  Forecaster f;
  int judged = 0, reached = 0;
  for (double t = 0; t < 0.95 * end; t += kStep) {
    feed(f, t, t + kStep / 2, kStep, kLimit,
         [&](double at) { return levels[static_cast<std::size_t>(at / kStep)] + 0.05 * noise(); });
    const Forecast& now = f.forecast();
    if (t < 0.3 * end || !now.eta_low) continue;
    ++judged;
    reached += !now.eta_high || now.eta_high->count() >= end - t;
  }
  ASSERT_GT(judged, 100);
  EXPECT_GT(reached, 0.95 * judged) << reached << " of " << judged;
}

}  // namespace
}  // namespace oomcast
