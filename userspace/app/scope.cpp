#include "app/scope.h"

#include <set>
#include <string>

#include "collect/container_names.h"

namespace oomcast {

Result<std::vector<CgroupId>> match_cgroups(const ScopeOptions& scope, std::vector<KnownCgroup> known,
                                            const CgroupMount& mount, const Roots& roots) {
  if (scope.cgroup) return match_cgroup(known, mount, *scope.cgroup);
  if (scope.unit) return match_unit(known, *scope.unit);
  if (scope.slurm_job) return match_slurm_job(known, *scope.slurm_job);
  std::set<std::string> ids;
  for (const KnownCgroup& c : known)
    if (c.name.container) ids.insert(*c.name.container);
  ContainerNames names = names_of_containers(roots, ids);
  for (KnownCgroup& c : known)
    if (auto found = c.name.container ? names.find(*c.name.container) : names.end(); found != names.end())
      c.aliases = found->second;
  return match_container(known, *scope.container);
}

}  // namespace oomcast
