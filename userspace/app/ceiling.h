// Keeps oomcast's own memory use below a bound.
#pragma once

#include <functional>
#include <optional>

#include "base/units.h"

namespace oomcast {

/// Every container that others can fill has its own bound, but all of them full at once would exceed kMax. So
/// the bounds of cgroups, processes, GPU handles and samples queued for the store (set_room()) are halved
/// when kTight is in use, and halved again every kSoon while it stays so, down to a sixteenth; what is
/// dropped is counted by its owner. Kills and output are kept. Below kEase the bounds are doubled again, one
/// step every kLater.
class Ceiling {
 public:
  static constexpr Bytes kMax = MiB(64);  // resident, including files and rings
  static constexpr Bytes kTight = MiB(50), kEase = MiB(42);
  static constexpr Nanos kSoon = std::chrono::milliseconds(250), kLater = std::chrono::seconds(10);
  static constexpr double kMin = 1.0 / 16;

  /// `use` reads what is in use; nullopt: unreadable.
  explicit Ceiling(std::function<std::optional<Bytes>()> use) : use_(std::move(use)) {}

  /// Call in each round of the loop. Returns the fraction of those bounds to use from now on; nullopt:
  /// unchanged.
  std::optional<double> advance(MonoTime now);

 private:
  std::function<std::optional<Bytes>()> use_;
  double part_ = 1;
  MonoTime next_{}, eased_{};
};

/// Resident memory of this process, without free chunks of its heap that will be reused: they are locked and
/// cannot be given back. Cost: 10 µs; above Ceiling::kEase 0.1 to 1 ms, a pass over those chunks.
std::optional<Bytes> memory_in_use();

}  // namespace oomcast
