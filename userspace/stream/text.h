// Facts as text: one line each, an OOM episode as a short block.
#pragma once

#include <string>
#include <string_view>

#include "stream/facts.h"

namespace oomcast {

struct TextStyle {
  bool color = false;
};

/// Without a trailing newline; empty for facts that are not shown as text.
std::string to_text(const Fact& fact, const ClockMap& clock, const TextStyle& style);

/// "12:03:07.123" in local time.
std::string format_clock(WallTime t);

/// "python3[1234] train.py": the name, the pid and the most telling argument.
std::string describe(const ProcessRef& process);

/// "GPU memory", "host memory", or "memory" where the kind does not tell.
std::string_view memory_of(GpuMemoryKind kind);

/// What a deadline is for: "OOM", "throttled at its memory.high".
std::string_view end_of(const Forecast& forecast);
/// "OOM in 13 s (11–15)", "no OOM in sight", "too early to say".
std::string describe_deadline(const Forecast& forecast);
/// "13 s (11–15)", "2.1 h (1.8–never)", "> 12 min or never", "now", "–" where none is in sight. Without its
/// interval: "13 s". At most 19 columns, 8 without the interval; what is further off than two years is not
/// told more exactly.
std::string format_deadline(const Forecast& forecast, bool with_interval);

/// "exit code 1 after 12 ms", "sent", "still runs".
std::string result_of(const ActionRun& run);

/// Of a source's name in JSON: "kernel log" for "kmsg"; of any other, a file for example, itself.
std::string source_in_words(std::string_view source);

}  // namespace oomcast
