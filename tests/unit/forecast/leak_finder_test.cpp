#include "forecast/leak_finder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

History history_of(double span, const std::function<double(double)>& gib) {
  History out;
  for (double t = 0; t <= span; ++t) out.add(at_s(t), Bytes{std::llround(gib(t) * kGiB)});
  return out;
}

std::optional<Leak> leak_of(const History& history, std::optional<Bytes> limit, double until,
                            double least = 0, double died = 0) {
  LeakFinder finder(history, limit, 0, died, least);
  return finder.find(windows_until(history, 0, until), until);
}

TEST(LeakFinder, finds_a_line_with_its_pace_and_what_it_rose_by) {
  Noise noise;
  History history = history_of(600, [&](double t) { return 4 + t / 100 + 0.02 * noise(); });
  auto leak = leak_of(history, GiB(32), 600);
  ASSERT_TRUE(leak);
  EXPECT_NEAR(leak->trend.slope(600), 0.01 * kGiB, 0.0005 * kGiB);
  EXPECT_NEAR(leak->rise, 6 * kGiB, 0.3 * kGiB);
  EXPECT_NEAR(leak->floor, 10 * kGiB, 0.2 * kGiB);
  EXPECT_TRUE(leak->new_ground);
  EXPECT_FALSE(leak->of_peaks || leak->arrived);
}

TEST(LeakFinder, finds_none_in_noise_nor_in_one_rise_that_is_over) {
  Noise noise;
  EXPECT_FALSE(leak_of(history_of(600, [&](double) { return 8 + 0.1 * noise(); }), GiB(32), 600));
  History loaded = history_of(600, [&](double t) { return 4 + std::min(t, 200.0) / 40 + 0.02 * noise(); });
  EXPECT_FALSE(leak_of(loaded, GiB(32), 600));
}

TEST(LeakFinder, knows_nothing_of_what_came_after_the_moment_that_is_asked_for) {
  Noise noise;
  History history =
      history_of(1'200, [&](double t) { return 4 + std::max(0.0, t - 600) / 100 + 0.02 * noise(); });
  EXPECT_FALSE(leak_of(history, GiB(32), 590));
  EXPECT_TRUE(leak_of(history, GiB(32), 1'200));
}

TEST(LeakFinder, leaves_out_a_rise_that_is_smaller_than_what_is_worth_telling) {
  Noise noise;
  History history = history_of(600, [&](double t) { return 4 + t / 600 + 0.005 * noise(); });
  EXPECT_TRUE(leak_of(history, GiB(32), 600, 0.5 * kGiB));
  EXPECT_FALSE(leak_of(history, GiB(32), 600, 2 * kGiB));
}

TEST(LeakFinder, does_not_take_for_a_leak_what_levels_off_below_the_limit) {
  Noise noise;
  auto levels_off = [&](double t) { return 4 + 8 * (1 - std::exp(-t / 250)) + 0.02 * noise(); };
  EXPECT_FALSE(leak_of(history_of(600, levels_off), GiB(32), 600));
  EXPECT_TRUE(leak_of(history_of(600, levels_off), Bytes{std::llround(11.6 * kGiB)}, 600))
      << "it meets this one before";
}

TEST(LeakFinder, finds_peaks_that_climb_where_the_floor_rises_by_steps) {
  Noise noise;
  History history = history_of(1'600, [&](double t) {
    double floor = 4 + std::floor(t / 400), peak = 8 + t / 400 + 0.02 * noise();
    return std::fmod(t, 100) >= 50 && std::fmod(t, 100) < 60 ? peak : floor + 0.02 * noise();
  });
  auto leak = leak_of(history, GiB(32), 1'600);
  ASSERT_TRUE(leak);
  EXPECT_TRUE(leak->of_peaks);
  EXPECT_NEAR(leak->trend.slope(1'600), kGiB / 400, 0.2 * kGiB / 400);
}

TEST(LeakFinder, finds_what_has_arrived_at_its_limit_with_the_moment) {
  Noise noise;
  auto arrives = [&](double t) { return std::min(4 + t / 100, 10.0) + 0.002 * noise(); };
  History history = history_of(700, arrives);
  EXPECT_FALSE(LeakFinder(history, GiB(32), 0, 0, 0).find_arrived()) << "there is no limit where it stands";
  EXPECT_FALSE(LeakFinder(history, std::nullopt, 0, 0, 0).find_arrived());
  auto leak = LeakFinder(history, GiB(10), 0, 0, 0).find_arrived();
  ASSERT_TRUE(leak);
  ASSERT_TRUE(leak->arrived);
  EXPECT_NEAR(*leak->arrived, 550, 10) << "at 95 % of it";
  EXPECT_FALSE(LeakFinder(history_of(2'400, arrives), GiB(10), 0, 0, 0).find_arrived())
      << "it stands for longer than it ever rose";
}

}  // namespace
}  // namespace oomcast
