// Parses a date with a time of day in the spelling of any program or locale: by the order of its parts, not by a
// format.
#pragma once

#include <ctime>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "parse/log_stamps.h"
#include "parse/oom_log.h"

namespace oomcast {

struct LogDate {
  std::tm fields{};  ///< tm_year counts only with `year`
  Fraction fraction;
  bool year = false;
  std::optional<Nanos> zone;  ///< east of UTC; nullopt: none is there, this machine's
  /// nullopt: it has no year, or there is no such time.
  std::optional<WallStamp> stamp() const;
};

/// The whole of `text` is one: "2025-11-21 05:24:41.5 UTC", "11/21/2025, 5:24:41 AM", "Nov 21, 2025 @
/// 05:24:41", "21/Nov/2025:05:24:41 +0000", "Fr 21. Nov 2025 05:24:41", "月  1月 26 01:49:41 2026", "dim.
/// févr. 1 05:24:41 2026", "Nov 21 05:24:41" (no year). Months by name in the languages that glibc has most
/// readers of; "11/4/2025" is the fourth of November. nullopt: it is none. Cost: one pass over at most 64
/// bytes.
std::optional<LogDate> read_date(std::string_view text);

/// "1763702681[.5]", or as many milli-, micro- or nanoseconds, by the number's size. nullopt: no time of 1973
/// to 2191.
std::optional<WallStamp> read_epoch(std::string_view text);

/// The month named by a word in any of those languages; -1: none.
int month_named(std::string_view word);

}  // namespace oomcast
