#include "parse/log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "parse/kmsg_record.h"
#include "parse/log_stamps.h"
#include "parse/log_wrapping.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kLongestRecord = 64 * 1024;

}  // namespace

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

std::optional<LogPrefix> LogLineReader::read_collected(std::string_view raw, bool cut, LogLine& line) {
  auto collected = from_collector(raw);
  if (!collected) return std::nullopt;
  message_ = std::move(collected->text);
  while (message_.ends_with('\n')) message_.pop_back();
  std::string_view time = collected->time;
  LogPrefix out = read_form(message_, cut, line);
  if (!out.any) line.text = message_;
  out.any = out.wrapped = true;
  out.shows_writer = false;
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
