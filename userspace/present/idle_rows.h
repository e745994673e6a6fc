// Finds the idle cgroups of the live screen: three hundred of them hid the one that matters.
#pragma once

#include <optional>
#include <unordered_map>

#include "present/overview.h"

namespace oomcast {

/// Call with each overview in turn. A cgroup is idle if it has no deadline, does not grow, and its usage and
/// limit stayed (within 1 %, and 1 MiB) for kQuiet, or since it was first seen if that was at the start, or
/// if it was empty then.
class IdleRows {
 public:
  static constexpr Seconds kQuiet{30};

  /// Sets `idle` in its rows.
  void mark(Overview& overview);

 private:
  struct Seen {
    std::optional<Bytes> usage, limit;
    std::optional<MonoTime> moved;
    bool still_there = true;
  };
  std::unordered_map<CgroupId, Seen> seen_;
  bool began_ = false;
};

}  // namespace oomcast
