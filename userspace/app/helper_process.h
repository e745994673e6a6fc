// Child processes: with what of this process's they begin, and the life of those that help it.
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

/// Between fork and exec: a session of its own, default signals, `limits`, /dev/null as standard input,
/// output (unless `output` is to be it) and error, and no other descriptor. System calls only. Ends the child
/// with 126 when it cannot be done.
void become_child(const ChildLimits& limits, int output = -1);

/// One process at a time that works for this one, and can be lost. The kernel kills it (SIGKILL) when the
/// thread that started it ends; this kills it at its deadline, at end(), and when it is destroyed. No call
/// but reap() waits, and the destructor: for 50 ms for each process at most. What the kernel holds, SIGKILL
/// or not (a page of a file system that does not answer), is left behind, and reaped when it is let go.
class HelperProcess {
 public:
  static constexpr Nanos kReapWait = std::chrono::milliseconds(50);
  static constexpr std::size_t kMaxUnreaped = 4;
  struct Ended {
    int status = 0;  // as of waitpid()
    rusage used{};
  };
  /// What the child does, as become_child() made it, for its exit code; empty: it executes this program.
  using Body = std::function<int()>;

  HelperProcess() = default;
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  /// `words`: its arguments behind the name. `output`: its standard output; the caller may close it then. The
  /// one before, if any, is ended. Error: no process could be made; an exec that fails ends it with 126.
  Status start(std::vector<std::string> words, const ChildLimits& limits, int output, const Body& body = {});
  bool runs() const { return pid_ > 0; }
  void signal(int number) const;

  void set_deadline(std::optional<MonoTime> deadline) { deadline_ = deadline; }
  /// Kills it if its deadline is over. Whether it was, once for each.
  bool expire(MonoTime now);
  /// Waits for its end, for so long at most. nullopt: it goes on.
  std::optional<Ended> reap(Nanos patience = {});
  /// Kills it.
  void end();
  /// Does not kill it, and has nothing to do with it any more.
  void leave();
  /// Processes that were ended or left, and are not gone. With kMaxUnreaped of them it is better to start
  /// none.
  std::size_t unreaped();

 private:
  pid_t pid_ = -1;
  std::optional<MonoTime> deadline_;
  std::vector<pid_t> left_;
};

}  // namespace oomcast
