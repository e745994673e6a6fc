#include "app/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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

namespace {

Result<std::vector<CgroupEntry>> topmost(const ScopeOptions& scope, const CgroupFs& fs, const Roots& roots) {
  auto tree = fs.list();
  if (!tree) return tree.error();
  std::vector<KnownCgroup> known;
  for (const CgroupEntry& c : tree->cgroups) known.push_back({c.id, c.path, name_cgroup(c.path), {}});
  auto matches = match_cgroups(scope, std::move(known), fs.mount(), roots);
  if (!matches) return matches.error();
  std::vector<CgroupEntry> out;
  for (const CgroupEntry& c : tree->cgroups)
    if (std::ranges::find(*matches, c.id) != matches->end()) out.push_back(c);
  return out;
}

// The process and its descendants.
std::unordered_set<std::uint32_t> family_of(std::uint32_t first, const std::vector<std::uint32_t>& pids,
                                            const ProcFs& procfs) {
  std::unordered_map<std::uint32_t, std::uint32_t> parents;
  for (std::uint32_t pid : pids)
    if (auto stat = procfs.read_stat(pid); stat && *stat) parents.emplace(pid, (*stat)->ppid);
  std::unordered_set<std::uint32_t> family{first};
  for (std::size_t before = 0; before != family.size();) {
    before = family.size();
    for (auto [pid, parent] : parents)
      if (family.contains(parent)) family.insert(pid);
  }
  return family;
}

bool is_in(std::uint32_t pid, const std::vector<CgroupEntry>& cgroups, const CgroupFs& fs,
           const ProcFs& procfs) {
  auto cgroup = procfs.read_cgroup(pid, fs.mount().hierarchy);
  auto path = cgroup && *cgroup ? fs.mount().from_proc_path((*cgroup)->path) : std::nullopt;
  return path && std::ranges::any_of(cgroups, [&](const CgroupEntry& c) { return in_scope(*path, c.path); });
}

}  // namespace

Result<ScopeNow> scope_now(const ScopeOptions& scope, const CgroupFs& fs, const ProcFs& procfs,
                           const Roots& roots) {
  auto all = procfs.list_pids();
  if (!all) return all.error();
  if (scope.whole_machine()) return ScopeNow{{}, *std::move(all)};
  if (scope.pid) {
    auto id = procfs.read_task_id(*scope.pid);
    if (!id || !*id) return Error::failed(fmt::format("no process has pid {}", *scope.pid));
    auto family = family_of(*scope.pid, *all, procfs);
    std::erase_if(*all, [&](std::uint32_t pid) { return !family.contains(pid); });
    return ScopeNow{{}, *std::move(all)};
  }
  auto cgroups = topmost(scope, fs, roots);
  if (!cgroups) return cgroups.error();
  std::erase_if(*all, [&](std::uint32_t pid) { return !is_in(pid, *cgroups, fs, procfs); });
  return ScopeNow{*std::move(cgroups), *std::move(all)};
}

}  // namespace oomcast
