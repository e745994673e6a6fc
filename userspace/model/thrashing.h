// Finds cgroups full of unreclaimable memory whose tasks stall in reclaim instead of being killed: each time the
// kernel finds a page to drop, mostly of the program's own code, which is read back at once. This can last hours.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "model/facts.h"

namespace oomcast {

struct Thrashing {
  MonoTime since;
  Seconds lasts{};
  double waiting = 0;  // task-seconds per second in reclaim, in the last interval
  BytesPerSec reclaimed{};
};
/// What follows the cgroup's name: "has thrashed at its limit for 12 s: …".
std::string describe(const Thrashing& thrashing);

/// Follows cgroups by their facts, in order. Amortised constant time per fact, 200 bytes per cgroup.
class ThrashingFinder {
 public:
  static constexpr double kMinWaiting = 0.25;
  static constexpr double kFull = 0.95;  // of the limit, not reclaimable
  static constexpr Seconds kMin{5};

  void on(const Sample& sample);
  void on(const ReclaimFact& reclaim);
  /// A kill frees memory: thrashing is timed anew from here.
  void on_kill(CgroupId cgroup);
  void on(const ForgottenFact& forgotten) { states_.erase(forgotten.cgroup); }
  /// nullopt: it does not thrash, or not for kMin yet.
  std::optional<Thrashing> of(CgroupId cgroup, MonoTime now) const;

 private:
  struct State {
    std::optional<Bytes> pinned, limit;
    std::optional<CgroupId> owner;  // of the limit
    std::optional<MonoTime> told;   // its newest ReclaimFact
    std::optional<Thrashing> thrashing;
  };
  bool full(const State& state) const;

  std::unordered_map<CgroupId, State> states_;
};

}  // namespace oomcast
