// When a leak's deadline is an alert.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/leak.h"
#include "model/history.h"

namespace oomcast {

/// When it meets the limit, s since the first reading.
struct Meeting {
  double median = 0, low = 0;
  std::optional<double> high = {};  // nullopt: it may never
};

/// `was`: it was an alert at the last look; it stays one for longer than it takes to become one. `may_begin`:
/// who looks more often finds more that is none, so only looks of their own pace may raise an alert of a
/// trend.
bool is_alert(const Leak& leak, const Meeting& meeting, const History& history, Bytes limit, bool was,
              bool may_begin);

}  // namespace oomcast
