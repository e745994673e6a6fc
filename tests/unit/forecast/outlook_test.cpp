#include "forecast/outlook.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

Outlook::Crossing meets(std::span<const Dot> dots, double limit) {
  auto trend = Trend::fit(dots);
  return trend ? Outlook::of(dots, *trend).crossing(limit, {}, dots.back().time) : Outlook::Crossing{};
}

// 600 MB a minute under a collector's sawtooth, every 30 s; of the corpus.
std::vector<Dot> two_minutes_of_a_fuse() {
  return {{0, 7878.5e6}, {30, 8228.2e6}, {60, 8583.9e6}, {90, 8928.8e6}, {120, 9109.0e6}};
}

TEST(Outlook, gives_the_shortest_interval_where_a_few_curves_say_much_later_than_all_others) {
  auto dots = two_minutes_of_a_fuse();
  auto c = meets(dots, 32e9);
  EXPECT_NEAR(c.median - 120, 2240, 60);
  EXPECT_LT(c.high - 120, 5000) << "equal tails reach to 7,000 s";
  EXPECT_LT(c.low, c.median);
  EXPECT_GT(c.low - 120, 1200);
}

TEST(Outlook, leaves_an_interval_alone_that_reaches_as_far_down_as_up) {
  std::vector<Dot> dots;
  for (int i = 0; i < 60; ++i) dots.push_back({i * 1.0, 1e9 + i * 1e7 + (i % 3 - 1) * 3e6});
  auto c = meets(dots, 4e9);
  EXPECT_NEAR(c.median, 300, 5);
  EXPECT_NEAR(c.high - c.median, c.median - c.low, 0.5 * (c.median - c.low));
}

// Between two saturations that it begins with.
TEST(Outlook, finds_the_curve_that_lies_between_those_it_begins_with) {
  auto saturates = [](double t) { return 1e9 + 4e9 * (1 - std::exp(-1.3 * t / 100)); };
  std::vector<Dot> dots;
  for (int i = 0; i <= 100; ++i) dots.push_back({i * 1.0, saturates(i) + (i % 3 - 1) * 2e6});
  auto trend = Trend::fit(dots);
  ASSERT_TRUE(trend);
  EXPECT_GT(trend->levels_off(), 0.9);
  auto c = meets(dots, saturates(160));
  EXPECT_NEAR(c.median, 160, 3);
  EXPECT_LE(c.low, 160);
  EXPECT_GE(c.high, 160);
}

// A root from before its first dot, which is the mean of many samples.
TEST(Outlook, finds_a_root_that_began_before_its_first_dot) {
  auto slows = [](double t) { return 1e9 + 3e8 * std::sqrt(t); };
  std::vector<Dot> dots;
  for (int i = 0; i <= 100; ++i) dots.push_back({4.0 + i, slows(4.0 + i) + (i % 3 - 1) * 1e6});
  auto c = meets(dots, slows(250));
  EXPECT_NEAR(c.median, 250, 3);
}

// By a pace that changes all the time: what is gained or lost is not made up for.
std::vector<Dot> walk(Noise& noise) {
  std::vector<Dot> dots;
  double value = 1e9;
  for (int i = 0; i < 120; ++i) {
    dots.push_back({i * 1.0, value});
    value += 1e7 * (1 + 1.7 * noise());
  }
  return dots;
}

TEST(Outlook, goes_on_from_where_a_pace_that_changes_has_got_to) {
  Noise noise;
  double off = 0, off_line = 0;
  for (int k = 0; k < 60; ++k) {
    auto dots = walk(noise);
    auto trend = Trend::fit(dots);
    ASSERT_TRUE(trend);
    double from = dots.back().value;
    // What is near is told by where it is, not by where a line through all of it would be.
    off += std::abs(meets(dots, from + 1e8).median - 129) / 60;
    off_line += std::abs((from + 1e8 - trend->value(119)) / trend->slope(119) - 10) / 60;
  }
  EXPECT_LT(off, 0.75 * off_line) << off << " s, by a line " << off_line;
}

TEST(Outlook, holds_the_truth_in_its_interval_where_the_pace_changes_all_the_time) {
  Noise noise;
  int held = 0, judged = 0;
  for (int k = 0; k < 200; ++k) {
    auto all = walk(noise);
    std::vector<Dot> seen(all.begin(), all.begin() + 80);
    double limit = seen.back().value + 2e8, truth = 0;
    for (const Dot& d : all)
      if (truth == 0 && d.value >= limit) truth = d.time;
    if (truth == 0) continue;
    auto c = meets(seen, limit);
    ++judged;
    held += c.low <= truth && truth <= c.high;
  }
  ASSERT_GE(judged, 150);
  EXPECT_GE(held, 0.8 * judged) << held << " of " << judged;
}

TEST(Outlook, tells_where_a_pace_that_rises_evenly_leads_to) {
  auto rises = [](double t) { return 1e9 + 5e6 * t + 4e4 * t * t; };
  std::vector<Dot> dots;
  for (int i = 0; i <= 100; ++i) dots.push_back({i * 1.0, rises(i) + (i % 3 - 1) * 1e5});
  auto c = meets(dots, rises(300));
  EXPECT_NEAR(c.median, 300, 3);
  EXPECT_LE(c.low, 300);
  EXPECT_GE(c.high, 300);
}

// Pace around its mean, correlated over `lasts` dots.
std::vector<Dot> wanders(Noise& noise, double share, double lasts) {
  std::vector<Dot> dots;
  double value = 1e9, off = 0, phi = std::exp(-1 / lasts);
  for (int i = 0; i < 100; ++i) {
    dots.push_back({i * 1.0, value});
    off = phi * off + std::sqrt(1 - phi * phi) * share * noise();
    value += 1e7 * (1 + off);
  }
  return dots;
}

TEST(Outlook, is_less_sure_of_a_pace_that_wandered_than_of_one_that_never_did) {
  Noise noise;
  auto wide = meets(wanders(noise, 0.3, 10), 4e9), narrow = meets(wanders(noise, 0, 10), 4e9);
  EXPECT_GT(wide.high - wide.low, 3 * (narrow.high - narrow.low));
}

TEST(Outlook, takes_a_pace_that_wandered_for_two_minutes_for_no_bend) {
  Noise noise;
  double worst = 0;
  for (int k = 0; k < 40; ++k) {
    auto dots = wanders(noise, 0.15, 30);
    double mean = (dots.back().value - dots.front().value) / 99;
    auto c = meets(dots, 30e9);
    worst = std::max(worst, std::abs(c.median - 99 - (30e9 - dots.back().value) / mean) / (c.median - 99));
  }
  EXPECT_LT(worst, 0.35) << "off the mean pace";
}

TEST(Outlook, goes_by_day_and_night_and_not_by_the_slope_of_the_morning) {
  auto level = [](double t) { return 20e9 + 8e4 * t + 1e9 * std::sin(2 * std::numbers::pi * t / 86400); };
  std::vector<Dot> dots;
  for (int i = 0; i < 120; ++i) dots.push_back({i * 1800.0, level(i * 1800.0) + (i % 3 - 1) * 2e7});
  double limit = level(432000), truth = 432000;  // two and a half days later, at midnight
  auto c = meets(dots, limit);
  EXPECT_NEAR(c.median, truth, 0.06 * (truth - dots.back().time));
}

}  // namespace
}  // namespace oomcast
