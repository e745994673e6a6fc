// Resolves the scope of a command line on this machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "collect/roots.h"
#include "model/scope.h"

namespace oomcast {

/// The topmost cgroups of a scope other than --pid. Error (exit 1): nothing matches, with near matches. Cost:
/// a walk of the tree.
Result<std::vector<CgroupEntry>> cgroups_of(const ScopeOptions& scope, const CgroupFs& fs,
                                            const Roots& roots);

/// The cgroup path for user input: with or without leading and trailing slashes, or below /sys/fs/cgroup. The
/// cgroup need not exist on this machine.
std::string path_of_typed(std::string_view typed);

/// What --unit, --container or --slurm-job resolved to, for a person to check; empty for other scopes.
std::string tell_matches(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups);

/// Actions on alerts of these cgroups must be for a single owner: any user can give a cgroup the name of
/// another user's, and fill it. Error (exit 1): there are several owners; or the scope waits for a name, and
/// root did not create it. A path (--cgroup) is always accepted.
Status may_act_for(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups);

/// A scope resolved at one moment.
struct ScopeNow {
  std::vector<CgroupEntry> cgroups;  // the topmost; none: the whole machine, or a process
  std::vector<std::uint32_t> pids;   // all that are in it; with --pid, it and its descendants
};

/// Error (exit 1): nothing matches. Cost: about 10 µs for each process of the machine.
Result<ScopeNow> scope_now(const ScopeOptions& scope, const CgroupFs& fs, const ProcFs& procfs,
                           const Roots& roots);

/// Sorted by resident memory. About 10 µs each.
std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> pids, const ProcFs& procfs);

}  // namespace oomcast
