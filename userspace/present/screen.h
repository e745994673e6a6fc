// `oomcast watch` on a terminal: reads keys, draws the lines of table.h. The only user of curses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "present/overview.h"

namespace oomcast {

/// Only one at a time: curses owns the terminal from open() to the destructor, which restores it. While it is
/// open, nothing else may write to stdout, or to stderr if that is the terminal.
///
/// Curses handles SIGWINCH and SIGTSTP: the calling thread must not block them, other threads should. Ctrl-C
/// raises SIGINT, for the owner of the program's signals; on a terminal that sends no signal it is a key that
/// quits.
class Screen {
 public:
  /// look: profile the cgroup of selected().
  enum class Action { none, quit, look };

  /// Returns the text of a kill's post-mortem, when a key asks for it.
  using PostMortemOf = std::function<std::string(const OomEvent&)>;

  /// Error (exit 1): stdin or stdout is not a terminal, or TERM cannot position text. Sets the process's
  /// LC_CTYPE from the environment; without a UTF-8 locale the output is ASCII.
  static Result<std::unique_ptr<Screen>> open(const ClockMap& clock, bool color, PostMortemOf post_mortem);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Readable when on_input() has something to do.
  int input_fd() const;
  /// Handles all pending keys, and redraws if there were any; never waits. Call it also after a signal
  /// interrupted the wait: the terminal may have been resized. quit: also if the terminal is gone.
  Action on_input();

  /// The selected cgroup; nullopt: none, or the host.
  std::optional<CgroupId> selected() const;

  /// Draws the overview, and keeps it for later keys. Pass an rvalue: it is kept, not copied. Ignored while
  /// paused.
  void draw(Overview overview);
  /// True while draw() would have no effect.
  bool paused() const;

 private:
  struct State;
  explicit Screen(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace oomcast
