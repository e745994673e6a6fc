#include "parse/log_tables.h"

#include <algorithm>
#include <array>
#include <utility>

#include "parse/log_dates.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxCells = 256, kLongestRow = 64 * 1024, kLongestName = 64;

struct Cells {
  std::vector<std::string> cells;
  bool open = false;  // the last has a quotation mark too few
};

// RFC 4180, with any byte between the cells.
Cells split(std::string_view line, char between) {
  Cells out;
  while (out.cells.size() < kMaxCells) {
    std::string cell;
    std::string_view rest = line;
    while (rest.starts_with(' ') && between != '\t') rest.remove_prefix(1);
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      for (out.open = true; !rest.empty();) {
        std::size_t end = std::min(rest.find('"'), rest.size());
        cell += rest.substr(0, end);
        rest.remove_prefix(end);
        if (rest.empty()) break;
        rest.remove_prefix(1);
        if (!(out.open = oomcast::take(rest, "\""))) break;
        cell += '"';
      }
      line = rest;
    }
    std::size_t end = std::min(line.find(between), line.size());
    cell += line.substr(0, end);
    out.cells.push_back(std::move(cell));
    if (end == line.size()) break;
    line.remove_prefix(end + 1);
  }
  return out;
}

// Of "| a | b |": what is between the bars.
std::string_view without_bars(std::string_view line) {
  line = trim(line);
  oomcast::take(line, "|");
  if (line.ends_with('|')) line.remove_suffix(1);
  return line;
}

bool is_rule(std::string_view line) {
  return line.find('-') != npos && line.find_first_not_of("-=+|: \t") == npos;
}

std::string plain_cell(std::string_view cell) {
  std::string_view text = trim(cell);
  while (text.size() > 1 && text.front() == text.back() && (text.front() == '`' || text.front() == '*'))
    text = text.substr(1, text.size() - 2);
  return std::string(trim(text));
}

// "TimeGenerated [UTC]"
std::string plain_name(std::string_view cell) {
  std::string out = plain_cell(cell);
  std::size_t at = out.find(" [");
  if (at == npos) return out;
  bool utc = out.find("UTC", at) != npos;
  return out.substr(0, at) + (utc ? "_utc" : "");
}

bool is_name(std::string_view name) {
  auto is_first = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '@' || c == '$' || c == '#';
  };
  return name.empty() || (name.size() <= kLongestName && is_first(name[0]) && name.find('=') == npos &&
                          name.find(": ") == npos);
}

bool is_time(std::string_view cell) {
  constexpr std::size_t kShortestEpoch = 10;
  auto date = read_date(cell);
  return (date && date->year) || (cell.size() >= kShortestEpoch && read_epoch(cell));
}

}  // namespace

bool LogTable::may_be_row(std::string_view line) {
  return line.starts_with('"') || line.find('\t') != npos || trim(line).starts_with('|') ||
         line.find(" | ") != npos;
}

bool LogTable::take_head(std::string_view line) {
  if (line.size() > 4096 || ++heads_tried_ > kHeadsTried) return false;
  for (char between : {'\t', '|', ';', ','}) {
    std::string_view text = between == '|' ? without_bars(line) : line;
    if (text.find(between) == npos) continue;
    Cells cells = split(text, between);
    std::vector<std::string> names;
    for (const std::string& cell : cells.cells) names.push_back(plain_name(cell));
    bool text_named = std::ranges::any_of(names, LogRecord::is_text_key);
    bool time_named = std::ranges::any_of(names, LogRecord::is_time_key);
    bool is = !cells.open && names.size() > 1 && std::ranges::all_of(names, is_name) &&
              (text_named || (time_named && names.size() > 2));
    if (!is) continue;
    names_ = std::move(names);
    between_ = between;
    return true;
  }
  return false;
}

bool LogTable::give(const std::vector<std::string>& cells, bool named, const OnText& on_text) const {
  LogRecord record;
  bool has_time = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string cell = between_ == '|' ? plain_cell(cells[i]) : cells[i];
    // A line of text has commas, too.
    if (named && LogRecord::is_time_key(names_[i]) && cell.find_first_of("0123456789") == npos &&
        !cell.empty())
      return false;
    if (named && LogRecord::is_time_key(names_[i]) && cell.find(' ') != npos && !read_date(cell))
      return false;
    record.add({}, named ? std::string_view(names_[i]) : std::string_view(), cell);
    has_time = has_time || is_time(cell);
  }
  if (!named && !(has_time && record.has_text())) return false;
  record.give_texts([&](std::string_view text, bool cut, const Beside& beside) {
    Beside as_row = beside;
    as_row.prefix.shows_writer = false;
    on_text(text, cut, as_row);
  });
  return true;
}

// Below a head.
bool LogTable::take_named_row(std::string_view line, const OnText& on_text) {
  std::string_view text = between_ == '|' ? without_bars(line) : line;
  Cells row = split(text, between_);
  if (row.open && row.cells.size() <= names_.size() && text.size() < kLongestRow) {
    begun_ = std::string(line) + '\n';
    return true;
  }
  // A last column of text that has commas, without quotation marks around it.
  if (row.cells.size() > names_.size() && between_ == ',' && LogRecord::is_text_key(names_.back())) {
    std::string& last = row.cells[names_.size() - 1];
    for (std::size_t i = names_.size(); i < row.cells.size(); ++i) last += ',' + row.cells[i];
    row.cells.resize(names_.size());
  }
  return row.cells.size() == names_.size() && give(row.cells, true, on_text);
}

bool LogTable::take_row(std::string_view line, const OnText& on_text) {
  if (!names_.empty() && take_named_row(line, on_text)) return true;
  char between = line.find('\t') != npos ? '\t' : line.find(" | ") != npos ? '|' : ',';
  if (line.starts_with('"')) {
    std::size_t end = line.find("\",");
    between = end == npos ? ';' : ',';
    if (end == npos && line.find("\";") == npos) return false;
  }
  if (between == ',' && !line.starts_with('"')) return false;
  std::swap(between, between_);
  Cells row = split(between_ == '|' ? without_bars(line) : line, between_);
  bool is = !row.open && row.cells.size() > 1 && give(row.cells, false, on_text);
  std::swap(between, between_);
  return is;
}

// What has begun is no row: its lines are given one by one.
void LogTable::finish(const OnText& on_text) {
  std::string begun = std::exchange(begun_, {});
  std::string_view rest = begun, line;
  while (next_line(rest, line)) on_text(line, false, {});
}

bool LogTable::take(std::string_view line, const OnText& on_text) {
  if (open()) {
    // Without a quotation mark alone the cell goes on. To read the row anew for each of its lines costs the
    // square of its length.
    bool goes_on = std::ranges::count(line, '"') % 2 == 0;
    if (goes_on && begun_.size() + line.size() < kLongestRow) {
      begun_.append(line) += '\n';
      return true;
    }
    std::string whole = begun_ + std::string(line);
    bool fits = whole.size() <= kLongestRow;
    if (fits && take_row(whole, on_text)) {
      if (begun_.size() < whole.size()) begun_.clear();
      return true;
    }
    finish(on_text);
  }
  if (!names_.empty() && is_rule(line)) return true;
  if (take_row(line, on_text)) return true;
  return take_head(line);
}

}  // namespace oomcast
