// Facts for a person: one line each, an OOM episode as a short block.
#pragma once

#include <string>

#include "present/facts.h"

namespace oomcast {

struct TextStyle {
  bool color = false;
};

/// Ends without a newline; empty for facts that are of no interest to a reader.
std::string to_text(const Fact& fact, const ClockMap& clock, const TextStyle& style);

/// "12:03:07.123" in local time.
std::string format_clock(WallTime t);

/// "python3[1234] train.py": the name, the pid and the most telling argument.
std::string describe(const ProcessRef& process);

/// "GPU memory", "host memory", or "memory" where the kind does not tell.
std::string_view memory_of(GpuMemoryKind kind);

/// What a deadline is for: "OOM", "throttled at its memory.high".
std::string_view end_of(const Forecast& forecast);
/// "OOM in 13 s (11 s to 15 s)", "no OOM in sight".
std::string describe_deadline(const Forecast& forecast);

}  // namespace oomcast
