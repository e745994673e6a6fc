// How far a cgroup or the host is from running out: the series to forecast and its limit. Pure arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/units.h"
#include "collect/procfs.h"
#include "parse/memory_stat.h"

namespace oomcast {

/// Unreclaimable memory: usage − active_file − inactive_file − slab_reclaimable, never negative.
/// v1 has no slab line: reclaimable slab stays in, so the answer is high by that much. Swap is not looked at.
/// nullopt: usage or a file list is unknown.
std::optional<Bytes> pinned_bytes(std::optional<Bytes> usage, const MemoryStat& stat);

/// `limit − pinned` is what the cgroup can still take before the kernel must kill.
struct Headroom {
  Bytes pinned;                // the contract's pinned_bytes: the series to forecast
  std::optional<Bytes> limit;  // nullopt: no limit of its own
};

struct HeadroomInput {
  std::optional<Bytes> usage;
  MemoryStat stat;
  std::optional<Bytes> limit;      // memory limit; nullopt = none
  std::optional<SwapUse> swap;     // nullopt: this kernel does not account swap to cgroups
  std::optional<Bytes> swap_free;  // what host and ancestors leave, see swap_left(); nullopt = unknown
  /// 0: reclaim for a cgroup's limit never swaps. v1: the cgroup's memory.swappiness; v2: vm.swappiness.
  std::optional<std::uint64_t> swappiness;
};

/// With S = swap the cgroup holds, and A = swap it may still take (0 if swappiness is 0, otherwise the
/// smaller of swap_free and, on v2, swap limit − S):
///
///     pinned = pinned_bytes(usage, stat) + S
///     limit  = memory limit + S + A             and on v1 at most the memory+swap limit
///
/// While swap is left, anon can go there: so the cgroup reaches its end only when memory and its swap are
/// both full. S is on both sides so that neither moves when a page goes out or comes back. On v1 swapping
/// does not lower memory+swap, so memsw limit = memory limit means that swap helps nothing. Growth of kernel
/// or mlocked memory cannot be swapped: for it the limit is optimistic by A. When swap is not accounted (swap
/// nullopt), S is left out on both sides: the distance is right, but series and limit both move as pages are
/// swapped. nullopt: pinned is unknown, or there is a limit and swap_free is unknown where it decides.
std::optional<Headroom> headroom(const HeadroomInput& in);

/// Whether some pages more, charged to the cgroup, are surely not what makes the kernel kill in it: a 32nd of
/// its limit is left, from 4 to 64 MiB, beside what reclaim can drop. Without a limit they are not; where
/// usage or the files are unknown they may be.
bool has_room(std::optional<Bytes> usage, const MemoryStat& stat, std::optional<Bytes> limit);

/// Swap that `host_free` and the v2 limits of a cgroup and its ancestors leave to it; never negative.
Bytes swap_left(std::span<const SwapUse> self_and_ancestors, Bytes host_free);

/// What others hold below a limit beside one cgroup: the difference of two levels that never stand still and
/// are read one after the other. Of the last three pairs the median counts: a spike that only one of the two
/// readings has is in none.
class HeldByOthers {
 public:
  /// The levels of the limit's owner and of the cgroup, read within kTogether of each other.
  static constexpr Nanos kTogether = std::chrono::milliseconds(50);
  void add(Bytes of_all, Bytes own) { newest_[added_++ % newest_.size()] = std::max(Bytes{}, of_all - own); }
  bool any() const { return added_ > 0; }
  /// With two pairs: the larger; with none: 0.
  Bytes typical() const;

 private:
  std::array<Bytes, 3> newest_{};
  std::uint64_t added_ = 0;
};

/// The same for the whole machine: pinned = MemTotal − MemFree − file lists − SReclaimable + swap in use,
/// limit = MemTotal + SwapTotal. Huge pages set aside count as pinned. nullopt: one of them is unknown.
std::optional<Headroom> host_headroom(const MemInfo& info);

}  // namespace oomcast
