#include "app/event_loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace oomcast {

using namespace std::chrono_literals;

Status EventLoop::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_ || !timer_) return Error::from_errno("opening a timer");
  return wake_on(timer_.get());
}

Status EventLoop::on_readable(int fd, Handler handler) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = fd;
  // Known already: replaced here, or left over from a descriptor of that number whose file lives on elsewhere.
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0 &&
      (errno != EEXIST || epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &wanted) != 0)) {
    handlers_.erase(fd);
    return Error::from_errno("waiting for a descriptor");
  }
  handlers_[fd] = std::move(handler);
  return Ok{};
}

void EventLoop::forget(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

Nanos EventLoop::wait_until(MonoTime until) {
  until = std::min(until, next());
  itimerspec when{};
  Nanos at = std::max<Nanos>(until.time_since_epoch(), 1ns);  // 0 would disarm it
  when.it_value.tv_sec = static_cast<time_t>(at / 1s);
  when.it_value.tv_nsec = static_cast<long>((at % 1s).count());
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  std::array<epoll_event, 16> ready{};
  MonoTime began = mono_now();
  int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), -1);
  Nanos slept = mono_now() - began;
  for (int i = 0; i < count; ++i) {
    // One before it may have forgotten it; and it may replace itself while it runs.
    auto handler = handlers_.find(ready[static_cast<std::size_t>(i)].data.fd);
    if (handler != handlers_.end()) Handler(handler->second)();
  }
  return slept;
}

void EventLoop::run_due(MonoTime now) {
  std::vector<Handler> due;
  while (!timers_.empty() && timers_.begin()->first <= now)
    due.push_back(std::move(timers_.extract(timers_.begin()).mapped()));
  for (const Handler& handler : due) handler();
}

}  // namespace oomcast
