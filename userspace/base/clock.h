// Reads clocks.
#pragma once

#include <time.h>

#include "base/units.h"

namespace oomcast {

inline Nanos clock_now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + Nanos(t.tv_nsec);
}
inline WallTime wall_now() {
  return WallTime(clock_now(CLOCK_REALTIME));
}
inline MonoTime mono_now() {
  return MonoTime(clock_now(CLOCK_MONOTONIC));
}

/// How far clock `to` is ahead of clock `from`. Of sixteen readings of one between two of the other the one
/// that took least counts, so that a pause inside a reading (another task, a virtual CPU that stands still)
/// does not shift every time that is told by it. Error: at most half of what that reading took. Source: F.
/// Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
template <class From, class To>
Nanos clock_ahead(From from, To to) {
  Nanos least = Nanos::max(), ahead{};
  for (int i = 0; i < 16; i++) {
    Nanos before = from(), between = to(), after = from();
    if (after - before >= least) continue;
    least = after - before;
    ahead = between - (before + least / 2);
  }
  return ahead;
}
inline Nanos wall_ahead_of(clockid_t clock) {
  return clock_ahead([&] { return clock_now(clock); }, [] { return clock_now(CLOCK_REALTIME); });
}

}  // namespace oomcast
