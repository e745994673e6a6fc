// What `run` leaves behind when killed with SIGKILL: its cgroup, its directory in /tmp, and the command,
// which keeps running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "model/cgroup_tree.h"

namespace oomcast {

/// Each is followed by a pid; for the directory then by a "-" and six random characters.
inline constexpr std::string_view kRunCgroup = "oomcast-run-", kRunFolder = "oomcast-run-";
/// Limit per kind, at one start.
inline constexpr std::size_t kMaxSwept = 64;

/// Removes cgroups named like those of `run` that belong to this user, are empty, and have no oomcast
/// following them any more. Kills nothing: returns a sentence for each one with processes.
std::vector<std::string> sweep_cgroups(const CgroupTree& known, const CgroupFs& fs, const ProcFs& procfs);

/// Removes directories of `run` directly in `directory`, with the files in them, if they belong to this user,
/// nobody else may write to them, and `is_oomcast` does not know the pid. Follows no link. Returns how many.
std::size_t sweep_folders(const std::string& directory,
                          const std::function<bool(std::uint32_t pid)>& is_oomcast);

/// Whether the process with this pid has our name.
bool is_named_as_we(const ProcFs& procfs, std::uint32_t pid);

}  // namespace oomcast
