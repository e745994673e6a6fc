// Who keeps the lock of a process's memory (mmap_lock).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "wire/fault.h"

namespace oomcast {

/// To set or clear a breakpoint the kernel takes this lock of each process that has the file mapped, and lets
/// nobody on the machine fork until it has had them all. Who sleeps with it (in mmap() of a file whose NFS
/// server does not answer, in a write to a mapping of a file system that is frozen for a snapshot) holds up
/// every fork with it. So it is asked first.
class HeldLocks {
 public:
  /// `look`: those that are held at this moment; may be called by several threads at once.
  using Look = std::function<std::vector<wire::HeldLock>()>;
  explicit HeldLocks(Look look) : look_(std::move(look)) {}

  /// A process whose lock is held by a thread that slept with it for all of 30 ms. nullopt: there is none.
  /// Cost: a look; where locks are held then, three more and 30 ms.
  std::optional<std::uint32_t> keeper() const;
  /// Until there is none, `patience` at most.
  void wait(Nanos patience) const;

 private:
  Look look_;
};

}  // namespace oomcast
