// Waits for descriptors and for times, and calls what stands for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace oomcast {

/// One thread, no locks. A handler may add and remove any, itself included. Cost of a wait: three system calls.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  Status open();
  /// `handler` runs in wait_until() each time `fd` is readable or its other end is gone; it has to read, or
  /// forget(). A second call for the same descriptor replaces the first. Error: not one to wait for, as a
  /// regular file is not.
  Status on_readable(int fd, Handler handler);
  /// The same without a handler: it ends the wait, and what follows the wait reads it.
  Status wake_on(int fd) {
    return on_readable(fd, [] {});
  }
  /// `handler` runs once, when `fd` takes data again or its other end is gone. For a descriptor of
  /// on_readable(); a second call before it ran replaces the first.
  Status on_writable(int fd, Handler handler);
  /// Before the descriptor is closed. One that is closed without is not waited for any longer.
  void forget(int fd);
  /// `handler` runs once, in the first run_due() at or after `when`.
  void at(MonoTime when, Handler handler) { timers_.emplace(when, std::move(handler)); }

  /// The earliest time of at(); MonoTime::max(): none.
  MonoTime next() const { return timers_.empty() ? MonoTime::max() : timers_.begin()->first; }

  /// Until then, until a time of at(), until a descriptor is readable, or a signal comes; runs the handlers of
  /// all that are readable. How long it slept.
  Nanos wait_until(MonoTime until);
  /// Runs the handlers of the times that are over, in their order; those that they add wait for the next call.
  void run_due(MonoTime now);

 private:
  struct Handlers {
    Handler readable, writable;  // writable: empty but after on_writable()
  };
  bool watch(int op, int fd, bool writable);
  void dispatch(int fd, std::uint32_t events);

  UniqueFd epoll_, timer_;
  std::unordered_map<int, Handlers> handlers_;
  std::multimap<MonoTime, Handler> timers_;
};

}  // namespace oomcast
