// A blame report as JSON: for other programs, and between the processes of this one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "blame/blame.h"

namespace oomcast {

/// What `blame --json` wrote: what is missing there, as in that of an older version, reads as nothing. Error:
/// it is something else.
Result<BlameReport> parse_blame(std::string_view json, const std::string& name);

/// The report as lines of JSON, with their newlines: of each process its containers, its GPU memory and its
/// sites have lines of their own, so that one of these is all that is held twice. Names keep their bytes.
void write_report(const BlameReport& report, const std::function<void(std::string_view line)>& write);

/// The reader of that. The bytes may be anybody's: each field must be there and be in its range, a line has
/// 1 MiB at most, and what is made of them takes ten times as much at most.
class ReportReader {
 public:
  explicit ReportReader(std::size_t most) : left_(most) {}
  /// The next of them, wherever they were cut.
  void add(std::string_view bytes);
  /// There were more than `most`.
  bool too_long() const { return too_long_; }
  /// nullopt: they are no report. Once.
  std::optional<BlameReport> take();

 private:
  void read(std::string_view line);

  std::size_t left_;
  bool good_ = true, begun_ = false, too_long_ = false;
  std::string line_;  // its beginning
  BlameReport report_;
};

}  // namespace oomcast
