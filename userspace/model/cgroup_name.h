// What a cgroup is to a person, told from its path alone. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

enum class CgroupKind { root, plain, unit, container, pod, slurm };
/// "root", "plain" … as in the contract.
std::string_view to_string(CgroupKind kind);

/// The path is read from the outside in, and the innermost component that means something decides the kind: a
/// unit inside a container is a unit (whose `container` is still told), a pod's container in a kind node's
/// docker container is the pod's container. Each optional field is the innermost of its sort. Components
/// below the deciding one that mean nothing are appended to the name: "nginx.service/worker". All of it is
/// bytes, exactly as hostile as the path.
struct CgroupName {
  CgroupKind kind = CgroupKind::plain;
  /// Short: a container's id cut to 12 digits, a unit with its \x2d decoded, "job 42.batch", "pod <uid>", or
  /// the last component; "/" for the root.
  std::string name;
  std::optional<std::string> container;  // whole id, or the name for runtimes that have no id (LXC, nspawn)
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
