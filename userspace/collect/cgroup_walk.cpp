#include "collect/cgroup_walk.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace oomcast {

struct CgroupWalk::Shared {
  std::function<bool()> walk;
  std::mutex mutex;
  std::condition_variable changed;
  bool wanted = false, ended = false, succeeded = false, over = false;
  MonoTime began{};

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return wanted || over; });
      if (over) return;
      lock.unlock();
      bool good = walk();
      lock.lock();
      wanted = false;
      ended = true;
      succeeded = good;
      changed.notify_all();
    }
  }
};

CgroupWalk::CgroupWalk(std::function<bool()> walk) : shared_(std::make_shared<Shared>()) {
  shared_->walk = std::move(walk);
}

CgroupWalk::~CgroupWalk() {
  std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

// Starts with the first walk: a thread keeps the capabilities from its start, and the process drops them
// later.
bool CgroupWalk::start() {
  if (started_) return true;
  try {
    std::thread([shared = shared_] { shared->work(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {
  }
  return started_;
}

bool CgroupWalk::run(Nanos patience, Nanos believed) {
  if (!start()) return false;
  std::unique_lock lock(shared_->mutex);
  if (!shared_->wanted) {
    shared_->wanted = true;
    shared_->ended = false;
    shared_->began = mono_now();
    shared_->changed.notify_all();
  }
  bool ended = shared_->changed.wait_for(lock, patience, [this] { return shared_->ended; });
  return ended ? shared_->succeeded : mono_now() - shared_->began < believed;
}

}  // namespace oomcast
