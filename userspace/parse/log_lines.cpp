#include "parse/log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "parse/kmsg_record.h"
#include "parse/log_dates.h"
#include "parse/log_record.h"
#include "parse/log_stamps.h"
#include "parse/log_wrapping.h"
#include "parse/oom_line_parts.h"
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

// ---- what stands before the kernel's words, in each form of a log

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMaxTurns = 50;
constexpr int kFirstOfOurs = 100;  // years since 1900; see kYearsApart

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

// "COMM invoked oom-killer: gfp_mask=…"
bool begins_report(std::string_view text) {
  std::size_t at = text.substr(0, 64).find(" invoked oom-killer: ");
  return at != npos && at > 0 && at <= kMaxComm && text.substr(0, at).find("kernel: ") == npos;
}

// "janv. 26 01:49:41", "Пт 21 ноя 2025 05:24:41", before a space: in another language, or another order.
std::optional<LogDate> take_foreign(std::string_view& text) {
  constexpr std::size_t kFarthest = 48;
  if (text.empty() || text[0] == '[' || text[0] == '{' || text[0] == ' ') return std::nullopt;
  std::string_view reach = text.substr(0, kFarthest);
  std::size_t clock = reach.find(':');
  if (clock == npos || clock < 3 || reach[clock - 1] < '0' || reach[clock - 1] > '9') return std::nullopt;
  // Up to the first space behind the clock, or the year behind that.
  std::size_t end = text.find(' ', clock);
  if (end == npos) return std::nullopt;
  std::size_t behind_year = text.find(' ', end + 1);
  constexpr std::size_t kYear = 5;  // " 2026"
  for (std::size_t at : {behind_year == end + kYear ? behind_year : npos, end}) {
    if (at == npos) continue;
    if (auto date = read_date(text.substr(0, at))) {
      text.remove_prefix(at);
      return date;
    }
  }
  return std::nullopt;
}

// What a collector passes on behind its own stamp, if that begins with the kernel's: of `docker logs -t`, of
// a CI job ("01O [ 1.5] …" is GitLab's), of a guest's console in VMware's log ("In(05) vcpu-5 - Guest: <6>[
// 1.5] …"). In a line of syslog a host stands there.
std::optional<std::string_view> record_behind(std::string_view rest) {
  constexpr std::string_view kGuest = " - Guest: ", kHex = "0123456789abcdef";
  constexpr std::size_t kStream = 4, kFarthest = 48;
  bool stream = rest.size() > kStream && kHex.find(rest[0]) != npos && kHex.find(rest[1]) != npos &&
                (rest[2] == 'O' || rest[2] == 'E') && (rest[3] == ' ' || rest[3] == '+');
  if (stream) {
    rest.remove_prefix(kStream);
    take(rest, " ");
    if (begins_sentence(rest) || begins_report(rest)) return rest;
  } else if (rest.starts_with("In(")) {
    std::size_t at = rest.substr(0, kFarthest).find(kGuest);
    if (at == npos) return std::nullopt;
    rest.remove_prefix(at + kGuest.size());
  }
  std::string_view priority = rest;
  if (take(priority, "<") && take_natural(priority) && take(priority, ">")) rest = priority;
  std::string_view stamp = rest;
  if (!take(stamp, "[") || !(take_since_boot(stamp) || take_ctime(stamp)) || !stamp.starts_with(']'))
    return std::nullopt;
  return rest;
}

// Android's "[root] 0 0 W tag: text" behind its stamp: what process 0 wrote is the kernel's.
bool take_logcat(std::string_view& text, LogPrefix& out) {
  std::string_view rest = text;
  take(rest, "root ");
  std::string_view process = next_field(rest), thread = next_field(rest), level = next_field(rest);
  bool is = parse_u32(process) && parse_u32(thread) && level.size() == 1 &&
            std::string_view("VDIWEF").find(level[0]) != npos;
  std::size_t tag = rest.find(": ");
  if (!is || tag == npos) return false;
  out.kernel = process == "0" && thread == "0";
  text = rest.substr(tag + 2);
  return true;
}

}  // namespace

void LogLineReader::note_month(std::string_view raw) {
  if (raw.size() < 4 || raw[3] != ' ') return;
  int month = take_month(raw);
  if (month < 0 || month == month_) return;
  constexpr int half_a_year = 6;  // less is disorder
  if (month_ - month >= half_a_year && turns_ < kMaxTurns) ++turns_;
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

// A stamp without a year, in the years of this log.
WallStamp LogLineReader::place(std::tm fields, const Fraction& fraction) {
  fields.tm_year = kFirstOfOurs + kYearsApart * turns_;
  WallStamp out{seconds(timegm(&fields)) + fraction.value, fraction.unit, true};
  last_yearless_ = out.since_epoch;
  return out;
}

// "kernel: ", "host kernel: ", "kern.err kernel: ", "host kern.err kernel: ", "host kernel[0]: ", "host
// program[12]: "
void LogLineReader::take_tag(std::string_view& rest, LogPrefix& out) {
  auto at_kernel = [&] {
    std::string_view tag = rest.substr(0, rest.find(' '));
    bool is = tag == "kernel:" || (tag.starts_with("kernel[") && tag.ends_with("]:"));
    if (is) rest.remove_prefix(tag.size());
    return is;
  };
  auto take_word = [&] {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    return word;
  };
  auto is_facility = [](std::string_view word) {
    std::size_t dot = word.find('.');
    constexpr std::array<std::string_view, 8> levels = {"emerg", "alert",  "crit", "err",
                                                        "warn",  "notice", "info", "debug"};
    std::string_view level = dot == npos ? std::string_view() : word.substr(dot + 1);
    return level == "warning" || std::ranges::find(levels, level) != levels.end();
  };
  out.kernel = at_kernel();
  bool facility = !out.kernel && is_facility(rest.substr(0, rest.find(' ')));
  if (!out.kernel && !facility && rest.find(' ') != npos) out.host = std::string(take_word());
  if (!out.kernel && is_facility(rest.substr(0, rest.find(' ')))) take_word();
  out.kernel = out.kernel || at_kernel();
  if (std::size_t tag = rest.find(": "); !out.kernel && tag != npos) rest.remove_prefix(tag + 1);
  take(rest, " ");
  std::string_view stamp = rest;
  take_spaces(stamp);
  if (stamp.starts_with('[')) rest = stamp;
}

// "Nov 21 03:04:05 ", "2026-11-21T03:04:05+00:00 ", "Fri 2026-11-21 03:04:05 UTC ", "1754970843.123456 ",
// "Fri Nov 21 03:04:05 2026 ", and a tag
bool LogLineReader::take_syslog(std::string_view& text, LogPrefix& out, bool nested) {
  std::string_view rest = text;
  std::tm t{};
  Fraction fraction;
  constexpr std::size_t comma_at = 19;  // dmesg's; what follows is text
  if (rest.size() > comma_at && rest[comma_at] == ',') return false;
  constexpr std::size_t kDay = 4;  // "Fri "
  std::string_view behind_day = rest.size() > kDay && rest[kDay - 1] == ' ' ? rest.substr(kDay) : rest;
  if (auto iso = take_iso(rest)) {
    out.wall = iso;
  } else if (auto full = take_iso(behind_day)) {
    out.wall = full;
    rest = behind_day;
  } else if (auto ctime = take_ctime(rest)) {
    out.wall = ctime;
  } else if (auto since_1970 = take_unix(rest)) {
    out.wall = since_1970;
  } else if (take_yearless(rest, t, fraction)) {
    out.wall = place(t, fraction);
  } else if (auto foreign = take_foreign(rest)) {
    out.wall = foreign->year ? foreign->stamp() : place(foreign->fields, foreign->fraction);
    if (!out.wall) return false;
  } else {
    return false;
  }
  if (!take(rest, " ") || rest.find(' ') == npos) {
    out.wall.reset();
    return false;
  }
  // syslog's stamp is the reader's; the kernel's own, where it is printed, only tells the boot's clock.
  out.wall->error += seconds(1);
  out.any = true;
  text = rest;
  take_spaces(rest);
  std::string_view sender = rest.substr(0, rest.find(' ')), sentence = rest;
  take(sentence, "... ");
  bool netconsole = sender.find(':') != npos && sender.find('.') != npos &&
                    sender.find_first_not_of("0123456789.:") == npos &&
                    rest.substr(sender.size()).starts_with(" [");
  if (netconsole) {  // "192.0.2.17:6665 [ 123.456789] text"
    out.host = std::string(sender.substr(0, sender.find(':')));
    text = rest.substr(sender.size() + 1);
  } else if (auto record = record_behind(rest)) {
    text = *record;
  } else if (begins_sentence(sentence) || begins_report(sentence)) {  // a paste without host and tag
    text = sentence;
  } else if (LogPrefix inner; !nested && is_prefix_behind_host(rest, inner, text)) {
    out.kernel = inner.kernel;
    out.host = std::move(inner.host);
  } else if (take_logcat(rest, out)) {
    text = rest;
  } else {
    take_tag(text, out);
  }
  return true;
}

// "host Nov 21 03:04:05 host kernel: text": a collector's own stamp and host before those of the log.
bool LogLineReader::is_prefix_behind_host(std::string_view rest, LogPrefix& inner, std::string_view& text) {
  std::size_t end = rest.find(' ');
  if (end == npos || rest.substr(0, end).find(':') != npos) return false;
  std::string_view behind = rest.substr(end + 1);
  if (behind.empty() || !take_syslog(behind, inner, true) || !inner.kernel || !inner.wall) return false;
  text = behind;
  return true;
}

// "1 2026-11-21T03:04:05Z host kernel - - - text"; behind a priority, if there is one
bool LogLineReader::take_rfc5424(std::string_view& text, LogPrefix& out) {
  std::string_view rest = text;
  if (!take(rest, "1 ")) return false;
  auto wall = take_iso(rest);
  if (!wall || !take(rest, " ")) return false;
  std::string_view host = next_field(rest), program = next_field(rest);
  (void)next_field(rest);  // the process's number
  (void)next_field(rest);  // the message's kind
  if (!take(rest, " ")) return false;
  if (!take(rest, "-"))
    while (rest.starts_with('[')) rest.remove_prefix(std::min(rest.find(']'), rest.size() - 1) + 1);
  take(rest, " ");
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  take(rest, byte_order_mark);
  out.wall = wall;
  out.wall->error += seconds(1);
  out.host = std::string(host);
  out.kernel = program == "kernel";
  out.any = true;
  text = rest;
  return true;
}

// "[host: ]kern: err: [2026-11-21T03:04:05Z]: text"
bool LogLineReader::take_talos(std::string_view& text, LogPrefix& out) {
  std::string_view rest = text;
  std::string_view words[3];
  std::size_t count = 0;
  while (count < 3 && !rest.starts_with('[')) {
    std::size_t end = rest.find(": ");
    if (end == npos || rest.substr(0, end).find(' ') != npos) return false;
    words[count++] = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    take_spaces(rest);
  }
  if (count < 2 || !take(rest, "[")) return false;
  auto wall = take_iso(rest);
  if (!wall || !take(rest, "]: ")) return false;
  out.wall = wall;
  out.wall->error += kDriftOfDmesg;
  out.kernel = words[count - 2] == "kern";
  if (count == 3) out.host = std::string(words[0]);
  out.any = true;
  text = rest;
  return true;
}

// journalctl -o short-monotonic names the host behind the boot's clock, in the first line as in all others.
// Later it is not believed: a process called "Out kernel: x" would make each "Out of memory" a line of the
// host "Out".
void LogLineReader::take_host_of_boot(std::string_view& text, LogPrefix& out) {
  constexpr std::string_view kTag = " kernel: ";
  std::size_t end = text.find(' ');
  bool first = !std::exchange(has_boot_stamps_, true);
  if (end == npos || end == 0) return;
  if (first && text.substr(end).starts_with(kTag)) host_of_boot_ = text.substr(0, end);
  if (host_of_boot_.empty() || text.substr(0, end) != host_of_boot_) return;
  out.host = host_of_boot_;
  out.kernel = text.substr(end).starts_with(kTag);
  text.remove_prefix(out.kernel ? end + kTag.size() : end + 1);
}

// dmesg -H: "[Nov21 05:24]", and below it "[  +0.000010]" since the line before.
bool LogLineReader::take_relative(std::string_view& text, LogPrefix& out) {
  std::string_view rest = text;
  take_spaces(rest);
  if (take(rest, "+")) {
    auto later = take_since_boot(rest);
    if (!later || !rest.starts_with(']')) return false;
    constexpr Nanos kMost = std::chrono::hours(24 * 366);  // between two lines
    if (*later > kMost || (relative_ && relative_->since_epoch > Nanos::max() - kMost)) relative_.reset();
    if (relative_) relative_->since_epoch += *later;
  } else {
    std::tm t{};
    t.tm_mon = take_month(rest);
    take_spaces(rest);
    auto day = take_natural(rest);
    if (t.tm_mon < 0 || !day || *day < 1 || *day > 31 || !take(rest, " ")) return false;
    auto hour = take_natural(rest);
    if (!hour || *hour > 23 || !take(rest, ":")) return false;
    auto minute = take_natural(rest);
    if (!minute || *minute > 59 || !rest.starts_with(']')) return false;
    t.tm_mday = static_cast<int>(*day);
    t.tm_hour = static_cast<int>(*hour);
    t.tm_min = static_cast<int>(*minute);
    relative_ = place(t, {Nanos{}, std::chrono::minutes(1)});
  }
  out.wall = relative_;
  text = rest;
  return true;
}

// "[  123.456789] ", "[Fri Nov 21 03:04:05 2026] ", "[  123.456789][   T12] "
bool LogLineReader::take_dmesg(std::string_view& text, LogPrefix& out, LogLine& line) {
  std::string_view rest = text;
  if (!take(rest, "[")) return false;
  std::string_view stamp = rest;
  if (auto since_boot = take_since_boot(rest)) {
    out.since_boot = since_boot;
  } else if (auto wall = take_ctime(rest)) {
    out.wall = wall;
  } else if (auto iso = take_iso(rest)) {
    out.wall = iso;
    out.wall->error += kDriftOfDmesg;
  } else {
    take_relative(rest, out);
  }
  if (rest.starts_with(" <")) rest.remove_prefix(std::min(rest.find(']'), rest.size()));  // dmesg -d
  if (!rest.starts_with(']')) {
    // In another language; or damaged, which costs the time.
    constexpr std::size_t kLongest = 48, kShortest = 5;
    out.since_boot.reset();
    out.wall.reset();
    rest = stamp;
    std::size_t end = rest.substr(0, kLongest).find(']');
    if (end == npos || end < kShortest) return false;
    std::string_view inside = trim(rest.substr(0, end));
    bool damaged = inside.find('.') != npos && inside.find_first_of("0123456789") == 0 &&
                   inside.find_first_of("=(,") == npos;
    if (!has_clock(inside) && !damaged) return false;
    if (auto date = read_date(inside))
      out.wall = date->year ? date->stamp() : place(date->fields, date->fraction);
    if (out.wall) out.wall->error += kDriftOfDmesg;
    rest.remove_prefix(end);
  }
  take(rest, "]");
  if (rest.starts_with('[') || rest.starts_with(" [")) {
    std::string_view at = rest.substr(rest.find('['));
    line.caller = take_caller(at);
    if (!line.caller.empty()) rest = at;
  }
  if (!take(rest, " ")) take(rest, "\t");
  out.any = true;
  if (out.since_boot) take_host_of_boot(rest, out);
  text = rest;
  return true;
}

// What some put behind the stamp: the kernel's own, "[kernel]", "kernel:", or "[..]" where they left one out.
// Only where the first line has it: a process called "[1.5] x" is none.
void LogLineReader::take_marks(std::string_view& text, LogPrefix& out, LogLine& line) {
  constexpr int kMax = 3;
  constexpr std::array<std::string_view, 4> kMarks = {"[kernel] ", "kernel: ", "[..] ", "[...] "};
  bool any = false;
  for (int n = 0; n < kMax && has_marks_.value_or(true); ++n) {
    auto take_mark = [&](std::string_view mark) { return take(text, mark); };
    if (std::ranges::any_of(kMarks, take_mark)) {
      any = true;
      continue;
    }
    LogPrefix stamp;
    std::string_view rest = text;
    bool second = rest.starts_with('[') && out.wall && !out.since_boot && take_dmesg(rest, stamp, line);
    if (!second || !stamp.since_boot) break;
    out.since_boot = stamp.since_boot;
    text = rest;
    any = true;
  }
  if (!has_marks_) has_marks_ = any;
}

}  // namespace oomcast
