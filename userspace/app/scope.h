// What the scope of a command line means on this machine.
#pragma once

#include <cstdint>
#include <vector>

#include "app/options.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "collect/roots.h"
#include "model/scope.h"

namespace oomcast {

/// The topmost cgroups that a scope other than --pid names. `known` without aliases: --container gets those
/// of `roots`. Error (exit 1): nothing matches, with near matches.
Result<std::vector<CgroupId>> match_cgroups(const ScopeOptions& scope, std::vector<KnownCgroup> known,
                                            const CgroupMount& mount, const Roots& roots);

/// What a scope means at one moment.
struct ScopeNow {
  std::vector<CgroupEntry> cgroups;  // the topmost; none: the whole machine, or a process
  std::vector<std::uint32_t> pids;   // all that are in it: with --pid, it and its descendants
};

/// Error (exit 1): nothing matches. Cost: about 10 µs for each process of the machine.
Result<ScopeNow> scope_now(const ScopeOptions& scope, const CgroupFs& fs, const ProcFs& procfs,
                           const Roots& roots);

}  // namespace oomcast
