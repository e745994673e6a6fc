// One series out of a file, whichever kind of file it is.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "app/options.h"
#include "base/result.h"
#include "collect/csv_series.h"
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
};
/// What is told of a series beside its readings.
struct SeriesFacts {
  std::string name;                        // "/job", "the host", or the file's name
  std::optional<std::uint64_t> oom_kills;  // in the whole recording; nullopt: a CSV does not say
  bool torn = false;                       // the recording has no end
};
/// Gives every reading to `take`, in order, with what its total has more; `another` says that what comes is
/// another series: the limit was met, or the columns turned out to mean something else. Of a file with one
/// line per process, the sum is read. Error: the file is neither a recording nor CSV, or the cgroup is not in
/// it (with those that are).
Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&, Surplus)>& take,
                                const std::function<void()>& another);

}  // namespace oomcast
