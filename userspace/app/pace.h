// Reduces the rate of samples on an overloaded machine.
#pragma once

#include <optional>

#include "base/units.h"

namespace oomcast {

/// Curves and forecasts are thinned while the loop is running, or waiting for a CPU, for more than half of
/// the time, as on a slow machine on which hundreds of cgroups hit their limits at once: kills must be
/// reported in time. CPU time alone is not enough: a process that shares a CPU with five others never gets
/// half of it.
class Pace {
 public:
  static constexpr Nanos kWindow = std::chrono::milliseconds(500);
  static constexpr Nanos kMin = std::chrono::milliseconds(50), kMax = std::chrono::seconds(60);

  void slept(Nanos time) { slept_ += time; }
  /// Call after each round of the loop. At the end of each window, returns the minimum interval between
  /// samples of one subject: doubled while the loop is busy, halved while it is not; 0: publish all.
  std::optional<Nanos> advance(MonoTime now);

 private:
  static constexpr double kMaxAwake = 0.5;  // of a window
  std::optional<MonoTime> window_;
  Nanos slept_{}, pace_{};
};

}  // namespace oomcast
