// Stacks with values, for flame graphs and profile viewers: from one blame report, or from two and their
// difference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "blame/blame.h"
#include "stream/facts.h"

namespace oomcast {

struct StackProfile {
  struct Kind {
    std::string name, unit;
  };
  struct Row {
    std::string process;  // bytes
    std::optional<std::uint32_t> pid;
    Stack stack;                       // outermost first
    std::vector<std::int64_t> values;  // one for each kind
  };
  std::string title;
  std::vector<std::string> notes;  // sentences: the basis of the numbers, and what distorts them
  std::vector<Kind> kinds;
  std::vector<Row> rows;
  WallTime time{};
  Seconds window{};
  bool differs = false;  // kinds are before and after
};

StackProfile profile_of(const BlameReport& report, const ClockMap& clock, MonoTime now);

/// "process[pid];outermost;…;innermost value value …" a line, for flame graph tools. Rows of zeros are left
/// out.
std::string to_folded(const StackProfile& profile);
/// A gzipped protocol buffer for `pprof` and compatible tools (github.com/google/pprof, profile.proto).
std::string to_pprof(const StackProfile& profile);
/// One HTML file that opens offline, under 4 MiB: stacks below a thousandth, and excess data, are left out,
/// and the page says so. Fails only in a build without HTML.
Result<std::string> to_html(const StackProfile& profile);

}  // namespace oomcast
