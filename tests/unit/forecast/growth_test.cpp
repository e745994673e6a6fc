#include "forecast/growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace oomcast {
namespace {

using Points = std::vector<Point>;

MonoTime at(double seconds) {
  return MonoTime(Nanos(static_cast<std::int64_t>(seconds * 1e9)));
}

// One point a second.
template <typename F>
Points series(int count, F bytes_at) {
  Points out;
  for (int i = 0; i < count; ++i) out.push_back({at(i), Bytes{static_cast<std::int64_t>(bytes_at(i))}});
  return out;
}

constexpr double kMiB = 1 << 20;

TEST(GrowthRate, is_unknown_with_fewer_than_five_samples) {
  for (int count = 0; count < 5; ++count)
    EXPECT_FALSE(growth_rate(series(count, [](int i) { return i * kMiB; }), Seconds(600))) << count;
  EXPECT_TRUE(growth_rate(series(5, [](int i) { return i * kMiB; }), Seconds(600)));
}

TEST(GrowthRate, is_unknown_over_less_than_two_seconds) {
  Points fast;
  for (int i = 0; i < 20; ++i) fast.push_back({at(i * 0.1), MiB(i)});
  EXPECT_FALSE(growth_rate(fast, Seconds(600)));
  fast.push_back({at(2.0), MiB(20)});
  EXPECT_TRUE(growth_rate(fast, Seconds(600)));
}

TEST(GrowthRate, of_a_line_is_its_slope_and_certain) {
  for (double slope : {0.0, 1.0, 5 * kMiB, -3 * kMiB}) {
    auto g = growth_rate(series(60, [&](int i) { return 1e9 + i * slope; }), Seconds(600));
    ASSERT_TRUE(g);
    EXPECT_DOUBLE_EQ(g->rate.value, slope);
    EXPECT_DOUBLE_EQ(g->low.value, slope);
    EXPECT_DOUBLE_EQ(g->high.value, slope);
    EXPECT_EQ(g->span, Seconds(59));
    EXPECT_EQ(g->samples, 60u);
  }
}

TEST(GrowthRate, does_not_mind_samples_at_uneven_times) {
  Points p;
  for (double t : {0.0, 0.1, 0.2, 3.0, 3.1, 9.0, 30.0})
    p.push_back({at(t), Bytes{static_cast<std::int64_t>(t * 1e6)}});
  EXPECT_NEAR(growth_rate(p, Seconds(600))->rate.value, 1e6, 1);
}

TEST(GrowthRate, uses_the_newest_window_only) {
  auto g = growth_rate(series(100, [](int i) { return i < 60 ? 0 : (i - 60) * kMiB; }), Seconds(30));
  ASSERT_TRUE(g);
  EXPECT_DOUBLE_EQ(g->rate.value, kMiB);
  EXPECT_EQ(g->span, Seconds(30));
}

TEST(GrowthRate, is_not_moved_by_a_fifth_of_outliers) {
  auto g =
      growth_rate(series(60, [](int i) { return i * kMiB + (i % 5 == 2 ? 500 * kMiB : 0); }), Seconds(600));
  ASSERT_TRUE(g);
  EXPECT_NEAR(g->rate.value, kMiB, 0.1 * kMiB);
}

TEST(GrowthRate, uses_at_most_64_samples_and_keeps_both_ends) {
  auto g = growth_rate(series(1000, [](int i) { return i * kMiB; }), Seconds(2000));
  ASSERT_TRUE(g);
  EXPECT_EQ(g->samples, 64u);
  EXPECT_EQ(g->span, Seconds(999));
  EXPECT_DOUBLE_EQ(g->rate.value, kMiB);
}

TEST(GrowthRate, interval_holds_the_truth_nine_times_in_ten) {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(0, 5 * kMiB);
  int held = 0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    auto g = growth_rate(series(40, [&](int i) { return 1e9 + i * kMiB + noise(random); }), Seconds(600));
    held += g->low.value <= kMiB && kMiB <= g->high.value;
  }
  EXPECT_GT(held, kRounds * 85 / 100);
  EXPECT_LT(held, kRounds * 96 / 100) << "an interval that is always right tells nothing";
}

TEST(Forecast, of_nothing_is_unknown_and_says_so) {
  Forecast none = forecast({}, MiB(100));
  EXPECT_EQ(none.verdict, Verdict::unknown);
  EXPECT_EQ(none.why, "nothing was sampled yet");
  Forecast few = forecast(series(3, [](int i) { return i * kMiB; }), MiB(100));
  EXPECT_EQ(few.verdict, Verdict::unknown);
  EXPECT_EQ(few.why, "too few samples yet");
  EXPECT_FALSE(few.eta || few.eta_low || few.eta_high || few.alert);
}

TEST(Forecast, of_a_line_meets_the_limit_when_it_does) {
  Forecast f = forecast(series(60, [](int i) { return 10 * kMiB + i * kMiB; }), MiB(169));
  EXPECT_EQ(f.verdict, Verdict::leak);
  ASSERT_TRUE(f.eta && f.eta_low && f.eta_high);
  EXPECT_DOUBLE_EQ(f.eta->count(), 100);
  EXPECT_TRUE(f.alert);
  EXPECT_EQ(f.limit, MiB(169));
}

TEST(Forecast, without_a_limit_has_no_deadline) {
  Forecast f = forecast(series(60, [](int i) { return i * kMiB; }), std::nullopt);
  EXPECT_EQ(f.verdict, Verdict::leak);
  EXPECT_FALSE(f.eta || f.eta_low || f.eta_high);
  EXPECT_FALSE(f.alert);
}

TEST(Forecast, past_its_limit_is_now_not_in_the_past) {
  Forecast f = forecast(series(60, [](int i) { return 100 * kMiB + i * kMiB; }), MiB(50));
  EXPECT_EQ(f.eta, Seconds(0));
  EXPECT_TRUE(f.alert);
}

TEST(Forecast, far_ahead_is_no_reason_to_act) {
  Forecast f = forecast(series(60, [](int i) { return i * kMiB; }), GiB(100));
  ASSERT_TRUE(f.eta);
  EXPECT_FALSE(f.alert);
}

TEST(Forecast, of_a_level_that_shrinks_or_stands_is_stable) {
  for (double slope : {0.0, -1.0 * kMiB}) {
    Forecast f = forecast(series(60, [&](int i) { return 1e9 + i * slope; }), GiB(1));
    EXPECT_EQ(f.verdict, Verdict::stable);
    EXPECT_FALSE(f.eta || f.eta_low || f.eta_high || f.alert);
  }
}

TEST(Forecast, of_noise_around_a_level_is_stable) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(-20 * kMiB, 20 * kMiB);
  int alarms = 0;
  for (int round = 0; round < 100; ++round)
    alarms +=
        forecast(series(60, [&](int) { return 1e9 + noise(random); }), Bytes{1'100'000'000}).eta.has_value();
  EXPECT_LE(alarms, 15) << "three windows of 5 % each";
}

TEST(Forecast, sees_a_new_pace_behind_a_long_calm) {
  Forecast f =
      forecast(series(500, [](int i) { return 100 * kMiB + (i > 470 ? (i - 470) * 2 * kMiB : 0); }), GiB(1));
  EXPECT_EQ(f.verdict, Verdict::leak);
  ASSERT_TRUE(f.growth);
  EXPECT_NEAR(f.growth->rate.value, 2 * kMiB, 0.5 * kMiB);
}

TEST(Forecast, never_tells_a_deadline_without_growth_nor_one_out_of_order) {
  std::mt19937 random(6);
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    double slope = uniform(-5, 5) * kMiB, noise = uniform(0, 50) * kMiB, level = uniform(0, 4e9);
    int count = static_cast<int>(uniform(0, 120));
    auto points =
        series(count, [&](int i) { return std::max(0.0, level + i * slope + uniform(-noise, noise)); });
    std::optional<Bytes> limit;
    if (uniform(0, 1) < 0.8) limit = Bytes{static_cast<std::int64_t>(uniform(0, 8e9))};
    Forecast f = forecast(points, limit);
    ASSERT_FALSE(f.why.empty());
    if (f.eta) {
      ASSERT_TRUE(f.limit && f.growth && f.eta_low);
      ASSERT_GT(f.growth->rate.value, 0);
      ASSERT_GT(f.growth->low.value, 0);
      ASSERT_TRUE(std::isfinite(f.eta->count()));
      ASSERT_GE(f.eta_low->count(), 0);
      ASSERT_LE(f.eta_low->count(), f.eta->count());
      if (f.eta_high) {
        ASSERT_LE(f.eta->count(), f.eta_high->count());
      }
    } else {
      ASSERT_FALSE(f.alert);
    }
    if (f.growth) {
      ASSERT_LE(f.growth->low.value, f.growth->rate.value);
      ASSERT_LE(f.growth->rate.value, f.growth->high.value);
    } else {
      ASSERT_EQ(f.verdict, Verdict::unknown);
    }
  }
}

TEST(Forecast, is_the_same_for_the_same_series) {
  std::mt19937 random(7);
  auto points = series(80, [&](int i) { return i * kMiB + static_cast<double>(random() % 10'000'000); });
  Forecast a = forecast(points, GiB(1)), b = forecast(points, GiB(1));
  EXPECT_EQ(a.why, b.why);
  EXPECT_EQ(a.eta, b.eta);
}

TEST(Verdict, has_the_contracts_words) {
  std::string all;
  for (auto v : {Verdict::stable, Verdict::leak, Verdict::spikes, Verdict::step, Verdict::ramp, Verdict::cow,
                 Verdict::cache, Verdict::unknown})
    all += std::string(to_string(v)) + " ";
  EXPECT_EQ(all, "stable leak spikes step ramp cow cache unknown ");
}

}  // namespace
}  // namespace oomcast
