// Identity of tasks and cgroups. Names, pids and paths are labels; these are keys.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace oomcast {

/// A process: its thread-group id in the host's pid namespace and its start in clock ticks since boot (field
/// 22 of /proc/PID/stat; the kernel programs' nanoseconds are rounded down to it), so that a recycled pid is
/// another task.
struct TaskId {
  std::uint32_t tgid = 0;
  std::uint64_t start_ticks = 0;
  auto operator<=>(const TaskId&) const = default;
};

enum class Hierarchy : std::uint8_t { v1, v2 };

/// A memory cgroup: the inode of its directory, which v1 hierarchies do not share.
struct CgroupId {
  Hierarchy hierarchy = Hierarchy::v2;
  std::uint64_t inode = 0;
  auto operator<=>(const CgroupId&) const = default;
};

}  // namespace oomcast

template <>
struct std::hash<oomcast::TaskId> {
  std::size_t operator()(const oomcast::TaskId& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.start_ticks * 0x9E3779B97F4A7C15ull ^ id.tgid);
  }
};
template <>
struct std::hash<oomcast::CgroupId> {
  std::size_t operator()(const oomcast::CgroupId& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.inode * 2 + static_cast<std::uint64_t>(id.hierarchy));
  }
};
