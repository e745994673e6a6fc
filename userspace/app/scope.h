// What the scope of a command line means on this machine.
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

/// The topmost cgroups that a scope other than --pid names. Error (exit 1): nothing matches, with near
/// matches. Cost: a walk of the tree.
Result<std::vector<CgroupEntry>> cgroups_of(const ScopeOptions& scope, const CgroupFs& fs,
                                            const Roots& roots);

/// The path in the hierarchy that is meant by one with or without leading and trailing slashes, or below
/// /sys/fs/cgroup: of cgroups that need not be on this machine.
std::string path_of_typed(std::string_view typed);

/// What --unit, --container or --slurm-job turned out to mean, for a person to check; empty for other scopes.
std::string tell_matches(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups);

/// What is done on an alert of these cgroups is done for one owner: any user may give a cgroup of his own the
/// name that another's has, and fill it. Error (exit 1): they have several; or it is waited for the name, and
/// it is not root who gave it. A path (--cgroup) means what it says.
Status may_act_for(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups);

/// What a scope means at one moment.
struct ScopeNow {
  std::vector<CgroupEntry> cgroups;  // the topmost; none: the whole machine, or a process
  std::vector<std::uint32_t> pids;   // all that are in it: with --pid, it and its descendants
};

/// Error (exit 1): nothing matches. Cost: about 10 µs for each process of the machine.
Result<ScopeNow> scope_now(const ScopeOptions& scope, const CgroupFs& fs, const ProcFs& procfs,
                           const Roots& roots);

/// The same, by what each has resident. About 10 µs each.
std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> pids, const ProcFs& procfs);

}  // namespace oomcast
