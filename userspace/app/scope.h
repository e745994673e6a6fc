// What the scope of a command line means on this machine.
#pragma once

#include <vector>

#include "app/options.h"
#include "collect/roots.h"
#include "model/scope.h"

namespace oomcast {

/// The topmost cgroups that a scope other than --pid names. `known` without aliases: --container gets those
/// of `roots`. Error (exit 1): nothing matches, with near matches.
Result<std::vector<CgroupId>> match_cgroups(const ScopeOptions& scope, std::vector<KnownCgroup> known,
                                            const CgroupMount& mount, const Roots& roots);

}  // namespace oomcast
