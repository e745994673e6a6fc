// Waits for descriptors and timers, and calls their handlers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace oomcast {

/// One thread, no locks. A handler may add and remove any handler, including itself. Cost of a wait: three
/// system calls.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  Status open();
  /// `handler` runs in wait_until() each time `fd` is readable or hung up; it must read, or forget(). A
  /// second call for the same descriptor replaces the first. Error: `fd` cannot be polled, as a regular file.
  Status on_readable(int fd, Handler handler);
  /// The same without a handler: ends the wait, and the caller reads it afterwards.
  Status wake_on(int fd) {
    return on_readable(fd, [] {});
  }
  /// `handler` runs once, when `fd` is writable or hung up. Only for descriptors of on_readable(); a second
  /// call before it ran replaces the first.
  Status on_writable(int fd, Handler handler);
  /// Call before closing the descriptor. One closed without it is no longer waited for.
  void forget(int fd);
  /// `handler` runs once, in the first run_due() at or after `when`.
  void at(MonoTime when, Handler handler) { timers_.emplace(when, std::move(handler)); }

  /// The earliest time of at(); MonoTime::max(): none.
  MonoTime next() const { return timers_.empty() ? MonoTime::max() : timers_.begin()->first; }

  /// Waits until `until`, a timer, a readable descriptor or a signal; runs the handlers of all that are
  /// readable. Returns how long it slept.
  Nanos wait_until(MonoTime until);
  /// Runs the handlers of expired timers, in order of time; timers that they add wait for the next call.
  void run_due(MonoTime now);

 private:
  struct Handlers {
    Handler readable, writable;  // writable: empty except after on_writable()
  };
  bool watch(int op, int fd, bool writable);
  void dispatch(int fd, std::uint32_t events);

  UniqueFd epoll_, timer_;
  std::unordered_map<int, Handlers> handlers_;
  std::multimap<MonoTime, Handler> timers_;
};

}  // namespace oomcast
