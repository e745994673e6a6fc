// A file in which a person has a curve of memory, whatever wrote it: tables and logs by
// parse/series_reader.h, and what Prometheus answers to query_range.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collect/line_file.h"
#include "parse/series_reader.h"

namespace oomcast {

/// Reads lines in constant memory, however many; a JSON document as a whole: above 32 MiB it refuses an
/// object and reads an array as lines. open() searches the first MiB for a known header; what a table without
/// one is, it guesses from the first 40 lines, and waits for them. Every error is usage (exit 2) with file
/// and line; of a file that cannot be read it names the columns and the flags that would read it.
class SeriesFile {
 public:
  /// From the file's first line on; what was read of it is read again.
  static Result<SeriesFile> open(LineFile file, const SeriesChoices& choices);

  /// Appends what comes next: none (a title), or more points. false: the end.
  Result<bool> next(std::vector<SeriesPoint>& out);

  bool would_wait() const { return !document_ && file_.would_wait(); }
  int fd() const { return file_.fd(); }
  Error wrong(std::string_view what) const { return file_.wrong(what); }
  /// A later point is of an earlier time.
  Error runs_backwards(double from, double to) const;
  bool many() const { return document_ ? document_->names.size() > 1 : reader_->many(); }
  bool processes() const { return !document_ && reader_->processes(); }
  bool has_limit() const { return !document_ && reader_->has_limit(); }
  std::string read_as() const { return document_ ? document_->read_as : reader_->read_as(); }

 private:
  struct Document {
    struct Point {
      std::uint32_t series;
      double time_s, value;
    };
    std::vector<std::string> names;
    std::vector<Point> points;  // by time
    std::string read_as;
    double unit = 1;
    std::size_t given = 0;
  };

  explicit SeriesFile(LineFile file) : file_(std::move(file)) {}
  Status guess(const SeriesChoices& choices);
  Result<bool> read_document(const SeriesChoices& choices);
  Error cannot(const SeriesProblem& problem) const;

  LineFile file_;
  std::optional<SeriesReader> reader_;
  std::optional<Document> document_;
  std::deque<std::string> rows_;  // of a document that is a list of objects
  bool is_list_ = false, any_ = false;
};

}  // namespace oomcast
