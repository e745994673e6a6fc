#include "model/headroom.h"

#include <algorithm>

namespace oomcast {
namespace {

Bytes at_least_zero(Bytes b) {
  return std::max(Bytes{}, b);
}

}  // namespace

std::optional<Bytes> pinned_bytes(std::optional<Bytes> usage, const MemoryStat& stat) {
  if (!usage || !stat.active_file || !stat.inactive_file) return std::nullopt;
  Bytes left = at_least_zero(*usage - *stat.active_file);
  left = at_least_zero(left - *stat.inactive_file);
  if (stat.slab_reclaimable) left = at_least_zero(left - *stat.slab_reclaimable);
  return left;
}

std::optional<Headroom> headroom(const HeadroomInput& in) {
  auto pinned = pinned_bytes(in.usage, in.stat);
  if (!pinned) return std::nullopt;
  const Bytes held = in.swap ? in.swap->used : Bytes{};
  Headroom out;
  out.pinned = add_saturating(*pinned, held);

  if (in.limit) {
    std::optional<Bytes> allowance = in.swap_free;
    if (in.swap && in.swap->limit) {
      Bytes own = at_least_zero(*in.swap->limit - held);
      // An exhausted limit decides alone, whatever the host has.
      if (allowance)
        allowance = std::min(*allowance, own);
      else if (own == Bytes{})
        allowance = own;
    }
    if (in.swappiness == std::uint64_t{0}) allowance = Bytes{};
    const bool memsw_decides =
        in.swap && in.swap->with_memory_limit && *in.swap->with_memory_limit <= *in.limit;
    if (!allowance && !memsw_decides) return std::nullopt;
    out.limit = add_saturating(*in.limit, held);
    if (allowance) out.limit = add_saturating(*out.limit, at_least_zero(*allowance));
  }
  if (in.swap && in.swap->with_memory_limit)
    out.limit = out.limit ? std::min(*out.limit, *in.swap->with_memory_limit) : *in.swap->with_memory_limit;
  return out;
}

bool has_room(std::optional<Bytes> usage, const MemoryStat& stat, std::optional<Bytes> limit) {
  if (!limit) return true;
  auto pinned = pinned_bytes(usage, stat);
  Bytes least = std::clamp(Bytes{limit->count / 32}, MiB(4), MiB(64));
  return pinned && *limit - *pinned >= least;
}

Bytes swap_left(std::span<const SwapUse> self_and_ancestors, Bytes host_free) {
  Bytes left = host_free;
  for (const SwapUse& level : self_and_ancestors)
    if (level.limit) left = std::min(left, *level.limit - level.used);
  return at_least_zero(left);
}

Bytes HeldByOthers::typical() const {
  std::array<Bytes, 3> sorted = newest_;
  std::ranges::sort(sorted);
  return added_ < 3 ? sorted[2] : sorted[1];
}

std::optional<Headroom> host_headroom(const MemInfo& info) {
  if (!info.total || !info.free || !info.active_file || !info.inactive_file || !info.slab_reclaimable ||
      !info.swap_total || !info.swap_free)
    return std::nullopt;
  Bytes used = at_least_zero(*info.total - *info.free);
  Bytes droppable =
      add_saturating(add_saturating(*info.active_file, *info.inactive_file), *info.slab_reclaimable);
  Bytes swapped = at_least_zero(*info.swap_total - *info.swap_free);
  return Headroom{add_saturating(at_least_zero(used - droppable), swapped),
                  add_saturating(*info.total, *info.swap_total)};
}

}  // namespace oomcast
