// The hierarchy with the memory controller: where it is mounted, and how paths map between mount and hierarchy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/task_id.h"
#include "collect/roots.h"

namespace oomcast {

/// Where the hierarchy with the memory controller is mounted.
struct CgroupMount {
  Hierarchy hierarchy = Hierarchy::v2;
  std::string mount_point;          // where to open it from here (re-rooted)
  std::string machine_mount_point;  // as the machine's own mount table names it
  std::string mount_root = "/";     // the cgroup that is mounted there (field 4 of mountinfo)
  std::uint32_t hierarchy_id = 0;   // /proc/cgroups; 0 = v2
  /// Paths do not start at the host's root: this process is in a cgroup namespace and cannot see above it.
  bool namespaced = false;
  bool sees_root = true;  // what is mounted begins with the machine's root cgroup

  /// The kernel log's path of `relative` ("" or "/a/b") below the mount point.
  std::string kernel_path(std::string_view relative) const;
  /// The reverse; nullopt: outside the mount.
  std::optional<std::string> relative_path(std::string_view kernel_path) const;
  /// The kernel log's path for one found in /proc/PID/cgroup, which starts with "/.." for a cgroup outside of
  /// the reader's cgroup namespace. nullopt: cannot be expressed below this mount.
  std::optional<std::string> from_proc_path(std::string_view proc_path) const;
};

/// Looks in the mount table and /proc/cgroups. v1 when the memory controller sits in a v1 hierarchy (hybrid
/// too), else v2 when a cgroup2 mount offers it. Error::forbidden (exit 3) names what is missing and the
/// command that helps.
Result<CgroupMount> find_memory_hierarchy(const Roots& roots);

}  // namespace oomcast
