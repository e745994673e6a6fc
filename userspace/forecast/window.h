// A series at several resolutions side by side: all of its life, and its newer parts more closely.
#pragma once

#include <span>
#include <vector>

#include "leak/shape.h"
#include "model/history.h"

namespace oomcast {

struct Window {
  std::span<const Bucket> buckets;  // of the history, until that changes
  Shape shape;
};

/// What was known at `until`, of the life that began at `life_began` (s since the first reading): the longest
/// first, each finer than the one before. At least one, of a history with readings. `alone`: what is too
/// coarse to show this life apart from those before it is left out.
std::vector<Window> windows_until(const History& history, double life_began, double until,
                                  bool alone = false);

}  // namespace oomcast
