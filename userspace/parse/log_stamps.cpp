#include "parse/log_stamps.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "parse/text.h"

namespace oomcast {
namespace {

using std::chrono::seconds;

constexpr int kFirstYear = 1971, kLastYear = 2200;  // in nanoseconds since 1970
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Exactly `digits` of them.
bool take_digits(std::string_view& text, std::size_t digits, int& out) {
  if (text.size() < digits) return false;
  out = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    out = out * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return true;
}

bool take_clock(std::string_view& text, std::tm& out) {
  return take_digits(text, 2, out.tm_hour) && take(text, ":") && take_digits(text, 2, out.tm_min) &&
         take(text, ":") && take_digits(text, 2, out.tm_sec) && out.tm_hour < 24 && out.tm_min < 60 &&
         out.tm_sec <= 60;
}

bool is_day(const std::tm& t) {
  return t.tm_mon >= 0 && t.tm_mon < 12 && t.tm_mday >= 1 && t.tm_mday <= 31;
}

std::optional<Nanos> local_time(std::tm t) {
  t.tm_isdst = -1;
  std::time_t at = std::mktime(&t);
  return at == -1 ? std::nullopt : std::optional<Nanos>(seconds(at));
}

// "Z", "+00:00", "+0000"
bool take_zone(std::string_view& text, Nanos& out) {
  if (take(text, "Z")) return out = {}, true;
  bool east = text.starts_with('+');
  if (!east && !text.starts_with('-')) return false;
  text.remove_prefix(1);
  int hours = 0, minutes = 0;
  if (!take_digits(text, 2, hours)) return false;
  take(text, ":");
  if (!take_digits(text, 2, minutes)) return false;
  out = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  if (!east) out = -out;
  return true;
}

// " CEST", before another word
void take_zone_name(std::string_view& text) {
  constexpr std::size_t kShortest = 3, kLongest = 5;
  std::string_view rest = text;
  if (!take(rest, " ")) return;
  std::size_t end = rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (end == npos || end < kShortest || end > kLongest || rest[end] != ' ') return;
  text = rest.substr(end);
}

}  // namespace

bool take_fraction(std::string_view& text, Fraction& out) {
  if (!text.starts_with('.') && !text.starts_with(',')) return true;
  text.remove_prefix(1);
  std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return false;
  for (std::size_t i = 0; i < digits && i < 9; ++i) {
    out.unit /= 10;
    out.value += out.unit * (text[i] - '0');
  }
  text.remove_prefix(digits);
  return true;
}

void take_spaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

std::optional<std::int64_t> take_natural(std::string_view& text) {
  std::int64_t value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (err != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

int take_month(std::string_view& text) {
  for (std::size_t i = 0; i < kMonths.size(); ++i)
    if (take(text, kMonths[i])) return static_cast<int>(i);
  return -1;
}

std::optional<WallStamp> take_iso(std::string_view& text) {
  std::tm t{};
  std::string_view rest = text;
  int year = 0, month = 0;
  Fraction fraction;
  bool is = take_digits(rest, 4, year) && take(rest, "-") && take_digits(rest, 2, month) && take(rest, "-") &&
            take_digits(rest, 2, t.tm_mday) && (take(rest, "T") || take(rest, " ")) && take_clock(rest, t) &&
            take_fraction(rest, fraction) && year >= kFirstYear && year <= kLastYear;
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  if (!is || !is_day(t)) return std::nullopt;
  std::string_view spaced = rest;
  Nanos zone{};
  bool known = take_zone(rest, zone);
  if (!known && take(spaced, " ") && (take_zone(spaced, zone) || take(spaced, "UTC"))) {
    known = true;
    rest = spaced;
  } else if (!known) {
    take_zone_name(rest);
  }
  auto at = known ? std::optional<Nanos>(seconds(timegm(&t)) - zone) : local_time(t);
  if (!at) return std::nullopt;
  text = rest;
  return WallStamp{*at + fraction.value, fraction.unit};
}

bool take_yearless(std::string_view& text, std::tm& t, Fraction& fraction) {
  std::string_view rest = text;
  t.tm_mon = take_month(rest);
  if (t.tm_mon < 0 || !take(rest, " ")) return false;
  take_spaces(rest);
  auto day = take_natural(rest);
  if (!day || *day > 31 || !take(rest, " ")) return false;
  t.tm_mday = static_cast<int>(*day);
  if (!take_clock(rest, t) || !take_fraction(rest, fraction) || !is_day(t)) return false;
  text = rest;
  return true;
}

std::optional<WallStamp> take_ctime(std::string_view& text) {
  std::string_view rest = text;
  constexpr std::size_t kLongestDay = 12;
  std::size_t day = rest.find(' ');
  if (day == npos || day < 2 || day > kLongestDay) return std::nullopt;
  rest.remove_prefix(day + 1);
  std::tm t{};
  Fraction fraction;
  int year = 0;
  if (!take_yearless(rest, t, fraction) || !take(rest, " ") || !take_digits(rest, 4, year) ||
      year < kFirstYear || year > kLastYear)
    return std::nullopt;
  t.tm_year = year - 1900;
  auto at = local_time(t);
  if (!at) return std::nullopt;
  text = rest;
  return WallStamp{*at, fraction.unit + kDriftOfDmesg};
}

std::optional<Nanos> take_since_boot(std::string_view& text) {
  std::string_view rest = text;
  take_spaces(rest);
  auto whole = take_natural(rest);
  constexpr std::int64_t most = 1'000'000'000;
  Fraction fraction;
  if (!whole || *whole > most || !rest.starts_with('.') || !take_fraction(rest, fraction))
    return std::nullopt;
  text = rest;
  return seconds(*whole) + fraction.value;
}

std::optional<WallStamp> take_unix(std::string_view& text) {
  std::string_view rest = text;
  constexpr std::int64_t kMin = 100'000'000, kMax = 7'000'000'000;  // 1973 to 2191
  auto whole = take_natural(rest);
  Fraction fraction;
  if (!whole || *whole < kMin || *whole > kMax || !rest.starts_with('.') || !take_fraction(rest, fraction))
    return std::nullopt;
  text = rest;
  return WallStamp{seconds(*whole) + fraction.value, fraction.unit};
}

bool has_clock(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(1)) {
    std::string_view rest = text;
    std::tm t{};
    if (take_clock(rest, t)) return true;
  }
  return false;
}

}  // namespace oomcast
