// Other processes' address spaces, read in a process of its own that can be lost.
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

/// Whoever looks at another process's memory map holds that process's memory and waits for its mmap_lock. If
/// the other one is being OOM-killed, nothing of it is freed meanwhile, and the kernel kills the next. So the
/// tracer never looks. It asks this: a process that is started when it is needed, ends by itself when one
/// look takes 50 ms (limit_looks()), is killed when a request takes 2 s and at the first sign of an OOM
/// around it, and has 6 MiB of data (MemoryLimits). One request at a time, the others wait.
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
    bool given_up = false;                 // it took too long, or the reader crashed on it; the rest is empty
    bool dropped = false;                  // by rest(), or near a kill; the rest is empty
    std::optional<Bytes> private_bytes{};  // nullopt: it is gone, or may not be looked at
    std::vector<std::byte> python{};       // empty: none was found
    std::optional<ProcCmdline> arguments{};  // nullopt: it is gone, or has none
    MonoTime asked{};                        // before anything was read
    Nanos cost{};                            // of CPU
    Nanos took{};
  };

  /// `root` and `limits` are for the process, which has less: kReader of data, and its CPU before others. It
  /// is started with the first request. `near_a_kill`: a process of which nothing may be read now. `body`: as
  /// HelperProcess has it.
  Reader(
      std::string root, ChildLimits limits,
      std::function<bool(const TaskId&)> near_a_kill = [](const TaskId&) { return false; },
      HelperProcess::Body body = {});

  /// Readable when there is something for advance(). -1: there is no reader, and ask() is always false.
  int fd() const { return ours_.get(); }
  /// false: it rests, the process is near a kill, or too many wait.
  bool ask(What what, const TaskId& id, MonoTime now);
  /// What came, and what was given up. Does not wait.
  std::vector<Answer> advance(MonoTime now);
  /// How long advance() may wait although nothing comes.
  std::optional<Nanos> wait() const { return asked_ ? std::optional(kLongestLook) : std::nullopt; }
  /// A sign of an OOM: whatever is being read is given up at once, and nothing is asked until `until`.
  void rest(MonoTime until);
  /// Somebody is near a kill now: if that is being read, it is given up at once.
  void keep_away();
  /// Why no reader serves, nullptr: one does. Then ask() is always false.
  const char* refusal() const { return refusal_; }
  /// Requests whose look took too long, or whose reader died. Not those of rest().
  std::uint64_t given_up() const { return given_up_; }

 private:
  struct Request {
    What what;
    TaskId id;
    MonoTime asked;
    bool again = false;  // the reader was killed from outside meanwhile
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
  UniqueFd ours_, theirs_;  // both kept, so that the next reader has the same
  HelperProcess process_;
  std::deque<Request> waiting_;
  std::optional<Request> asked_;
  std::vector<Answer> dropped_;
  std::uint64_t serial_ = 0, given_up_ = 0;
  const char* refusal_ = nullptr;
  MonoTime asked_at_{}, rests_until_{};
};

/// ProcCmdline as /proc shows it, and back: parse_cmdline().
std::string joined(const ProcCmdline& cmdline);

/// The process: `oomcast --reader [ROOT]`, requests on standard output, which is a socket. Returns the exit
/// code.
int serve_reader(const std::string& root);

}  // namespace oomcast
