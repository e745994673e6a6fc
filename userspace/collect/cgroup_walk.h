// Runs the kernel's walk of all cgroups in a thread of its own.
#pragma once

#include <functional>
#include <memory>

#include "base/units.h"

namespace oomcast {

/// The walk takes cgroup_mutex. mkdir below a cgroup at its limit holds it through reclaim, for seconds, and that
/// wait cannot be interrupted. So the caller waits for the walk with a timeout, not for the mutex.
class CgroupWalk {
 public:
  /// `walk`: does one; false: it failed. Whatever it uses must live in it: a walk that hangs outlives this.
  explicit CgroupWalk(std::function<bool()> walk);
  CgroupWalk(const CgroupWalk&) = delete;
  /// Does not block.
  ~CgroupWalk();

  /// Begins one, and waits for it for `patience`. One that has not ended then is still at work, of 40,000
  /// cgroups it takes as long, or it hangs: it is waited for again by the next call, and until it has lasted
  /// for `believed` what it tells is taken to come. false: it failed, or has lasted longer.
  bool run(Nanos patience, Nanos believed);

 private:
  struct Shared;
  bool start();

  std::shared_ptr<Shared> shared_;
  bool started_ = false;
};

}  // namespace oomcast
