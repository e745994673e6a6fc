// A blame report as JSON: for other programs, and between oomcast's own processes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "blame/blame.h"

namespace oomcast {

/// Reads output of `blame --json`; fields missing in it, as in that of an older version, stay empty. Error:
/// not such output.
Result<BlameReport> parse_blame(std::string_view json, const std::string& name);

/// The report as lines of JSON, with newlines: each container, GPU allocation and site of a process has a
/// line of its own, so that only one of these is held twice. Names keep their bytes.
void write_report(const BlameReport& report, const std::function<void(std::string_view line)>& write);

/// Reads that format. The input is untrusted: each field must be present and in range, a line has at most 1
/// MiB, and the result takes at most ten times as much memory as the input.
class ReportReader {
 public:
  explicit ReportReader(std::size_t most) : left_(most) {}
  /// The next bytes, split anywhere.
  void add(std::string_view bytes);
  /// More than `most` bytes were added.
  bool too_long() const { return too_long_; }
  /// nullopt: not a valid report. Call once.
  std::optional<BlameReport> take();

 private:
  void read(std::string_view line);

  std::size_t left_;
  bool good_ = true, begun_ = false, too_long_ = false;
  std::string line_;  // the incomplete line so far
  BlameReport report_;
};

}  // namespace oomcast
