// How fast a series grows and when it meets its limit. Pure functions of a series and a limit.
#pragma once

#include <optional>
#include <span>

#include "base/units.h"
#include "forecast/forecast.h"
#include "model/series.h"

namespace oomcast {

/// Theil-Sen slope (the median of the slopes between all pairs of samples; Sen 1968, J. Am. Stat. Assoc.
/// 63:1379) over the newest `window`, with Sen's interval from the variance of Kendall's statistic. At most
/// 64 samples, evenly spaced, are used: about 2,000 slopes. nullopt: fewer than 5 samples or less than 2 s.
std::optional<Growth> growth_rate(std::span<const Point> series, Seconds window);

/// A straight line to the limit, for `leak` when even the low end of the growth is above what noise gives,
/// `stable` otherwise, `unknown` while there is too little to say. `limit` nullopt: no deadline. The interval
/// covers regression noise only.
Forecast forecast(std::span<const Point> series, std::optional<Bytes> limit);

}  // namespace oomcast
