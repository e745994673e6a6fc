// How fast a series grows and when it meets its limit. Pure functions of a series and a limit.
#pragma once

#include <optional>
#include <span>

#include "base/units.h"
#include "model/series.h"

namespace oomcast {

/// Slope with a 90 % interval.
struct Growth {
  BytesPerSec rate, low, high;
  Seconds span{};  // of the samples it rests on
  std::size_t samples = 0;
};

/// Theil-Sen slope (the median of the slopes between all pairs of samples; Sen 1968, J. Am. Stat. Assoc.
/// 63:1379) over the newest `window`, with Sen's interval from the variance of Kendall's statistic. At most
/// 64 samples, evenly spaced, are used: about 2,000 slopes. nullopt: fewer than 5 samples or less than 2 s.
std::optional<Growth> growth_rate(std::span<const Point> series, Seconds window);

enum class Verdict : std::uint8_t { stable, leak, spikes, step, ramp, cow, cache, unknown };

struct Forecast {
  Verdict verdict = Verdict::unknown;
  std::optional<Growth> growth;
  std::optional<Bytes> limit;
  /// From the newest sample to the limit. eta unset: not in sight. eta_high unset with eta_low set: may
  /// never.
  std::optional<Seconds> eta, eta_low, eta_high;
  bool alert = false;
  std::string why;
};

/// A straight line to the limit, for `leak` when even the low end of the growth is above what noise gives,
/// `stable` otherwise, `unknown` while there is too little to say. `limit` nullopt: no deadline. The interval
/// covers regression noise only.
Forecast forecast(std::span<const Point> series, std::optional<Bytes> limit);

std::string_view to_string(Verdict verdict);

}  // namespace oomcast
