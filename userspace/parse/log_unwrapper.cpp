#include "parse/log_unwrapper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "parse/html_text.h"
#include "parse/log_wrapping.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestLiteral = 64 * 1024;

std::string_view left_trimmed(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r"), text.size()));
}

// `"key": value`, of an object whose beginning was not pasted.
bool begins_member(std::string_view text) {
  constexpr std::size_t kLongestKey = 64;
  if (!text.starts_with('"')) return false;
  std::size_t end = text.find('"', 1);
  if (end == npos || end == 1 || end > kLongestKey) return false;
  std::string_view key = text.substr(1, end - 1), rest = left_trimmed(text.substr(end + 1));
  if (key.find(' ') != npos || !oomcast::take(rest, ":")) return false;
  rest = left_trimmed(rest);
  return !rest.empty() && std::string_view("\"{[0123456789-tfn").find(rest[0]) != npos;
}

// "{", `{"`, "[", "[{", "[["; not the stamp of dmesg.
bool begins_json(std::string_view text) {
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return false;
  bool array = text[0] == '[';
  std::string_view rest = left_trimmed(text.substr(1));
  if (rest.empty()) return true;
  return std::string_view(array ? "{[\"" : "\"'}").find(rest[0]) != npos;
}

// A line that is a string, or ends with one: what is in it, as it is written.
struct Literal {
  std::string_view inside;
  bool alone = false;  // nothing else is in the line, but what joins it to another
};
std::optional<Literal> literal_of(std::string_view line) {
  std::string_view text = trim(line);
  std::size_t end = text.find_last_not_of("+\\. ");
  if (end == npos) return std::nullopt;
  char quote = text[end];
  if (quote != '"' && quote != '\'') return std::nullopt;
  text = text.substr(0, end);
  std::size_t begin = text.find(quote);
  if (begin == npos) return std::nullopt;
  std::string_view before = text.substr(0, begin);
  Literal out;
  out.inside = text.substr(begin + 1);
  for (std::size_t at = out.inside.find(quote); at != npos; at = out.inside.find(quote, at + 1))
    if (at == 0 || out.inside[at - 1] != '\\') return std::nullopt;  // several strings
  out.alone = before.find_first_not_of("+ rbfuL") == npos;
  bool code = before.find_first_of("=(+:") != npos;
  if (!out.alone && !code) return std::nullopt;
  return out;
}

}  // namespace

OnText LogUnwrapper::on_text() const {
  return [to = to_](std::string_view text, bool cut, const Beside& beside) { to->text(text, cut, beside); };
}

// ---- JSON

bool LogUnwrapper::begin_json(std::string_view line) {
  bool member = begins_member(line);
  if (!member && !begins_json(line)) return false;
  records_ = {};
  json_.emplace();
  if (member) json_->begin_object(records_);
  return true;
}

void LogUnwrapper::give_json() {
  for (const auto& one : records_.take()) to_->text(one.text, one.cut, one.beside);
}

void LogUnwrapper::end_json() {
  json_->finish(records_);
  json_.reset();
  give_json();
  records_ = {};
}

// Takes what belongs to the value that has begun off the line. False: nothing does, and the line is no JSON.
bool LogUnwrapper::take_json(std::string_view& line, bool cut) {
  const std::size_t before = records_.strings();
  std::string_view rest = line, newline = "\n";
  bool cut_string = false;
  auto state = json_->feed(rest, records_);
  if (state == JsonScanner::State::goes_on && !cut) {
    // No string of JSON has a newline: it was cut.
    if (json_->in_string()) {
      state = JsonScanner::State::broken;
      cut_string = before > 0;
    }
    if (state == JsonScanner::State::goes_on) state = json_->feed(newline, records_);
  }
  if (state == JsonScanner::State::goes_on) {
    give_json();
    line = {};
    return true;
  }
  bool anything = state == JsonScanner::State::done || cut_string || records_.strings() > before;
  if (!anything) json_->drop_string();
  end_json();
  if (anything) line = rest;
  return anything;
}

bool LogUnwrapper::inside_line(std::string_view line, LogSink& to) {
  constexpr std::size_t kFarthest = 200;
  std::size_t at = npos;
  for (std::string_view begin : {"[[", "[{", "{\"", "{'"}) at = std::min(at, line.find(begin));
  if (at == npos || at == 0 || at > kFarthest || may_hold_path(line.substr(0, at))) return false;
  RecordsOfJson records;
  std::string_view rest = line.substr(at);
  if (JsonScanner().feed(rest, records) != JsonScanner::State::done) return false;
  auto given = records.take();
  for (auto& one : given) {
    one.beside.prefix.shows_writer = false;
    to.text(one.text, one.cut, one.beside);
  }
  return !given.empty();
}

// ---- other records

// `time="2025-11-21T05:24:41Z" level=warning msg="…"`
bool LogUnwrapper::take_pairs(std::string_view line) {
  std::size_t equals = line.find('=');
  constexpr std::size_t kLongestKey = 32;
  if (equals == 0 || equals > kLongestKey || line.substr(0, equals).find(' ') != npos) return false;
  LogRecord record;
  bool has_text = false;
  std::string_view rest = line;
  while (!(rest = left_trimmed(rest)).empty()) {
    std::size_t end = rest.find('=');
    if (end == npos || end == 0 || rest.substr(0, end).find_first_of(" \",:()") != npos) break;
    std::string_view key = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    std::string value;
    if (oomcast::take(rest, "\"")) {
      while (!rest.empty() && rest[0] != '"') value += take_unescaped(rest);
      oomcast::take(rest, "\"");
    } else {
      value = rest.substr(0, rest.find(' '));
      rest.remove_prefix(value.size());
    }
    bool text = value.find(' ') != npos || holds_sentence(value);
    has_text = has_text || (LogRecord::is_text_key(key) && text);
    record.add({}, key, value);
  }
  if (!has_text) return false;
  record.give_texts([&](std::string_view text, bool cut, const Beside& beside) {
    Beside as_pairs = beside;
    as_pairs.prefix.shows_writer = false;
    to_->text(text, cut, as_pairs);
  });
  return true;
}

// "2025-08-12T03:54:03.123456789Z stdout F text": a container's output, as the kubelet keeps it.
bool LogUnwrapper::take_container(std::string_view line) {
  std::string_view rest = line;
  std::string_view time = next_field(rest), stream = next_field(rest), part = next_field(rest);
  if ((stream != "stdout" && stream != "stderr") || (part != "F" && part != "P") || !rest.starts_with(' '))
    return false;
  LogRecord record;
  record.add({}, "time", time);
  record.add({}, "log", rest.substr(1));
  record.give_texts(on_text());
  return true;
}

// "2025-11-21 05:24:41.000000000 +0000 kern.err: {"message":"…"}" of fluentd, with tabs between in its files,
// and `2025-11-21T05:24:41Z {host="a1", transport="kernel"} text` of logcli. In a line of syslog a host
// stands behind the stamp.
bool LogUnwrapper::take_tagged(std::string_view line) {
  constexpr std::size_t kFarthest = 120;
  constexpr std::string_view kOfStamp = "0123456789-:.,/+TZ";
  std::size_t at = line.find('{');
  if (at == npos || at == 0 || at > kFarthest || at + 1 >= line.size()) return false;
  bool json = line[at + 1] == '"';
  std::string_view stamp = trim(line.substr(0, at));
  if (json) {
    std::size_t tag = stamp.find_last_of(" \t");
    if (tag == npos) return false;
    stamp = trim(stamp.substr(0, tag));
  }
  for (std::string_view rest = stamp, word = next_field(rest); !word.empty(); word = next_field(rest))
    if (word != "UTC" && word.find_first_not_of(kOfStamp) != npos) return false;
  auto date = read_date(stamp);
  if (!date || !date->year) return false;
  LogRecord record;
  record.add({}, "time", stamp);
  std::string_view behind = line.substr(at);
  if (!json) {
    std::size_t end = behind.find("} ");
    if (end == npos) return false;
    std::string_view labels = behind.substr(1, end - 1);
    behind.remove_prefix(end + 2);
    for (std::size_t equals = labels.find("=\""); equals != npos; equals = labels.find("=\"")) {
      std::string_view key = trim(labels.substr(0, equals));
      labels.remove_prefix(equals + 2);
      std::size_t quote = std::min(labels.find('"'), labels.size());
      record.add({}, key, labels.substr(0, quote));
      labels.remove_prefix(std::min(labels.find_first_not_of("\", ", quote), labels.size()));
    }
  }
  record.add({}, "log", behind);
  if (!record.has_text()) return false;
  record.give_texts([&](std::string_view text, bool cut, const Beside& beside) {
    Beside as_tagged = beside;
    as_tagged.prefix.shows_writer = false;
    to_->text(text, cut, as_tagged);
  });
  return true;
}

// "    MESSAGE=text": journalctl -o export and -o verbose, a line for each member.
bool LogUnwrapper::take_field(std::string_view line) {
  std::string_view text = left_trimmed(line);
  std::size_t equals = text.find('=');
  constexpr std::size_t kLongestKey = 64;
  constexpr std::string_view kOfKey = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  bool is = equals != npos && equals > 1 && equals <= kLongestKey &&
            text.substr(0, equals).find_first_not_of(kOfKey) == npos;
  if (is) {
    fields_.add({}, text.substr(0, equals), text.substr(equals + 1));
    return true;
  }
  end_fields();
  // "Fri 2025-11-21 05:24:41.000000 UTC [s=…;i=1]"
  std::size_t cursor = line.find(" [s=");
  if (cursor == npos || !line.ends_with(']')) return false;
  fields_.add({}, "time", line.substr(0, cursor));
  return fields_.has_time();
}

void LogUnwrapper::end_fields() {
  if (fields_.has_text() || fields_.has_time()) {
    std::exchange(fields_, LogRecord())
        .give_texts([&](std::string_view text, bool cut, const Beside& beside) {
          Beside as_fields = beside;
          as_fields.prefix.shows_writer = false;
          to_->text(text, cut, as_fields);
        });
  }
}

// Lines that are joined by a written "\n", without quotation marks around them.
bool LogUnwrapper::take_escaped(std::string_view line) {
  constexpr std::string_view kNewline = "\\n";
  std::size_t end = line.find(kNewline);
  if (end == npos || line.substr(0, end).find_first_of("\"'`") != npos || may_hold_path(line.substr(0, end)))
    return false;
  for (std::string_view rest = line; !rest.empty();) {
    end = std::min(rest.find(kNewline), rest.size());
    to_->plain(rest.substr(0, end), false);
    rest.remove_prefix(std::min(end + kNewline.size(), rest.size()));
  }
  return true;
}

// ---- source code: "…" "…" is one string

void LogUnwrapper::end_literal() {
  std::string joined = std::exchange(literal_, {}), first = std::exchange(first_literal_, {});
  unsigned count = std::exchange(literals_, 0);
  if (count == 1) to_->plain(first, false);
  if (count > 1) to_->plain('"' + joined + '"', false);
}

bool LogUnwrapper::take_literal(std::string_view line) {
  auto literal = literal_of(line);
  bool joins = literal && literals_ > 0 && literal->alone;
  bool ends = literal && literal->inside.ends_with("\\n");
  if (joins && literal_.size() + literal->inside.size() < kLongestLiteral) {
    literal_ += literal->inside;
    ++literals_;
    if (ends) end_literal();
    return true;
  }
  if (literals_ > 0) end_literal();
  if (!literal || ends) return false;
  literal_ = literal->inside;
  first_literal_ = line;
  literals_ = 1;
  return true;
}

// ---- lines

// Whether the line was JSON's, or a part of it.
bool LogUnwrapper::json_line(std::string_view raw, bool cut, bool relevant) {
  for (std::string_view line = raw;;) {
    if (!json_) {
      std::string_view text = left_trimmed(line);
      if (line.size() < raw.size()) text.remove_prefix(std::min(text.find_first_not_of(" ,]"), text.size()));
      // One that is whole and of no report.
      if (!relevant && !cut && text.starts_with('{') && trim(text).ends_with('}')) return true;
      if (text.empty() && line.size() < raw.size()) return true;
      if (!begin_json(text)) {
        if (line.size() == raw.size()) return false;
        to_->plain(text, cut);
        return true;
      }
      line = text;
    }
    if (!take_json(line, cut)) {
      if (line.size() == raw.size()) return false;
      to_->plain(line, cut);
      return true;
    }
    if (line.empty()) return true;
  }
}

void LogUnwrapper::record_line(std::string_view raw, bool cut, bool relevant) {
  if (literals_ && !literal_of(raw)) end_literal();
  if (yaml_.open() && yaml_.take(raw, on_text())) return;
  if (json_line(raw, cut, relevant)) return;
  bool may_be_row = table_.open() || table_.looks_for_head() || (relevant && LogTable::may_be_row(raw));
  if (may_be_row && table_.take(raw, on_text())) return;
  if (LogYaml::may_begin(raw) && yaml_.take(raw, on_text())) return;
  if (take_field(raw)) return;
  if (relevant && (take_container(raw) || take_tagged(raw) || take_pairs(raw))) return;
  if ((literals_ || relevant) && take_literal(raw)) return;
  if (relevant && take_escaped(raw)) return;
  to_->plain(raw, cut);
}

void LogUnwrapper::whole_line(std::string_view raw, bool cut, bool relevant) {
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  constexpr unsigned kBeginning = 2;
  if (!trim(raw).empty() && lines_ < kBeginning) ++lines_;
  bool may_be_html = raw.find('&') != npos || (lines_ < kBeginning && raw.find('<') != npos);
  html_ = html_ || (may_be_html && is_html(raw, lines_ < kBeginning));
  if (!html_) return record_line(raw, cut, relevant);
  std::string page = html_text(raw);
  std::string_view rest = page, line;
  while (next_line(rest, line)) record_line(line, cut && rest.empty(), relevant);
}

void LogUnwrapper::line(std::string_view raw, bool cut, bool relevant, LogSink& to) {
  to_ = &to;
  bool is_rest = std::exchange(goes_on_, cut);
  if (!is_rest || json_) return whole_line(raw, cut, relevant);
  if (relevant) to_->unread(raw);
}

void LogUnwrapper::finish(LogSink& to) {
  to_ = &to;
  table_.finish(on_text());
  if (json_) end_json();
  if (literals_) end_literal();
  end_fields();
  yaml_.finish(on_text());
}

}  // namespace oomcast
