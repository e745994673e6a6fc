#include "collect/fault_budget.h"

#include <algorithm>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kRarely = 50ms, kOften = 2ms;

}  // namespace

bool FaultBudget::look(MonoTime now, std::uint64_t faults, double chance) {
  Nanos passed = now - last_;
  last_ = now;
  (watching_ ? watched_ : paused_) += passed;
  left_ =
      std::min(limits_.burst, left_ + limits_.per_s * Seconds(passed).count()) - static_cast<double>(faults);
  if (watching_ && left_ <= 0) {
    watching_ = false;
    Seconds refill((limits_.window * (0.5 + chance) - left_) / limits_.per_s);
    resume_ = now + std::chrono::duration_cast<Nanos>(refill);
  } else if (!watching_ && now >= resume_) {
    watching_ = true;
  }
  return watching_;
}

Nanos FaultBudget::next_look() const {
  if (!watching_) return std::clamp<Nanos>(resume_ - last_, kOften, kRarely);
  return left_ < limits_.burst / 2 ? kOften : kRarely;
}

double FaultBudget::watched_share() const {
  Nanos all = watched_ + paused_;
  return all > Nanos{} ? Seconds(watched_) / Seconds(all) : 1;
}

}  // namespace oomcast
