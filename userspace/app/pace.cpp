#include "app/pace.h"

#include <algorithm>
#include <utility>

namespace oomcast {

std::optional<Nanos> Pace::advance(MonoTime now) {
  if (!window_) window_ = now;
  if (now - *window_ < kWindow) return std::nullopt;
  double awake = 1 - Seconds(std::exchange(slept_, Nanos{})) / Seconds(now - *window_);
  window_ = now;
  if (awake > kMaxAwake)
    pace_ = std::clamp<Nanos>(2 * pace_, kMin, kMax);
  else if (awake < kMaxAwake / 2)
    pace_ = pace_ <= kMin ? Nanos{} : pace_ / 2;
  return pace_;
}

}  // namespace oomcast
