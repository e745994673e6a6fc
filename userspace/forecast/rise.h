// Whether a rise is one that goes on: its floor as dots and as straight pieces, from dot `first` on. Pure
// functions, each one pass.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forecast/trend.h"
#include "leak/shape.h"

namespace oomcast {

/// What has slowed to less than this part of its pace may stand still.
inline constexpr double kStalls = 0.4;

/// Whether something was taken back at once, as a collector does.
bool fell(std::span<const Dot> dots, std::size_t first, double noise);

/// Whether what rose before stands still in the newest segment.
bool stalled(std::span<const Dot> dots, std::size_t first, const Segment& last, double noise);

/// Whether it stands still now, for longer than it ever did while it rose: what comes in steps is a staircase
/// only when it has rested like that more than once.
bool rests(const std::vector<Segment>& segments, std::span<const Dot> dots, std::size_t first, double noise);

/// Whether the segments from number `first` on are a kink rather than a curve: two of them, and no curve
/// explains them nearly as well. A curve is cut into more.
bool bends(const std::vector<Segment>& segments, std::size_t first, std::span<const Dot> dots);

/// Whether the rise is a few jumps between flat stretches.
bool by_jumps(const std::vector<Segment>& segments, std::span<const Dot> dots, std::size_t first,
              double noise, double rise);

/// Whether two or three sudden shifts between flat stretches explain these dots much better than their trend
/// does.
bool by_shifts(std::span<const Dot> dots, const Trend& trend);

/// Whether dots [first, middle) swing around the line through all from `first` on as far as those from
/// `middle` on: at least one and a half times to and fro, or the newest swing begins with a fall, as a
/// collector's does.
bool swings(std::span<const Dot> dots, std::size_t first, std::size_t middle);

}  // namespace oomcast
