// The command of `oomcast run`: forked, but not executed before oomcast follows it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

class StopSignals;

/// One that is never let go ends when this is destroyed.
struct WaitingChild {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable at its end; empty where the kernel has none
  UniqueFd go;      // a byte lets it execute
  UniqueFd failed;  // then answers with the errno of an exec that failed, or with its end

  /// It has callers_limits(). `json`: stdout is for one object a line, so the command's own output goes to
  /// stderr.
  static Result<WaitingChild> start(const std::vector<std::string>& words, const StopSignals& stop,
                                    bool json);
  /// Waits for the exec. `exec_error`: 0, or the errno of an exec that failed.
  Status let_go(int& exec_error);
};

}  // namespace oomcast
