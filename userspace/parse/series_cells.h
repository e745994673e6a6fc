// The cells of tables that other tools wrote: amounts of memory with and without a unit, and times in the
// ways in which people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oomcast {

/// What one of a number is, in bytes. MB, GB and M are binary here as in cgroup files, in psutil's and in
/// sysstat's figures; `loose` says that the spelling left it open.
struct MemoryUnit {
  double bytes = 1;
  std::string name = "B";
  bool loose = false;
};
/// "MiB", "MB", "kB", "Gi", "g", "bytes", in any case; nullopt: no unit.
std::optional<MemoryUnit> memory_unit(std::string_view text);
/// "MiB", or "MB = MiB" where the spelling left it open.
std::string describe(const MemoryUnit& unit);

/// From here on a number of bytes is no limit: cgroup v1 writes its "none" as one.
inline constexpr double kNoLimitFrom = 0x1p60;

struct Amount {
  double number = 0;
  std::optional<MemoryUnit> unit;
};
/// "123", "1.2 GiB", "512MiB", and with `decimal_comma` "5,2Gi". nullopt: text, NaN, infinity.
std::optional<Amount> parse_amount(std::string_view text, bool decimal_comma);
/// What tools write for "there is none": nothing, "[N/A]", "-", "null" and the like.
bool is_absent(std::string_view text);

enum class StampKind { number, seconds, millis, micros, nanos, date, yearless, clock };
std::string_view describe(StampKind kind);
/// How many of a number's units make a second; 1 of what is no number.
double per_second(StampKind kind);

/// `number`: seconds of an own clock; `clock`: seconds of a day, which the reader has to carry past midnight;
/// `yearless`: seconds of a year, to be carried past its end; all others: seconds since 1970. Dates without a
/// zone are this machine's.
struct Stamp {
  double seconds = 0;
  StampKind kind = StampKind::number;
  double number = 0;  // as it is written; 0 of a date or a time of day
};
/// The whole of `text`: ISO 8601, what date(1) prints, 2026/11/29 10:00:00.5, 11/29/2026 10:00:00, 10:00:00
/// PM, and numbers, by whose size they are seconds, ms, µs or ns since 1970, or seconds of an own clock.
std::optional<Stamp> parse_stamp(std::string_view text);
/// A date or a time of day at the beginning of a line, "[" and "," around it. Takes it off.
std::optional<Stamp> take_stamp(std::string_view& line);
/// Of a line that is nothing but a date, as a loop around another command prints it, or top's first.
std::optional<Stamp> stamp_of_line(std::string_view line);

/// The stamps of one file, in order, as seconds that run on: a time of day past midnight, a date without a
/// year past the year's end, and numbers all in the unit of the first, so that a clock that begins near 0
/// does not become an epoch.
class StampClock {
 public:
  /// `scale`: seconds in one of a number that is no epoch.
  double seconds(const Stamp& stamp, double scale);
  const std::optional<StampKind>& kind() const { return kind_; }

 private:
  std::optional<StampKind> kind_;
  double per_second_ = 1, carry_ = 0;
  std::optional<double> last_;
};

/// "system.proc.memory.rssMB" → system proc memory rss mb
std::vector<std::string> words_of(std::string_view name);
/// Without blanks and quotes around it.
std::string_view bare(std::string_view text);

}  // namespace oomcast
