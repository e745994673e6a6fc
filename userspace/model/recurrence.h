// How often a kill comes back, whether that is regular, and when the next one is due.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace oomcast {

struct KillPoint {
  WallTime time;
  std::optional<Bytes> size;  // of the largest victim
};

enum class SizeTrend : std::uint8_t { unknown, steady, rising, falling, varied };
std::string_view to_string(SizeTrend trend);

struct Recurrence {
  std::size_t kills = 0;
  std::size_t times = 0;            // kills within a minute of each other are one time
  WallTime first, last;             // of the times
  std::optional<Seconds> interval;  // the median; with two times, how far they are apart
  bool regular = false;
  std::optional<Seconds> spread;  // regular: the farthest of the intervals that fit, from the median
  struct Due {
    WallTime low, at, high;
  };
  std::optional<Due> next;                  // regular only
  std::vector<std::optional<Bytes>> sizes;  // of the newest times, at most 5, oldest first
  SizeTrend trend = SizeTrend::unknown;
};

/// `kills`: oldest first. nullopt: there are none.
///
/// Regular: three or more intervals of which at least four fifths (of three and four: all) are within 25 % of
/// their median, or two that differ by at most 10 % of their mean. Kills at random (Poisson) pass as regular
/// in 5 % of cases with two intervals, in 3 % with three, and in 2 % at most with more (40,000 drawn each).
///
/// Next: the last time and the mean of the intervals that fit; low to high is the 90 % prediction interval of
/// normal intervals, mean ± t(0.95, n − 1) · s · √(1 + 1/n), no wider than from the last kill to twice the
/// mean.
///
/// Trend, of three and more sizes: steady within 10 % of their median; rising or falling, when each is at
/// least, or at most, the one before it; else varied.
std::optional<Recurrence> recurrence_of(std::span<const KillPoint> kills);

}  // namespace oomcast
