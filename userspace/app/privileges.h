// What the process does to itself: survive memory shortage, and drop the privileges it does not use.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace oomcast {

struct Refused {
  std::string what, cost;
};
/// oom_score_adj −1000, pages locked on fault, and a higher CPU priority for this thread, as far as
/// permitted. Returns what was refused.
std::vector<Refused> protect_self();
/// What a child process inherits; nullopt: unchanged, soft and hard.
struct ChildLimits {
  std::string oom_score_adj = "0";
  std::optional<rlimit> nice, files, realtime;
  std::optional<Bytes> data;  // never more than this process's, and no core file. Each
  // thread but the first counts with the 8 MiB that are reserved for its stack.
  // Keeps this process's CPU priority: a helper that waits for a CPU while holding another process's
  // mmap_lock keeps the kernel from freeing that memory.
  bool before_others = false;
};
/// The limits that oomcast was started with, from before protect_self(), allow_reserves() and
/// raise_file_limit(). An oom_score_adj that could not be read is "0".
const ChildLimits& callers_limits();
/// Between fork and exec, without the oom_score_adj. System calls only; failures are ignored.
void take_limits(const ChildLimits& limits);

/// Lets this process, and profiles that it starts, make threads real-time (lowest priority): pages that they
/// wait for while holding another process's mmap_lock then come from the kernel's reserves
/// (AllocationProbes). No effect without CAP_SYS_RESOURCE.
void allow_reserves();

/// Keeps only the capabilities used after start: to switch kernel programs on and off, to read other users'
/// /proc entries and mapped files, and to send signals; with `writes_files` also to change directories that
/// even root may not write to (removing a cgroup, touching a file in a user's directory). No exec regains
/// more (bounding set, no_new_privs), unless it `runs_commands`: those get what the caller had. Where the
/// kernel requires CAP_SYS_ADMIN for perf events (perf_event.h), that stays permitted but not effective; so
/// does CAP_SETPCAP, for a reader to narrow its own bounding set. Returns what failed.
std::vector<std::string> drop_privileges(bool writes_files, bool runs_commands = false);
/// Keeps only what reading other processes' memory takes: three capabilities, and the system calls that read
/// (seccomp). Opening a file for writing, exec, fork, signals, sockets and setting limits of other processes
/// fail with EPERM. A process that cannot set all of that up must not serve, and must exit with the returned
/// code; nullopt: it is set up.
std::optional<int> keep_reader_privileges();
/// What a reader lacked that ended with this status of waitpid(); nullptr: it ended for another reason.
const char* lacking_privilege(int status);

/// Raises the soft limit on open files to the hard limit: cgroup files are kept open.
void raise_file_limit();

}  // namespace oomcast
