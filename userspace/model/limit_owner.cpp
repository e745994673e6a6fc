#include "model/limit_owner.h"

#include <algorithm>
#include <vector>

#include "model/recent.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxDecisions = 64;

// The root is locked only for itself and never charged; it is no owner.
std::optional<std::uint64_t> topmost_locked(const std::vector<wire::Memcg>& chain) {
  std::optional<std::uint64_t> owner;
  for (const wire::Memcg& level : chain)
    if (level.oom_lock) owner = level.inode;
  return owner;
}

// A limit's victim is below its owner.
bool may_kill_for(const wire::OomMark& mark, std::uint64_t owner) {
  constexpr std::size_t kAllLevels = 16;  // ancestors further up are unknown
  return mark.victim_chain.empty() || mark.victim_chain.size() >= kAllLevels ||
         std::ranges::find(mark.victim_chain, owner, &wire::Memcg::inode) != mark.victim_chain.end();
}

// A charge is tried in batches of 64 pages per CPU, so a full cgroup can stand that far below its limit.
std::optional<std::uint64_t> lowest_full(const wire::OomMark& mark, const std::vector<wire::Memcg>& chain) {
  for (const wire::Memcg& level : chain)
    if (level.limit && level.usage + KiB(4 * 64) >= *level.limit && may_kill_for(mark, level.inode))
      return level.inode;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> limit_owner(const wire::OomMark& mark) {
  auto locked = mark.owner ? std::optional(mark.owner->inode) : topmost_locked(mark.chain);
  if (locked && may_kill_for(mark, *locked)) return locked;
  if (auto owner = lowest_full(mark, mark.chain)) return owner;
  return lowest_full(mark, mark.victim_chain);
}

std::optional<std::uint64_t> group_of(const wire::OomMark& mark, std::optional<std::uint64_t> owner) {
  std::optional<std::uint64_t> out;
  for (const wire::Memcg& level : mark.victim_chain) {
    if (level.oom_group) out = level.inode;
    if (level.inode == owner) break;
  }
  return out;
}

void OomDecisions::on(const wire::OomDecision& decision) {
  remember(decisions_, decision, kMaxDecisions);
}

const wire::OomDecision* OomDecisions::of(const wire::OomMark& mark) const {
  auto at = std::find_if(decisions_.rbegin(), decisions_.rend(), [&](const wire::OomDecision& d) {
    return d.trigger.tid == mark.trigger.tid && d.time <= mark.time && mark.time - d.time < kSameMoment;
  });
  return at == decisions_.rend() ? nullptr : &*at;
}

std::optional<std::uint64_t> OomDecisions::find_owner(const wire::OomMark& mark) const {
  if (const wire::OomDecision* decision = of(mark)) return decision->limit_cgroup;
  if (auto owner = limit_owner(mark)) return owner;
  if (mark.trigger.workqueue) return std::nullopt;
  auto holds = [](const std::vector<wire::Memcg>& chain, std::uint64_t inode) {
    return std::any_of(chain.begin(), chain.end(),
                       [&](const wire::Memcg& m) { return m.inode == inode && m.limit; });
  };
  auto at = std::find_if(decided_.rbegin(), decided_.rend(), [&](const Decided& d) {
    return mark.time - d.time < kSameMoment && holds(mark.victim_chain, d.owner) &&
           (d.trigger_tid == mark.trigger.tid || holds(mark.chain, d.owner));
  });
  return at == decided_.rend() ? std::nullopt : std::optional(at->owner);
}

std::optional<std::uint64_t> OomDecisions::owner_of(const wire::OomMark& mark) {
  auto owner = find_owner(mark);
  if (owner) remember(decided_, {*owner, mark.trigger.tid, mark.time}, kMaxDecisions);
  return owner;
}

}  // namespace oomcast
