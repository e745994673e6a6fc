// Finds processes whose mmap_lock is held.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "wire/fault.h"

namespace oomcast {

/// To set or clear a breakpoint the kernel takes the mmap_lock of each process that has the file mapped, and
/// blocks every fork on the machine until it has had them all. A thread that sleeps with the lock (in mmap() of a
/// file whose NFS server does not answer, in a write to a mapping of a file system frozen for a snapshot) thus
/// blocks every fork. So this is checked first.
class HeldLocks {
 public:
  /// `look`: those that are held at this moment; may be called by several threads at once.
  using Look = std::function<std::vector<wire::HeldLock>()>;
  explicit HeldLocks(Look look) : look_(std::move(look)) {}

  /// A process whose lock is held by a thread that slept with it for all of 30 ms. nullopt: there is none.
  /// Cost: a look; where locks are held then, three more and 30 ms.
  std::optional<std::uint32_t> keeper() const;
  /// Waits until there is none, at most for `patience`.
  void wait(Nanos patience) const;

 private:
  Look look_;
};

}  // namespace oomcast
