#include "leak/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace oomcast {
namespace {

std::vector<Bucket> window(int n, const std::function<double(int)>& value) {
  std::vector<Bucket> out;
  for (int i = 0; i < n; ++i) {
    auto v = static_cast<float>(value(i)), t = static_cast<float>(i);
    out.push_back({t, t, v, v, v, 1});
  }
  return out;
}

// Between −1 and 1, without a pattern that matters here.
double wiggle(int i) {
  return std::sin(i * 12.9898) * std::cos(i * 78.233);
}

TEST(Shape, finds_one_segment_in_a_straight_rise) {
  Shape s = describe(window(100, [](int i) { return 1e9 + 1e7 * i + 1e6 * wiggle(i); }));
  ASSERT_EQ(s.segments.size(), 1u);
  EXPECT_NEAR(s.segments[0].slope, 1e7, 1e5);
  EXPECT_TRUE(s.excursions.empty());
  EXPECT_LT(s.reversed_rise, 1e7);
}

TEST(Shape, cuts_where_the_growth_begins) {
  Shape s = describe(window(100, [](int i) { return 1e9 + 1e7 * std::max(0, i - 60) + 1e6 * wiggle(i); }));
  ASSERT_EQ(s.segments.size(), 2u);
  EXPECT_NEAR(static_cast<double>(s.segments[1].begin), 60, 3);
}

TEST(Shape, takes_spikes_off_the_floor) {
  Shape s = describe(window(100, [](int i) { return 1e9 + (i % 20 >= 17 ? 4e8 : 0) + 1e6 * wiggle(i); }));
  ASSERT_EQ(s.excursions.size(), 4u) << "the fifth has not come back";
  for (const Excursion& e : s.excursions) EXPECT_NEAR(e.height, 4e8, 1e7);
  EXPECT_NEAR(s.excursions[1].peak_time - s.excursions[0].peak_time, 20, 3);
  for (const Dot& d : s.floor) EXPECT_LT(d.value, 1.1e9);
}

TEST(Shape, knows_a_spike_that_has_not_come_back_from_those_before) {
  auto spiky = [](int i) { return 1e9 + (i % 20 >= 17 ? 4e8 : 0) + 1e6 * wiggle(i); };
  EXPECT_TRUE(describe(window(99, spiky)).under_way);
  EXPECT_FALSE(describe(window(96, spiky)).under_way);
}

// Every 20th second a spike, and behind it a second in which less is held.
double validates(int i, double level, double down) {
  int k = i % 20;
  return (k == 17 ? level + 4e8 : k == 18 ? down : level) + 1e6 * wiggle(i);
}

TEST(Shape, has_the_level_for_its_floor_where_dips_below_it_rise_as_it_does) {
  Shape s = describe(window(100, [](int i) { return validates(i, 1e9 + 2e6 * i, 7e8 + 2e6 * i); }));
  EXPECT_EQ(s.excursions.size(), 5u);
  for (const Excursion& e : s.excursions) EXPECT_NEAR(e.height, 4e8, 5e7);
  for (const Dot& d : s.floor) EXPECT_NEAR(d.value, 1e9 + 2e6 * d.time, 2e7) << d.time;
}

TEST(Shape, has_dips_to_one_height_for_its_floor_however_the_level_above_them_rises) {
  Shape s = describe(window(100, [](int i) { return validates(i, 1e9 + 2e6 * i, 7e8); }));
  auto down = [](const Dot& d) { return d.value < 7.1e8; };
  EXPECT_EQ(std::count_if(s.floor.begin(), s.floor.end(), down), 5);
}

TEST(Shape, does_not_take_a_step_for_a_spike) {
  Shape s = describe(window(100, [](int i) { return 1e9 + (i >= 50 ? 4e8 : 0) + 1e6 * wiggle(i); }));
  EXPECT_TRUE(s.excursions.empty());
  ASSERT_EQ(s.segments.size(), 2u);
}

TEST(Shape, measures_a_rise_that_was_taken_back) {
  Shape s = describe(window(100, [](int i) {
    return 1e9 + 1e7 * (i < 30 ? i : i < 60 ? 30 : std::max(0, 90 - i));
  }));
  EXPECT_NEAR(s.reversed_rise, 3e8, 2e7);
}

TEST(Shape, without_a_shift_is_one_rise_at_the_rate_before_and_after) {
  auto loads = [](int i) {
    return 1e9 + 1e7 * i + (i >= 40 ? 6e8 : 0) + (i >= 70 ? 8e8 : 0) + 1e6 * wiggle(i);
  };
  auto level = without_shifts(describe(window(100, loads)));
  ASSERT_TRUE(level);
  const Shape& s = *level;
  ASSERT_EQ(s.segments.size(), 1u);
  EXPECT_NEAR(s.segments[0].slope, 1e7, 3e5);
  EXPECT_NEAR(s.floor.back().value, loads(99), 1e6) << "where it is now does not change";
  EXPECT_NEAR(s.level_since, 70, 2);
}

TEST(Shape, without_shifts_that_took_a_while_each_is_one_rise) {
  for (int second : {70, 47}) {  // long after the first, and soon
    auto loads = [&](int i) {
      auto part = [&](int from) { return std::clamp((i - from) / 3.0, 0.0, 1.0); };
      return 1e9 + 1e7 * i + 6e8 * part(38) + 8e8 * part(second) + 1e6 * wiggle(i);
    };
    auto level = without_shifts(describe(window(100, loads)));
    ASSERT_TRUE(level) << second;
    EXPECT_EQ(level->segments.size(), 1u) << second;
    EXPECT_LT(level->reversed_rise, 1e7) << second;
    EXPECT_NEAR(level->floor.front().value, 2.4e9, 2e7) << second;
  }
}

TEST(Shape, that_rises_by_its_shifts_keeps_them) {
  for (double rate : {0.0, 1e6}) {
    Shape s = describe(window(100, [&](int i) { return 1e9 + rate * i + 4e8 * (i / 20) + 1e6 * wiggle(i); }));
    EXPECT_FALSE(without_shifts(s));
  }
  Shape fell =
      describe(window(100, [](int i) { return 3e9 + 1e7 * i - (i >= 50 ? 9e8 : 0) + 1e6 * wiggle(i); }));
  EXPECT_FALSE(without_shifts(fell));
}

TEST(Shape, of_nothing_is_empty) {
  EXPECT_TRUE(describe({}).floor.empty());
  EXPECT_EQ(describe(window(1, [](int) { return 1e9; })).floor.size(), 1u);
}

}  // namespace
}  // namespace oomcast
