// What `run` leaves when it is killed with SIGKILL: its cgroup, its folder in /tmp, and the command, which
// goes on.
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

/// Both are followed by a pid; the folder's by a "-" and six random characters then.
inline constexpr std::string_view kRunCgroup = "oomcast-run-", kRunFolder = "oomcast-run-";
/// Of each kind, at one start.
inline constexpr std::size_t kMaxSwept = 64;

/// Removes those of the cgroups that are named as those of `run`, are this user's and empty, and have no
/// oomcast any more that follows them. Nothing is killed: returns a sentence for each that has processes.
std::vector<std::string> sweep_cgroups(const CgroupTree& known, const CgroupFs& fs, const ProcFs& procfs);

/// Removes folders of `run` right in `directory`, with the files in them: those that are this user's and
/// that no other may write to, and whose pid `is_oomcast` does not know. Follows no link. Returns how many.
std::size_t sweep_folders(const std::string& directory,
                          const std::function<bool(std::uint32_t pid)>& is_oomcast);

/// Whether this pid is of a process that is named as this one.
bool is_named_as_we(const ProcFs& procfs, std::uint32_t pid);

}  // namespace oomcast
