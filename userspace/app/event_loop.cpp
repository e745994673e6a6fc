#include "app/event_loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>

#include "base/clock.h"

namespace oomcast {

using namespace std::chrono_literals;

Status EventLoop::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_ || !timer_) return Error::from_errno("opening a timer");
  watch(timer_.get());
  return Ok{};
}

void EventLoop::watch(int fd) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted);
}

Nanos EventLoop::wait_until(MonoTime until) {
  itimerspec when{};
  Nanos at = std::max<Nanos>(until.time_since_epoch(), 1ns);  // 0 would disarm it
  when.it_value.tv_sec = static_cast<time_t>(at / 1s);
  when.it_value.tv_nsec = static_cast<long>((at % 1s).count());
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  std::array<epoll_event, 8> ready{};
  MonoTime began = mono_now();
  epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), -1);
  return mono_now() - began;
}

}  // namespace oomcast
