// Child processes: what they inherit, and the life cycle of those that work for this process.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/privileges.h"
#include "base/result.h"
#include "base/units.h"

namespace oomcast {

/// Between fork and exec: own session, default signals, `limits`, /dev/null as standard input, output (unless
/// `output` is given) and error, and no other descriptor. Async-signal-safe: system calls only. Exits the
/// child with 126 on failure.
void become_child(const ChildLimits& limits, int output = -1);

/// One child at a time that works for this process and may be lost. The kernel kills it (SIGKILL) when the
/// thread that started it ends; this class kills it at its deadline, in end() and in the destructor. Only
/// reap() and the destructor block, the latter at most 50 ms per child. A child that SIGKILL cannot end
/// (waiting for a page of a hung file system) is left, and reaped once it is gone.
class HelperProcess {
 public:
  static constexpr Nanos kReapWait = std::chrono::milliseconds(50);
  static constexpr std::size_t kMaxUnreaped = 4;
  struct Ended {
    int status = 0;  // as of waitpid()
    rusage used{};
  };
  /// Runs in the child after become_child() and returns its exit code; empty: exec this program.
  using Body = std::function<int()>;

  HelperProcess() = default;
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  /// `words`: arguments after argv[0]. `output`: its standard output; the caller may close it afterwards. A
  /// previous child is ended first. Error: fork failed; a failed exec ends the child with 126.
  Status start(std::vector<std::string> words, const ChildLimits& limits, int output, const Body& body = {});
  bool runs() const { return pid_ > 0; }
  void signal(int number) const;

  void set_deadline(std::optional<MonoTime> deadline) { deadline_ = deadline; }
  /// Kills the child when its deadline has passed. Returns true then, once per child.
  bool expire(MonoTime now);
  /// Waits at most `patience` for its exit. nullopt: still running.
  std::optional<Ended> reap(Nanos patience = {});
  /// Kills it.
  void end();
  /// Lets it go on, without this process as its owner.
  void leave();
  /// Children ended or left that are not gone yet. With kMaxUnreaped of them, do not start another.
  std::size_t unreaped();

 private:
  pid_t pid_ = -1;
  std::optional<MonoTime> deadline_;
  std::vector<pid_t> left_;
};

}  // namespace oomcast
