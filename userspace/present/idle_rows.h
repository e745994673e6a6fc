// Which cgroups of the live screen are idle: three hundred of them hid the one that matters.
#pragma once

#include <optional>
#include <unordered_map>

#include "present/overview.h"

namespace oomcast {

/// Sees one overview after the other. Idle is a cgroup without a deadline that does not grow and whose usage
/// and limit stayed (within 1 %, and 1 MiB) for kQuiet, or since it was first seen: at the beginning, or
/// empty.
class IdleRows {
 public:
  static constexpr Seconds kQuiet{30};

  /// Sets `idle` of its rows.
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
