#include "parse/mem_info.h"

#include <algorithm>
#include <utility>

#include "parse/memory_stat.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxCounts = 64, kMaxZones = 256, kMaxSlabs = 512, kMaxOrders = 32;

// The next word; newlines, too, stand between words.
std::string_view take_token(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

std::optional<Bytes> kilobytes(std::string_view text) {
  for (std::string_view unit : {"kB", "KB"})
    if (text.ends_with(unit)) {
      auto number = parse_u64(text.substr(0, text.size() - unit.size()));
      if (number && *number <= static_cast<std::uint64_t>(INT64_MAX) / 1024)
        return KiB(static_cast<std::int64_t>(*number));
    }
  return std::nullopt;
}

// "Node 0 DMA32" in front of `rest`, or "DMA32" alone.
bool take_zone(std::string_view& text, std::optional<std::uint32_t>& node, std::string& zone) {
  if (take(text, "Node ")) {
    node = parse_u32(take_token(text));
    if (!node || !take(text, " ")) return false;
  }
  constexpr std::size_t longest = 15;
  std::size_t end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  if (end == npos || end == 0 || end > longest) return false;
  zone = text.substr(0, end);
  text.remove_prefix(end);
  return true;
}

std::optional<MemInfoLine> parse_zone(std::string_view text) {
  ZoneLine out;
  if (!take_zone(text, out.node, out.zone) || !text.starts_with(" free:")) return std::nullopt;
  for (auto word = take_token(text); !word.empty(); word = take_token(text)) {
    std::size_t colon = word.find(':');
    if (colon == npos) break;  // "all_unreclaimable? yes"
    std::string_view key = word.substr(0, colon);
    auto value = kilobytes(word.substr(colon + 1));
    if (key == "free") out.free = value;
    if (key == "min") out.min = value;
    if (key == "low") out.low = value;
    if (key == "high") out.high = value;
    if (key == "present") out.present = value;
    if (key == "managed") out.managed = value;
    if (key == "kernel_stack") out.kernel_stack = value;
  }
  return out;
}

// "Node 0", and what follows it.
bool take_node(std::string_view& text, std::optional<std::uint32_t>& node) {
  if (!take(text, "Node ")) return false;
  node = parse_u32(take_token(text));
  return node && take(text, " ");
}

std::optional<MemInfoLine> parse_node(std::string_view text) {
  NodeLine out;
  if (!take_node(text, out.node) || !text.starts_with("active_anon:")) return std::nullopt;
  auto add = [](std::optional<Bytes>& sum, const std::optional<Bytes>& part) {
    if (part) sum = sum ? add_saturating(*sum, *part) : *part;
  };
  for (auto word = take_token(text); !word.empty(); word = take_token(text)) {
    std::size_t colon = word.find(':');
    if (colon == npos) continue;  // "shmem_thp: 0kB" of 4.8 to 5.10
    std::string_view key = word.substr(0, colon);
    auto value = kilobytes(word.substr(colon + 1));
    if (key == "kernel_stack") out.kernel_stack = value;
    if (key == "balloon") out.balloon = value;
    if (key == "gpu_active" || key == "gpu_reclaim") add(out.gpu, value);
  }
  return out;
}

std::optional<MemInfoLine> parse_huge_pages(std::string_view text) {
  HugePagesLine out;
  if (text.starts_with("Node ") && !take_node(text, out.node)) return std::nullopt;
  if (!text.starts_with("hugepages_total=")) return std::nullopt;
  std::optional<std::uint64_t> total, free;
  std::optional<Bytes> size;
  for (auto word = take_token(text); !word.empty(); word = take_token(text)) {
    if (take(word, "hugepages_total=")) total = parse_u64(word);
    if (take(word, "hugepages_free=")) free = parse_u64(word);
    if (take(word, "hugepages_size=")) size = kilobytes(word);
  }
  if (!total || !free || !size) return std::nullopt;
  out.total = *total, out.free = *free, out.size = *size;
  return out;
}

// "N*4kB"
std::optional<std::uint64_t> block_count(std::string_view word) {
  std::size_t star = word.find('*');
  if (star == npos || !kilobytes(word.substr(star + 1))) return std::nullopt;
  return parse_u64(word.substr(0, star));
}

std::optional<MemInfoLine> parse_blocks(std::string_view text) {
  ZoneBlocks out;
  if (!take_zone(text, out.node, out.zone) || !take(text, ": ")) return std::nullopt;
  for (auto word = take_token(text); !word.empty() && word != "="; word = take_token(text)) {
    if (word.starts_with('(')) continue;  // whose blocks: "(UME)"
    auto count = block_count(word);
    if (!count || out.blocks.size() >= kMaxOrders) break;
    out.blocks.push_back(*count);
  }
  if (out.blocks.empty()) return std::nullopt;
  return out;
}

std::optional<MemInfoLine> parse_counts(std::string_view text, bool cut) {
  PageCounts out;
  while (out.size() < kMaxCounts) {
    auto word = take_token(text);
    if (word.empty()) break;
    std::size_t colon = word.find(':');
    auto pages = colon == npos ? std::nullopt : parse_u64(word.substr(colon + 1));
    std::string_view kind = word.substr(0, colon);
    bool named = kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == npos;
    bool last = text.find_first_not_of(" \n") == npos;
    if (cut && last) break;
    if (!pages || kind.empty() || !named) return std::nullopt;
    out.push_back({std::string(kind), *pages});
  }
  if (out.empty()) return std::nullopt;
  return out;
}

std::optional<MemInfoLine> parse_ram(std::string_view text) {
  auto number = parse_u64(take_token(text));
  if (!number) return std::nullopt;
  if (text == " pages RAM") return RamLine{number, {}};
  if (text == " pages reserved") return RamLine{{}, number};
  return std::nullopt;
}

std::optional<MemInfoLine> parse_slab(std::string_view text) {
  auto take_last = [&] {
    std::size_t end = text.find_last_not_of(' ');
    text = text.substr(0, end == npos ? 0 : end + 1);
    std::size_t space = text.rfind(' ');
    if (space == npos || !text.ends_with("KB")) return std::optional<Bytes>();
    auto size = kilobytes(text.substr(space + 1));
    text = text.substr(0, space);
    return size;
  };
  auto total = take_last();
  auto used = total ? take_last() : std::nullopt;
  text = trim(text);
  constexpr std::size_t longest = 128;
  if (!used || text.empty() || text.size() > longest) return std::nullopt;
  return SlabRow{std::string(text), *used, *total};
}

}  // namespace

std::optional<MemInfoLine> parse_mem_info_line(std::string_view text, bool cut) {
  if (text == "Mem-Info:") return MemInfoHead{};
  if (text == "Unreclaimable slab info:") return SlabHead{};
  if (take(text, "Free swap  = ")) {
    auto size = kilobytes(text);
    return size ? std::optional<MemInfoLine>(SwapLine{size, {}}) : std::nullopt;
  }
  if (take(text, "Total swap = ")) {
    auto size = kilobytes(text);
    return size ? std::optional<MemInfoLine>(SwapLine{{}, size}) : std::nullopt;
  }
  if (auto zone = parse_zone(text)) return zone;
  if (auto node = parse_node(text)) return node;
  if (auto pages = parse_huge_pages(text)) return pages;
  if (auto blocks = parse_blocks(text)) return blocks;
  if (auto ram = parse_ram(text)) return ram;
  if (auto slab = parse_slab(text)) return slab;
  return parse_counts(text, cut);
}

namespace {

// True unless the list has one of the same key with another value.
template <typename T, typename Same, typename Equal>
bool add(std::vector<T>& list, std::size_t most, std::size_t& dropped, const T& item, Same same,
         Equal equal) {
  for (const T& known : list)
    if (same(known)) return equal(known);
  if (list.size() < most)
    list.push_back(item);
  else
    ++dropped;
  return true;
}

template <typename T>
bool fill(std::optional<T>& to, const std::optional<T>& from) {
  if (to && from && *to != *from) return false;
  if (from) to = from;
  return true;
}

}  // namespace

bool OomMemInfo::take(const MemInfoLine& line) {
  if (const auto* counts = std::get_if<PageCounts>(&line)) {
    for (const PageCount& count : *counts)
      if (!add(
              pages, kMaxCounts, dropped, count, [&](const auto& c) { return c.kind == count.kind; },
              [&](const auto& c) { return c.pages == count.pages; }))
        return false;
  } else if (const auto* zone = std::get_if<ZoneLine>(&line)) {
    return add(
        zones, kMaxZones, dropped, *zone,
        [&](const auto& z) { return z.node == zone->node && z.zone == zone->zone; },
        [&](const auto& z) { return z.free == zone->free && z.min == zone->min; });
  } else if (const auto* node = std::get_if<NodeLine>(&line)) {
    return add(
        nodes, kMaxZones, dropped, *node, [&](const auto& n) { return n.node == node->node; },
        [&](const auto& n) { return n.kernel_stack == node->kernel_stack; });
  } else if (const auto* huge = std::get_if<HugePagesLine>(&line)) {
    return add(
        huge_pages, kMaxZones, dropped, *huge,
        [&](const auto& h) { return h.node == huge->node && h.size == huge->size; },
        [&](const auto& h) { return h.total == huge->total; });
  } else if (const auto* free = std::get_if<ZoneBlocks>(&line)) {
    return add(
        blocks, kMaxZones, dropped, *free,
        [&](const auto& b) { return b.node == free->node && b.zone == free->zone; },
        [&](const auto& b) { return b.blocks == free->blocks; });
  } else if (const auto* totals = std::get_if<SwapLine>(&line)) {
    return fill(swap.free, totals->free) && fill(swap.total, totals->total);
  } else if (const auto* count = std::get_if<RamLine>(&line)) {
    return fill(ram.pages, count->pages) && fill(ram.reserved, count->reserved);
  } else if (std::holds_alternative<SlabHead>(line)) {
    return !std::exchange(slab_table, true);
  } else if (const auto* slab = std::get_if<SlabRow>(&line)) {
    // Two caches may have one name.
    if (slab_table && slabs.size() < kMaxSlabs)
      slabs.push_back(*slab);
    else if (slab_table)
      ++dropped;
  }
  return true;
}

std::optional<std::uint64_t> OomMemInfo::count_of(std::string_view kind) const {
  auto found = std::ranges::find(pages, kind, &PageCount::kind);
  return found == pages.end() ? std::nullopt : std::optional(found->pages);
}

}  // namespace oomcast
