// Recognizes kills of the same workload on different days. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/facts.h"

namespace oomcast {

/// One name of a workload that outlives a run of it. `key` is for comparing, `words` for a person: bytes.
struct WorkloadName {
  std::string key, words;
};

/// The names of what was killed, the surest first; empty: nothing that one could know it by again. Of its
/// memory cgroup: a systemd service, a container's or pod's id, a SLURM job that was requeued; not what
/// systemd or oomcast named for this one time (scopes, run-*.service, user@.service, oomcast-run-N), nor any
/// other directory, where one thing follows another. Of its command: user, program, script or module, and
/// the form of its arguments: which options, how many words. A name of a process alone (python3) is none,
/// and neither is a command that any program may have as its worker (`-c from multiprocessing…`).
std::vector<WorkloadName> workload_names(const ProcessRef& process);

/// The surest name that both share; nullopt: nothing shows that they are the same workload.
std::optional<WorkloadName> same_workload(const ProcessRef& a, const ProcessRef& b);

}  // namespace oomcast
