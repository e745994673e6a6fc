#include "parse/log_yaml.h"

#include <algorithm>
#include <utility>

#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestKey = 64, kLongestScalar = 64 * 1024, kDeepest = 32;

struct Pair {
  std::size_t indent = 0;  // of the key
  bool item = false;       // "- " is before it
  std::string_view key, value;
};

// "  - key: value"
std::optional<Pair> pair_of(std::string_view line) {
  Pair out;
  std::string_view rest = line;
  while (true) {
    std::size_t spaces = std::min(rest.find_first_not_of(' '), rest.size());
    out.indent += spaces;
    rest.remove_prefix(spaces);
    if (!oomcast::take(rest, "- ")) break;
    out.item = true;
    out.indent += 2;
  }
  std::size_t end = rest.substr(0, kLongestKey + 1).find(':');
  if (end == npos || end == 0) return std::nullopt;
  out.key = rest.substr(0, end);
  out.value = rest.substr(end + 1);
  if (!out.value.empty() && !out.value.starts_with(' ')) return std::nullopt;
  if (out.key.size() > 2 && out.key.front() == '"' && out.key.back() == '"')
    out.key = out.key.substr(1, out.key.size() - 2);
  auto is_of_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_@.-/").find(c) != npos;
  };
  if (!std::ranges::all_of(out.key, is_of_key)) return std::nullopt;
  out.value = trim(out.value);
  return out;
}

// Whether it can be nothing but YAML, whatever is before it.
bool begins_yaml(const Pair& pair) {
  bool quoted = pair.value.starts_with('\'') || pair.value.starts_with('"');
  return pair.item || pair.key == "apiVersion" ||
         (quoted && (LogRecord::is_text_key(pair.key) || LogRecord::is_time_key(pair.key)));
}

std::string from_double_quoted(std::string_view text) {
  std::string out;
  while (!text.empty()) out += take_unescaped(text);
  return out;
}

// Whether the text ends with the quotation mark that ends it; takes it off.
bool take_quote(std::string_view& text, char quote) {
  if (!text.ends_with(quote)) return false;
  std::size_t marks = 0;
  std::string_view before = text.substr(0, text.size() - 1);
  char escape = quote == '"' ? '\\' : '\'';
  while (marks < before.size() && before[before.size() - 1 - marks] == escape) ++marks;
  if (marks % 2 == 1) return false;
  text.remove_suffix(1);
  return true;
}

}  // namespace

bool LogYaml::may_begin(std::string_view line) {
  std::size_t at = line.find_first_not_of(' ');
  if (at == npos) return false;
  line.remove_prefix(at);
  if (line.starts_with("- ")) return true;
  std::size_t end = line.find_first_of(": ");
  return end != npos && line[end] == ':' && (end + 1 == line.size() || line[end + 1] == ' ');
}

void LogYaml::begin_value(std::string_view key, std::string_view value, std::size_t indent) {
  scalar_ = {};
  scalar_.key = key;
  scalar_.indent = indent;
  scalar_.any = true;
  if (value.starts_with('|')) {
    scalar_.block = true;
  } else if (value.starts_with('>')) {
    // what follows is one text
  } else if (value.starts_with('\'') || value.starts_with('"')) {
    scalar_.quote = value[0];
    value.remove_prefix(1);
    bool ends = take_quote(value, scalar_.quote);
    scalar_.text = value;
    if (ends) end_scalar();
  } else {
    scalar_.text = value;
  }
}

void LogYaml::end_scalar() {
  Scalar done = std::exchange(scalar_, {});
  if (!done.any || items_.empty() || done.text.empty()) return;
  std::string text = done.quote == '"' ? from_double_quoted(done.text) : std::move(done.text);
  if (done.quote == '\'')
    for (std::size_t at = 0; (at = text.find("''", at)) != std::string::npos; ++at) text.erase(at, 1);
  Item& item = items_.back();
  std::string parent = done.indent > item.key_indent ? item.key : std::string();
  item.record.add(parent, done.key, text);
}

// The rest of the scalar that has begun.
bool LogYaml::take_scalar(std::string_view line, const OnText& on_text) {
  if (!scalar_.any) return false;
  std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::string_view text = trim(line);
  bool below = indent > scalar_.indent || text.empty();
  if (scalar_.block) {
    if (!below) return end_scalar(), false;
    if (!text.empty()) {
      Beside beside = items_.back().record.beside();
      beside.prefix.shows_writer = false;
      on_text(text, false, beside);
    }
    return true;
  }
  if (!scalar_.quote && (!below || text.empty())) return end_scalar(), false;
  if (scalar_.quote && !below) return end_scalar(), false;  // its end is missing
  if (scalar_.text.size() + text.size() > kLongestScalar) return end_scalar(), false;
  bool ends = scalar_.quote && take_quote(text, scalar_.quote);
  bool joined = scalar_.quote == '"' && scalar_.text.ends_with('\\');
  if (joined) {
    scalar_.text.pop_back();
    oomcast::take(text, "\\");
  } else if (!scalar_.text.empty()) {
    scalar_.text += text.empty() ? '\n' : ' ';
  }
  scalar_.text += text;
  if (ends) end_scalar();
  return true;
}

void LogYaml::end_items(std::size_t indent, const OnText& on_text) {
  while (!items_.empty() && items_.back().indent >= indent) {
    items_.back().record.give_texts([&](std::string_view text, bool cut, const Beside& beside) {
      Beside as_item = beside;
      as_item.prefix.shows_writer = false;
      on_text(text, cut, as_item);
    });
    items_.pop_back();
  }
}

void LogYaml::finish(const OnText& on_text) {
  end_scalar();
  end_items(0, on_text);
  parent_.reset();
}

// The item of a member at `indent`, unless that is of the one that is open. `above`: the indent of a key
// without a value, in the line before.
void LogYaml::begin_item(bool dash, std::size_t indent, std::optional<std::size_t> above,
                         const OnText& on_text) {
  if (!dash && !items_.empty() && indent >= items_.back().indent) return;
  end_items(dash ? indent : indent + 1, on_text);
  if (items_.size() >= kDeepest) finish(on_text);
  if (!dash && !items_.empty()) return;
  LogRecord above_it = items_.empty() ? LogRecord() : items_.back().record.inner();
  if (!dash && above) indent = std::min(*above, indent);
  items_.push_back({indent, std::move(above_it), {}, indent});
}

bool LogYaml::take(std::string_view line, const OnText& on_text) {
  if (open() && take_scalar(line, on_text)) return true;
  std::string_view text = trim(line);
  if (text == "---" || text == "...") {
    finish(on_text);
    document_ = text == "---";
    return true;
  }
  if (open() && (text.empty() || text.starts_with('#') || text == "-" || text == "[]")) return true;
  auto pair = pair_of(line);
  auto above = std::exchange(parent_, std::nullopt);
  bool begins_document = std::exchange(document_, false);
  if (pair && pair->value.empty()) parent_ = pair->indent;
  if (!open()) {
    bool nested = pair && above && pair->indent > *above;
    if (!pair || !(begins_document || nested || begins_yaml(*pair))) return false;
  } else if (!pair) {
    if (oomcast::take(text, "- ")) return end_scalar(), true;  // an item without members
    finish(on_text);
    return false;
  }
  end_scalar();
  begin_item(pair->item, pair->indent, above, on_text);
  Item& item = items_.back();
  // Two of one name: the dash before the second was not pasted.
  if (pair->indent <= item.key_indent && item.record.has_text() && item.record.has_member(pair->key)) {
    std::size_t indent = item.indent;
    end_items(indent, on_text);
    items_.push_back({indent, {}, {}, indent});
  }
  Item& of = items_.back();
  if (pair->value.empty()) {
    of.key = pair->key;
    of.key_indent = pair->indent;
  } else {
    begin_value(pair->key, pair->value, pair->indent);
  }
  return true;
}

}  // namespace oomcast
