#include "app/cgroup_samples.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace oomcast {
namespace {

constexpr Nanos kHotFor = std::chrono::milliseconds(150);
constexpr std::size_t kMaxHot = 64;
constexpr double kNearlyFull = 0.95;                   // of the limit, unreclaimable
constexpr Nanos kHighEvery = std::chrono::seconds(5);  // per sampled cgroup
constexpr std::uint64_t kLimitEvery = 10;              // rounds per check of the limits of an idle cgroup

CgroupEntry entry_of(const CgroupState& state) {
  return {state.ref->id, std::nullopt, state.ref->path};
}

std::optional<Bytes> host_total(const MachineModel& model) {
  return model.host() ? model.host()->total : std::nullopt;
}

}  // namespace

bool is_nearly_full(const CgroupState& cgroup) {
  return cgroup.pinned && cgroup.headroom_limit &&
         cgroup.pinned->value.as_double() > kNearlyFull * cgroup.headroom_limit->as_double();
}

void CgroupSamples::sample(std::uint64_t inode, MonoTime now) {
  CgroupState* state = model_.cgroups().find(inode);
  if (!state || state->removed) return;
  CgroupReading reading;
  if (auto usage = reader_.usage(entry_of(*state))) reading.usage = *usage;
  reading.time = mono_now();
  read(*state, reading, false, now);
}

void CgroupSamples::on_usage(std::uint64_t inode, Bytes usage, MonoTime when, MonoTime now) {
  CgroupState* state = model_.cgroups().find(inode);
  if (!state || state->removed) return;
  CgroupReading reading;
  reading.time = when;
  reading.usage = usage;
  if (state->stat_read && now - *state->stat_read < kStatServes) reading.stat = state->stat;
  read(*state, reading, true, now);
}

void CgroupSamples::read(CgroupState& state, CgroupReading reading, bool told_by_kernel, MonoTime now) {
  CgroupEntry entry = entry_of(state);
  if (!told_by_kernel || !state.limit_known)
    if (auto limit = reader_.limit(entry)) reading.limit = *limit;
  read_high(state, now);
  read_limits_above(state, now);
  if (!reading.stat)
    if (auto stat = reader_.stat(entry)) {
      reading.stat = *stat;
      state.stat_read = now;
    }
  if (machine_swaps()) {
    if (auto swap = reader_.swap(entry); swap && *swap) reading.swap = **swap;
    if (auto swappiness = reader_.swappiness(entry)) reading.swappiness = *swappiness;
  }
  std::uint64_t inode = state.ref->id.inode;
  model_.on_reading(inode, reading, told_by_kernel);
  if (state.limit && state.pinned && is_nearly_full(state) && model_.cgroup_in_scope(inode))
    nearly_full_ = state.pinned->time;
}

bool CgroupSamples::machine_swaps() const {
  return model_.host() && model_.host()->swap_total && model_.host()->swap_total->count > 0;
}

// For a cgroup that only limits others.
void CgroupSamples::read_limits(CgroupState& cgroup) {
  CgroupEntry entry = entry_of(cgroup);
  if (auto limit = reader_.limit(entry)) cgroup.limit = *limit;
  cgroup.limit_known = true;
  if (!machine_swaps()) return;
  if (auto swap = reader_.swap(entry)) cgroup.swap = *swap;
  cgroup.swap_known = true;
}

// The kernel programs do not report memory.high, so it is read from its file: one open and read per cgroup
// and kHighEvery.
void CgroupSamples::read_high(CgroupState& cgroup, MonoTime now) {
  if (cgroup.high.read && now - *cgroup.high.read < kHighEvery) return;
  cgroup.high.read = now;
  auto high = reader_.high(entry_of(cgroup));
  if (high) cgroup.high.size = *high == Bytes{} ? std::nullopt : *high;
}

void CgroupSamples::read_limits_above(const CgroupState& cgroup, MonoTime now) {
  for (auto at = cgroup.parent; at;) {
    CgroupState* above = model_.cgroups().find(*at);
    if (!above) return;
    if (!above->limit_known || (machine_swaps() && !above->swap_known)) read_limits(*above);
    read_high(*above, now);
    at = above->parent;
  }
}

void CgroupSamples::sample_all(MonoTime now, bool told, const std::function<void()>& after_each) {
  ++rounds_;
  std::vector<std::uint64_t> changed;
  model_.cgroups().for_each([&](CgroupState& state) {
    std::uint64_t inode = state.ref->id.inode;
    if (state.ref->name.kind == CgroupKind::root) return;  // the host's sample stands for it
    if (state.removed || !model_.cgroup_in_scope(inode)) {
      // Limits of ancestors outside of the scope still count, and so does memory of others below them.
      if (state.removed) return;
      if (!state.limit_known || rounds_ % kLimitEvery == 0) read_limits(state), read_high(state, now);
      if (state.limit && model_.is_above_scope(inode)) changed.insert(changed.begin(), inode);
      return;
    }
    bool moved = false;
    if (!told || !state.told_by_kernel) {
      CgroupEntry entry = entry_of(state);
      auto usage = reader_.usage(entry);
      moved = usage && state.usage != *usage;
      if ((rounds_ + inode) % kLimitEvery == 0) read_limits(state), read_high(state, now);
    }
    // With thousands of idle cgroups, reading all limits above each costs more than all samples.
    bool quiet = told && state.told_by_kernel && state.usage && CgroupTree::is_idle(*state.usage);
    bool due = !quiet || (rounds_ + inode) % kLimitEvery == 0;
    bool limit_moved =
        due && (model_.cgroups().tightest_limit(inode, host_total(model_)).limit != state.shown.limit ||
                model_.cgroups().tightest_high(inode).limit != state.shown.high);
    if (moved || limit_moved || !state.shown.at || !state.limit_known) changed.push_back(inode);
  });
  for (std::uint64_t inode : changed) {
    sample(inode, now);
    if (after_each) after_each();
  }
  // For idle cgroups the kernel programs report everything: close their files.
  if (rounds_ % kLimitEvery == 0) reader_.close_unread();
}

bool CgroupSamples::moved_far(const CgroupState& state, Bytes usage) const {
  if (!state.shown.usage) return false;
  auto limit = model_.cgroups().tightest_limit(state.ref->id.inode, host_total(model_)).limit;
  Bytes step = std::max(MiB(1), Bytes{limit ? limit->count / 256 : MiB(64).count});
  Bytes moved = usage - *state.shown.usage;
  return moved >= step || -moved >= step;
}

void CgroupSamples::mark_hot(std::uint64_t inode, MonoTime moved) {
  if (hot_.size() < kMaxHot || hot_.contains(inode)) hot_[inode] = moved + kHotFor;
}

void CgroupSamples::poll_hot(MonoTime now) {
  std::erase_if(hot_, [&](const auto& h) { return h.second < now; });
  for (const auto& [inode, until] : hot_) {
    CgroupState* state = model_.cgroups().find(inode);
    if (!state || state->removed) continue;
    auto usage = reader_.usage(entry_of(*state));
    if (!usage) continue;
    state->told_by_kernel = false;
    if (!state->shown.usage || moved_far(*state, *usage)) on_usage(inode, *usage, now, now);
  }
}

void CgroupSamples::poll_kills(MonoTime now) {
  if (now < next_kill_poll_) return;
  MonoTime began = mono_now();
  for (std::uint64_t inode : model_.episodes().watched()) {
    const CgroupState* state = model_.cgroups().find(inode);
    if (!state) continue;
    if (auto usage = reader_.usage(entry_of(*state))) model_.on_kill_usage(inode, now, *usage);
  }
  // At most a tenth of the time: with 200 limits hit at once, a slow machine would have time for nothing
  // else.
  MonoTime ended = mono_now();
  next_kill_poll_ = now + std::max<Nanos>(kKillPoll / 2, 9 * (ended - began));
}

}  // namespace oomcast
