// Where the present life of a series began.
#pragma once

#include <optional>
#include <span>

#include "base/units.h"
#include "model/history.h"

namespace oomcast {

/// After a fall to a small part of what it was, or, of what had grown far towards its limit, to where it had
/// begun, as when the job is started anew. Falls that come again and again are its way of life.
struct Restarts {
  float since = 0;  // s; 0: there was none
  int count = 0;
};

/// One pass over the buckets.
Restarts find_restarts(std::span<const Bucket> buckets, std::optional<Bytes> limit);

}  // namespace oomcast
