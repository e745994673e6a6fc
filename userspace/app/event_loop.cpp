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

bool EventLoop::watch(int op, int fd, bool writable) {
  epoll_event wanted{};
  wanted.events = EPOLLIN | (writable ? EPOLLOUT : 0u);
  wanted.data.fd = fd;
  return epoll_ctl(epoll_.get(), op, fd, &wanted) == 0;
}

Status EventLoop::on_readable(int fd, Handler handler) {
  // EEXIST: replaced here, or a stale entry of a closed descriptor with this number, whose file lives on
  // elsewhere.
  if (!watch(EPOLL_CTL_ADD, fd, false) && (errno != EEXIST || !watch(EPOLL_CTL_MOD, fd, false))) {
    handlers_.erase(fd);
    return Error::from_errno("waiting for a descriptor");
  }
  handlers_[fd] = {std::move(handler), {}};
  return Ok{};
}

Status EventLoop::on_writable(int fd, Handler handler) {
  auto known = handlers_.find(fd);
  if (known == handlers_.end()) return Error::failed("waiting for a descriptor that nobody reads");
  if (!watch(EPOLL_CTL_MOD, fd, true)) return Error::from_errno("waiting for a descriptor");
  known->second.writable = std::move(handler);
  return Ok{};
}

void EventLoop::forget(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

// A handler may forget its own descriptor, and replace itself while it runs.
void EventLoop::dispatch(int fd, std::uint32_t events) {
  auto known = handlers_.find(fd);
  if (known != handlers_.end() && known->second.writable && (events & ~std::uint32_t{EPOLLIN}) != 0) {
    (void)watch(EPOLL_CTL_MOD, fd, false);
    std::exchange(known->second.writable, {})();
    known = handlers_.find(fd);
  }
  if (known != handlers_.end() && (events & ~std::uint32_t{EPOLLOUT}) != 0) Handler(known->second.readable)();
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
  // A handler may forget another descriptor that is ready as well.
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    dispatch(event.data.fd, event.events);
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
