#include "parse/series_blocks.h"

#include <algorithm>
#include <array>

#include "parse/series_cells.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestBlockName = 40;

bool is_block_name(std::string_view name) {
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '(' || c == ')' || c == '-';
  };
  return !name.empty() && name.size() <= kLongestBlockName && std::ranges::all_of(name, fits);
}

}  // namespace

std::string sar_name(std::string_view name) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kNames = {{{"memfree", "kbmemfree"},
                                                                      {"avail", "kbavail"},
                                                                      {"memused", "kbmemused"},
                                                                      {"memused-percent", "%memused"},
                                                                      {"buffers", "kbbuffers"},
                                                                      {"cached", "kbcached"}}};
  for (const auto& [sadf, sar] : kNames)
    if (name == sadf) return std::string(sar);
  return std::string(name);
}

std::optional<BlockLine> block_line(std::string_view line) {
  std::string_view text = bare(line);
  if (take(text, "<")) {
    std::size_t end = text.find('>'), close = text.find("</");
    if (close == npos || end > close || !is_block_name(text.substr(0, end))) return std::nullopt;
    return BlockLine{sar_name(text.substr(0, end)), std::string(bare(text.substr(end + 1, close - end - 1)))};
  }
  std::size_t colon = text.find(':');
  if (colon == npos || !is_block_name(text.substr(0, colon))) return std::nullopt;
  std::string_view value = bare(text.substr(colon + 1));
  if (!parse_amount(value, false)) return std::nullopt;
  return BlockLine{std::string(text.substr(0, colon)), std::string(value)};
}

}  // namespace oomcast
