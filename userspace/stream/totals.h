// Counts of what was published since the start, for a reader that connects late or reconnects.
#pragma once

#include "stream/facts.h"

namespace oomcast {

/// A dozen counters, and one per reason of a loss. Scopes are there from the start, at 0: a rate over a counter
/// that appears with its first kill never sees that kill.
class Totals {
 public:
  explicit Totals(MonoTime since);
  void on(const Fact& fact);
  TotalsFact now(MonoTime time) const;

 private:
  TotalsFact totals_;
};

}  // namespace oomcast
