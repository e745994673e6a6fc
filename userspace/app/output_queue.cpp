#include "app/output_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace oomcast {
namespace {

constexpr std::size_t kMaxPart = 65536;

}  // namespace

OutputQueue::~OutputQueue() {
  if (!thread_.joinable()) return;
  bool ended = flush();
  {
    std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
    ended = ended || shared_->ended;
  }
  shared_->changed.notify_all();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void OutputQueue::start() {
  try {
    thread_ = std::thread([fd = fd_, shared = shared_] { work(fd, shared); });
  } catch (const std::system_error&) {
    std::lock_guard lock(shared_->mutex);
    shared_->failed = true;
  }
}

void OutputQueue::write(const std::string& line, std::size_t most) {
  // The thread starts with the first line, so that it inherits what the process has done to itself by then.
  if (!thread_.joinable()) start();
  std::lock_guard lock(shared_->mutex);
  if (shared_->failed) return;
  if (shared_->unwritten + line.size() > most) {
    ++dropped_;
    return;
  }
  auto& parts = shared_->waiting;
  if (parts.empty() || parts.back().size() + line.size() > kMaxPart) {
    parts.emplace_back();
    parts.back().reserve(std::max(line.size(), kMaxPart));
  }
  parts.back() += line;
  shared_->unwritten += line.size();
  shared_->changed.notify_all();
}

bool OutputQueue::failed() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->failed;
}

std::uint64_t OutputQueue::take_dropped() {
  if (!dropped_) return 0;
  std::lock_guard lock(shared_->mutex);
  return shared_->unwritten > kMaxBytes / 2 ? 0 : std::exchange(dropped_, 0);
}

bool OutputQueue::flush() {
  std::unique_lock lock(shared_->mutex);
  while (shared_->unwritten && !shared_->failed) {
    std::size_t before = shared_->unwritten;
    shared_->changed.wait_for(lock, kPatience,
                              [&] { return shared_->unwritten < before || shared_->failed; });
    if (shared_->unwritten == before && !shared_->failed) return false;
  }
  return !shared_->failed;
}

void OutputQueue::work(int fd, const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ending || !shared->waiting.empty(); });
    if (shared->waiting.empty()) break;
    const std::string part = std::move(shared->waiting.front());
    shared->waiting.pop_front();
    for (std::size_t at = 0; at < part.size() && !shared->failed;) {
      lock.unlock();
      // In small pieces, so that a slow reader is seen to make progress.
      ssize_t n = ::write(fd, part.data() + at, std::min(part.size() - at, kMaxPart));
      const int err = errno;
      // Another process may have made the shared pipe non-blocking.
      pollfd room{fd, POLLOUT, 0};
      if (n < 0 && err == EAGAIN) poll(&room, 1, 100);
      lock.lock();
      if (n > 0) {
        at += static_cast<std::size_t>(n);
        shared->unwritten -= static_cast<std::size_t>(n);
      } else if (n < 0 && err != EINTR && err != EAGAIN) {
        shared->failed = true;
      }
      shared->changed.notify_all();
    }
    if (shared->failed) break;
  }
  shared->ended = true;
  shared->changed.notify_all();
}

}  // namespace oomcast
