#include "model/thrashing.h"

#include <fmt/format.h>

namespace oomcast {
namespace {

// Stall records come once an interval, as long as anything stalled.
constexpr Seconds kLongestGap{15};

}  // namespace

std::string describe(const Thrashing& t) {
  std::string waiting = t.waiting < 1
                            ? fmt::format("a task waits for memory {:.0f} % of the time", 100 * t.waiting)
                            : fmt::format("{:.1f} of its tasks wait for memory at any time", t.waiting);
  return fmt::format("has thrashed at its limit for {} and is not killed: {}, while {} are reclaimed",
                     format_duration(t.lasts), waiting, format_rate(t.reclaimed).substr(1));
}

void ThrashingFinder::on(const Sample& sample) {
  if (!sample.cgroup) return;
  State& state = states_[sample.cgroup->id];
  state.pinned = sample.pinned;
  // Swapped memory does not count against the memory limit.
  if (state.pinned && sample.stat.swap) state.pinned = std::max(Bytes{}, *state.pinned - *sample.stat.swap);
  state.limit = sample.limit;
  state.owner.reset();
  if (sample.limit_cgroup) state.owner = sample.limit_cgroup->id;
}

// An ancestor's limit applies to everything below it.
bool ThrashingFinder::full(const State& state) const {
  const State* owner = &state;
  if (state.owner)
    if (auto at = states_.find(*state.owner); at != states_.end()) owner = &at->second;
  return owner->pinned && owner->limit && owner->pinned->as_double() >= kFull * owner->limit->as_double();
}

void ThrashingFinder::on(const ReclaimFact& reclaim) {
  if (!reclaim.cgroup) return;
  State& state = states_[reclaim.cgroup->id];
  auto before = std::exchange(state.told, reclaim.time);
  Seconds over = before ? seconds_between(*before, reclaim.time) : Seconds{};
  double waiting = over.count() > 0 ? reclaim.stalled / over : 0;
  if (over > kLongestGap || waiting < kMinWaiting || !full(state)) {
    state.thrashing.reset();
    return;
  }
  if (!state.thrashing) state.thrashing.emplace().since = *before;
  state.thrashing->lasts = seconds_between(state.thrashing->since, reclaim.time);
  state.thrashing->waiting = waiting;
  state.thrashing->reclaimed = {reclaim.reclaimed.as_double() / over.count()};
}

void ThrashingFinder::on_kill(CgroupId cgroup) {
  auto at = states_.find(cgroup);
  if (at == states_.end()) return;
  at->second.told.reset();
  at->second.thrashing.reset();
}

std::optional<Thrashing> ThrashingFinder::of(CgroupId cgroup, MonoTime now) const {
  auto at = states_.find(cgroup);
  if (at == states_.end() || !at->second.thrashing || at->second.thrashing->lasts < kMin ||
      seconds_between(*at->second.told, now) > kLongestGap)
    return std::nullopt;
  return at->second.thrashing;
}

}  // namespace oomcast
