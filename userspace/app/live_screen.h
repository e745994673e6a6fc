// The live screen, in its own thread.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "present/overview.h"
#include "present/screen.h"

namespace oomcast {

/// A write to a terminal that is stopped (Ctrl-S) or disconnected blocks. The thread blocks there; tracing
/// never does.
class LiveScreen {
 public:
  /// Call before any other thread starts: SIGWINCH and SIGTSTP, which curses handles, must reach only the
  /// screen's thread.
  static void leave_its_signals_alone();
  /// Error (exit 1): see Screen::open(). `post_mortem` is called in the screen's thread.
  static Result<std::unique_ptr<LiveScreen>> open(const ClockMap& clock, bool color,
                                                  Screen::PostMortemOf post_mortem);
  /// Restores the terminal. A thread stuck in a write is left behind: the process must exit after this.
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;

  struct Asked {
    bool quit = false;
    std::optional<CgroupId> look;  // the cgroup to profile
  };
  /// Readable when asked() has a request.
  int asked_fd() const;
  Asked asked();
  /// Shown when the terminal accepts it; only the newest one.
  void show(Overview overview);
  /// True while show() would have no effect.
  bool paused() const;

 private:
  struct Shared;
  explicit LiveScreen(std::shared_ptr<Shared> shared);
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace oomcast
