// Runs what an alert asks for beside the tracing, which it must never hold up.
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

/// Each command and each touched file has a child process of its own, in a session of its own, with default
/// signals, limits as given, /dev/null as standard input, output and error, and no other descriptor:
/// a full disk, a hanging file system and a shell that forks or floods are the child's. One that is not done
/// after kTimeout is killed with its process group; at most kMaxRunning commands and as many touches run at
/// once. How long one took is known to the interval of reap().
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

  /// `/bin/sh -c command` with `variables` ("NAME=value") beside this process's own environment. Error: no
  /// process could be made.
  Result<Id> exec(const std::string& command, const std::vector<std::string>& variables, MonoTime now);
  /// Creates `path` with mode 0640, or gives it the present time. Only a regular file of one name: a
  /// symlink in the last component is refused, and above it what resolve() refuses, because whoever may write
  /// to the directory could otherwise aim root's hand at any other file.
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
