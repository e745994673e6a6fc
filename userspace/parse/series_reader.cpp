#include "parse/series_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/escape.h"
#include "parse/series_blocks.h"
#include "parse/series_cells.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kSampledRows = 64, kMostSeen = 100'000, kMostCells = 512, kLongestName = 200;
constexpr double kMostBytes = 0x1p61;

std::string shown_cell(std::string_view cell) {
  std::string text = escape_for_terminal(cell.substr(0, 40));
  return cell.size() > 40 ? text + "…" : text;
}

bool is_blank(std::string_view line) {
  // A rule of dashes is blank, too.
  return std::ranges::none_of(line, [](unsigned char c) { return c >= 0x80 || std::isalnum(c); });
}

bool is_dated(const std::optional<Stamp>& stamp) {
  return stamp && (stamp->kind == StampKind::date || stamp->kind == StampKind::yearless ||
                   stamp->kind == StampKind::clock);
}

// Below dates a number is no date, however large.
std::optional<Stamp> date_line(std::string_view line, bool dated) {
  auto stamp = stamp_of_line(line);
  return dated && !is_dated(stamp) ? std::nullopt : stamp;
}

bool is_figure(std::string_view cell) {
  return parse_amount(cell, true) || parse_stamp(cell);
}

}  // namespace

SeriesReader::Guess SeriesReader::guess(std::span<const std::string> lines, const SeriesChoices& choices,
                                        bool all) {
  std::optional<SeriesProblem> problem;
  auto done = [&](std::optional<Guess> guess) {
    if (guess && !guess->reader && !problem) problem = std::move(guess->problem);
    return guess && guess->reader;
  };
  std::optional<Guess> out;
  for (Rows rows : {Rows::mprof, Rows::block})
    if (done(out = guess_rows(rows, lines, choices))) return *std::move(out);
  if (done(out = guess_table(lines, choices, false))) return *std::move(out);
  if (!all) return {std::nullopt, problem ? *std::move(problem) : SeriesProblem{}};
  for (Rows rows : {Rows::json, Rows::usage})
    if (done(out = guess_rows(rows, lines, choices))) return *std::move(out);
  if (done(out = guess_table(lines, choices, true))) return *std::move(out);
  // What has a header is no table without one.
  if (!out && done(out = guess_bare(lines, choices))) return *std::move(out);
  if (done(out = guess_rows(Rows::named, lines, choices))) return *std::move(out);
  return best_problem(lines, std::move(problem));
}

SeriesReader::Guess SeriesReader::best_problem(std::span<const std::string> lines,
                                               std::optional<SeriesProblem> problem) {
  if (problem) return {std::nullopt, *std::move(problem)};
  if (std::ranges::all_of(lines, is_blank))
    return {std::nullopt,
            {"the file is empty: a header line with time_s and used_bytes is expected", 1, {}, ""}};
  return {std::nullopt,
          {"column time_s is missing: there is no table, and no line with memory in it", 1, {}, ""}};
}

// By the header: that of a known form wherever it is, or (`any`) the first line that may be one.
std::optional<SeriesReader::Guess> SeriesReader::guess_table(std::span<const std::string> lines,
                                                             const SeriesChoices& choices, bool any) {
  constexpr std::size_t kTitles = 8, kMostHeaders = 64, kLinesBelow = 2000;
  std::optional<Guess> failed;
  std::size_t headers = 0;
  for (std::size_t i = 0; i < lines.size() && (!any || i < kTitles); ++i) {
    std::string_view text = lines[i];
    if (is_blank(text) || text.starts_with("sep=")) continue;
    bool annotation =
        text.starts_with("#group,") || text.starts_with("#datatype,") || text.starts_with("#default,");
    if (annotation) continue;  // of InfluxDB
    for (Split split : possible_splits(lines[i])) {
      SeriesReader reader;
      reader.split_ = split;
      reader.headed_ = true;
      reader.layout_.names = header_names(lines[i], split);
      const auto& names = reader.layout_.names;
      if (names.size() > kMostCells || names.empty()) continue;
      name_form(reader.layout_, split);
      bool is_header =
          any ? names.size() > 1 && std::ranges::none_of(names, is_figure) : reader.layout_.known;
      if (!is_header || ++headers > kMostHeaders) continue;
      auto problem = reader.settle(lines.subspan(i, std::min(lines.size() - i, kLinesBelow)), choices);
      if (!problem) {
        reader.skip_ = i + !reader.layout_.labelled;
        reader.above_ = i > 0;
        return Guess{std::move(reader), {}};
      }
      problem->line = i + 1;
      bool better = !failed || problem->columns.size() > failed->problem.columns.size();
      if (!problem->columns.empty() && better) failed = Guess{std::nullopt, *std::move(problem)};
    }
  }
  return failed;
}

// By rows that say themselves what is in them.
std::optional<SeriesReader::Guess> SeriesReader::guess_rows(Rows rows, std::span<const std::string> lines,
                                                            const SeriesChoices& choices) {
  SeriesReader reader;
  reader.rows_ = rows;
  reader.split_ = Split::wide;
  if (rows == Rows::mprof) reader.layout_.names = {"name", "mprof", "time"};
  if (rows == Rows::usage) reader.layout_.names = {"name", "MEM USAGE / LIMIT"};
  for (const std::string& line : lines) {
    if (rows == Rows::block) {
      auto value = block_line(line);
      auto& names = reader.layout_.names;
      if (!value) continue;
      if (names.size() == kMostCells || std::ranges::find(names, value->name) != names.end()) break;
      names.push_back(value->name);
      continue;
    }
    if (!reader.layout_.names.empty()) break;
    std::vector<std::string> names;
    if (rows == Rows::json && line.find('{') != npos) {
      for (auto& [name, value] : json_values(line)) names.push_back(std::move(name));
    } else if (rows == Rows::named && !stamp_of_line(line)) {
      std::string_view rest = line;
      take_stamp(rest);
      for (const NamedValue& value : named_values(rest)) names.push_back(value.name);
    }
    reader.layout_.names = std::move(names);
  }
  if (reader.layout_.names.empty()) return std::nullopt;
  name_form(reader.layout_, Split::comma);
  if (rows == Rows::block && !reader.layout_.known) return std::nullopt;
  auto problem = reader.settle(lines, choices);
  if (!problem) return Guess{std::move(reader), {}};
  if (problem->columns.empty()) return std::nullopt;
  if (rows == Rows::mprof || rows == Rows::usage) problem->columns.clear();
  return Guess{std::nullopt, *std::move(problem)};
}

// Without a header: columns have numbers.
std::optional<SeriesReader::Guess> SeriesReader::guess_bare(std::span<const std::string> lines,
                                                            const SeriesChoices& choices) {
  std::optional<Guess> failed;
  for (Split split : {Split::comma, Split::semicolon, Split::tab, Split::blanks}) {
    SeriesReader reader;
    reader.split_ = split;
    bool dated = false;
    for (std::size_t i = 0; i < lines.size() && reader.layout_.names.empty(); ++i) {
      auto names = header_names(lines[i], split);
      auto stamp = date_line(lines[i], dated);
      dated = dated || is_dated(stamp);
      if (stamp || std::ranges::none_of(names, is_figure)) continue;
      reader.skip_ = i;
      reader.above_ = i > 0;
      for (std::size_t n = 1; n <= names.size() && n <= kMostCells; ++n)
        reader.layout_.names.push_back(fmt::format("{}", n));
    }
    if (reader.layout_.names.empty() || (split != Split::blanks && reader.layout_.names.size() < 2)) continue;
    auto problem = reader.settle(lines, choices);
    if (!problem) return Guess{std::move(reader), {}};
    if (!failed) failed = Guess{std::nullopt, *std::move(problem)};
  }
  return failed;
}

std::optional<SeriesProblem> SeriesReader::settle(std::span<const std::string> lines,
                                                  const SeriesChoices& choices) {
  limit_ = choices.limit;
  decimal_comma_ = split_ != Split::comma;
  SeriesRows rows;
  std::string wrong;
  bool dates = false, dated = false, stamped = rows_ != Rows::table && rows_ != Rows::mprof;
  layout_.clock = SeriesClock::lines;
  for (std::size_t i = 0; i < lines.size() && rows.size() < kSampledRows; ++i) {
    wrong.clear();
    if (auto stamp = date_line(lines[i], dated)) {
      dates = true;
      dated = dated || is_dated(stamp);
      continue;
    }
    if ((headed_ && i == 0 && !layout_.labelled) || is_blank(lines[i])) continue;
    time_.stamp.reset();
    if (!set_row(lines[i], wrong)) continue;
    if (stamped && !time_.stamp) stamped = false;
    rows.emplace_back(fields_.begin(), fields_.end());
  }
  if (rows.empty()) {
    SeriesProblem none{"there is no sample below the header", 1, {}, ""};
    if (headed_ && std::ranges::all_of(lines.subspan(1), is_blank)) none.columns = layout_.names;
    return none;
  }
  layout_.clock = stamped ? SeriesClock::before_row : dates ? SeriesClock::lines : SeriesClock::columns;
  Split of = rows_ == Rows::table ? split_ : Split::comma;  // free and ps print tables
  if (auto problem = lay_out(layout_, of, rows, decimal_comma_, choices)) return problem;
  time_ = {};
  active_ = true;
  row_due_ = false;
  fields_.clear();
  return std::nullopt;
}

bool SeriesReader::set_row(std::string_view line, std::string& wrong) {
  fields_.clear();
  if (line.find('\033') != npos) {
    clean_ = without_escapes(line);
    line = clean_;
  }
  line_ = line;
  switch (rows_) {
    case Rows::table:
      return set_table_row(line, wrong);
    case Rows::json:
      return set_json(line);
    case Rows::named:
      return set_named(line);
    case Rows::usage:
      return set_usage(line);
    case Rows::mprof:
      return set_mprof(line);
    case Rows::block:
      return set_block(line);
  }
  return false;
}

bool SeriesReader::set_table_row(std::string_view line, std::string& wrong) {
  bool comment = bare(line).starts_with('#');
  if (comment) {
    if (!headed_) return false;
    auto names = header_names(line, split_);
    bool same = names.size() == layout_.names.size() && std::ranges::equal(names, layout_.names);
    bool units = std::ranges::find(names, "Idx") != names.end();  // below the header of nvidia-smi dmon
    if (layout_.known && !units) active_ = same;
    return false;
  }
  if (auto why = split_line(line, split_, fields_, unquoted_)) {
    if (!lenient()) wrong = *why;
    return false;
  }
  if (headed_ && is_own_header()) {
    active_ = row_due_ = true;
    return false;
  }
  if (lenient() && is_other_header()) active_ = false;
  if (!active_) return false;
  std::size_t needs = layout_.names.size() + layout_.labelled;
  if (layout_.labelled) {
    bool due = row_due_;
    row_due_ = false;
    return due && fields_.size() == needs;
  }
  // The command of a process has blanks in it.
  if (lenient()) return layout_.skips_empty ? fields_.size() >= needs : fields_.size() == needs;
  if (fields_.size() == needs) return true;
  std::size_t last = 0;
  for (std::size_t at : layout_.time) last = std::max(last, at);
  for (const SeriesColumn& value : layout_.values) last = std::max(last, value.used[0].at);
  if (!layout_.values.empty() && fields_.size() <= last)
    wrong = fmt::format("{} fields, {} are needed", fields_.size(), last + 1);
  else if (layout_.values.empty() || split_ == Split::blanks || split_ == Split::wide)
    return false;
  return wrong.empty();
}

bool SeriesReader::is_own_header() const {
  if (fields_.size() != layout_.names.size()) return false;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (bare(fields_[i]) != layout_.names[i]) {
      if (!parse_stamp(fields_[i])) return false;  // sar's header begins with a time
      ++differ;
    }
  return differ < fields_.size() && differ <= 3;
}

bool SeriesReader::is_other_header() const {
  if (fields_.size() < 2) return false;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (is_figure(fields_[i]) && i > 0) return false;
  return !is_figure(fields_[0]) || !parse_amount(fields_[0], true);
}

std::string_view SeriesReader::cell(std::size_t at) const {
  at += layout_.labelled;
  if (at >= fields_.size()) return {};
  bool rest = layout_.skips_empty && at + 1 == layout_.names.size() && at + 1 < fields_.size();
  if (!rest) return fields_[at];
  auto from = static_cast<std::size_t>(fields_[at].data() - line_.data());
  return line_.substr(from).substr(0, kLongestName);
}

// nullopt without `wrong`: the row has no time.
std::optional<double> SeriesReader::time_of_row(const std::string& key, std::string& wrong) {
  if (layout_.clock == SeriesClock::interval) {
    if (time_.seen.size() >= kMostSeen || !time_.seen.insert(key).second) {
      ++time_.moment;
      time_.seen = {key};
    }
    return static_cast<double>(time_.moment) * layout_.time_scale;
  }
  if (layout_.clock != SeriesClock::columns) {
    if (!time_.stamp) return std::nullopt;
    return time_.clock.seconds(*time_.stamp, layout_.time_scale);
  }
  std::string text;
  for (std::size_t at : layout_.time) text += (text.empty() ? "" : " ") + std::string(cell(at).substr(0, 80));
  auto stamp = parse_stamp(text);
  if (stamp) return time_.clock.seconds(*stamp, layout_.time_scale);
  if (!lenient() && !(rows_ != Rows::table && is_absent(text)))
    wrong = fmt::format("{} is '{}', which is no time", shown_cell(layout_.names[layout_.time[0]]),
                        shown_cell(text));
  return std::nullopt;
}

// false without `wrong`: there is none in this row.
bool SeriesReader::amount(std::size_t at, const MemoryUnit& unit, double& bytes, std::optional<double>& limit,
                          std::string& wrong) const {
  std::string_view text = cell(at);
  if (is_absent(text)) return false;
  if (std::size_t slash = text.find('/'); slash != npos) {
    if (auto of = parse_amount(text.substr(slash + 1), decimal_comma_))
      limit = of->number * (of->unit ? of->unit->bytes : unit.bytes);
    text = bare(text.substr(0, slash));
    if (is_absent(text)) return false;
  }
  auto parsed = parse_amount(text, decimal_comma_);
  if (!parsed) {
    if (!lenient())
      wrong = fmt::format("{} is '{}', which is no number", shown_cell(layout_.names[at]), shown_cell(text));
    return false;
  }
  bytes = parsed->number * (parsed->unit ? parsed->unit->bytes : unit.bytes);
  if (bytes < 0 || bytes > kMostBytes) {
    wrong = fmt::format("{} is {}: {}", shown_cell(layout_.names[at]),
                        bytes < 0 ? "negative" : "more than 2 EiB", shown_cell(text));
    return false;
  }
  return true;
}

std::optional<double> SeriesReader::total_of_row(SeriesTotal total, double left) const {
  if (limit_) return limit_->as_double();
  if (total == SeriesTotal::first) return left;
  auto of = [&](std::string_view name) -> std::optional<double> {
    auto at = std::ranges::find(layout_.names, name) - layout_.names.begin();
    if (at >= std::ssize(layout_.names)) return std::nullopt;
    auto value = parse_amount(cell(static_cast<std::size_t>(at)), decimal_comma_);
    return value ? std::optional(value->number) : std::nullopt;
  };
  // Before sysstat 12 all that was not free was used; since then buffers, cache and slabs are left out.
  auto used = of("kbmemused"), free = of("kbmemfree"), percent = of("%memused");
  if (!used || !free) return std::nullopt;
  double whole = *free + *used;
  double by_percent = percent && *percent > 0 ? *used * 100 / *percent : whole;
  return 1024 * (std::fabs(by_percent - whole) < 0.01 * whole ? whole : by_percent);
}

bool SeriesReader::set_value(const SeriesColumn& value, SeriesPoint& point, std::string& wrong) {
  double sum = 0;
  std::optional<double> limit;
  for (const SeriesColumn::Term& term : value.used) {
    double bytes = 0;
    if (!amount(term.at, value.unit, bytes, limit, wrong)) return false;
    sum += term.sign * bytes;
  }
  if (value.total != SeriesTotal::none) {
    if (!total_) total_ = total_of_row(value.total, -sum);
    if (!total_) return false;
    sum += *total_;
    limit = total_;
  } else if (!value.limit.empty()) {
    double all = 0;
    bool whole = true;
    for (std::size_t at : value.limit) {
      double bytes = 0;
      std::optional<double> none;
      whole = whole && bare(cell(at)) != "max" && amount(at, value.limit_unit, bytes, none, wrong);
      all += bytes;
    }
    if (!wrong.empty()) return false;
    if (whole) limit = all;
  }
  if (std::fabs(sum) > kMostBytes) return false;
  point.used = Bytes{std::llround(sum)};
  if (limit && *limit > 0 && *limit < kNoLimitFrom) point.limit = Bytes{std::llround(*limit)};
  return true;
}

std::string SeriesReader::key_of_row(double now) {
  if (layout_.burst) {
    bool another = !time_.burst_began || now - *time_.burst_began > *layout_.burst;
    if (another) time_.burst_began = now;
    time_.in_burst = another ? 0 : time_.in_burst + 1;
    return fmt::format("GPU {}", time_.in_burst);
  }
  std::string out;
  for (std::size_t at : layout_.key) {
    std::string_view part = bare(cell(at)).substr(0, kLongestName);
    bool number = layout_.form == "nvidia-smi" && parse_u64(part);
    out += (out.empty() ? "" : " ") + std::string(number ? "GPU " : "") + std::string(part);
  }
  return out;
}

std::optional<std::string> SeriesReader::line(std::string_view line, std::vector<SeriesPoint>& out) {
  if (layout_.clock == SeriesClock::lines)
    if (auto stamp = date_line(line, is_dated(time_.stamp))) {
      time_.stamp = stamp;
      if (skip_ > 0) --skip_;
      return std::nullopt;
    }
  if (skip_ > 0) return --skip_, std::nullopt;
  if (is_blank(line)) return std::nullopt;
  std::string wrong;
  bool row = set_row(line, wrong);
  if (!wrong.empty()) return wrong;
  if (!row) return std::nullopt;
  SeriesPoint point;
  if (layout_.pid) {
    point.pid = parse_u32(bare(cell(*layout_.pid)));
    if (!point.pid) return std::nullopt;
  }
  std::string key = layout_.burst ? "" : key_of_row(0);
  auto time = time_of_row(point.pid ? fmt::format("{}", *point.pid) : key, wrong);
  if (!wrong.empty()) return wrong;
  if (!time) return std::nullopt;
  if (layout_.burst) key = key_of_row(*time);
  point.time_s = *time;
  for (const SeriesColumn& value : layout_.values) {
    point.limit.reset();
    bool there = set_value(value, point, wrong);
    if (!wrong.empty()) return wrong;
    if (!there || (layout_.skips_empty && point.used == Bytes{})) continue;
    point.name = layout_.values.size() > 1 ? key + (key.empty() ? "" : " ") + value.name : key;
    out.push_back(point);
  }
  return std::nullopt;
}

bool SeriesReader::has_limit() const {
  return rows_ == Rows::usage || std::ranges::any_of(layout_.values, [](const SeriesColumn& value) {
           return !value.limit.empty() || value.total != SeriesTotal::none;
         });
}

std::string SeriesReader::read_as() const {
  std::string out = layout_.known          ? layout_.form
                    : rows_ == Rows::json  ? "JSON lines"
                    : rows_ == Rows::named ? "lines of a log"
                    : headed_              ? fmt::format("a table with {}", describe(split_))
                              : fmt::format("a table with {} and without a header", describe(split_));
  auto name = [&](std::size_t at) { return fmt::format("'{}'", shown_cell(layout_.names[at])); };
  std::string kind = time_.clock.kind() ? fmt::format(" ({})", describe(*time_.clock.kind())) : "";
  if (time_.clock.kind() == StampKind::number && layout_.time_scale != 1)
    kind = fmt::format(" (times {} s)", layout_.time_scale);
  if (layout_.clock == SeriesClock::interval)
    out += fmt::format(": samples {} s apart", layout_.time_scale);
  else if (layout_.clock == SeriesClock::lines)
    out += fmt::format(": time from the line before{}", kind);
  else if (layout_.clock == SeriesClock::before_row || rows_ == Rows::mprof)
    out += fmt::format(": time of each line{}", kind);
  else
    out += fmt::format(": time in {}{}", name(layout_.time[0]), kind);
  const SeriesColumn& value = layout_.values[0];
  std::string unit = describe(value.unit);
  if (!layout_.memory.empty()) {
    out += fmt::format(", memory is {}, in {}", layout_.memory, unit);
  } else {
    out += fmt::format(", memory in {}", name(value.used[0].at));
    if (layout_.values.size() > 1) out += fmt::format(" and {} more", layout_.values.size() - 1);
    out += fmt::format(" ({})", unit);
    if (!value.limit.empty())
      out += fmt::format(", limit in {} ({})", name(value.limit[0]), describe(value.limit_unit));
  }
  if (!layout_.key.empty() && !layout_.pid && layout_.known == false)
    out += fmt::format(", one series for each {}", name(layout_.key[0]));
  if (layout_.burst) out += ", a card by its place in each burst of rows";
  return out;
}

// ---- rows that name their values: JSON, name=value, docker stats, mprof, blocks of lines

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
