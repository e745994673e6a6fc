#include "parse/series_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/escape.h"
#include "parse/series_form_table.h"
#include "parse/series_names.h"
#include "parse/text.h"

namespace oomcast {
namespace {

// ---- figures

struct Figures {
  std::size_t amounts = 0, texts = 0, with_unit = 0, stamps = 0, dates = 0;
  bool pages = true, quarters = true,
       kilo = true;  // all are whole pages of 4 KiB in bytes, in KiB; whole KiB
  double most = 0;
  std::optional<MemoryUnit> unit;
};

Figures figures_of(const SeriesRows& rows, std::size_t at, bool decimal_comma) {
  Figures out;
  for (const auto& row : rows) {
    if (at >= row.size() || is_absent(row[at])) continue;
    if (auto stamp = parse_stamp(row[at])) {
      ++out.stamps;
      out.dates += stamp->kind != StampKind::number;
    }
    std::string_view cell = row[at];
    if (std::size_t slash = cell.find('/'); slash != npos) cell = cell.substr(0, slash);  // usage / limit
    auto amount = parse_amount(cell, decimal_comma);
    if (!amount) {
      ++out.texts;
      continue;
    }
    ++out.amounts;
    out.most = std::max(out.most, amount->number);
    out.with_unit += amount->unit.has_value();
    if (amount->unit) out.unit = amount->unit;
    auto whole = [&](double of) { return std::fmod(amount->number, of) == 0; };
    out.pages = out.pages && whole(4096);
    out.quarters = out.quarters && whole(4);
    out.kilo = out.kilo && whole(1024);
  }
  return out;
}

constexpr double kSurelyBytes = 16 << 20;

// Of a bare number in a column whose name has no unit. nullopt: the figures do not say.
std::optional<MemoryUnit> unit_of_figures(std::string_view name, const Figures& f) {
  if (f.amounts == 0) return std::nullopt;
  if (f.with_unit == f.amounts) return f.unit;
  if (f.with_unit) return memory_unit("B");  // "0" beside "12 MiB"
  if (f.most > 0 && f.pages && f.amounts > 1) return memory_unit("B");
  if (memory_rank(name) == 3) return std::nullopt;  // an RSS in bytes is whole pages
  return f.most >= kSurelyBytes ? memory_unit("B") : std::nullopt;
}

// free prints KiB, and with -b, -m and -g the same header over other units.
MemoryUnit unit_of_free(const SeriesRows& rows, std::span<const std::size_t> columns) {
  Figures all;
  double total = 0;
  for (std::size_t at : columns) {
    Figures f = figures_of(rows, at, true);
    all.kilo = all.kilo && f.kilo;
    all.quarters = all.quarters && f.quarters;
    total = std::max(total, f.most);
  }
  std::string_view unit = all.kilo && total >= (1 << 28)       ? "B"
                          : total < 200                        ? "GiB"
                          : total >= (4 << 20)                 ? "KiB"
                          : total >= (1 << 17) && all.quarters ? "KiB"
                                                               : "MiB";
  return *memory_unit(unit);
}

// ---- layout

std::vector<std::string> shown_names(std::span<const std::string> names) {
  constexpr std::size_t kMost = 24;
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (out.size() == kMost) {
      out.emplace_back("…");
      break;
    }
    out.emplace_back(bare(name).substr(0, 60));
  }
  return out;
}

class LayOut {
 public:
  LayOut(SeriesLayout& out, const SeriesRows& rows, bool decimal_comma, const SeriesChoices& choices)
      : out_(out), rows_(rows), decimal_comma_(decimal_comma), choices_(choices) {}

  std::optional<SeriesProblem> run(const SeriesForm* form) {
    if (auto problem = find_time(form)) return problem;
    if (choices_.column) {
      if (auto problem = chosen(form)) return problem;
    } else if (form) {
      if (auto problem = known(*form)) return problem;
    } else if (auto problem = guessed()) {
      return problem;
    }
    if (!form) find_keys();
    return std::nullopt;
  }

 private:
  std::size_t shift() const { return out_.labelled ? 1 : 0; }
  Figures figures(std::size_t at) const { return figures_of(rows_, at + shift(), decimal_comma_); }

  SeriesProblem problem(std::string what, std::string flags) const {
    return {std::move(what), 1, shown_names(out_.names), std::move(flags)};
  }

  // A column that a person named: as it is written, without its unit, or by its number.
  std::optional<std::size_t> named(const std::string& name) const {
    if (auto at = name_index(out_.names, name)) return at;
    auto number = parse_u64(name);
    if (number && *number >= 1 && *number <= out_.names.size()) return *number - 1;
    return std::nullopt;
  }

  std::optional<SeriesProblem> find_time(const SeriesForm* form) {
    if (choices_.interval) {
      out_.clock = SeriesClock::interval;
      out_.time_scale = *choices_.interval;
      return std::nullopt;
    }
    if (choices_.time) {
      auto at = named(*choices_.time);
      if (!at)
        return problem(fmt::format("there is no column '{}' for --time", *choices_.time), "--time NAME");
      out_.time = {*at};
    } else if (out_.time.empty()) {
      find_time_column(form);
    }
    if (!out_.time.empty()) {
      out_.clock = SeriesClock::columns;
      out_.time_scale = scale_of_time(out_.names[out_.time[0]]);
      return std::nullopt;
    }
    if (out_.clock == SeriesClock::lines || out_.clock == SeriesClock::before_row) return std::nullopt;
    return problem(
        "column time_s is missing, and no other is known as the time: --time NAME names one, --time 1s says "
        "how far apart the samples are",
        "--time 1s" + (choices_.unit || choices_.column || form ? "" : memory_flags()));
  }

  void find_time_column(const SeriesForm* form) {
    bool own_time = form && (form->skips_empty || form->labelled);  // TIME of ps is another
    if (time_by_name(own_time) || own_time) return;
    // Without names: a first column that only rises, and is no size in whole pages.
    if (out_.names.size() > 1 && out_.names[0] == "1" && rises(0))
      out_.time = {0};
    else if (!time_by_dates())
      time_of_three_words();
  }

  bool time_by_name(bool own_time) {
    for (std::size_t i = 0; i < out_.names.size(); ++i) {
      std::string_view name = out_.names[i];
      if (own_time ? i > 0 || name == "TIME" : !is_time(name) || memory_rank(name)) continue;
      Figures f = figures(i);
      bool header_is_time = parse_stamp(name) && parse_stamp(name)->kind != StampKind::number;
      if (own_time && !header_is_time && !is_time(name)) continue;
      if (i + 1 < out_.names.size() && is_time(out_.names[i + 1]) && joined(i)) return true;
      if (f.stamps == 0) continue;
      out_.time = {i};
      return true;
    }
    return false;
  }

  // No name says it: the first column of dates, or one whose header is a time itself (sar).
  bool time_by_dates() {
    for (std::size_t i = 0; i < out_.names.size(); ++i) {
      Figures f = figures(i);
      if (f.stamps == 0 || f.dates < f.stamps) continue;
      if (f.amounts == f.stamps && !may_be_epochs(out_.names[i])) continue;
      out_.time = {i};
      return true;
    }
    return false;
  }
  // Bytes may be as large as an epoch: only of a column whose name says nothing.
  bool may_be_epochs(std::string_view name) const {
    return !memory_rank(name) && out_.clock == SeriesClock::columns && !unit_of_name(name) && parse_u64(name);
  }

  void time_of_three_words() {
    for (std::size_t i = 0; i + 2 < out_.names.size(); ++i)
      if (joined_words(i, 3)) {
        out_.time = {i, i + 1, i + 2};
        return;
      }
  }

  bool rises(std::size_t at) const {
    double last = -1;
    for (const auto& row : rows_) {
      auto amount = at < row.size() ? parse_amount(row[at], decimal_comma_) : std::nullopt;
      if (!amount || amount->unit || amount->number <= last) return false;
      last = amount->number;
    }
    return rows_.size() > 1 && !figures(at).pages;
  }

  // A date, and its time of day in the next column.
  bool joined(std::size_t at) {
    if (rows_.empty() || at + shift() >= rows_[0].size()) return false;
    if (rows_[0][at + shift()].find(':') != npos || !joined_words(at, 2)) return false;
    out_.time = {at, at + 1};
    return true;
  }
  bool joined_words(std::size_t at, std::size_t count) const {
    if (rows_.empty() || at + shift() + count > rows_[0].size()) return false;
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += (i ? " " : "") + rows_[0][at + shift() + i];
    auto stamp = parse_stamp(text);
    return stamp && stamp->kind != StampKind::number;
  }

  bool is_time_column(std::size_t at) const { return std::ranges::find(out_.time, at) != out_.time.end(); }

  std::optional<MemoryUnit> unit_of(std::size_t at) const {
    Figures f = figures(at);
    if (f.with_unit && f.with_unit == f.amounts) return MemoryUnit{1, "each with its unit"};
    if (auto unit = unit_of_name(out_.names[at])) return unit;
    return unit_of_figures(out_.names[at], f);
  }

  std::optional<SeriesProblem> chosen(const SeriesForm* form) {
    auto at = named(*choices_.column);
    if (!at) return problem(fmt::format("there is no column '{}'", *choices_.column), "--column NAME");
    auto unit = choices_.unit ? choices_.unit : unit_of(*at);
    if (!unit && form && !form->unit.empty()) unit = memory_unit(form->unit);
    if (!unit)
      return problem(fmt::format("column '{}' has no unit", *choices_.column),
                     fmt::format("--column {} --unit KiB", shell_word(*choices_.column)));
    SeriesColumn value{out_.names[*at], {{1, *at}}, {}, *unit, *unit, SeriesTotal::none};
    if (!form) find_limit(value);
    out_.memory = "";
    out_.values = {std::move(value)};
    return std::nullopt;
  }

  std::optional<SeriesProblem> known(const SeriesForm& form) {
    SeriesColumn value;
    value.total = form.total;
    std::vector<std::size_t> columns;
    std::string_view words = form.used;
    for (std::string_view word = next_term(words, form); !word.empty(); word = next_term(words, form)) {
      double sign = take(word, "-") ? -1 : 1;
      auto at = name_index(out_.names, word);
      if (!at) continue;
      value.used.push_back({sign, *at});
      columns.push_back(*at);
    }
    words = form.limit;
    for (std::string_view word = next_field(words); !word.empty(); word = next_field(words))
      if (auto at = name_index(out_.names, word)) value.limit.push_back(*at);
    std::optional<MemoryUnit> unit = choices_.unit ? choices_.unit : memory_unit(form.unit);
    if (!unit && form.labelled) {
      for (std::size_t& at : columns) at += shift();
      unit = unit_of_free(rows_, columns);
    }
    if (!unit) unit = unit_of(columns.front());
    if (!unit)
      return problem(fmt::format("column '{}' has no unit", out_.names[columns.front()]), "--unit KiB");
    value.unit = value.limit_unit = *unit;
    value.name = out_.names[columns.front()];
    out_.values = {std::move(value)};
    if (auto at = first_name_of(out_.names, form.keys)) out_.key = {*at};
    out_.pid = first_name_of(out_.names, form.skips_empty                      ? "PID"
                                         : form.name.starts_with("nvidia-smi") ? "pid"
                                                                               : "");
    return std::nullopt;
  }

  // Names of several words are a form's only term.
  static std::string_view next_term(std::string_view& words, const SeriesForm& form) {
    if (words == form.used && index_of_need(form, words)) return std::exchange(words, {});
    return next_field(words);
  }
  static bool index_of_need(const SeriesForm& form, std::string_view name) {
    return std::ranges::find(form.needs, name) != form.needs.end();
  }

  void find_limit(SeriesColumn& value) const {
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t i = 0; i < out_.names.size(); ++i) {
        auto words = words_of(out_.names[i]);
        bool limit = std::ranges::find(words, "limit") != words.end();
        if (is_time_column(i) || i == value.used[0].at || !is_limit(out_.names[i]) || limit != (pass == 0))
          continue;
        Figures f = figures(i);
        if (f.amounts == 0 || f.texts) continue;
        auto unit = unit_of(i);
        bool same = unit_of_name(out_.names[i]).has_value() || f.with_unit == f.amounts;
        value.limit = {i};
        value.limit_unit = same && unit ? *unit : value.unit;
        return;
      }
  }

  // The columns with the surest name; where no name says anything, all that are amounts of memory.
  std::optional<SeriesProblem> guessed() {
    constexpr std::size_t kMostColumns = 256;
    int best = 0;
    for (std::size_t i = 0; i < out_.names.size(); ++i)
      if (usable(i)) best = std::max(best, memory_rank(out_.names[i]));
    for (std::size_t i = 0; i < out_.names.size() && out_.values.size() < kMostColumns; ++i) {
      if (!usable(i) || memory_rank(out_.names[i]) != best) continue;
      if (best == 0 && is_no_memory(out_.names[i])) continue;
      auto unit = choices_.unit ? choices_.unit : unit_of(i);
      out_.values.push_back({out_.names[i], {{1, i}}, {}, *unit, *unit, SeriesTotal::none});
    }
    if (out_.values.empty())
      return problem("column used_bytes is missing, and no other is known as memory with its unit",
                     memory_flags().empty() ? "--column NAME --unit KiB" : memory_flags().substr(1));
    if (out_.values.size() == 1) find_limit(out_.values[0]);
    bool headless = parse_u64(out_.names[0]).has_value();
    if (headless && out_.values.size() > 1)
      return problem("columns without names, of which several are amounts of memory",
                     fmt::format("--column {}", out_.values[0].name));
    return std::nullopt;
  }

  // Memory, and its unit is known.
  bool usable(std::size_t at) const {
    Figures f = figures(at);
    if (is_time_column(at) || f.amounts == 0 || f.texts > f.amounts) return false;
    if (choices_.unit) return memory_rank(out_.names[at]) > 0;
    return unit_of(at).has_value();
  }

  std::string memory_flags() const {
    std::optional<std::size_t> best;
    int rank = -1;
    for (std::size_t i = 0; i < out_.names.size(); ++i) {
      Figures f = figures(i);
      if (is_time_column(i) || is_time(out_.names[i]) || f.amounts == 0 || is_no_memory(out_.names[i]))
        continue;
      int r = memory_rank(out_.names[i]);
      if (r > rank) rank = r, best = i;
    }
    if (!best) return "";
    std::string column = fmt::format(" --column {}", shell_word(bare(out_.names[*best])));
    return unit_of(*best) ? column : column + " --unit KiB";
  }

  // A column names the series if a name in it comes again: a number that only counts rows does not.
  void find_keys() {
    for (std::size_t i = 0; i < out_.names.size(); ++i) {
      if (!is_key(out_.names[i]) || is_time_column(i)) continue;
      bool again = false;
      for (std::size_t r = 0; r < rows_.size() && !again; ++r)
        for (std::size_t s = 0; s < r && !again; ++s)
          again = i < rows_[r].size() && i < rows_[s].size() && rows_[r][i] == rows_[s][i];
      if (again && out_.key.size() < 2) out_.key.push_back(i);
    }
  }

  SeriesLayout& out_;
  const SeriesRows& rows_;
  bool decimal_comma_;
  const SeriesChoices& choices_;
};

// Cards without a column that names them: whether a long wait follows several rows at once.
std::optional<double> burst_of(const SeriesLayout& layout, const SeriesRows& rows) {
  if (layout.time.size() != 1) return std::nullopt;
  std::optional<double> last;
  double longest = 0, shortest = 1e18;
  for (const auto& row : rows) {
    auto stamp = layout.time[0] < row.size() ? parse_stamp(row[layout.time[0]]) : std::nullopt;
    if (!stamp) continue;
    if (last) {
      longest = std::max(longest, stamp->seconds - *last);
      shortest = std::min(shortest, stamp->seconds - *last);
    }
    last = stamp->seconds;
  }
  if (shortest * 4 < longest) return longest / 2;
  return std::nullopt;
}

}  // namespace

void name_form(SeriesLayout& out, Split split) {
  const SeriesForm* form = form_of(out.names, split);
  out.known = form != nullptr && form->name != "a table";
  if (!form) return;
  out.form = form->name;
  out.memory = form->memory;
  out.labelled = form->labelled;
  out.skips_empty = form->skips_empty;
}

std::optional<SeriesProblem> lay_out(SeriesLayout& out, Split split, const SeriesRows& rows,
                                     bool decimal_comma, const SeriesChoices& choices) {
  if (auto problem = LayOut(out, rows, decimal_comma, choices).run(form_of(out.names, split))) return problem;
  if (out.form == "nvidia-smi" && out.key.empty() && !out.pid)
    out.burst = out.clock == SeriesClock::lines ? std::optional(0.0) : burst_of(out, rows);
  return std::nullopt;
}

}  // namespace oomcast
