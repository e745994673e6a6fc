// Parses the memory controller's files. Pure: text in, numbers out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/task_id.h"
#include "base/units.h"

namespace oomcast {

/// Where a cgroup's memory is, its descendants included (v1: the `total_*` lines). nullopt: the kernel does
/// not say. `file` is the page cache without shmem on both hierarchies (the kernel counts shmem in v1 `cache`
/// and v2 `file`), so anon, file, shmem and kernel do not overlap. Kernel statistics lag `usage` by up to 2
/// s.
struct MemoryStat {
  std::optional<Bytes> anon;  // v1 total_rss, which is anonymous memory only
  std::optional<Bytes> file;
  std::optional<Bytes> shmem;
  /// v2: `kernel`, before 5.18 the sum of slab, kernel_stack, pagetables, percpu … as far as given.
  /// v1: memory.kmem.usage_in_bytes, not in memory.stat.
  std::optional<Bytes> kernel;
  std::optional<Bytes> slab_reclaimable;  // never on v1: its memory.stat has no slab line
  std::optional<Bytes> active_file;
  std::optional<Bytes> inactive_file;
  std::optional<Bytes> active_anon;  // the anon lists hold shmem too
  std::optional<Bytes> inactive_anon;
  std::optional<Bytes> unevictable;  // mlocked and the like; overlaps anon, file and shmem
  std::optional<Bytes> mapped_file;
  std::optional<Bytes> swap;             // v1 total_swap; v2 memory.swap.current, not in memory.stat
  std::optional<std::uint64_t> pgfault;  // count since the cgroup was made
};

/// Parses memory.stat. Unknown and malformed lines are skipped; the first of repeated lines counts.
MemoryStat parse_memory_stat(Hierarchy hierarchy, std::string_view text);

/// A limit as the kernel prints it: outer nullopt = not a limit, inner nullopt = no limit ("max", or v1's
/// number just below 2^63, which is 2^63 − page size or more).
std::optional<std::optional<Bytes>> parse_limit(std::string_view text);

/// One line of a PSI file. Averages in percent of wall time; total is time stalled since the start.
struct PressureLine {
  double avg10 = 0;
  double avg60 = 0;
  double avg300 = 0;
  std::uint64_t total_us = 0;
};
struct Pressure {
  std::optional<PressureLine> some;
  std::optional<PressureLine> full;
};
/// Parses memory.pressure (v2) or /proc/pressure/memory.
Pressure parse_pressure(std::string_view text);

/// A cgroup's swap: what it holds there and its limits (nullopt = no limit).
struct SwapUse {
  Bytes used;
  std::optional<Bytes> limit;              // v2 memory.swap.max: swap alone
  std::optional<Bytes> with_memory_limit;  // v1 memory.memsw.limit_in_bytes: memory and swap together
};

/// Sum of two counts that are not negative; 2^63 − 1 when it does not fit, which no machine reaches but a
/// text may claim.
Bytes add_saturating(Bytes a, Bytes b);

}  // namespace oomcast
