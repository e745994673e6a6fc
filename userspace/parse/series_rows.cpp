// Rows that say themselves what is in them: JSON, values with names, docker stats, mprof, blocks of lines.
#include <algorithm>

#include "parse/series_blocks.h"
#include "parse/series_cells.h"
#include "parse/series_reader.h"
#include "parse/text.h"

namespace oomcast {

bool SeriesReader::set_json(std::string_view line) {
  if (!line.starts_with('{'))
    if (auto stamp = take_stamp(line)) time_.stamp = stamp;
  own_.assign(layout_.names.size(), "");
  bool any = false;
  for (const auto& [name, value] : json_values(line))
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (layout_.names[i] == name) own_[i] = value, any = true;
  fields_.assign(own_.begin(), own_.end());
  return any;
}

bool SeriesReader::set_named(std::string_view line) {
  if (auto stamp = take_stamp(line)) time_.stamp = stamp;
  fields_.assign(layout_.names.size(), {});
  bool any = false;
  for (const NamedValue& value : named_values(line))
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (layout_.names[i] == value.name && fields_[i].empty()) fields_[i] = value.value, any = true;
  return any;
}

bool SeriesReader::set_usage(std::string_view line) {
  if (auto stamp = take_stamp(line)) time_.stamp = stamp;
  auto usage = usage_of_limit(line);
  if (!usage) return false;
  fields_ = {usage->name, usage->usage_and_limit};
  return true;
}

// "MEM 12.5 1700000000.1", "CHLD 1 12.5 1700000000.1"; FUNC and CMDLINE are none of ours.
bool SeriesReader::set_mprof(std::string_view line) {
  std::string_view kind = next_field(line);
  if (kind != "MEM" && kind != "CHLD") return false;
  own_ = {kind == "CHLD" ? "child " + std::string(next_field(line)) : "the program"};
  std::string_view memory = next_field(line), time = next_field(line);
  fields_ = {own_[0], memory, time};
  return parse_amount(memory, false) && parse_stamp(time);
}

// "MemTotal: 16358744 kB", a line for each value: the row ends with the last of its names.
bool SeriesReader::set_block(std::string_view line) {
  auto value = block_line(line);
  if (!value) return false;
  auto at = static_cast<std::size_t>(std::ranges::find(layout_.names, value->name) - layout_.names.begin());
  if (at == layout_.names.size()) return false;
  own_.resize(layout_.names.size());
  // What the next block lacks is not what the last one had.
  if (!fields_.empty() || !own_[at].empty()) {
    fields_.clear();
    std::ranges::fill(own_, std::string());
  }
  own_[at] = value->value;
  if (at + 1 < own_.size()) return false;
  fields_.assign(own_.begin(), own_.end());
  return true;
}

}  // namespace oomcast
