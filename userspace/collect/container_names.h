// Names of Docker and Podman containers: the cgroup has only the id.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collect/roots.h"

namespace oomcast {

/// By id.
using ContainerNames = std::unordered_map<std::string, std::vector<std::string>>;

/// Of the containers with these ids (64 hex digits; others have none), from what the runtimes keep on disk:
/// /var/lib/docker/containers/ID/config.v2.json and /var/lib/containers/storage/overlay-containers/
/// containers.json. What is not there, not readable or not understood has no entry. Another data folder than
/// these, rootless Podman and the runtimes of Kubernetes are not asked. Cost: one file of some KiB per id.
ContainerNames names_of_containers(const Roots& roots, const std::set<std::string>& ids);

}  // namespace oomcast
