// What the process does to itself: it must live while memory runs out, and need no more rights than it uses.
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
/// oom_score_adj −1000, pages locked as they are touched, and this thread before those of others where CPUs
/// are scarce, as far as allowed. Returns what was not.
std::vector<Refused> protect_self();
/// What a child process has of this process's; nullopt: as it is, soft and hard.
struct ChildLimits {
  std::string oom_score_adj = "0";
  std::optional<rlimit> nice, files, realtime;
  std::optional<Bytes> data;  // never more than this process's, and no core file. Each
  // thread but the first counts with the 8 MiB that are reserved for its stack.
  // Keeps this process's CPU priority: a helper that waits for a CPU while it holds another's mmap_lock keeps
  // the kernel from freeing that memory.
  bool before_others = false;
};
/// The limits that oomcast was started with: what protect_self(), allow_reserves() and raise_file_limit()
/// change, from before the first of them. Of an oom_score_adj that could not be read it is "0".
const ChildLimits& callers_limits();
/// Between fork and exec, but for the oom_score_adj. System calls only; what fails stays as it is.
void take_limits(const ChildLimits& limits);

/// Lets this process, and looks that it starts, make threads real-time ones (the lowest priority of them):
/// pages that they wait for with the lock of another's memory come from the kernel's reserves
/// (AllocationProbes). Without CAP_SYS_RESOURCE it stays as it is.
void allow_reserves();

/// Keeps only the capabilities that are used after start: to switch kernel programs on and off, to read other
/// users' /proc entries and what they have mapped, and to send signals; and with `writes_files`, to change
/// directories that even root may not write to: to remove a cgroup, to touch a file beside a user's. No exec
/// gives more back (bounding set, no_new_privs), unless it `runs_commands`: those have what the caller had.
/// Where the kernel wants CAP_SYS_ADMIN for perf events (perf_event.h), that stays permitted, and is not
/// effective; so does CAP_SETPCAP, for a reader to narrow its own bounding set. Returns what was not
/// possible.
std::vector<std::string> drop_privileges(bool writes_files, bool runs_commands = false);
/// Keeps what it takes to look at other processes' memory, and nothing else: three capabilities, and the
/// system calls that read (seccomp): no file is opened for writing, no program executed, no process made or
/// signalled, no socket opened, no other's limits set. What is not allowed fails with EPERM. Who cannot get
/// all of that must not serve, and ends with what this returns as its exit code; nullopt: it has it.
std::optional<int> keep_reader_privileges();
/// What a reader lacked that ended with this status, as waitpid() gives it; nullptr: it ended for another
/// reason.
const char* lacking_privilege(int status);

/// The soft limit on open files up to the hard one: kept-open cgroup files need it.
void raise_file_limit();

}  // namespace oomcast
