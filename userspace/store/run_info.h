// One tracing run of oomcast, as what it wrote down names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/task_id.h"
#include "base/units.h"

namespace oomcast {

/// What was true of the whole run.
struct RunInfo {
  std::string version, kernel, scope;
  Hierarchy hierarchy = Hierarchy::v2;
  Nanos interval{}, wall_of_mono_zero{}, wall_of_boot_zero{}, tick{};
  std::optional<TaskId> tree;  // with --pid
  std::uint64_t lost = 0;      // items that the disk was too slow for
  std::string boot_id = {};    // of the kernel; empty: unknown
};

}  // namespace oomcast
