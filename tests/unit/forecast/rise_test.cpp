#include "forecast/rise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace oomcast {
namespace {

constexpr double kNoise = 0.1;

/// A floor along straight pieces: each goes on for `dots` seconds with `slope`, `jump` above the one before.
struct Piece {
  int dots;
  double slope, jump = 0;
};
struct Floor {
  std::vector<Dot> dots;
  std::vector<Segment> segments;
};
Floor floor_of(std::initializer_list<Piece> pieces) {
  Floor out;
  double time = 0, value = 100;
  for (const Piece& piece : pieces) {
    std::size_t begin = out.dots.size();
    value += piece.jump;
    for (int i = 0; i < piece.dots; ++i, ++time, value += piece.slope) out.dots.push_back({time, value});
    out.segments.push_back(fit_line(out.dots, begin, out.dots.size()));
  }
  return out;
}

TEST(Rise, fell_where_more_than_noise_was_taken_back_at_once) {
  const std::vector<Dot> dots{{0, 5}, {1, 1}, {2, 2}, {3, 3}, {4, 2.5}, {5, 4}};
  EXPECT_TRUE(fell(dots, 0, kNoise));
  EXPECT_TRUE(fell(dots, 2, kNoise)) << "by half, of noise of a tenth";
  EXPECT_FALSE(fell(dots, 2, 0.2)) << "within the noise";
  EXPECT_FALSE(fell(dots, 5, kNoise)) << "before the dots in question";
}

TEST(Rise, has_stalled_where_its_newest_piece_stays_below_what_it_was_heading_for) {
  Floor stands = floor_of({{20, 1}, {10, 0}}), goes_on = floor_of({{20, 1}, {10, 1}});
  EXPECT_TRUE(stalled(stands.dots, 0, stands.segments.back(), kNoise));
  EXPECT_FALSE(stalled(goes_on.dots, 0, goes_on.segments.back(), kNoise));
  EXPECT_FALSE(stalled(stands.dots, 18, stands.segments.back(), kNoise)) << "two dots are no pace";
}

TEST(Rise, that_stands_for_longer_than_ever_before_rests_and_a_staircase_does_not) {
  Floor loaded = floor_of({{1, 0}, {40, 1}, {20, 0}});
  EXPECT_TRUE(rests(loaded.segments, loaded.dots, 0, kNoise));
  Floor rises = floor_of({{1, 0}, {40, 1}, {20, 1}});
  EXPECT_FALSE(rests(rises.segments, rises.dots, 0, kNoise));
  Floor staircase = floor_of({{10, 1}, {20, 0}, {10, 1}, {20, 0}, {10, 1}, {20, 0}});
  EXPECT_FALSE(rests(staircase.segments, staircase.dots, 0, kNoise)) << "twice before it rose again";
  Floor longer = floor_of({{10, 1}, {20, 0}, {10, 1}, {20, 0}, {10, 1}, {60, 0}});
  EXPECT_TRUE(rests(longer.segments, longer.dots, 0, kNoise)) << "three times as long as ever";
}

TEST(Rise, bends_at_a_kink_and_not_along_a_curve) {
  Floor kink = floor_of({{30, 0}, {30, 2}});
  EXPECT_TRUE(bends(kink.segments, 0, kink.dots));
  std::vector<Dot> curve;
  for (int i = 0; i < 60; ++i) curve.push_back({i * 1.0, 100 + i * i / 30.0});
  EXPECT_FALSE(bends({fit_line(curve, 0, 30), fit_line(curve, 30, 60)}, 0, curve));
  Floor three = floor_of({{20, 0}, {20, 2}, {20, 5}});
  EXPECT_FALSE(bends(three.segments, 0, three.dots)) << "a curve is cut into three";
}

TEST(Rise, is_by_jumps_where_a_few_of_them_make_most_of_it) {
  Floor two = floor_of({{20, 0}, {20, 0, 10}, {20, 0, 10}});
  EXPECT_TRUE(by_jumps(two.segments, two.dots, 0, kNoise, 20));
  Floor slow_jump = floor_of({{20, 0}, {3, 5}, {37, 0}});
  EXPECT_TRUE(by_jumps(slow_jump.segments, slow_jump.dots, 0, kNoise, 15)) << "one that takes three dots";
  Floor line = floor_of({{30, 0.3}, {30, 0.3}});
  EXPECT_FALSE(by_jumps(line.segments, line.dots, 0, kNoise, 18));
  Floor stairs = floor_of({{12, 0}, {12, 0, 5}, {12, 0, 5}, {12, 0, 5}, {12, 0, 5}});
  EXPECT_FALSE(by_jumps(stairs.segments, stairs.dots, 0, kNoise, 20)) << "four come again";
}

TEST(Rise, is_by_shifts_where_levels_explain_it_better_than_its_trend) {
  auto is = [](const Floor& floor) { return by_shifts(floor.dots, Trend::fit(floor.dots).value()); };
  EXPECT_TRUE(is(floor_of({{20, 0}, {20, 0, 10}, {20, 0, 10}})));
  EXPECT_FALSE(is(floor_of({{60, 0.3}})));
  EXPECT_FALSE(is(floor_of({{12, 0}, {12, 0, 5}, {12, 0, 5}, {12, 0, 5}, {12, 0, 5}}))) << "four of them";
}

TEST(Rise, swings_where_it_went_to_and_fro_as_far_before) {
  auto wave = [](int dots, double newer) {
    std::vector<Dot> out;
    for (int i = 0; i < dots; ++i) {
      double swing = std::sin(2 * std::numbers::pi * i / 20);
      out.push_back({i * 1.0, 100 + i + (i < 60 ? 5 : newer) * swing});
    }
    return out;
  };
  EXPECT_TRUE(swings(wave(80, 5), 0, 60));
  EXPECT_FALSE(swings(wave(80, 20), 0, 60)) << "the newest goes four times as far";
  Floor kink = floor_of({{60, 0.2}, {20, 1}});
  EXPECT_FALSE(swings(kink.dots, 0, 60)) << "it bends once";
}

}  // namespace
}  // namespace oomcast
