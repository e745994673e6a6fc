#include "collect/log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>

#include "collect/kmsg.h"
#include "collect/text.h"

namespace oomcast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// dmesg reckons with the boot's time of day, and the two clocks drift apart; while the machine sleeps, more.
constexpr Nanos kDriftOfDmesg = seconds(2);
constexpr int kFirstYear = 1971, kLastYear = 2200;  // in nanoseconds since 1970
constexpr int kMostTurns = 50;
constexpr Nanos kSlowestReader = seconds(10);
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

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

// ".123456" or ",123456": what it is worth and how fine it is.
struct Fraction {
  Nanos value{}, unit = seconds(1);
};
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

int take_month(std::string_view& text) {
  for (std::size_t i = 0; i < kMonths.size(); ++i)
    if (take(text, kMonths[i])) return static_cast<int>(i);
  return -1;
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

// "2026-11-21T03:04:05.123456+00:00", or with a comma
std::optional<WallStamp> take_iso(std::string_view& text) {
  std::tm t{};
  std::string_view rest = text;
  int year = 0, month = 0;
  Fraction fraction;
  Nanos zone{};
  bool is = take_digits(rest, 4, year) && take(rest, "-") && take_digits(rest, 2, month) && take(rest, "-") &&
            take_digits(rest, 2, t.tm_mday) && take(rest, "T") && take_clock(rest, t) &&
            take_fraction(rest, fraction) && take_zone(rest, zone) && year >= kFirstYear && year <= kLastYear;
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  if (!is || !is_day(t)) return std::nullopt;
  text = rest;
  return WallStamp{seconds(timegm(&t)) - zone + fraction.value, fraction.unit};
}

// "Nov 21 03:04:05[.123456]", "Nov  1 …"; the year is left open.
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

// "Fri Nov 21 03:04:05 2026"
std::optional<WallStamp> take_ctime(std::string_view& text) {
  std::string_view rest = text;
  if (rest.size() < 4 || rest[3] != ' ') return std::nullopt;
  rest.remove_prefix(4);
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

// "  123.456789"
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

// "[   T12]" or "[    C3]" behind a stamp
std::string_view take_caller(std::string_view& text) {
  std::string_view rest = text;
  if (!take(rest, "[")) return {};
  take_spaces(rest);
  std::size_t end = rest.find(']');
  if (end == npos || end < 2 || (rest[0] != 'T' && rest[0] != 'C')) return {};
  std::string_view caller = rest.substr(0, end);
  if (caller.find_first_not_of("0123456789", 1) != npos) return {};
  text = rest.substr(end + 1);
  return caller;
}

// A leap year for each year of the log, so that every date exists in it.
constexpr int kFirstOfOurs = 100, kYearsApart = 4;  // years since 1900

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string out;  // what is not UTF-8 comes as an array of bytes
  if (value.is_array())
    for (const auto& byte : value)
      if (byte.is_number_unsigned() && byte.get<std::uint64_t>() < 256)
        out += static_cast<char>(byte.get<std::uint64_t>());
  return out;
}

std::optional<Nanos> microseconds_of(const nlohmann::json& record, const char* key) {
  auto at = record.find(key);
  if (at == record.end() || !at->is_string()) return std::nullopt;
  auto value = parse_u64(at->get_ref<const std::string&>());
  if (!value || *value > INT64_MAX / 2000) return std::nullopt;
  return microseconds(static_cast<std::int64_t>(*value));
}

}  // namespace

void LogLineReader::note_month(std::string_view raw) {
  if (raw.size() < 4 || raw[3] != ' ') return;
  int month = take_month(raw);
  if (month < 0 || month == month_) return;
  constexpr int half_a_year = 6;  // less is disorder
  if (month_ - month >= half_a_year && turns_ < kMostTurns) ++turns_;
  month_ = month;
}

LogPrefix LogLineReader::read_kmsg(std::string_view raw, bool cut, LogLine& line) {
  auto record = parse_kmsg_record(raw);
  LogPrefix out;
  if (!record) return out;
  kmsg_ = std::move(*record);
  out.any = true;
  out.kernel = kmsg_.from_kernel();
  out.since_boot = kmsg_.since_boot;
  line.text = kmsg_.text;
  line.cut = cut;
  if (kmsg_.caller) line.caller = *kmsg_.caller;
  line.continuation = kmsg_.continuation;
  return out;
}

LogPrefix LogLineReader::read_json(std::string_view raw, LogLine& line) {
  LogPrefix out;
  out.any = true;
  auto record = nlohmann::json::parse(raw, nullptr, false);
  auto member = [&](const char* key) -> const nlohmann::json* {
    auto at = record.is_object() ? record.find(key) : record.end();
    return at == record.end() ? nullptr : &*at;
  };
  const auto* transport = record.is_object() ? member("_TRANSPORT") : nullptr;
  const auto* message = transport ? member("MESSAGE") : nullptr;
  out.kernel = message && *transport == "kernel";
  // What user space wrote to /dev/kmsg, journald keeps apart by its facility.
  if (const auto* facility = out.kernel ? member("SYSLOG_FACILITY") : nullptr) out.kernel = *facility == "0";
  if (!out.kernel) return out;
  message_ = text_of(*message);
  line.text = message_;
  if (const auto* boot = member("_BOOT_ID"); boot && boot->is_string())
    out.boot_id = boot->get<std::string>();
  out.since_boot = microseconds_of(record, "_SOURCE_MONOTONIC_TIMESTAMP");
  auto received = microseconds_of(record, "__REALTIME_TIMESTAMP");
  auto received_mono = microseconds_of(record, "__MONOTONIC_TIMESTAMP");
  if (!received) return out;
  // journald reads a record soon after it is printed, or, at boot, all that were printed before.
  Nanos late = out.since_boot && received_mono ? *received_mono - *out.since_boot : Nanos{};
  if (late > kSlowestReader)
    out.wall = WallStamp{*received - late, kDriftOfDmesg};
  else
    out.wall = WallStamp{*received, std::max<Nanos>(late > Nanos{} ? late : -late, milliseconds(1))};
  return out;
}

// "Nov 21 03:04:05 host kernel: ", "2026-11-21T03:04:05+00:00 host kernel: "
bool LogLineReader::take_syslog(std::string_view& text, LogPrefix& out) {
  std::string_view rest = text;
  std::tm t{};
  Fraction fraction;
  constexpr std::size_t comma_at = 19;  // dmesg's; what follows is text
  if (rest.size() > comma_at && rest[comma_at] == ',') return false;
  if (auto iso = take_iso(rest)) {
    out.wall = iso;
  } else if (take_yearless(rest, t, fraction)) {
    t.tm_year = kFirstOfOurs + kYearsApart * turns_;
    out.wall = WallStamp{seconds(timegm(&t)) + fraction.value, fraction.unit, true};
    last_yearless_ = out.wall->since_epoch;
  } else {
    return false;
  }
  if (!take(rest, " ")) return false;
  std::size_t host = rest.find(' ');
  if (host == npos) return false;
  rest.remove_prefix(host + 1);
  // syslog's stamp is the reader's; the kernel's own, where it is printed, only tells the boot's clock.
  out.wall->error += seconds(1);
  out.any = true;
  out.kernel = take(rest, "kernel:");
  if (std::size_t tag = rest.find(": "); !out.kernel && tag != npos) rest.remove_prefix(tag + 1);
  take(rest, " ");
  text = rest;
  return true;
}

// "[  123.456789] ", "[Fri Nov 21 03:04:05 2026] ", "[  123.456789][   T12] "
bool LogLineReader::take_dmesg(std::string_view& text, LogPrefix& out, LogLine& line) {
  std::string_view rest = text;
  if (!take(rest, "[")) return false;
  if (auto since_boot = take_since_boot(rest)) {
    out.since_boot = since_boot;
  } else if (auto wall = take_ctime(rest)) {
    out.wall = wall;
  } else {
    return false;
  }
  if (rest.starts_with(" <")) rest.remove_prefix(std::min(rest.find(']'), rest.size()));  // dmesg -d
  if (!take(rest, "]")) return false;
  if (rest.starts_with('[') || rest.starts_with(" [")) {
    std::string_view at = rest.substr(rest.find('['));
    line.caller = take_caller(at);
    if (!line.caller.empty()) rest = at;
  }
  take(rest, " ");
  out.any = true;
  text = rest;
  return true;
}

LogPrefix LogLineReader::read(std::string_view raw, bool cut, LogLine& line) {
  line = {};
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  note_month(raw);
  line.cut = cut;
  LogPrefix out;
  if (raw.starts_with('{')) {
    out = read_json(raw, line);
  } else {
    std::string_view text = raw;
    if (take(text, "<")) {
      auto priority = take_natural(text);
      constexpr int facilities = 8;
      if (priority && take(text, ">"))
        out.kernel = *priority < facilities, out.any = true;
      else
        text = raw;
    } else if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      out = read_kmsg(raw, cut, line);
    } else if (std::size_t bar = text.find(':'); text.size() > 15 && bar == 6 && text[13] == ':') {
      out.kernel = text.starts_with("kern  :");  // dmesg -x
      out.any = true;
      text.remove_prefix(15);
    }
    if (line.text.empty()) {
      bool trusted = out.kernel;
      if (take_syslog(text, out)) {
        LogPrefix stamp;
        if (out.kernel && take_dmesg(text, stamp, line)) out.since_boot = stamp.since_boot;
      } else if (take_dmesg(text, out, line)) {
      } else if (auto iso = take_iso(text); iso && take(text, " ")) {
        out.wall = iso;
        out.wall->error += kDriftOfDmesg;
        out.any = true;
      }
      out.kernel = out.kernel && trusted;
      line.text = text;
    }
  }
  if (out.any) {
    last_ = out;
  } else if (raw.starts_with(' ') && last_.any) {
    // dmesg breaks a record at its newlines, and indents what follows.
    out = last_;
    out.any = false;
    out.indent = true;
  }
  line.time = out.since_boot;
  if (!line.time && out.wall) line.time = out.wall->since_epoch;
  line.wall = out.wall;
  return out;
}

WallStamp LogLineReader::resolve(const WallStamp& stamp, WallTime now) const {
  if (!stamp.yearless || !last_yearless_) return stamp;
  auto broken_down = [](Nanos at) {
    std::time_t seconds_of = std::chrono::floor<seconds>(at).count();
    std::tm t{};
    gmtime_r(&seconds_of, &t);
    return t;
  };
  auto in_year = [](std::tm t, int year) -> std::optional<Nanos> {
    int month = t.tm_mon;
    t.tm_year = year;
    t.tm_isdst = -1;
    std::time_t at = std::mktime(&t);
    return at == -1 || t.tm_mon != month ? std::nullopt : std::optional<Nanos>(seconds(at));
  };
  std::time_t now_s = std::chrono::floor<seconds>(now.time_since_epoch()).count();
  std::tm today{};
  localtime_r(&now_s, &today);
  std::tm last = broken_down(*last_yearless_);
  int last_year = today.tm_year;
  constexpr int leap_cycle = 8;
  for (int back = 0; back <= leap_cycle; ++back) {
    auto at = in_year(last, today.tm_year - back);
    if (!at || *at > now.time_since_epoch() + std::chrono::hours(24)) continue;
    last_year = today.tm_year - back;
    break;
  }
  std::tm t = broken_down(stamp.since_epoch);
  auto at = in_year(t, last_year - (last.tm_year - t.tm_year) / kYearsApart);
  if (!at) return stamp;
  Nanos fraction = stamp.since_epoch - std::chrono::floor<seconds>(stamp.since_epoch);
  return {*at + fraction, stamp.error, false};
}

}  // namespace oomcast
