// Series written by other tools: CSV with a header line, one sample per line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/line_file.h"

namespace oomcast {

/// One line. Columns that the file lacks, or whose field is empty, are nullopt.
struct CsvRow {
  double time_s = 0;
  std::optional<std::uint32_t> pid;
  std::optional<Bytes> used, limit;  // limit: an empty field or "max" is none
  std::optional<Bytes> pinned, anon, file, shmem, kernel;
  std::optional<Bytes> rss, uss;
};

/// Reads a file of any length in constant memory. Columns are found by name, in any order, others are
/// ignored: `time_s` and `used_bytes`, or for one line per process `time_s`, `pid` and `uss_bytes`; optional
/// `limit_bytes`, `pinned_bytes`, `anon_bytes`, `file_bytes`, `shmem_bytes`, `kernel_bytes`, `rss_bytes`.
/// `time_s` is a number of seconds, or a date as ISO 8601 has it. A byte order mark, CRLF and quoted fields
/// are accepted. Every error is Error::usage (exit 2) and names file, line and reason: a missing column, text
/// in a number, NaN, a negative size, a time that runs backwards, a line of more than 1 MiB, a file without
/// samples.
class CsvSeries {
 public:
  /// Whether `line` names the columns of such a file; SeriesFile guesses what other headers mean.
  static bool is_header(std::string_view line);
  /// "-" is stdin.
  static Result<CsvSeries> open(const std::string& path);
  /// From the file's first line on.
  static Result<CsvSeries> open(LineFile file);

  bool per_process() const { return per_process_; }
  /// nullopt: the end.
  Result<std::optional<CsvRow>> next();
  /// No complete line is there and the writer has not closed the file: next() would block.
  bool would_wait() const { return file_.would_wait(); }
  int fd() const { return file_.fd(); }
  /// An error for the line read last, with file name and line number.
  Error wrong(std::string_view what) const { return file_.wrong(what); }
  /// The times are dates, not numbers.
  bool has_dates() const { return dates_; }

 private:
  struct Columns {
    int time = -1, pid = -1, used = -1, limit = -1, pinned = -1, anon = -1, file = -1, shmem = -1,
        kernel = -1, rss = -1, uss = -1;
  };
  explicit CsvSeries(LineFile file) : file_(std::move(file)) {}
  Status read_header();
  Status split(std::string_view line);
  Result<double> time_of(std::string_view text);
  Result<std::optional<Bytes>> size(int column, std::string_view name) const;
  std::string_view field(int column) const { return fields_[static_cast<std::size_t>(column)]; }
  Status take_time(CsvRow& row);
  Status take_sizes(CsvRow& row) const;
  Status take_limit(CsvRow& row) const;
  Status take_process(CsvRow& row) const;

  LineFile file_;
  bool per_process_ = false, any_ = false, dates_ = false;
  Columns columns_;
  std::vector<std::string_view> fields_;
  std::string unquoted_;
  double last_time_ = 0;
};

}  // namespace oomcast
