// Runs the actions of alerts in child processes, so that they never block tracing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/privileges.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "stream/facts.h"

namespace oomcast {

/// Each command and each touched file gets a child process in its own session, with default signals, the
/// given limits, /dev/null as standard input, output and error, and no other descriptor: a full disk, a
/// hanging file system or a forking shell can hurt only the child. A child still running after kTimeout is
/// killed with its process group; at most kMaxRunning commands and as many touches run at once. Run times are
/// accurate to the interval between calls of reap().
class ActionRunner {
 public:
  static constexpr Nanos kTimeout = std::chrono::seconds(30);
  static constexpr std::size_t kMaxRunning = 4;
  using Id = std::uint64_t;  // 0: none
  struct Ended {
    Id id;
    ActionRun::Result result;
    std::optional<int> exit_code, signal;
    std::optional<std::string> error;
    Seconds took;
  };

  explicit ActionRunner(ChildLimits limits) : limits_(std::move(limits)) {}

  /// Runs `/bin/sh -c command` with `variables` ("NAME=value") added to this process's environment. Error:
  /// fork failed.
  Result<Id> exec(const std::string& command, const std::vector<std::string>& variables, MonoTime now);
  /// Creates `path` with mode 0640, or updates its timestamps. Only a regular file with one link: a symlink
  /// as the last component is refused, and above it whatever resolve() refuses. Otherwise anyone with write
  /// access to the directory could make root touch any file.
  Result<Id> touch(const std::string& path, MonoTime now);

  bool full(ActionRun::Kind kind) const;
  bool busy() const { return !running_.empty(); }
  /// Never waits. Call it often.
  std::vector<Ended> reap(MonoTime now);

 private:
  struct Running {
    Id id;
    pid_t pid;
    UniqueFd said;  // of a touch: why it failed
    bool killed = false;
    MonoTime since;
  };
  Result<Id> started(pid_t pid, UniqueFd said, MonoTime now);

  ChildLimits limits_;
  std::vector<Running> running_;
  Id last_ = 0;
};

}  // namespace oomcast
