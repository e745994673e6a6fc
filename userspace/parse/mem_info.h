// The extra part of the kernel's report of a machine-wide OOM: zones, memory by kind, and slabs.
//
// Forms: show_mem(), show_free_areas() (mm/page_alloc.c, lib/show_mem.c, mm/show_mem.c) and
// dump_unreclaimable_slab() (mm/slab_common.c) of 3.10 to 6.18. A field is known by its name, so an order of
// fields, or a field that another kernel adds, does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace oomcast {

/// "Mem-Info:"
struct MemInfoHead {};

/// "active_anon:1813257 inactive_anon:37301 isolated_anon:0": one line, or all of the block with newlines.
struct PageCount {
  std::string kind;  ///< "slab_unreclaimable"
  std::uint64_t pages = 0;
};
using PageCounts = std::vector<PageCount>;

/// "Node 0 DMA32 free:44736kB min:44712kB low:55888kB high:67064kB … present:… managed:…"
struct ZoneLine {
  std::optional<std::uint32_t> node;  ///< nullopt: a kernel without NUMA
  std::string zone;
  std::optional<Bytes> free, min, low, high;
  std::optional<Bytes> present, managed;
  std::optional<Bytes> kernel_stack{};  ///< until 5.8; then it is in the node's line
};

/// "Node 0 active_anon:136020kB … kernel_stack:672kB …", since 4.8: of it, what no count of all nodes has.
struct NodeLine {
  std::optional<std::uint32_t> node;
  std::optional<Bytes> kernel_stack;
  std::optional<Bytes> balloon;  ///< since 6.17
  std::optional<Bytes> gpu;      ///< gpu_active and gpu_reclaim, since 6.19
};

/// "Node 0 hugepages_total=4 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB"
struct HugePagesLine {
  std::optional<std::uint32_t> node;
  std::uint64_t total = 0, free = 0;
  Bytes size;  ///< of one
};

/// "Node 0 DMA32: 10*4kB (UM) 3*8kB (U) … = 44736kB": free blocks by order, the smallest first.
struct ZoneBlocks {
  std::optional<std::uint32_t> node;
  std::string zone;
  std::vector<std::uint64_t> blocks;  ///< of order 0, 1, …; shorter if the line is cut
};

/// "Free swap  = 0kB" and "Total swap = 0kB"
struct SwapLine {
  std::optional<Bytes> free, total;
};

/// "524158 pages RAM" and "13102 pages reserved"
struct RamLine {
  std::optional<std::uint64_t> pages, reserved;
};

/// "Unreclaimable slab info:", since 4.15, printed when slab is more than what users hold.
struct SlabHead {};

/// "task_struct            1250KB       1310KB" under it.
struct SlabRow {
  std::string name;
  Bytes used, total;
};

using MemInfoLine = std::variant<MemInfoHead, PageCounts, ZoneLine, NodeLine, HugePagesLine, ZoneBlocks,
                                 SwapLine, RamLine, SlabHead, SlabRow>;

/// nullopt: not a line of the block. `cut`: the line's end is missing, so that a number at its very end is
/// not believed.
std::optional<MemInfoLine> parse_mem_info_line(std::string_view text, bool cut = false);

/// The block, as far as the log has it. Lists are bounded; the excess is counted.
struct OomMemInfo {
  PageCounts pages;
  std::vector<ZoneLine> zones;
  std::vector<NodeLine> nodes;
  std::vector<HugePagesLine> huge_pages;
  std::vector<ZoneBlocks> blocks;
  SwapLine swap;
  RamLine ram;
  std::vector<SlabRow> slabs;
  bool slab_table = false;  ///< its head was there
  std::size_t dropped = 0;

  /// False: the line contradicts another, so that two blocks are mixed and nothing tells whose is whose.
  bool take(const MemInfoLine& line);
  std::optional<std::uint64_t> count_of(std::string_view kind) const;
};

}  // namespace oomcast
