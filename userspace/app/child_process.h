// A child process on the side of its own, whatever oomcast protects itself with.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>

#include "app/privileges.h"
#include "base/units.h"

namespace oomcast {

/// Between fork and exec: a session of its own, default signals, `oom_score_adj` as given, limits as
/// take_limits() has them, /dev/null as standard input, output (unless `output` is to be it) and error, and
/// no other descriptor. System calls only. Ends the child when it cannot be done.
void become_child(const std::string& oom_score_adj, int output = -1, StartedAs child = StartedAs::command);

/// Waits for the end of a child for so long at most: one that the kernel holds (a page of a file system that
/// does not answer) ends when that lets it go, SIGKILL or not. Whether it is gone; `used`: what it used;
/// `status`: as of waitpid().
bool reap_within(pid_t pid, Nanos patience, rusage* used = nullptr, int* status = nullptr);

}  // namespace oomcast
