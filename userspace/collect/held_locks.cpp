#include "collect/held_locks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace oomcast {

std::optional<std::uint32_t> HeldLocks::keeper() const {
  constexpr int kTimes = 4;
  constexpr Nanos kApart = std::chrono::milliseconds(10);
  auto kept = look_();
  for (int looks = 1; looks < kTimes && !kept.empty(); ++looks) {
    std::this_thread::sleep_for(kApart);
    auto held = look_();
    std::erase_if(kept, [&](const wire::HeldLock& each) { return std::ranges::count(held, each) == 0; });
  }
  return kept.empty() ? std::nullopt : std::optional(kept.front().tgid);
}

void HeldLocks::wait(Nanos patience) const {
  constexpr Nanos kAgain = std::chrono::milliseconds(100);
  for (MonoTime until = mono_now() + patience; keeper() && mono_now() < until;)
    std::this_thread::sleep_for(kAgain);
}

}  // namespace oomcast
