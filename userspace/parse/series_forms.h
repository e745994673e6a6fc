// What the columns of other tools' tables are: which is the time, which memory is nearest to what nothing can
// take back, what it runs against, and what separates one series from another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "parse/series_cells.h"
#include "parse/series_split.h"

namespace oomcast {

/// What a person says of a file.
struct SeriesChoices {
  std::optional<std::string> column;  // --column: the memory
  std::optional<MemoryUnit> unit;     // --unit
  std::optional<std::string> time;    // --time: a column
  std::optional<double> interval;     // --time: seconds from one sample to the next
  std::optional<Bytes> limit;         // --limit
  bool any() const { return column || unit || time || interval; }
};

/// Why a file cannot be read, and what a person can say so that it is.
struct SeriesProblem {
  std::string what;
  std::size_t line = 1;
  std::vector<std::string> columns;
  std::string flags;  // "--column rss --unit KiB", as a shell takes them, safe to print
};

/// Where the total comes from, in a table that says only how much is left.
enum class SeriesTotal : std::uint8_t {
  none,
  first,    // what is left in the first row: the series is what was taken since
  sysstat,  // what is free and used, with what kbmemused of this version leaves out
};

struct SeriesColumn {
  std::string name;
  struct Term {
    double sign;
    std::size_t at;
  };
  std::vector<Term> used;
  std::vector<std::size_t> limit;
  MemoryUnit unit, limit_unit;  // of a bare number
  SeriesTotal total = SeriesTotal::none;
};

/// Where the time of a row comes from.
enum class SeriesClock : std::uint8_t { columns, before_row, lines, interval };

struct SeriesLayout {
  std::string form;    // "sar -r", "a table"
  std::string memory;  // which memory it is, for a person
  std::vector<std::string> names;
  std::vector<std::size_t> time, key;
  std::optional<std::size_t> pid;
  double time_scale = 1;  // seconds in one of a bare number
  std::vector<SeriesColumn> values;
  SeriesClock clock = SeriesClock::columns;
  /// The rows of several cards come in bursts, one for each sample, and no column says which card a row is
  /// of: a row later than this, in seconds, after a burst's first begins the next burst.
  std::optional<double> burst;
  bool known = false;     // the form has a name
  bool labelled = false;  // each row begins with a label, for which there is no name
  bool skips_empty = false;
};

/// Fills in what the names alone say: the form, and how its rows are made.
void name_form(SeriesLayout& out, Split split);
/// Its rows are whole: fields[i] belongs to names[i], of a labelled form to names[i - 1].
using SeriesRows = std::vector<std::vector<std::string>>;
/// What is what, by names and by what is in the rows. Error: why not.
std::optional<SeriesProblem> lay_out(SeriesLayout& out, Split split, const SeriesRows& rows,
                                     bool decimal_comma, const SeriesChoices& choices);

/// `name` without the unit in brackets behind it.
std::string_view without_unit(std::string_view name);

}  // namespace oomcast
