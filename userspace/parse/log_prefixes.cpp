// What stands before the kernel's words, in each form of a log.
#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "parse/kmsg_record.h"
#include "parse/log_dates.h"
#include "parse/log_lines.h"
#include "parse/log_stamps.h"
#include "parse/log_wrapping.h"
#include "parse/oom_line_parts.h"
#include "parse/text.h"

namespace oomcast {
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
