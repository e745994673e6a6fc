#include "app/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/escape.h"
#include "collect/container_names.h"

namespace oomcast {

namespace {

constexpr std::size_t kMaxTold = 5;

Result<std::vector<CgroupId>> match(const ScopeOptions& scope, std::vector<KnownCgroup> known,
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

bool goes_by_name(const ScopeOptions& scope) {
  return scope.unit || scope.container || scope.slurm_job;
}

// A container's root owns its files as root, so the container counts, too.
std::pair<std::optional<std::uint32_t>, std::optional<std::string>> owner_of(const CgroupEntry& cgroup) {
  return {cgroup.named_by, name_cgroup(cgroup.path.substr(0, cgroup.path.rfind('/'))).container};
}

std::string with_owner(const CgroupEntry& cgroup) {
  std::string path = make_harmless(cgroup.path);
  if (!cgroup.named_by) return path + " (below a directory of several users)";
  return *cgroup.named_by == 0 ? path
                               : fmt::format("{} (below a directory of uid {})", path, *cgroup.named_by);
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

std::string path_of_typed(std::string_view typed) {
  for (std::string_view mount : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"})
    if (in_scope(typed, mount)) return normal_path(typed.substr(mount.size()));
  return normal_path(typed);
}

Result<std::vector<CgroupEntry>> cgroups_of(const ScopeOptions& scope, const CgroupFs& fs,
                                            const Roots& roots) {
  auto tree = fs.list();
  if (!tree) return tree.error();
  std::vector<KnownCgroup> known;
  for (const CgroupEntry& c : tree->cgroups)
    known.push_back({c.id, c.path, name_cgroup(c.path), {}, c.named_by});
  auto matches = match(scope, std::move(known), fs.mount(), roots);
  if (!matches) return matches.error();
  std::vector<CgroupEntry> out;
  for (const CgroupEntry& c : tree->cgroups)
    if (std::ranges::find(*matches, c.id) != matches->end()) out.push_back(c);
  return out;
}

std::string tell_matches(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups) {
  if (!goes_by_name(scope)) return {};
  std::string out = make_harmless(scope.describe()) + " is ";
  for (std::size_t i = 0; i < cgroups.size() && i < kMaxTold; ++i)
    out += (i ? ", " : "") + with_owner(cgroups[i]);
  return out + (cgroups.size() > kMaxTold ? fmt::format(" and {} more", cgroups.size() - kMaxTold) : "");
}

Status may_act_for(const ScopeOptions& scope, std::span<const CgroupEntry> cgroups) {
  if (!goes_by_name(scope) || cgroups.empty()) return Ok{};
  for (const CgroupEntry& other : cgroups)
    if (owner_of(other) != owner_of(cgroups[0]))
      return Error::failed(
          fmt::format("{}, which have not one owner: say with --cgroup for which of them "
                      "--exec, --touch or --signal is",
                      tell_matches(scope, cgroups)));
  if (scope.wait && cgroups[0].named_by != 0)
    return Error::failed(fmt::format("{}, but any user can use this name: --cgroup says that it is meant",
                                     tell_matches(scope, cgroups)));
  return Ok{};
}

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
  auto cgroups = cgroups_of(scope, fs, roots);
  if (!cgroups) return cgroups.error();
  std::erase_if(*all, [&](std::uint32_t pid) { return !is_in(pid, *cgroups, fs, procfs); });
  return ScopeNow{*std::move(cgroups), *std::move(all)};
}

std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> pids, const ProcFs& procfs) {
  std::unordered_map<std::uint32_t, std::uint64_t> resident;
  for (std::uint32_t pid : pids)
    if (auto memory = procfs.read_statm(pid); memory && *memory) resident[pid] = (*memory)->resident_pages;
  std::stable_sort(pids.begin(), pids.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return resident[a] > resident[b]; });
  return pids;
}

}  // namespace oomcast
