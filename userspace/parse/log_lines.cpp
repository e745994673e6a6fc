#include "parse/log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "parse/kmsg_record.h"
#include "parse/log_record.h"
#include "parse/log_stamps.h"
#include "parse/log_wrapping.h"
#include "parse/oom_lines.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A stamp without a year, with the year nearest to `beside`. Its zone is unknown: if the two differ by whole
// quarters of an hour (but for 30 s), they are of one moment in two zones, and `beside` has the right one.
WallStamp in_year_of(const WallStamp& stamp, const WallStamp& beside) {
  std::time_t given = std::chrono::floor<seconds>(stamp.since_epoch).count();
  std::time_t near = std::chrono::floor<seconds>(beside.since_epoch).count();
  std::tm fields{}, year{};
  gmtime_r(&given, &fields);
  localtime_r(&near, &year);
  std::optional<Nanos> best;
  for (int apart : {-1, 0, 1}) {
    std::tm t = fields;
    t.tm_year = year.tm_year + apart;
    t.tm_isdst = -1;
    std::time_t at = std::mktime(&t);
    if (at == -1 || t.tm_mon != fields.tm_mon) continue;
    Nanos found = seconds(at);
    if (!best || std::chrono::abs(found - beside.since_epoch) < std::chrono::abs(*best - beside.since_epoch))
      best = found;
  }
  if (!best) return beside;
  constexpr Nanos kFarthestZone = std::chrono::hours(14), kZone = std::chrono::minutes(15),
                  kLate = seconds(30);
  Nanos apart = std::chrono::abs(beside.since_epoch - *best), odd = apart % kZone;
  if (apart <= kFarthestZone && apart > kLate && (odd < kLate || kZone - odd < kLate)) return beside;
  return {*best + (stamp.since_epoch - std::chrono::floor<seconds>(stamp.since_epoch)), stamp.error, false};
}

}  // namespace

LogPrefix LogLineReader::read_form(std::string_view raw, bool cut, LogLine& line) {
  line = {};
  line.cut = cut;
  LogPrefix out;
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
  if (!line.text.empty()) return out;
  bool trusted = out.kernel;
  if (take_syslog(text, out) || take_rfc5424(text, out) || take_talos(text, out)) {
    LogPrefix stamp;
    if (out.kernel && take_dmesg(text, stamp, line)) out.since_boot = stamp.since_boot;
  } else if (take_dmesg(text, out, line)) {
  } else if (auto iso = take_iso(text); iso && take(text, " ")) {
    out.wall = iso;
    out.wall->error += kDriftOfDmesg;
    out.any = true;
  } else if (take(text, "kernel: ")) {
    out.any = true;
    LogPrefix stamp;
    if (take_dmesg(text, stamp, line)) out.since_boot = stamp.since_boot;
  }
  if (out.any && out.kernel) take_marks(text, out, line);
  out.kernel = out.kernel && trusted;
  line.text = text;
  return out;
}

// "1207:", "messages-20261121:", "kern.log:1207:", and "-" for the lines around a match: what has no space in
// it and stands before a form that is known.
std::optional<LogPrefix> LogLineReader::read_behind_grep(std::string_view raw, bool cut, LogLine& line) {
  constexpr int kMax = 8;
  std::size_t space = std::min(raw.find(' '), raw.size());
  std::size_t at = raw.find_first_of(":-");
  for (int n = 0; n < kMax && at < space; ++n, at = raw.find_first_of(":-", at + 1)) {
    std::string_view behind = raw.substr(at + 1);
    if (behind.starts_with(' ')) break;
    if (LogPrefix out = read_form(behind, cut, line); out.any) return out;
  }
  return std::nullopt;
}

// "INFO: Nov 21 03:04:05 host kernel: text": a program that passes lines on puts words of its own before
// them.
std::optional<LogPrefix> LogLineReader::read_behind_words(std::string_view raw, bool cut, LogLine& line) {
  constexpr std::size_t kFarthest = 80;
  constexpr int kMaxWords = 8;
  constexpr std::string_view kBetween = " \t";
  std::size_t at = raw.find_first_of(kBetween);
  for (int n = 0; n < kMaxWords && at < kFarthest; ++n, at = raw.find_first_of(kBetween, at + 1)) {
    if (may_hold_cgroup(raw.substr(0, at))) break;
    std::string_view behind = raw.substr(at + 1);
    if (behind.empty() || behind[0] == ' ') continue;
    LogPrefix out = read_form(behind, cut, line);
    if (out.any && out.wall && out.kernel) return out;
  }
  return std::nullopt;
}

// Of source code and of JSON: what has the form of a log's line, or several lines one of which is a sentence.
std::optional<LogPrefix> LogLineReader::read_literal(std::string_view raw, bool cut, LogLine& line) {
  LogPrefix out;
  auto is_log = [&](const std::string& literal) {
    out = read_form(literal, cut, line);
    std::string_view rest = literal, piece;
    bool told = false, several = literal.find('\n') != npos;
    while (!out.any && several && !told && next_line(rest, piece)) told = begins_sentence(piece);
    return out.any || told;
  };
  auto literal = literal_inside(raw, is_log);
  if (!literal) return std::nullopt;
  message_ = *std::move(literal);
  while (message_.ends_with('\n')) message_.pop_back();
  out = read_form(message_, cut, line);
  if (!out.any) line.text = message_;
  out.any = false;
  out.inside = out.wrapped = true;
  return out;
}

LogPrefix LogLineReader::read_wrapped(std::string_view raw, bool cut, LogLine& line) {
  if (auto fenced = fenced_lines(raw)) {
    LogPrefix out;
    line = {};
    message_ = *std::move(fenced);
    line.text = message_;
    out.inside = out.wrapped = true;
    return out;
  }
  std::string_view text = without_quotation(raw);
  if (text.size() != raw.size())
    if (LogPrefix out = read_form(text, cut, line); out.any) return out;
  if (auto out = read_literal(text, cut, line)) return *out;
  if (auto out = read_behind_grep(text, cut, line)) return *out;
  if (auto out = read_behind_words(text, cut, line)) return *out;
  line = {};
  line.cut = cut;
  line.text = text;
  LogPrefix out;
  if (auto behind = behind_kernel_tag(text)) {
    out = read_form(*behind, cut, line);
    out.any = true;
  } else if (auto prompt = behind_prompt(text)) {
    out = read_form(*prompt, cut, line);
    out.any = true;
  } else if (auto event = from_kubelet(text)) {
    message_ = *std::move(event);
    line.text = message_;
    out.inside = true;
  } else if (auto inside = sentence_inside(raw)) {
    line.text = *inside;
    out.inside = true;
  }
  return out;
}

LogPrefix LogLineReader::read(std::string_view raw, bool cut, LogLine& line) {
  line = {};
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  note_month(raw);
  if (has_colours(raw)) {
    plain_ = without_colours(raw);
    raw = plain_;
  }
  LogPrefix out = read_form(raw, cut, line);
  if (!out.any) out = read_wrapped(raw, cut, line);
  if (auto sentence = out.kernel ? whole_sentence_inside(line.text, out.any) : std::nullopt) {
    line.text = *sentence;
    out.inside = !out.any;
  }
  if (out.any) {
    last_ = out;
  } else if (raw.starts_with(' ') && last_.any && !out.inside) {
    // dmesg breaks a record at its newlines, and indents what follows.
    out = last_;
    out.any = false;
    out.indent = true;
    line.text = raw;
  }
  line.time = out.since_boot;
  if (!line.time && out.wall) line.time = out.wall->since_epoch;
  line.wall = out.wall;
  return out;
}

LogPrefix LogLineReader::read_beside(std::string_view text, bool cut, const Beside& beside, LogLine& line) {
  LogPrefix of = beside.prefix;
  if (beside.yearless) of.wall = place(beside.yearless->fields, beside.yearless->fraction);
  if (has_colours(text)) {
    plain_ = without_colours(text);
    text = plain_;
  }
  LogPrefix own = read_form(text, cut, line);
  if (!own.any && !parse_oom_line(text, cut) && !(own = read_wrapped(text, cut, line)).any && !own.inside) {
    line = {};
    line.cut = cut;
    line.text = text;
  }
  if (own.any && own.wall && own.wall->yearless && of.wall && !of.wall->yearless)
    own.wall = in_year_of(*own.wall, *of.wall);
  of.inside = false;
  of.kernel = own.kernel && of.kernel;
  of.shows_writer = of.shows_writer && !own.any;
  if (own.since_boot) of.since_boot = own.since_boot;
  if (own.wall && !(own.wall->yearless && of.wall)) of.wall = own.wall;
  if (own.host) of.host = own.host;
  of.wrapped = own.wrapped;
  line.time = of.since_boot;
  if (!line.time && of.wall) line.time = of.wall->since_epoch;
  line.wall = of.wall;
  return of;
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
  if (*at > now.time_since_epoch() + std::chrono::hours(24))  // lines out of order
    if (auto before = in_year(t, last_year - (last.tm_year - t.tm_year) / kYearsApart - 1)) at = before;
  Nanos fraction = stamp.since_epoch - std::chrono::floor<seconds>(stamp.since_epoch);
  return {*at + fraction, stamp.error, false};
}

}  // namespace oomcast
