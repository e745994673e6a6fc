// Series of memory in the tables and logs of other tools: lines to points. A file's first lines decide what
// it is, not its name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "parse/series_forms.h"
#include "parse/series_split.h"

namespace oomcast {

struct SeriesPoint {
  std::string name;                  // empty: the file's only series
  std::optional<std::uint32_t> pid;  // the name is a process's
  double time_s = 0;
  Bytes used;
  std::optional<Bytes> limit;
};

class SeriesReader {
 public:
  /// From the first lines of a file. `all`: no more of them come, and a table may be one whose form has no
  /// name. Otherwise only known forms count, as soon as one row below their header is there.
  struct Guess;
  static Guess guess(std::span<const std::string> lines, const SeriesChoices& choices, bool all);

  /// The points of the next line, none for what is no row (titles, other tables, dates). Error: what is wrong
  /// with the row. It needs the lines of guess(), too.
  std::optional<std::string> line(std::string_view line, std::vector<SeriesPoint>& out);

  /// Several series may come.
  bool many() const {
    return !layout_.key.empty() || layout_.pid || layout_.burst || layout_.values.size() > 1;
  }
  bool headed() const { return headed_; }
  /// Each line is a row with its time, below a header in the first line or none.
  bool stands_alone() const {
    bool by_line = rows_ == Rows::table || rows_ == Rows::json;
    return by_line && layout_.clock == SeriesClock::columns && !above_;
  }
  bool processes() const { return layout_.pid.has_value(); }
  bool has_limit() const;
  /// "sar -r: time in column 'timestamp' (date and time), memory is …, in KiB"; complete after the first row.
  std::string read_as() const;

 private:
  enum class Rows : std::uint8_t { table, json, named, usage, mprof, block };
  struct Time {
    std::optional<Stamp> stamp;  // of the last line that was a date, or of the row
    StampClock clock;
    std::optional<double> burst_began;
    std::uint64_t moment = 0, in_burst = 0;
    std::set<std::string> seen;  // in this moment
  };

  static std::optional<Guess> guess_table(std::span<const std::string> lines, const SeriesChoices& choices,
                                          bool all);
  static std::optional<Guess> guess_rows(Rows rows, std::span<const std::string> lines,
                                         const SeriesChoices& choices);
  static std::optional<Guess> guess_bare(std::span<const std::string> lines, const SeriesChoices& choices);
  static Guess best_problem(std::span<const std::string> lines, std::optional<SeriesProblem> problem);
  std::optional<SeriesProblem> settle(std::span<const std::string> lines, const SeriesChoices& choices);
  bool set_row(std::string_view line, std::string& wrong);
  bool set_table_row(std::string_view line, std::string& wrong);
  bool set_json(std::string_view line);
  bool set_named(std::string_view line);
  bool set_usage(std::string_view line);
  bool set_mprof(std::string_view line);
  bool set_block(std::string_view line);
  bool is_own_header() const;
  bool is_other_header() const;
  bool lenient() const { return layout_.known && (split_ == Split::blanks || split_ == Split::wide); }
  std::string_view cell(std::size_t at) const;
  std::optional<double> time_of_row(const std::string& key, std::string& wrong);
  bool amount(std::size_t at, const MemoryUnit& unit, double& bytes, std::optional<double>& limit,
              std::string& wrong) const;
  bool set_value(const SeriesColumn& value, SeriesPoint& point, std::string& wrong);
  std::optional<double> total_of_row(SeriesTotal total, double left) const;
  std::string key_of_row(double now);

  Rows rows_ = Rows::table;
  Split split_ = Split::comma;
  SeriesLayout layout_;
  bool headed_ = false, decimal_comma_ = false, active_ = true, row_due_ = false;
  bool above_ = false;    // there are lines above the header
  std::size_t skip_ = 0;  // lines above the rows
  std::string_view line_;
  Fields fields_;
  std::string unquoted_, clean_;
  std::vector<std::string> own_;  // cells that are not a part of line_
  Time time_;
  std::optional<double> total_;
  std::optional<Bytes> limit_;  // --limit
};

struct SeriesReader::Guess {
  std::optional<SeriesReader> reader;
  SeriesProblem problem;
};

}  // namespace oomcast
