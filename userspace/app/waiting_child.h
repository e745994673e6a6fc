// The command of `oomcast run`: forked, but not executed until oomcast follows it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

class StopSignals;

/// A child that was never released ends when this is destroyed.
struct WaitingChild {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable at its exit; empty if not supported by the kernel
  UniqueFd go;      // a byte releases the exec
  UniqueFd failed;  // receives the errno of a failed exec, or closes

  /// It gets callers_limits(). `json`: stdout is for one object per line, so the command's output goes to
  /// stderr.
  static Result<WaitingChild> start(const std::vector<std::string>& words, const StopSignals& stop,
                                    bool json);
  /// Waits for the exec. `exec_error`: 0, or the errno of a failed exec.
  Status let_go(int& exec_error);
};

}  // namespace oomcast
