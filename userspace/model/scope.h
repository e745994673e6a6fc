// Resolves --cgroup, --container, --unit and --slurm-job to cgroups. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/task_id.h"
#include "collect/cgroup_mount.h"
#include "model/cgroup_name.h"

namespace oomcast {

struct KnownCgroup {
  CgroupId id;
  std::string path;  // as the kernel log prints it
  CgroupName name;
  std::vector<std::string> aliases;         // names a runtime gave the container, where known
  std::optional<std::uint32_t> named_by{};  // uid: see CgroupEntry
};

/// Each answers the topmost matching cgroups, whose children are in scope with them (see in_scope): never
/// empty. A name that any user can give to a cgroup of his own is taken only where root gave it to none.
/// Error (exit 1) when nothing matches: names up to 5 near matches. Cost: one pass over `known`.

/// `wanted`: path in the hierarchy, with or without leading and trailing slashes, or the same below the mount
/// point as the shell shows it ("/sys/fs/cgroup/memory/foo"). A path of the hierarchy itself comes first.
Result<std::vector<CgroupId>> match_cgroup(std::span<const KnownCgroup> known, const CgroupMount& mount,
                                           std::string_view wanted);

/// `wanted`: an id or its first 4 or more hex digits, or a name (alias, LXC or machine name, or the last
/// component of a plain cgroup, which is what runc makes). A name comes before a prefix. Error lists them
/// when a prefix is ambiguous.
Result<std::vector<CgroupId>> match_container(std::span<const KnownCgroup> known, std::string_view wanted);

/// `wanted`: a unit with or without ".service", escaped or decoded. The same unit inside containers matches
/// too.
Result<std::vector<CgroupId>> match_unit(std::span<const KnownCgroup> known, std::string_view wanted);

/// `wanted`: "42" or, for one step, "42.0" or "42.batch".
Result<std::vector<CgroupId>> match_slurm_job(std::span<const KnownCgroup> known, std::string_view wanted);

/// One leading slash, none at the end: "/a/b", or "/".
std::string normal_path(std::string_view path);

/// `path` is `top` or below it.
bool in_scope(std::string_view path, std::string_view top);

}  // namespace oomcast
