// What every tracing command does around its Session: signals, output, scope, exit.
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

/// SIGINT, SIGTERM, SIGQUIT and, unless ignored, SIGHUP as a readable descriptor; SIGPIPE ignored, so that
/// every command shuts down cleanly.
class StopSignals {
 public:
  /// Blocks SIGINT, SIGTERM, SIGQUIT and SIGHUP, and those in `more`.
  static Result<StopSignals> block(std::initializer_list<int> more = {});
  int fd() const { return fd_.get(); }
  /// The signal that asked to stop, or 0. Stays set.
  int pending();
  /// A signal received since the last call; 0: none.
  int next();
  /// Whether it came from the terminal, which signals all of its foreground processes.
  bool is_from_kernel() const { return from_kernel_; }
  /// Restores the signal mask, in a child process.
  void restore_in_child() const;

 private:
  UniqueFd fd_;
  sigset_t old_{};
  int seen_ = 0;
  bool from_kernel_ = false;
};

/// stdout: JSON Lines or text, line by line, filtered by type. The first failure (a closed pipe, a full disk)
/// ends the command. A reader that stops reading does not block tracing: lines wait in a bounded queue.
class Output {
 public:
  explicit Output(const Options& options);
  void write(const Fact& fact, const ClockMap& clock);
  void write_line(const std::string& line, std::size_t most = OutputQueue::kMaxBytes);
  /// Unchanged, without a newline.
  void write_part(const std::string& text, std::size_t most) { queue_.write(text, most); }
  bool failed() const { return queue_.failed(); }
  /// Counts dropped lines as losses of the session.
  void tell_losses(Session& session) { session.count_lost("output", queue_.take_dropped()); }
  /// On exit: waits for a reader that still reads. Error: not everything was written.
  Status finish();
  bool json() const { return json_; }
  bool color() const { return style_.color; }

 private:
  bool json_;
  FactFilter filter_;
  TextStyle style_;
  OutputQueue queue_;
};

/// One line on stderr, even with --quiet: something failed, and oomcast continues without it.
void tell_error(const std::string& line);
/// The same for the tracing loop: never blocks on stderr.
std::function<void(const std::string&)> error_lines();

/// One line on stderr, unless --quiet.
std::function<void(const std::string&)> diagnostics(const Options& options);

/// Retries `resolve` until the awaited scope exists (returns success) or a signal arrives (returns an error).
/// Without --wait: tries once.
Status await_scope(const ScopeOptions& scope, StopSignals& stop,
                   const std::function<void(const std::string&)>& say,
                   const std::function<Status()>& resolve);

/// Opens the session, protects the process, resolves or awaits the scope, drops privileges. nullptr: a signal
/// arrived while waiting.
Result<std::unique_ptr<Session>> open_session(const Options& options, StopSignals& stop,
                                              bool has_scope = true,
                                              const std::function<Status(const Session&)>& before_drop = {});

}  // namespace oomcast
