// The stamps in front of a log's lines. Each function takes one off the text; nullopt (or false), and nothing
// taken: none stands there. Times of day without a zone are taken as of this machine's zone.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "parse/oom_log.h"

namespace oomcast {

/// dmesg reckons with the boot's time of day, and the two clocks drift apart; while the machine sleeps, more.
constexpr Nanos kDriftOfDmesg = std::chrono::seconds(2);

/// A fraction of a second and its resolution.
struct Fraction {
  Nanos value{}, unit = std::chrono::seconds(1);
};

void take_spaces(std::string_view& text);
/// ".123456" or ",123"; true also if there is none. false: a point without digits.
bool take_fraction(std::string_view& text, Fraction& out);
std::optional<std::int64_t> take_natural(std::string_view& text);
/// "Nov": 10; -1: no month.
int take_month(std::string_view& text);
/// "2026-11-21T03:04:05.123456+00:00"; or with a comma, a space for the T, a zone behind a space ("UTC",
/// "CEST": a name other than UTC is this machine's), or no zone.
std::optional<WallStamp> take_iso(std::string_view& text);
/// "Nov 21 03:04:05[.123456]", "Nov  1 …"; the year is left open.
bool take_yearless(std::string_view& text, std::tm& t, Fraction& fraction);
/// "Fri Nov 21 03:04:05 2026"; the day's name in any language.
std::optional<WallStamp> take_ctime(std::string_view& text);
/// "  123.456789", of a boot
std::optional<Nanos> take_since_boot(std::string_view& text);
/// "1754970843.123456", of 1970
std::optional<WallStamp> take_unix(std::string_view& text);
/// Whether a time of day, "03:04:05", is in it.
bool has_clock(std::string_view text);

}  // namespace oomcast
