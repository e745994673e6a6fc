// What every tracing command does around its Session: signals, output, scope, end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/options.h"
#include "app/output_queue.h"
#include "app/session.h"
#include "base/unique_fd.h"
#include "stream/facts.h"
#include "stream/text.h"

namespace oomcast {

/// SIGINT, SIGTERM, SIGQUIT and, unless it is ignored, SIGHUP as a readable descriptor, SIGPIPE ignored, so
/// that every command ends in order.
class StopSignals {
 public:
  /// SIGINT, SIGTERM, SIGQUIT and SIGHUP, and these.
  static Result<StopSignals> block(std::initializer_list<int> more = {});
  int fd() const { return fd_.get(); }
  /// The signal that asked to stop, 0 if none did. Stays once seen.
  int pending();
  /// One that came since the last call; 0: none.
  int next();
  /// Whether that one was sent by a terminal, which sends it to all of its foreground processes.
  bool is_from_kernel() const { return from_kernel_; }
  /// For a child process: the mask as it was.
  void restore_in_child() const;

 private:
  UniqueFd fd_;
  sigset_t old_{};
  int seen_ = 0;
  bool from_kernel_ = false;
};

/// stdout: JSON Lines or text, line by line, of what was chosen. Failing once (a closed pipe, a full disk)
/// ends the command. A reader that stops reading blocks no tracing: lines wait in a bounded queue.
class Output {
 public:
  explicit Output(const Options& options);
  void write(const Fact& fact, const ClockMap& clock);
  void write_line(const std::string& line, std::size_t most = OutputQueue::kMaxBytes);
  /// As it is, without an end of line.
  void write_part(const std::string& text, std::size_t most) { queue_.write(text, most); }
  bool failed() const { return queue_.failed(); }
  /// Counts what was dropped as lost by the session.
  void tell_losses(Session& session) { session.count_lost("output", queue_.take_dropped()); }
  /// At the end: waits for a reader that reads. Error: not all was written.
  Status finish();
  bool json() const { return json_; }
  bool color() const { return style_.color; }

 private:
  bool json_;
  FactFilter filter_;
  TextStyle style_;
  OutputQueue queue_;
};

/// One line on stderr, --quiet or not: something failed, and oomcast goes on without it.
void tell_error(const std::string& line);
/// The same for the tracing loop: whoever does not read stderr holds up nobody.
std::function<void(const std::string&)> error_lines();

/// One line on stderr, unless --quiet.
std::function<void(const std::string&)> diagnostics(const Options& options);

/// Tries `resolve` again and again until the scope that was waited for has appeared (the last Status is good)
/// or a signal came (it is not). Without --wait: once.
Status await_scope(const ScopeOptions& scope, StopSignals& stop,
                   const std::function<void(const std::string&)>& say,
                   const std::function<Status()>& resolve);

/// Opens the session, protects the process, resolves or awaits the scope, drops privileges. nullptr: a signal
/// came while waiting.
Result<std::unique_ptr<Session>> open_session(const Options& options, StopSignals& stop,
                                              bool has_scope = true,
                                              const std::function<Status(const Session&)>& before_drop = {});

}  // namespace oomcast
