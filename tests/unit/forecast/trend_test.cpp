#include "forecast/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

constexpr double kMB = 1e6;

/// value(i) at i = 0 … n-1 seconds.
std::vector<Dot> dots_of(int n, const std::function<double(double)>& value) {
  std::vector<Dot> out;
  for (int i = 0; i < n; ++i) out.push_back({static_cast<double>(i), value(i)});
  return out;
}

TEST(Trend, needs_four_dots_with_time_between_them) {
  auto line = dots_of(4, [](double t) { return kMB * t; });
  EXPECT_FALSE(Trend::fit(std::span(line).first(3)));
  EXPECT_TRUE(Trend::fit(line));
  for (Dot& dot : line) dot.time = 7;
  EXPECT_FALSE(Trend::fit(line));
}

TEST(Trend, of_a_line_goes_on_along_it_and_meets_every_limit) {
  Noise noise;
  auto trend = Trend::fit(dots_of(60, [&](double t) { return kMB * (100 + 2 * t + 0.1 * noise()); }));
  ASSERT_TRUE(trend);
  EXPECT_EQ(trend->begin(), 0);
  EXPECT_EQ(trend->end(), 59);
  EXPECT_EQ(trend->dots(), 60u);
  EXPECT_NEAR(trend->value(59), 218 * kMB, 0.2 * kMB);
  EXPECT_NEAR(trend->slope(59), 2 * kMB, 0.02 * kMB);
  EXPECT_NEAR(trend->residual_sd(), 0.1 * kMB, 0.03 * kMB);
  EXPECT_LT(trend->never(1'000 * kMB), 0.05);
  EXPECT_LT(trend->levels_off(), 0.05);
}

TEST(Trend, of_what_levels_off_meets_no_limit_above_its_level_and_one_below_it) {
  Noise noise;
  auto trend = Trend::fit(
      dots_of(100, [&](double t) { return kMB * (100 + 400 * (1 - std::exp(-t / 30)) + 0.3 * noise()); }));
  ASSERT_TRUE(trend);
  EXPECT_GT(trend->levels_off(), 0.9);
  EXPECT_GT(trend->never(600 * kMB), 0.9);
  EXPECT_LT(trend->never(400 * kMB), 0.05) << "it has met that long ago";
  EXPECT_LT(trend->slope(99), trend->slope(0) / 5);
}

TEST(Trend, of_what_speeds_up_is_steeper_at_its_end) {
  auto trend = Trend::fit(dots_of(100, [](double t) { return kMB * (100 + t * t / 20); }));
  ASSERT_TRUE(trend);
  EXPECT_NEAR(trend->slope(99), 9.9 * kMB, 0.5 * kMB);
  EXPECT_LT(trend->slope(10), 2 * kMB);
}

TEST(Trend, counts_noise_that_stays_for_a_while_as_fewer_samples) {
  Noise noise;
  double stays = 0;
  auto wanders = Trend::fit(dots_of(200, [&](double t) {
    stays = 0.9 * stays + 0.1 * noise();
    return kMB * (100 + 2 * t + 10 * stays);
  }));
  auto jumps = Trend::fit(dots_of(200, [&](double t) { return kMB * (100 + 2 * t + noise()); }));
  ASSERT_TRUE(wanders && jumps);
  EXPECT_GT(jumps->effective(), 100);
  EXPECT_LT(wanders->effective(), 0.4 * jumps->effective());
}

TEST(Form, has_the_slope_of_its_values) {
  using enum Form::Kind;
  for (Form form : {Form{power, 0.5}, Form{power, 1}, Form{power, 3}, Form{power, 0.7, 0.1},
                    Form{exponential, -3.3}, Form{exponential, 1.7}})
    for (double u : {0.2, 0.5, 1.0, 1.5}) {
      double rise = (form.at(u + 1e-6) - form.at(u - 1e-6)) / 2e-6;
      EXPECT_NEAR(form.slope(u), rise, 1e-4 * rise) << form.parameter << " at " << u;
    }
}

}  // namespace
}  // namespace oomcast
