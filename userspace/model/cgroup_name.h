// Derives a readable name and kind for a cgroup from its path alone. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

enum class CgroupKind { root, plain, unit, container, pod, slurm };
/// "root", "plain" … as in the contract.
std::string_view to_string(CgroupKind kind);

/// The path is read from the root down, and the innermost recognized component decides the kind: a unit inside a
/// container is a unit (with `container` still set), a pod's container in a kind node's docker container is the
/// pod's container. Each optional field holds the innermost match. Unrecognized components below the deciding one
/// are appended to the name: "nginx.service/worker". All fields are bytes, as hostile as the path.
struct CgroupName {
  CgroupKind kind = CgroupKind::plain;
  /// Short: a container's id cut to 12 digits, a unit with its \x2d decoded, "job 42.batch", "pod <uid>", or
  /// the last component; "/" for the root.
  std::string name;
  std::optional<std::string> container;  // full id, or the name for runtimes without ids (LXC, nspawn)
  std::optional<std::string> pod;        // uid with dashes, as Kubernetes prints it
  std::optional<std::string> unit;       // the unit's file name, escapes left as they are
  std::optional<std::string> slurm_job;
  std::optional<std::string> slurm_step;
  std::size_t series_bytes =
      0;  // of the path, down to the pod, job or unit that a restart comes back in; 0: none
};

/// `path` as the kernel log prints it.
///
/// Known: docker, podman, containerd, cri-o (cgroupfs and systemd drivers; their conmon scopes are units, not
/// containers), Kubernetes pods, LXC and LXD, machine-*.scope, systemd services, scopes and slices, SLURM
/// (cgroup v1 and v2). runc's default `/<name>` looks like any other directory and is plain.
CgroupName name_cgroup(std::string_view path);

}  // namespace oomcast
