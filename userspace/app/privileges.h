// What the process does to itself: it must live while memory runs out, and need no more rights than it uses.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace oomcast {

struct Refused {
  std::string what, cost;
};
/// oom_score_adj −1000, pages locked as they are touched, and this thread before those of others where CPUs
/// are scarce, as far as allowed. Returns what was not.
std::vector<Refused> protect_self();
/// The oom_score_adj from before protect_self(), which children must not inherit; "0" if it was not read.
const std::string& score_before_protection();

/// Lets this process, and looks that it starts, make threads real-time ones (the lowest priority of them):
/// pages that they wait for with the lock of another's memory come from the kernel's reserves
/// (AllocationProbes). Without CAP_SYS_RESOURCE it stays as it is.
void allow_reserves();

/// Between fork and exec: the child's claim to a CPU and the number of files that it may open are what the
/// caller's were. Of a reader both are this process's: who has hold of another's memory while it waits for a
/// CPU keeps the kernel from freeing it. Only a look keeps what allow_reserves() gave.
enum class StartedAs { command, look, reader };
void take_limits(StartedAs child);

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
