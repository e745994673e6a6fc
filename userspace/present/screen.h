// `oomcast watch` on a terminal: keys in, lines of table.h out. The only user of curses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "present/overview.h"

namespace oomcast {

/// One at a time: curses owns the terminal from open() to the destructor, which gives it back as it was.
/// While it is open nobody else may write to stdout or to a stderr that is the terminal.
///
/// Curses handles SIGWINCH and SIGTSTP: the thread that calls this must not block them, the others should.
/// Ctrl-C is a SIGINT, for the owner of the program's signals; where the terminal sends none, it is a key
/// that quits.
class Screen {
 public:
  /// look: from which lines the cgroup of selected() grows.
  enum class Action { none, quit, look };

  /// The text of a kill's post-mortem, when a key asks for it.
  using PostMortemOf = std::function<std::string(const OomEvent&)>;

  /// Error (exit 1): stdin or stdout is no terminal, or TERM names none that can place text. Sets the
  /// process's LC_CTYPE from the environment; without a UTF-8 locale what is shown is ASCII.
  static Result<std::unique_ptr<Screen>> open(const ClockMap& clock, bool color, PostMortemOf post_mortem);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Readable when on_input() has something to do.
  int input_fd() const;
  /// Does what all pending keys ask for and redraws if there were any; never waits. Call it also when waiting
  /// was interrupted by a signal: the terminal may have another size. quit: also when the terminal is gone.
  Action on_input();

  /// The cgroup that the person chose; nullopt: none, or the host.
  std::optional<CgroupId> selected() const;

  /// Shows it, and keeps it for the keys to come. Pass an rvalue: it is kept, not copied. Ignored while
  /// paused.
  void draw(Overview overview);
  /// True while draw() would be in vain.
  bool paused() const;

 private:
  struct State;
  explicit Screen(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace oomcast
