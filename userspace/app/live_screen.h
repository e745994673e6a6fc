// The live screen in a thread of its own.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "present/overview.h"
#include "present/screen.h"

namespace oomcast {

/// A terminal after Ctrl-S, and one whose connection is gone, takes a write and does not return. The thread
/// waits there; who traces never does.
class LiveScreen {
 public:
  /// Before there is another thread: SIGWINCH and SIGTSTP, which curses handles, reach the screen's thread
  /// alone.
  static void leave_its_signals_alone();
  /// Error (exit 1): see Screen::open(). `post_mortem` is called in the screen's thread.
  static Result<std::unique_ptr<LiveScreen>> open(const ClockMap& clock, bool color,
                                                  Screen::PostMortemOf post_mortem);
  /// Gives the terminal back as it was. Leaves a thread behind that is still stuck in a write: the process
  /// must end after that.
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;

  struct Asked {
    bool quit = false;
    std::optional<CgroupId> look;  // from which lines it grows
  };
  /// Readable when asked() has something to tell.
  int asked_fd() const;
  Asked asked();
  /// Shown as soon as the terminal takes it, the newest alone.
  void show(Overview overview);
  /// True while show() would be in vain.
  bool paused() const;

 private:
  struct Shared;
  explicit LiveScreen(std::shared_ptr<Shared> shared);
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace oomcast
