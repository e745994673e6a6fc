// Series out of a file, whichever kind of file it is.
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

/// A series' clock begins anywhere, before zero too.
MonoTime series_time(double time_s);

/// Lines of a CSV series as readings: what cannot be dropped, and the whole. Tools mean different things by
/// the same columns, and the sums tell which: shared memory is in file_bytes (cgroup v2) or beside it, page
/// cache is in used_bytes (a cgroup) or not (free). That is judged by all lines so far, so that noise does
/// not change it from one line to the next. An empty field is as it was.
class CsvReadings {
 public:
  Reading of(const CsvRow& row, std::optional<Bytes> limit);
  /// The last line changed the judgement: the readings before it are of another series.
  bool turned() const { return turned_; }

 private:
  // How much of one kind of memory does not fit into used_bytes, over all lines.
  struct Excess {
    double kind = 0, over = 0;
    bool is_more_than(double share) const { return over > share * kind; }
  };
  void learn(const CsvRow& row);

  std::optional<Bytes> anon_, file_, shmem_, kernel_, droppable_;
  Excess cache_, shared_;
  bool left_out_ = false, in_file_ = false, turned_ = false;
};

/// Lines of one moment, one per process, as a reading of them all: private memory, and the RSS as the whole.
class ProcessSum {
 public:
  static constexpr std::size_t kMax = 100'000;

  /// false: there are too many. The later of two lines of a process counts.
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

/// What of a file is read.
struct SeriesChoice {
  std::optional<std::string> cgroup;  // of a recording; none: the host, or else the outermost in scope
  std::optional<Bytes> limit;         // instead of the file's own
  SeriesChoices columns;
  std::string series;  // if it is one of several in the file; otherwise the one that was the largest
};

/// The readings of a file, ours or another tool's, of one series or of several. Those of processes come with
/// their sum, which follows the last of a moment.
class SeriesInput {
 public:
  static constexpr std::size_t kMostNames = 4096;
  /// The only series, or the sum: behind all others.
  static constexpr std::uint32_t kWhole = std::numeric_limits<std::uint32_t>::max();

  struct Point {
    std::uint32_t series = kWhole;  // a pid, if they are processes
    Reading reading;
    double time_s = 0;
    bool turned = false;  // what came before is another series: the columns turned out to mean something else
  };

  static Result<SeriesInput> open(const std::string& path, const SeriesChoices& choices);
  /// nullopt: the end.
  Result<std::optional<Point>> next();

  bool would_wait() const;
  int fd() const;
  bool many() const { return processes_ || (found_ && found_->many()); }
  bool has_whole() const { return !many() || processes_; }
  Surplus surplus() const { return csv_ && processes_ ? Surplus::shared : Surplus::droppable; }
  /// "" of the whole, and of a process without a name.
  std::string name(std::uint32_t series) const;
  bool processes() const { return processes_; }
  /// How the columns were understood; "": they are ours, and say it themselves. After the first point.
  std::string read_as() const;
  /// Points of series that were left out because there were too many of them.
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

/// What is told of a series beside its readings.
struct SeriesFacts {
  std::string name;  // "/job", "the host", of several in a file its own, or the file's name
  std::optional<std::uint64_t> oom_kills;  // in the whole recording; nullopt: a CSV does not say
  bool torn = false;                       // the recording has no end
  std::string read_as;                     // as of SeriesInput
};
/// Gives every reading to `take`, in order, with what its total has more; `another` says that what comes is
/// another series: the limit was met, or the columns turned out to mean something else. Of processes the sum
/// is read. Error: the file is neither a recording nor a series, or the cgroup is not in it (with those that
/// are).
Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&, Surplus)>& take,
                                const std::function<void()>& another);

}  // namespace oomcast
