// One series out of a file, whichever kind of file it is.
#pragma once

#include <functional>
#include <string>

#include "app/options.h"
#include "base/result.h"
#include "collect/csv_series.h"
#include "forecast/forecaster.h"

namespace oomcast {

/// A line of a CSV series as a reading: what cannot be dropped, and the whole. `file_bytes` is without shared
/// memory here and with it in cgroup v2's memory.stat: the sum tells. A used_bytes below the cache leaves the
/// cache out, as free(1) counts.
Reading reading_of(const CsvRow& row, std::optional<Bytes> limit);

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
/// Gives every reading to `take`, in order; `killed` says that the series met its limit, and what comes is
/// another life. Error: the file is neither a recording nor CSV, or the cgroup is not in it (with those that
/// are).
Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&)>& take,
                                const std::function<void()>& killed);

}  // namespace oomcast
