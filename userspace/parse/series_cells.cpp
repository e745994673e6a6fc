#include "parse/series_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

#include "base/ascii.h"
#include "parse/log_stamps.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";
constexpr double kDayOfStamps = 86400, kYearOfStamps = 366 * kDayOfStamps;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

std::string_view skip_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text;
}

std::optional<double> whole_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// "10:00:00", "1:02:03.5", "10:00:00 PM", "10시 34분 12초": of a day, in seconds. Takes it off.
std::optional<double> take_time_of_day(std::string_view& text) {
  std::string_view rest = text;
  std::array<double, 3> part{};
  for (std::size_t i = 0; i < part.size(); ++i) {
    auto value = take_natural(rest);
    if (!value || *value > (i == 0 ? 99 : 60)) return std::nullopt;
    part[i] = static_cast<double>(*value);
    if (i == 2) break;
    // A colon, or the words of another language.
    if (!take(rest, ":")) {
      std::size_t end = rest.find_first_of("0123456789");
      if (end == npos || end == 0 || end > 8) return std::nullopt;
      auto foreign = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
      if (!std::ranges::any_of(rest.substr(0, end), foreign)) return std::nullopt;
      rest.remove_prefix(end);
    }
  }
  if (rest.starts_with('.') || rest.starts_with(',')) {
    std::size_t digits = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    if (digits > 1) {
      std::string fraction = "0." + std::string(rest.substr(1, digits - 1));
      if (auto value = whole_number(fraction)) part[2] += *value;
      rest.remove_prefix(digits);
    }
  }
  while (!rest.empty() && static_cast<unsigned char>(rest.front()) >= 0x80) rest.remove_prefix(1);
  std::string_view half = skip_blanks(rest);
  std::string word = to_lower(half.substr(0, 2));
  if ((word == "am" || word == "pm") && (half.size() == 2 || !is_letter(half[2]))) {
    if (part[0] > 12) return std::nullopt;
    part[0] = std::fmod(part[0], 12) + (word == "pm" ? 12 : 0);
    rest = half.substr(2);
  }
  text = rest;
  return part[0] * 3600 + part[1] * 60 + part[2];
}

std::optional<double> seconds_of(int year, int month, int day, double of_day, std::optional<double> zone) {
  if (year < 1971 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 ||
      of_day >= kDayOfStamps + 1)
    return std::nullopt;
  std::tm t{};
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  t.tm_mday = day;
  t.tm_isdst = -1;
  double whole = std::floor(of_day);
  t.tm_hour = static_cast<int>(whole) / 3600;
  t.tm_min = static_cast<int>(whole) / 60 % 60;
  t.tm_sec = static_cast<int>(whole) % 60;
  std::time_t at = zone ? timegm(&t) : std::mktime(&t);
  if (at == -1) return std::nullopt;
  return static_cast<double>(at) + (of_day - whole) - (zone ? *zone : 0.0);
}

// "2026/11/29", "11/29/2026", "29/11/2026" where only that can be, "2026-11-29". Takes it off.
struct Date {
  int year = 0, month = 0, day = 0;
};
std::optional<Date> take_date(std::string_view& text) {
  std::string_view rest = text;
  auto a = take_natural(rest);
  char between = rest.empty() ? 0 : rest.front();
  if (!a || (between != '/' && between != '-' && between != '.')) return std::nullopt;
  rest.remove_prefix(1);
  auto b = take_natural(rest);
  if (!b || rest.empty() || rest.front() != between) return std::nullopt;
  rest.remove_prefix(1);
  auto c = take_natural(rest);
  if (between == '.' && (!c || *c < 1971)) return std::nullopt;  // "1.2.3" is a version
  if (!c || *a > 9999 || *b > 31 || *c > 9999) return std::nullopt;
  Date out;
  if (*a > 31) {
    out = {static_cast<int>(*a), static_cast<int>(*b), static_cast<int>(*c)};
  } else {
    out = {static_cast<int>(*c < 100 ? 2000 + *c : *c), static_cast<int>(*a), static_cast<int>(*b)};
    if (out.month > 12 || between == '.') std::swap(out.month, out.day);
  }
  if (out.year < 1971 || out.year > 2200) return std::nullopt;
  text = rest;
  return out;
}

// "Z", "+01:00", "UTC", "GMT"; "CET": this machine's. false: no zone is there.
bool take_zone_of(std::string_view& text, std::optional<double>& zone) {
  std::string_view rest = skip_blanks(text);
  for (std::string_view zero : {"UTC", "GMT", "Z"})
    if (rest.starts_with(zero) && (rest.size() == zero.size() || !is_letter(rest[zero.size()]))) {
      zone = 0;
      text = rest.substr(zero.size());
      return true;
    }
  if (rest.starts_with('+') || (rest.starts_with('-') && rest.size() > 3)) {
    double sign = rest.front() == '-' ? -1 : 1;
    std::string digits;
    std::size_t at = 1;
    for (; at < rest.size() && digits.size() < 4 && (is_digit(rest[at]) || rest[at] == ':'); ++at)
      if (rest[at] != ':') digits += rest[at];
    if (digits.size() != 2 && digits.size() != 4) return false;
    double hours = (digits[0] - '0') * 10 + (digits[1] - '0');
    double minutes = digits.size() == 4 ? (digits[2] - '0') * 10 + (digits[3] - '0') : 0;
    zone = sign * (hours * 3600 + minutes * 60);
    text = rest.substr(at);
    return true;
  }
  std::size_t end = std::min(rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), rest.size());
  if (end < 3 || end > 5) return false;
  text = rest.substr(end);
  return true;
}

// "2026-11-29T10:00:00.5Z", "2026/11/29 10:00:00", "2026-11-29 10:00". Takes it off.
std::optional<double> take_date_and_time(std::string_view& text) {
  std::string_view rest = text;
  auto date = take_date(rest);
  if (!date) return std::nullopt;
  if (!take(rest, "T") && !take(rest, " ")) {
    if (!rest.empty()) return std::nullopt;
    text = rest;
    return seconds_of(date->year, date->month, date->day, 0, std::nullopt);
  }
  rest = skip_blanks(rest);
  auto of_day = take_time_of_day(rest);
  if (!of_day) {  // without seconds
    auto hours = take_natural(rest);
    if (!hours || *hours > 23 || !take(rest, ":")) return std::nullopt;
    auto minutes = take_natural(rest);
    if (!minutes || *minutes > 59) return std::nullopt;
    of_day = static_cast<double>(*hours * 3600 + *minutes * 60);
  }
  std::optional<double> zone;
  std::string_view behind = rest;
  if (take_zone_of(behind, zone) && (zone || skip_blanks(behind).empty())) rest = behind;
  auto at = seconds_of(date->year, date->month, date->day, *of_day, zone);
  if (at) text = rest;
  return at;
}

// "Sun Nov 29 10:00:00 UTC 2026", "Sun 29 Nov 2026 10:00:00 AM UTC", "Sun, 29 Nov 2026 10:00:00 +0000", "Nov
// 29 10:00:00" (without a year): words in any order, all of them known.
std::optional<Stamp> words_of_a_date(std::string_view text) {
  int month = -1, day = 0, year = 0;
  std::optional<double> of_day, zone;
  auto take_number = [&](std::string_view& rest) {
    auto value = take_natural(rest);
    if (!value) return false;
    if (*value > 31 && !year)
      year = static_cast<int>(std::min<std::int64_t>(*value, 9999));
    else if (*value <= 31 && !day)
      day = static_cast<int>(*value);
    else
      return false;
    take(rest, ".");
    return true;
  };
  for (text = skip_blanks(text); !text.empty(); text = skip_blanks(text)) {
    std::string_view word = text.substr(0, text.find_first_of(" \t,"));
    std::string_view rest = text;
    auto skip_word = [&] {
      rest = text.substr(word.size());
      return true;
    };
    if (word.empty()) {
      text.remove_prefix(1);
      continue;
    }
    bool known = (!of_day && word.find(':') != npos && (of_day = take_time_of_day(rest))) ||
                 (month < 0 && (month = take_month(rest)) >= 0 && skip_word());
    if (!known && is_digit(word.front()))
      known = take_number(rest);
    else if (!known)  // the day's name, or a zone
      known = (month < 0 && !day && !of_day && word.size() <= 12 && skip_word()) ||
              (of_day && !zone && take_zone_of(rest, zone));
    if (!known) return std::nullopt;
    text = rest;
  }
  if (month < 0 || !day || !of_day) return std::nullopt;
  // The date has no year: it is read in a leap year, which has each day, and only its place in the year
  // counts.
  constexpr int kLeapYear = 2000;
  auto at = seconds_of(year ? year : kLeapYear, month + 1, day, *of_day, zone);
  if (at && year) return Stamp{*at, StampKind::date};
  auto begin = seconds_of(kLeapYear, 1, 1, 0, zone);
  if (!at || !begin) return std::nullopt;
  return Stamp{*at - *begin, StampKind::yearless};
}

Stamp stamp_of_number(double value) {
  double size = std::fabs(value);
  StampKind kind = size >= 1e17   ? StampKind::nanos
                   : size >= 1e14 ? StampKind::micros
                   : size >= 1e11 ? StampKind::millis
                   : size >= 1e8  ? StampKind::seconds
                                  : StampKind::number;
  return {value / per_second(kind), kind, value};
}

struct UnitName {
  std::string_view name;
  int power;  // of 1024
  bool loose;
};
constexpr std::array kUnitNames = {
    UnitName{"b", 0, false},         UnitName{"byte", 0, false},      UnitName{"bytes", 0, false},
    UnitName{"k", 1, false},         UnitName{"kb", 1, true},         UnitName{"ki", 1, false},
    UnitName{"kib", 1, false},       UnitName{"kbytes", 1, true},     UnitName{"kilobytes", 1, true},
    UnitName{"kibibytes", 1, false}, UnitName{"m", 2, true},          UnitName{"mb", 2, true},
    UnitName{"mi", 2, false},        UnitName{"mib", 2, false},       UnitName{"mbytes", 2, true},
    UnitName{"megabytes", 2, true},  UnitName{"mebibytes", 2, false}, UnitName{"g", 3, true},
    UnitName{"gb", 3, true},         UnitName{"gi", 3, false},        UnitName{"gib", 3, false},
    UnitName{"gbytes", 3, true},     UnitName{"gigabytes", 3, true},  UnitName{"gibibytes", 3, false},
    UnitName{"t", 4, true},          UnitName{"tb", 4, true},         UnitName{"ti", 4, false},
    UnitName{"tib", 4, false},       UnitName{"pib", 5, false},       UnitName{"pi", 5, false}};
constexpr std::array<std::string_view, 6> kBinaryNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

}  // namespace

std::optional<MemoryUnit> memory_unit(std::string_view text) {
  std::string name = to_lower(bare(text));
  for (const UnitName& u : kUnitNames)
    if (u.name == name)
      return MemoryUnit{std::ldexp(1.0, 10 * u.power),
                        std::string(kBinaryNames[static_cast<std::size_t>(u.power)]), u.loose};
  return std::nullopt;
}

std::string describe(const MemoryUnit& unit) {
  if (!unit.loose || unit.name.size() < 3) return unit.name;
  return fmt::format("{0}B = {1}", unit.name.substr(0, 1), unit.name);
}

std::optional<Amount> parse_amount(std::string_view text, bool decimal_comma) {
  text = bare(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string with_point;
  if (std::size_t comma = text.find(','); decimal_comma && comma != npos && text.find('.') == npos) {
    with_point = text;
    with_point[comma] = '.';
    text = with_point;
  }
  Amount out;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out.number);
  if (code != std::errc{} || !std::isfinite(out.number)) return std::nullopt;
  std::string_view rest = bare(text.substr(static_cast<std::size_t>(end - text.data())));
  if (rest.empty()) return out;
  out.unit = memory_unit(rest);
  if (!out.unit) return std::nullopt;
  return out;
}

bool is_absent(std::string_view text) {
  std::string word = to_lower(bare(text));
  if (word.starts_with('[') && word.ends_with(']')) word = word.substr(1, word.size() - 2);
  constexpr std::array<std::string_view, 10> kNone = {
      "", "-", "--", "n/a", "na", "null", "none", "not supported", "unknown error", "gpu is lost"};
  return std::ranges::find(kNone, word) != kNone.end();
}

double per_second(StampKind kind) {
  return kind == StampKind::nanos    ? 1e9
         : kind == StampKind::micros ? 1e6
         : kind == StampKind::millis ? 1e3
                                     : 1;
}

std::string_view describe(StampKind kind) {
  switch (kind) {
    case StampKind::number:
      return "seconds";
    case StampKind::seconds:
      return "seconds since 1970";
    case StampKind::millis:
      return "ms since 1970";
    case StampKind::micros:
      return "µs since 1970";
    case StampKind::nanos:
      return "ns since 1970";
    case StampKind::date:
      return "date and time";
    case StampKind::yearless:
      return "dates without a year: seconds of the year";
    case StampKind::clock:
      return "time of day";
  }
  return "";
}

std::optional<Stamp> parse_stamp(std::string_view text) {
  text = bare(text);
  if (text.empty() || text.size() > 64) return std::nullopt;
  if (auto number = whole_number(text)) return stamp_of_number(*number);
  std::string_view rest = text;
  if (auto at = take_date_and_time(rest); at && bare(rest).empty()) return Stamp{*at, StampKind::date};
  rest = text;
  if (auto at = take_time_of_day(rest); at && bare(rest).empty()) return Stamp{*at, StampKind::clock};
  return words_of_a_date(text);
}

// As a number only what can be nothing but a time.
static std::optional<Stamp> take_epoch(std::string_view& text) {
  std::string_view rest = text, word = next_field(rest);
  while (!word.empty() && std::string_view(":,;])").find(word.back()) != npos) word.remove_suffix(1);
  auto number = whole_number(word);
  if (!number || std::fabs(*number) < 1e9) return std::nullopt;
  text = rest;
  return stamp_of_number(*number);
}

// "Sun Nov 29 10:00:00 UTC 2026 …", "Nov 29 10:00:00 …"
static std::optional<Stamp> take_words_of_a_date(std::string_view& text) {
  std::string_view rest = text;
  for (int words = 1; words <= 7; ++words) {
    if (next_field(rest).empty()) break;
    if (words < 3) continue;
    auto date = words_of_a_date(text.substr(0, text.size() - rest.size()));
    if (!date) continue;
    std::string_view longer = rest, next = next_field(longer);
    // The zone, the year.
    if (!next.empty() && words_of_a_date(text.substr(0, text.size() - longer.size()))) continue;
    text = rest;
    return date;
  }
  return std::nullopt;
}

std::optional<Stamp> take_stamp(std::string_view& line) {
  std::string_view rest = skip_blanks(line);
  while (rest.starts_with('[') || rest.starts_with('(')) rest.remove_prefix(1);
  std::string_view text = rest;
  std::optional<Stamp> out;
  if (auto at = take_date_and_time(text))
    out = Stamp{*at, StampKind::date};
  else if (auto clock = take_time_of_day(text = rest))
    out = Stamp{*clock, StampKind::clock};
  else if (out = take_epoch(text = rest); !out)
    out = take_words_of_a_date(text);
  if (!out) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(" \t:,;])"), text.size()));
  line = text;
  return out;
}

// A line that is nothing but a date, as a loop around another command prints it; top's first line.
std::optional<Stamp> stamp_of_line(std::string_view line) {
  constexpr std::string_view kAround = "=-#*>[]() \t\r:";
  if (line.size() > 100) return std::nullopt;
  // "2026-11-29T10:00:00,100" is a time and 100 of something, not a fraction of a second.
  if (std::size_t comma = line.find(','); comma != npos && comma + 1 < line.size() && line[comma + 1] != ' ')
    return std::nullopt;
  std::string_view text = bare(line);
  if (take(text, "<timestamp date=\"")) {  // sadf -x: <timestamp date="2024-05-01" time="00:10:01" utc="1" …>
    constexpr std::string_view kTime = "\" time=\"";
    std::size_t time = text.find(kTime);
    if (time == npos) return std::nullopt;
    std::string_view of_day = text.substr(time + kTime.size());
    std::string zone = text.find("utc=\"1\"") == npos ? "" : "Z";
    return parse_stamp(std::string(text.substr(0, time)) + "T" +
                       std::string(of_day.substr(0, of_day.find('"'))) + zone);
  }
  if (take(text, "top - ")) {
    auto stamp = take_stamp(text);
    return stamp && text.starts_with("up") ? stamp : std::nullopt;
  }
  std::size_t from = text.find_first_not_of(kAround);
  if (from == npos) return std::nullopt;
  text = text.substr(from, text.find_last_not_of(kAround) + 1 - from);
  auto stamp = parse_stamp(text);
  return stamp && stamp->kind != StampKind::number ? stamp : std::nullopt;
}

double StampClock::seconds(const Stamp& stamp, double scale) {
  bool first = !kind_;
  if (first) kind_ = stamp.kind;
  if (stamp.kind == StampKind::clock || stamp.kind == StampKind::yearless) {
    double period = stamp.kind == StampKind::clock ? kDayOfStamps : kYearOfStamps;
    if (last_ && stamp.seconds + carry_ < *last_ - period / 2) carry_ += period;
    last_ = stamp.seconds + carry_;
    return *last_;
  }
  if (stamp.kind == StampKind::date) return stamp.seconds;
  if (first) per_second_ = stamp.kind == StampKind::number ? 1 / scale : per_second(stamp.kind);
  return stamp.number / per_second_;
}

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> out;
  char before = 0;
  for (char c : name) {
    bool word = is_letter(c) || is_digit(c);
    bool begins = !is_letter(before) && !is_digit(before);
    bool hump = c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z';
    if (word && (begins || hump || out.empty())) out.emplace_back();
    if (word) out.back() += to_lower(c);
    before = c;
  }
  return out;
}

std::string_view bare(std::string_view text) {
  text = skip_blanks(text);
  text = text.substr(0, text.find_last_not_of(kBlank) + 1);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return text;
  text = skip_blanks(text.substr(1, text.size() - 2));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

}  // namespace oomcast
