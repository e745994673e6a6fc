// Reads other processes' address spaces in a child process that may be lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/helper_process.h"
#include "app/privileges.h"
#include "base/task_id.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/procfs.h"

namespace oomcast {

/// Reading another process's memory map pins its mm and waits for its mmap_lock. If that process is being
/// OOM-killed, nothing of it is freed meanwhile, and the kernel kills the next one. So the tracer never reads
/// it; it asks this reader: a child process that starts when needed, exits by itself when one read takes 50
/// ms (limit_looks()), is killed when a request takes 2 s or at the first sign of an OOM around it, and has 6
/// MiB of data (MemoryLimits). One request at a time, the others wait.
class Reader {
 public:
  static constexpr Nanos kLongestLook = std::chrono::milliseconds(50), kPatience = std::chrono::seconds(2),
                         kPythonPatience = std::chrono::milliseconds(500);  // others wait meanwhile
  static constexpr std::size_t kMaxWaiting = 8192;  // all processes of a machine, at the start
  enum class What : std::uint32_t {
    private_memory = 1,  // Answer::private_bytes
    python,              // Answer::python: a wire::PythonLayout, encoded
    arguments,           // Answer::arguments
  };
  struct Answer {
    What what{};
    TaskId id;
    bool given_up = false;                   // timed out, or the reader crashed on it; the rest is empty
    bool dropped = false;                    // by rest(), or near a kill; the rest is empty
    std::optional<Bytes> private_bytes{};    // nullopt: it is gone, or may not be read
    std::vector<std::byte> python{};         // empty: none was found
    std::optional<ProcCmdline> arguments{};  // nullopt: it is gone, or has none
    MonoTime asked{};                        // before anything was read
    Nanos cost{};                            // CPU time
    Nanos took{};
  };

  /// `root` and `limits` are for the child, which gets less: kReader of data, and a higher CPU priority. It
  /// starts with the first request. `near_a_kill`: whether a process must not be read now. `body`: see
  /// HelperProcess.
  Reader(
      std::string root, ChildLimits limits,
      std::function<bool(const TaskId&)> near_a_kill = [](const TaskId&) { return false; },
      HelperProcess::Body body = {});

  /// Readable when advance() has something to do. -1: there is no reader, and ask() always fails.
  int fd() const { return ours_.get(); }
  /// false: it rests, the process is near a kill, or the queue is full.
  bool ask(What what, const TaskId& id, MonoTime now);
  /// Answers, and requests given up. Does not wait.
  std::vector<Answer> advance(MonoTime now);
  /// How long advance() may be delayed without events.
  std::optional<Nanos> wait() const { return asked_ ? std::optional(kLongestLook) : std::nullopt; }
  /// A sign of an OOM: aborts the current read, and takes no requests until `until`.
  void rest(MonoTime until);
  /// Some process is near a kill now: aborts the current read if it is of such a process.
  void keep_away();
  /// Why no reader can run (then ask() always fails); nullptr: it can.
  const char* refusal() const { return refusal_; }
  /// Requests that timed out, or whose reader died. Not those of rest().
  std::uint64_t given_up() const { return given_up_; }

 private:
  struct Request {
    What what;
    TaskId id;
    MonoTime asked;
    bool again = false;  // the reader was killed from outside, so it is sent again
  };
  bool start();
  void send_next(MonoTime now);
  void drop(const Request& request) { dropped_.push_back({request.what, request.id, false, true}); }
  void drop_asked();
  void end();

  std::string root_;
  ChildLimits limits_;
  std::function<bool(const TaskId&)> near_a_kill_;
  HelperProcess::Body body_;
  UniqueFd ours_, theirs_;  // both kept, for the next reader
  HelperProcess process_;
  std::deque<Request> waiting_;
  std::optional<Request> asked_;
  std::vector<Answer> dropped_;
  std::uint64_t serial_ = 0, given_up_ = 0;
  const char* refusal_ = nullptr;
  MonoTime asked_at_{}, rests_until_{};
};

/// ProcCmdline in the format of /proc; parse_cmdline() is the reverse.
std::string joined(const ProcCmdline& cmdline);

/// The child process: `oomcast --reader [ROOT]`, requests on standard output, which is a socket. Returns the
/// exit code.
int serve_reader(const std::string& root);

}  // namespace oomcast
