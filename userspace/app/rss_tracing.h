// When every change of RSS is traced.
#pragma once

#include <optional>

#include "base/units.h"
#include "collect/bpf_source.h"

namespace oomcast {

/// A reading at each tick is enough, except for what is about to hit its limit and for a cgroup of an
/// explicit scope that moves: there each change is traced, at a cost of 3 to 5 % of a fault-bound program.
class RssTracing {
 public:
  static constexpr Nanos kFor = std::chrono::seconds(5);

  explicit RssTracing(BpfSource& programs) : programs_(programs) {}
  /// Something in an explicit scope moved.
  void on_moved(MonoTime moved);
  /// `nearly_full`: when a cgroup was last seen above 95 % of its limit.
  void advance(std::optional<MonoTime> nearly_full, MonoTime now);

 private:
  BpfSource& programs_;
  MonoTime until_{};
};

}  // namespace oomcast
