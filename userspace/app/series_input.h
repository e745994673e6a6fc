// Series from a file of any kind.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/result.h"
#include "collect/csv_series.h"
#include "collect/series_file.h"
#include "forecast/forecaster.h"

namespace oomcast {

/// A series' clock may start anywhere, even before zero.
MonoTime series_time(double time_s);

/// Lines of a CSV series as readings: unreclaimable and total. Tools mean different things by the same
/// columns, and the sums show which: shared memory is part of file_bytes (cgroup v2) or separate, page cache
/// is part of used_bytes (a cgroup) or not (free). All lines so far decide, so that noise cannot flip it from
/// one line to the next. An empty field keeps its last value.
class CsvReadings {
 public:
  Reading of(const CsvRow& row, std::optional<Bytes> limit);
  /// The last line changed the decision: the readings before it are of another series.
  bool turned() const { return turned_; }

 private:
  // By how much one kind of memory exceeds used_bytes, over all lines.
  struct Excess {
    double kind = 0, over = 0;
    bool is_more_than(double share) const { return over > share * kind; }
  };
  void learn(const CsvRow& row);

  std::optional<Bytes> anon_, file_, shmem_, kernel_, droppable_;
  Excess cache_, shared_;
  bool left_out_ = false, in_file_ = false, turned_ = false;
};

/// Lines of one moment, one per process, summed up as one reading: private memory, and RSS as the total.
class ProcessSum {
 public:
  static constexpr std::size_t kMax = 100'000;

  /// false: there are too many. Of two lines for one process the later one counts.
  bool add(const CsvRow& row);
  bool empty() const { return processes_.empty(); }
  Reading reading(double time_s, std::optional<Bytes> limit) const;
  void clear() { processes_.clear(); }

 private:
  struct Process {
    Bytes uss;
    std::optional<Bytes> rss;
  };
  std::map<std::uint32_t, Process> processes_;
};

/// What to read from a file.
struct SeriesChoice {
  std::optional<std::string> cgroup;  // for a recording; none: the host, or else the outermost in scope
  std::optional<Bytes> limit;         // instead of the file's own
  SeriesChoices columns;
  std::string series;  // one of several in the file; default: the largest
};

/// The readings of one or several series in a file, ours or another tool's. Process readings come with their
/// sum, which follows the last one of each moment.
class SeriesInput {
 public:
  static constexpr std::size_t kMostNames = 4096;
  /// The only series, or the sum: sorts after all others.
  static constexpr std::uint32_t kWhole = std::numeric_limits<std::uint32_t>::max();

  struct Point {
    std::uint32_t series = kWhole;  // a pid, if they are processes
    Reading reading;
    double time_s = 0;
    bool turned = false;  // what came before is another series: the columns turned out to mean something else
  };

  static Result<SeriesInput> open(const std::string& path, const SeriesChoices& choices);
  /// nullopt: end of file.
  Result<std::optional<Point>> next();

  bool would_wait() const;
  int fd() const;
  bool many() const { return processes_ || (found_ && found_->many()); }
  bool has_whole() const { return !many() || processes_; }
  Surplus surplus() const { return csv_ && processes_ ? Surplus::shared : Surplus::droppable; }
  /// "" for the total, and for a process without a name.
  std::string name(std::uint32_t series) const;
  bool processes() const { return processes_; }
  /// How the columns were interpreted; "": ours, which are explicit. After the first point.
  std::string read_as() const;
  /// Points of series that were skipped because there were too many.
  std::uint64_t left_out() const { return left_out_; }

 private:
  struct Named {
    std::string name;
    double last = 0;
  };
  SeriesInput() = default;
  Status take(const CsvRow& row);
  Status take(const SeriesPoint& point);
  void end_moment();
  Error wrong(std::string_view what) const;

  std::optional<CsvSeries> csv_;
  std::optional<SeriesFile> found_;
  std::optional<Bytes> limit_;  // --limit
  CsvReadings readings_;
  ProcessSum moment_;
  double now_ = 0;
  std::optional<Bytes> moment_limit_;
  bool processes_ = false, ended_ = false;
  std::map<std::uint32_t, Named> series_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<SeriesPoint> points_;
  std::deque<Point> ready_;
  std::uint64_t left_out_ = 0;
};

/// Facts about a series besides its readings.
struct SeriesFacts {
  std::string name;  // "/job", "the host", of several in a file its own, or the file's name
  std::optional<std::uint64_t> oom_kills;  // in the whole recording; nullopt: unknown, from CSV
  bool torn = false;                       // the recording has no end
  std::string read_as;                     // see SeriesInput
};
/// Calls `take` with every reading, in order, and with the excess of its total; `another` announces that a
/// new series begins: the limit was hit, or the columns turned out to mean something else. For processes
/// their sum is read. Error: neither a recording nor a series, or the cgroup is not in it (with those that
/// are).
Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&, Surplus)>& take,
                                const std::function<void()>& another);

}  // namespace oomcast
