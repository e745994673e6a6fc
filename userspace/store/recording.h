// A recording: everything that one run of oomcast received, in one database of the store's schema (schema.h), whose
// rows also have the order of arrival.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"
#include "base/units.h"
#include "forecast/told.h"
#include "model/facts.h"
#include "store/run_info.h"
#include "store/tables.h"

namespace oomcast {

/// What a replay is made of; episodes, kills and the like come as the events that they were told by.
using RecordedItem = std::variant<Sample, ProcessSampleFact, GpuSample, ExitFact, ForgottenFact, ForecastFact,
                                  TickFact, ReclaimFact, RecordedEvent>;

/// Reads a recording in the order in which it was written. The file is treated as hostile.
class RecordingReader {
 public:
  /// Whether the file begins as an SQLite database does.
  static bool is_recording(const std::string& path);
  /// Error::usage (exit 2): no recording, or of another schema (both are named).
  static Result<RecordingReader> open(const std::string& path);
  RecordingReader(RecordingReader&&) noexcept;
  ~RecordingReader();

  const RunInfo& info() const { return info_; }
  /// nullopt: the end.
  Result<std::optional<RecordedItem>> next();

 private:
  struct Database;
  explicit RecordingReader(std::unique_ptr<Database> db);
  std::unique_ptr<Database> db_;
  RunInfo info_;
};

}  // namespace oomcast
