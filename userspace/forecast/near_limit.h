// A level near its limit, with or without a trend.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/forecast.h"
#include "model/history.h"

namespace oomcast {

/// Where a series may be near its limit, and as long as it stays so: parts of the limit.
inline constexpr double kNear = 0.90, kTight = 0.85;

/// Where, in seconds of the history, the present life began, and where the last one ended at its limit (0:
/// none did). Heights before that were not survived.
struct Lives {
  double began = 0, died = 0;
};

/// It is as high as never before, and has risen by more than is left, within a twentieth of its life (10 s to
/// half an hour), and by more than ever within as long: full servers wander; and its newest steps do not
/// shrink as if it stopped below it. `was_near`: it was at the last look. nullopt: it is not. Cost: a pass
/// over the history, of what is at nine tenths of its limit.
std::optional<NearLimit> near_limit(const History& history, Bytes limit, const Lives& lives, bool was_near);

}  // namespace oomcast
