// How closely a machine in trouble lets the tracer look.
#pragma once

#include <optional>

#include "base/units.h"

namespace oomcast {

/// Curves and forecasts give way where the loop is at work, or waits for a CPU, for more than half of the
/// time, as on a slow machine on which hundreds of cgroups meet their limits at once: kills are to be told in
/// time. CPU time alone is not enough: who shares a CPU with five others never has half of it.
class Pace {
 public:
  static constexpr Nanos kWindow = std::chrono::milliseconds(500);
  static constexpr Nanos kMin = std::chrono::milliseconds(50), kMax = std::chrono::seconds(60);

  void slept(Nanos time) { slept_ += time; }
  /// After each round of the loop. The time that samples of the same are to be apart, at the end of each
  /// window: twice as much while the loop is busy, half as much while it is not; 0: all are told.
  std::optional<Nanos> advance(MonoTime now);

 private:
  static constexpr double kMaxAwake = 0.5;  // of a window
  std::optional<MonoTime> window_;
  Nanos slept_{}, pace_{};
};

}  // namespace oomcast
