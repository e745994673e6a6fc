#include "app/kill_pause.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace oomcast {
namespace {

constexpr Nanos kApart = std::chrono::milliseconds(10);  // two readings of /proc/meminfo

}  // namespace

// A container killed in a loop must not block the reader for all others.
void KillPause::on_kill(const KillDecision& decision, MonoTime now) {
  if (decision.owner) {
    std::erase_if(limits_, [now](const auto& limit) { return limit.second <= now; });
    if (limits_.size() < kMaxLimits || limits_.contains(*decision.owner))
      limits_[*decision.owner] = now + kReaderRests;
    return reader_.keep_away();
  }
  // At most half of the time: a process bound to one NUMA node can fill it again and again.
  bool rests = now >= next_rest_;
  reader_.rest(rests ? now + kReaderRests : now);
  if (rests) next_rest_ = now + 2 * kReaderRests;
  machine_kills_ = machine_kills_ || now >= next_pause_;
}

bool KillPause::is_near_a_kill(const TaskId& id, MonoTime now) const {
  const TaskState* task = model_.tasks().find(id);
  return std::ranges::any_of(limits_, [&](const auto& limit) {
    return now < limit.second &&
           (!task || !task->cgroup || model_.cgroups().is_below(*task->cgroup, limit.first));
  });
}

void KillPause::pause(const std::function<void(bool)>& stand_still) {
  if (!std::exchange(machine_kills_, false)) return;
  auto still_full = [this] {
    auto host = procfs_.read_meminfo();
    return host && host->is_short();
  };
  if (!still_full()) return;
  stand_still(true);
  MonoTime began = mono_now(), until = began + kLongest;
  do std::this_thread::sleep_for(kApart);
  while (mono_now() < until && still_full() && model_.episodes().due(mono_now()).empty());
  stand_still(false);
  next_pause_ = mono_now() + (mono_now() - began);
}

}  // namespace oomcast
