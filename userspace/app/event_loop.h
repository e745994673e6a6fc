// Waits for descriptors, and for a time.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace oomcast {

class EventLoop {
 public:
  Status open();
  /// Ends a wait whenever it is readable. One that is closed is not watched any longer.
  void watch(int fd);
  /// Until then, or until a descriptor is readable, or a signal comes; how long that was.
  Nanos wait_until(MonoTime until);

 private:
  UniqueFd epoll_, timer_;
};

}  // namespace oomcast
