// What cgroups and the machine hold, and how far each is from its end.
#include <algorithm>
#include <chrono>

#include "model/machine_model.h"

namespace oomcast {
namespace {

constexpr std::int64_t kNoNews = 256;  // a limit that others lower by less than this part is as it was

}  // namespace

std::string_view to_string(LimitKind kind) {
  constexpr std::string_view names[] = {"max", "high", "host"};
  return names[static_cast<std::size_t>(kind)];
}

NextLimit next_limit(const Sample& sample) {
  if (sample.throttle) return {sample.throttle->limit, sample.throttle->owner, LimitKind::high};
  return {sample.headroom_limit, sample.headroom_cgroup,
          sample.headroom_cgroup ? LimitKind::max : LimitKind::host};
}

void MachineModel::on_reading(std::uint64_t inode, const CgroupReading& reading, bool show) {
  CgroupState* state = cgroups_.find(inode);
  if (!state || state->removed) return;
  if (reading.usage) {
    state->usage = reading.usage;
    episodes_.on_usage(inode, reading.time, *reading.usage);
  }
  // The kernel's own figure came with an event before.
  if (state->peak && reading.usage) state->peak = std::max(*state->peak, *reading.usage);
  if (reading.stat) state->stat = *reading.stat;
  if (reading.limit) {
    state->limit = *reading.limit;
    state->limit_known = true;
  }
  std::optional<Bytes> host_total = host_.info ? host_.info->total : std::nullopt;
  auto tightest = cgroups_.tightest_limit(inode, host_total);
  if (reading.swap) state->swap = reading.swap;
  if (reading.swappiness) state->swappiness = reading.swappiness;
  std::optional<Bytes> pinned;
  if (auto room = headroom(headroom_input(*state, reading, tightest.limit)); room && reading.stat) {
    pinned = room->pinned;
    state->headroom_cgroup = tightest.owner;
    leave_to_others(*state, *room, reading.time);
    state->headroom_limit = room->limit;
    throttle(*state, reading, room->pinned);
    if (!state->pinned || reading.time >= state->pinned->time)
      state->pinned = Point{reading.time, room->pinned};
  }
  bool changed = state->usage != state->shown.usage || tightest.limit != state->shown.limit;
  if (!cgroup_in_scope(inode) || !(show || changed || !state->shown.at)) return;
  if (too_soon(state->shown.at, reading.time)) return;
  tell_limits(*state, reading.time, tightest, host_total);
  state->shown.usage = state->usage;
  state->shown.limit = tightest.limit;
  state->shown.at = reading.time;
  facts_.push_back(Sample{reading.time, state->ref, state->usage, tightest.limit, tightest.owner, state->stat,
                          pinned, state->headroom_limit, state->peak, state->headroom_cgroup,
                          state->high.throttle});
}

// Kubernetes sets memory.high by itself (MemoryQoS), below memory.max: what leaks is throttled to a crawl
// there and never killed, and had a deadline to memory.max.
void MachineModel::throttle(CgroupState& state, const CgroupReading& reading, Bytes pinned) const {
  state.high.throttle.reset();
  auto high = cgroups_.tightest_high(state.ref->id.inode);
  if (!high.limit) return;
  auto room = headroom(headroom_input(state, reading, high.limit));
  if (!room || !room->limit) return;
  Bytes limit = *room->limit;
  const CgroupState* owner = cgroups_.find(high.owner->id.inode);
  if (owner && owner != &state && owner->pinned)
    limit = std::max(pinned, limit - std::max(Bytes{}, owner->pinned->value - pinned));
  if (!state.headroom_limit || limit < *state.headroom_limit)
    state.high.throttle = Throttle{limit, high.owner};
}

void MachineModel::tell_limits(CgroupState& state, MonoTime when, const CgroupTree::Tightest& max,
                               std::optional<Bytes> host) {
  auto high = cgroups_.tightest_high(state.ref->id.inode);
  auto before = state.shown.limit ? state.shown.limit : host, now = max.limit ? max.limit : host;
  if (state.shown.at && before != now)
    facts_.push_back(LimitChangedFact{when, state.ref, max.owner,
                                      max.owner ? LimitKind::max : LimitKind::host, before, now});
  if (state.shown.at && state.shown.high != high.limit)
    facts_.push_back(
        LimitChangedFact{when, state.ref, high.owner, LimitKind::high, state.shown.high, high.limit});
  state.shown.high = high.limit;
}

// The nearest above it with a limit of its own, or the machine, as far as their levels are known.
std::optional<MachineModel::LimitAbove> MachineModel::limit_above(const CgroupState& state) const {
  std::optional<std::uint64_t> at = state.parent;
  for (int depth = 0; at && depth < CgroupTree::kMaxDepth; ++depth) {
    const CgroupState* above = cgroups_.find(*at);
    if (!above) break;
    if (above->limit && above->pinned && above->headroom_limit)
      return LimitAbove{*at, above->pinned->time, above->pinned->value, *above->headroom_limit,
                        above->headroom_cgroup};
    at = above->parent;
  }
  auto room = host_.info ? host_headroom(*host_.info) : std::nullopt;
  if (!room || !room->limit) return std::nullopt;
  return LimitAbove{0, host_.read, room->pinned, *room->limit, nullptr};
}

// A limit holds for all that is below it together: what others hold is not there to be taken.
void MachineModel::leave_to_others(CgroupState& state, Headroom& room, MonoTime when) {
  auto above = limit_above(state);
  if (!above) return;
  if (state.beneath != above->inode) state.others = {};
  state.beneath = above->inode;
  if (!state.others.any() || std::chrono::abs(when - above->read) <= HeldByOthers::kTogether)
    state.others.add(above->pinned, room.pinned);
  Bytes left = std::max(room.pinned, above->limit - state.others.typical());
  if (room.limit && *room.limit - left <= Bytes{room.limit->count / kNoNews}) return;
  room.limit = left;
  state.headroom_cgroup = above->whose;
}

HeadroomInput MachineModel::headroom_input(const CgroupState& state, const CgroupReading& reading,
                                           std::optional<Bytes> limit) const {
  HeadroomInput in;
  in.usage = state.usage;
  in.stat = state.stat;
  in.limit = limit || !host_.info ? limit : host_.info->total;
  in.swap = reading.swap;
  if (host_.info && host_.info->swap_free) cgroups_.limit_swap(state, *host_.info->swap_free, in);
  // At the machine's own end even 0 swaps.
  if (limit) in.swappiness = state.ref->id.hierarchy == Hierarchy::v1 ? state.swappiness : host_.swappiness;
  return in;
}

void MachineModel::on_host(MonoTime time, const MemInfo& info) {
  host_.info = info;
  host_.read = time;
  auto room = host_headroom(info);
  if (!cgroup_in_scope(host_.ref->id.inode)) return;  // it stands for the root cgroup
  Sample sample;
  sample.time = time;
  sample.cgroup = host_.ref;
  if (info.total && info.free) sample.usage = *info.total - *info.free;
  sample.stat.anon = info.anon;
  sample.stat.shmem = info.shmem;
  if (info.cached && info.shmem) sample.stat.file = *info.cached - *info.shmem;
  if (info.swap_total && info.swap_free) sample.stat.swap = *info.swap_total - *info.swap_free;
  if (room) {
    sample.pinned = room->pinned;
    sample.headroom_limit = room->limit;
  }
  facts_.push_back(std::move(sample));
}

bool MachineModel::is_above_scope(std::uint64_t inode) const {
  for (std::uint64_t top : config_.scope.cgroups)
    if (cgroups_.is_below(top, inode)) return true;
  for (TaskId top : config_.scope.tasks)
    if (const TaskState* task = tasks_.find(top);
        task && task->cgroup && cgroups_.is_below(*task->cgroup, inode))
      return true;
  return false;
}

}  // namespace oomcast
