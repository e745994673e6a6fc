// What oomcast holds of the machine's memory, and that it stays below a bound.
#pragma once

#include <functional>
#include <optional>

#include "base/units.h"

namespace oomcast {

/// Whoever keeps what others can make many of has a bound of its own; full at once they would hold more than
/// kMax. So those of cgroups, processes, GPU handles and samples that wait for the store (set_room()) are
/// halved once kTight is in use, and halved again every kSoon while it is, to a sixteenth; what goes is
/// counted by its owner. Kills and what is to be printed stay. Below kEase they are doubled, one step in
/// kLater.
class Ceiling {
 public:
  static constexpr Bytes kMax = MiB(64);  // resident, files and rings among it
  static constexpr Bytes kTight = MiB(50), kEase = MiB(42);
  static constexpr Nanos kSoon = std::chrono::milliseconds(250), kLater = std::chrono::seconds(10);
  static constexpr double kMin = 1.0 / 16;

  /// Reads what is in use; nullopt: it cannot be read.
  explicit Ceiling(std::function<std::optional<Bytes>()> use) : use_(std::move(use)) {}

  /// At each round of the loop. The part of those bounds that may be used from now on; nullopt: as
  /// before.
  std::optional<double> advance(MonoTime now);

 private:
  std::function<std::optional<Bytes>()> use_;
  double part_ = 1;
  MonoTime next_{}, eased_{};
};

/// Resident memory of this process, without pieces of its heap that are free and will be used again: they are
/// locked, and cannot be given back. Cost: 10 µs; from Ceiling::kEase on .1 to 1 ms, a pass over those
/// pieces.
std::optional<Bytes> memory_in_use();

}  // namespace oomcast
