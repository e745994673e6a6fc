// Decides when page faults are watched. A watched fault costs its program some 0.3 µs, so there is a budget for
// the busiest CPU; while it is spent, no process is watched.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace oomcast {

class FaultBudget {
 public:
  /// A program that does nothing but fault is slowed by about `per_s` × 0.3 µs: 0.15 %. A process that grows
  /// by less than 20 MB/s is watched all the time; the first 128 MiB of any are.
  struct Limits {
    double per_s = 5000;   // of one CPU
    double burst = 32768;  // saved up at most, and at the beginning
    double window = 1024;  // saved up before watching goes on, more or less: no program's rhythm is met
  };
  FaultBudget(const Limits& limits, MonoTime now) : limits_(limits), last_(now), left_(limits.burst) {}

  /// Whether to watch from `now` on. `faults`: those watched on the busiest CPU since the last call;
  /// `chance`: a random number from 0 to 1.
  bool look(MonoTime now, std::uint64_t faults, double chance);
  bool watching() const { return watching_; }
  /// Faults left on each CPU; 0 if overdrawn.
  std::uint64_t left() const { return left_ > 0 ? static_cast<std::uint64_t>(left_) : 0; }
  /// Latest time for the next call.
  Nanos next_look() const;
  /// Fraction of the time since the beginning that was watched, from 0 to 1.
  double watched_share() const;

 private:
  Limits limits_;
  MonoTime last_;
  double left_;
  bool watching_ = true;
  MonoTime resume_{};
  Nanos watched_{}, paused_{};
};

}  // namespace oomcast
