#include "collect/log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "collect/kmsg.h"
#include "collect/log_stamps.h"
#include "collect/log_wrapping.h"
#include "collect/text.h"

namespace oomcast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostTurns = 50;
constexpr std::size_t kLongestRecord = 64 * 1024;
constexpr Nanos kSlowestReader = seconds(10);
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

// nullopt: it is none of journald's.
std::optional<LogPrefix> LogLineReader::read_json(std::string_view raw, LogLine& line) {
  LogPrefix out;
  out.any = true;
  auto record = nlohmann::json::parse(raw, nullptr, false);
  auto member = [&](const char* key) -> const nlohmann::json* {
    auto at = record.is_object() ? record.find(key) : record.end();
    return at == record.end() ? nullptr : &*at;
  };
  const auto* transport = record.is_object() ? member("_TRANSPORT") : nullptr;
  if (!transport) return std::nullopt;
  const auto* message = member("MESSAGE");
  out.kernel = message && *transport == "kernel";
  // What user space wrote to /dev/kmsg, journald keeps apart by its facility.
  if (const auto* facility = out.kernel ? member("SYSLOG_FACILITY") : nullptr) out.kernel = *facility == "0";
  if (message) message_ = text_of(*message);
  if (message) line.text = message_;
  if (!out.kernel) return out;
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
}

// "Nov 21 03:04:05 ", "2026-11-21T03:04:05+00:00 ", "Fri 2026-11-21 03:04:05 UTC ", "1754970843.123456 ",
// "Fri Nov 21 03:04:05 2026 ", and a tag
bool LogLineReader::take_syslog(std::string_view& text, LogPrefix& out) {
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
    t.tm_year = kFirstOfOurs + kYearsApart * turns_;
    out.wall = WallStamp{seconds(timegm(&t)) + fraction.value, fraction.unit, true};
    last_yearless_ = out.wall->since_epoch;
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
  } else if (begins_sentence(sentence)) {  // a paste without host and tag
    text = sentence;
  } else {
    take_tag(text, out);
  }
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
  }
  if (rest.starts_with(" <")) rest.remove_prefix(std::min(rest.find(']'), rest.size()));  // dmesg -d
  if (!rest.starts_with(']')) {
    // In another language, or damaged: it costs the time.
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
  constexpr int kMost = 3;
  constexpr std::array<std::string_view, 4> kMarks = {"[kernel] ", "kernel: ", "[..] ", "[...] "};
  bool any = false;
  for (int n = 0; n < kMost && has_marks_.value_or(true); ++n) {
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

LogPrefix LogLineReader::read_form(std::string_view raw, bool cut, LogLine& line) {
  line = {};
  line.cut = cut;
  LogPrefix out;
  if (raw.starts_with('{')) {
    if (auto journal = read_json(raw, line)) out = *std::move(journal);
    line.wall = out.wall;
    return out;
  }
  // A container's output, as the kubelet keeps it: from_collector().
  if (constexpr std::size_t kStamp = 40; raw.substr(0, kStamp).find(" std") != npos && from_collector(raw))
    return out;
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
  constexpr int kMost = 8;
  std::size_t space = std::min(raw.find(' '), raw.size());
  std::size_t at = raw.find_first_of(":-");
  for (int n = 0; n < kMost && at < space; ++n, at = raw.find_first_of(":-", at + 1)) {
    std::string_view behind = raw.substr(at + 1);
    if (behind.starts_with(' ')) break;
    if (LogPrefix out = read_form(behind, cut, line); out.any) return out;
  }
  return std::nullopt;
}

std::optional<LogPrefix> LogLineReader::read_collected(std::string_view raw, bool cut, LogLine& line) {
  auto collected = from_collector(raw);
  if (!collected) return std::nullopt;
  message_ = std::move(collected->text);
  while (message_.ends_with('\n')) message_.pop_back();
  std::string_view time = collected->time;
  LogPrefix out = read_form(message_, cut, line);
  if (!out.any) line.text = message_;
  out.any = out.wrapped = true;
  out.kernel = out.kernel && collected->kernel;
  if (!out.host && !collected->host.empty()) out.host = std::move(collected->host);
  if (!out.wall)
    if (auto wall = take_iso(time)) {
      out.wall = wall;
      out.wall->error += seconds(1);
    }
  return out;
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
  if (text.starts_with('{')) text = text.substr(0, text.find_last_not_of(" ,]") + 1);  // in an array
  if (text.size() != raw.size())
    if (LogPrefix out = read_form(text, cut, line); out.any) return out;
  if (auto out = read_collected(text, cut, line)) return *out;
  if (text.starts_with('{')) {  // a record that cannot be read
    line = {};
    LogPrefix out;
    out.any = true;
    out.kernel = false;
    return out;
  }
  if (auto out = read_literal(text, cut, line)) return *out;
  if (auto out = read_behind_grep(text, cut, line)) return *out;
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
  bool part_of_record = raw.starts_with(' ') || raw.starts_with('\t') || raw.starts_with('}');
  if (collects() && (!part_of_record || record_.size() + raw.size() > kLongestRecord)) record_.clear();
  if (collects() || begins_record(raw)) {
    record_.append(raw).push_back('\n');
    if (!raw.starts_with('}')) {
      LogPrefix part;
      part.any = true;
      part.kernel = false;
      return part;
    }
    plain_ = record_.substr(record_.find('{'), record_.rfind('}') + 1 - record_.find('{'));
    record_.clear();
    raw = plain_;
  } else if (raw.find('\x1b') != npos) {
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
