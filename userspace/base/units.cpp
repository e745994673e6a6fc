#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

namespace oomcast {
namespace {

// Reads an unsigned decimal with an optional fraction from the front of `text`.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])))) return std::nullopt;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (err != std::errc{} || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::string_view take_letters(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && std::isalpha(static_cast<unsigned char>(text[n]))) ++n;
  std::string_view out = text.substr(0, n);
  text.remove_prefix(n);
  return out;
}

std::optional<int> size_shift(std::string_view unit) {
  constexpr std::string_view prefixes = "kmgtp";
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  std::size_t at = prefixes.find(static_cast<char>(std::tolower(static_cast<unsigned char>(unit[0]))));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB" && rest != "b" && rest != "i" && rest != "ib")
    return std::nullopt;
  return static_cast<int>(at + 1) * 10;
}

std::optional<double> seconds_per(std::string_view unit) {
  if (unit == "ms") return 1e-3;
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  if (unit == "h") return 3600;
  if (unit == "d") return 86400;
  return std::nullopt;
}

}  // namespace

Result<Bytes> parse_size(std::string_view text) {
  std::string_view rest = text;
  auto number = take_number(rest);
  auto shift = number ? size_shift(take_letters(rest)) : std::nullopt;
  if (!shift || !rest.empty())
    return Error::usage(fmt::format("'{}' is not a size; write for example 512M, 32GiB or 1.5G", text));
  double bytes = std::ldexp(*number, *shift);
  if (bytes > std::ldexp(1.0, 62)) return Error::usage(fmt::format("size '{}' is too large", text));
  return Bytes{static_cast<std::int64_t>(bytes)};
}

Result<Nanos> parse_duration(std::string_view text) {
  auto bad = [&] {
    return Error::usage(
        fmt::format("'{}' is not a duration; write for example 500ms, 10s, 5m, 2h or 3d", text));
  };
  constexpr double kMostDays = 10'000;
  std::string_view rest = text;
  double seconds = 0;
  do {
    bool first = rest.size() == text.size();
    auto number = take_number(rest);
    std::string_view unit = number ? take_letters(rest) : std::string_view();
    // A lone number means seconds; after a number with a unit ("1s30") it is ambiguous.
    if (unit.empty() && !(first && rest.empty())) return bad();
    auto scale = number ? seconds_per(unit) : std::nullopt;
    if (!scale) return bad();
    seconds += *number * *scale;
  } while (!rest.empty());
  if (seconds > kMostDays * 86400)
    return Error::usage(fmt::format("'{}' is too long: {:.0f}d at most", text, kMostDays));
  if (seconds * 1e9 < 1) return bad();
  return Nanos(static_cast<std::int64_t>(seconds * 1e9));
}

std::string format_size(Bytes bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = std::fabs(bytes.as_double());
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < units.size()) value /= 1024, ++unit;
  const char* sign = bytes.count < 0 ? "-" : "";
  if (unit == 0 || value >= 99.95) return fmt::format("{}{:.0f} {}", sign, value, units[unit]);
  return value >= 9.995 ? fmt::format("{}{:.1f} {}", sign, value, units[unit])
                        : fmt::format("{}{:.2f} {}", sign, value, units[unit]);
}

std::string format_rate(BytesPerSec rate) {
  Bytes rounded{std::llround(rate.value)};
  return (rounded.count >= 0 ? "+" : "") + format_size(rounded) + "/s";
}

std::string format_duration(Seconds s) {
  double total = s.count();
  if (total < 0) return "-" + format_duration(-s);
  if (total < 0.9995) return fmt::format("{:.0f} ms", total * 1e3);
  if (total < 9.95) return fmt::format("{:.1f} s", total);
  auto whole = static_cast<long long>(std::llround(total));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string format_rfc3339(WallTime t) {
  std::int64_t ns = t.time_since_epoch().count();
  std::int64_t secs = ns / 1'000'000'000;
  std::int64_t frac = ns % 1'000'000'000;
  if (frac < 0) frac += 1'000'000'000, --secs;
  std::time_t when = secs;
  std::tm utc{};
  gmtime_r(&when, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, frac);
}

}  // namespace oomcast
