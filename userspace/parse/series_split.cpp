#include "parse/series_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "parse/series_cells.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostFields = 4096, kMostNamed = 256, kMostJson = 512;

std::optional<std::string> too_many() {
  return fmt::format("more than {} fields", kMostFields);
}

bool digit_at(std::string_view text, std::size_t at) {
  return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]));
}

bool is_clock_word(std::string_view word) {
  return digit_at(word, 0) && std::ranges::count(word, ':') == 2;
}

bool is_date_word(std::string_view word) {
  bool dashes = std::ranges::count(word, '-') == 2, slashes = std::ranges::count(word, '/') == 2;
  return digit_at(word, 0) && (dashes || slashes) && word.find_first_not_of("0123456789-/") == npos;
}

bool is_month_word(std::string_view word) {
  constexpr std::array<std::string_view, 12> kNames = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return std::ranges::find(kNames, word) != kNames.end();
}

// How many of the words from `at` on are one time.
std::size_t words_of_time(const Fields& words, std::size_t at) {
  std::size_t clock = at;
  if (at + 1 < words.size() && is_date_word(words[at]))
    clock = at + 1;
  else if (at + 2 < words.size() && is_month_word(words[at]) && digit_at(words[at + 1], 0))
    clock = at + 2;
  if (!is_clock_word(words[clock])) return 1;
  bool half = clock + 1 < words.size() && (words[clock + 1] == "AM" || words[clock + 1] == "PM");
  return clock - at + 1 + half;
}

std::optional<std::string> split_blanks(std::string_view line, Fields& fields) {
  Fields words;
  for (std::string_view word = next_field(line); !word.empty(); word = next_field(line)) {
    words.push_back(word);
    if (words.size() > kMostFields) return too_many();
  }
  for (std::size_t at = 0; at < words.size();) {
    std::size_t take = words_of_time(words, at);
    const char *from = words[at].data(), *to = words[at + take - 1].data() + words[at + take - 1].size();
    fields.emplace_back(from, static_cast<std::size_t>(to - from));
    at += take;
  }
  return std::nullopt;
}

std::optional<std::string> split_wide(std::string_view line, Fields& fields) {
  for (line = bare(line); !line.empty();) {
    std::size_t end = std::min(std::min(line.find("  "), line.find('\t')), line.size());
    fields.push_back(bare(line.substr(0, end)));
    if (fields.size() > kMostFields) return too_many();
    line = bare(line.substr(end));
  }
  return std::nullopt;
}

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '%';
}

// The name that ends at `end`: one word before "=", two before ":", and no level of a log among them.
std::string name_before(std::string_view text, bool one_word) {
  std::string name;
  for (int words = 0; words < (one_word ? 1 : 2); ++words) {
    std::size_t end = text.find_last_not_of(words == 0 ? " \t\"'" : " ");
    if (end == npos || !is_name_char(text[end])) break;
    std::size_t from = end;
    while (from > 0 && is_name_char(text[from - 1])) --from;
    std::string_view word = text.substr(from, end + 1 - from);
    constexpr std::array<std::string_view, 7> kLevels = {"INFO",  "DEBUG", "WARNING", "WARN",
                                                         "ERROR", "-",     "CRITICAL"};
    if (word.size() > 64 || digit_at(word, 0) || std::ranges::find(kLevels, word) != kLevels.end()) break;
    name = std::string(word) + (name.empty() ? "" : " " + name);
    text = text.substr(0, from);
  }
  return name;
}

// The number at the beginning of `text` and the unit behind it.
std::string_view value_at(std::string_view text) {
  std::size_t end = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  if (end == 0) return {};
  std::string_view rest = text.substr(end);
  std::size_t blanks = std::min(rest.find_first_not_of(' '), rest.size());
  std::size_t letters = blanks;
  while (letters < rest.size() && std::isalpha(static_cast<unsigned char>(rest[letters]))) ++letters;
  if (letters > blanks && memory_unit(rest.substr(blanks, letters - blanks))) end += letters;
  return text.substr(0, end);
}

void flatten(const nlohmann::json& json, const std::string& name, int depth,
             std::vector<std::pair<std::string, std::string>>& out) {
  constexpr int kDeepest = 6;
  if (out.size() >= kMostJson || depth > kDeepest) return;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      flatten(value, name.empty() ? key : name + "." + key, depth + 1, out);
  } else if (json.is_string()) {
    out.emplace_back(name, json.get<std::string>());
  } else if (json.is_number()) {
    out.emplace_back(name, json.dump());
  }
}

}  // namespace

std::optional<std::string> split_csv(std::string_view line, char separator, Fields& fields,
                                     std::string& unquoted) {
  fields.clear();
  if (line.find('"') == npos) {
    for (std::size_t from = 0; from <= line.size();) {
      std::size_t end = std::min(line.find(separator, from), line.size());
      fields.push_back(line.substr(from, end - from));
      if (fields.size() > kMostFields) return too_many();
      from = end + 1;
    }
    return std::nullopt;
  }
  unquoted.clear();
  unquoted.reserve(line.size());  // the fields point into it
  for (std::size_t at = 0; at <= line.size();) {
    std::size_t from = unquoted.size();
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) return "a quote is not closed";
        if (line[at] != '"') {
          unquoted += line[at];
        } else if (at + 1 < line.size() && line[at + 1] == '"') {
          unquoted += line[at++];
        } else {
          ++at;
          break;
        }
      }
      if (at < line.size() && line[at] != separator) return "text follows a quoted field";
    } else {
      for (; at < line.size() && line[at] != separator; ++at) unquoted += line[at];
    }
    fields.emplace_back(unquoted.data() + from, unquoted.size() - from);
    if (fields.size() > kMostFields) return too_many();
    ++at;
  }
  return std::nullopt;
}

std::string_view describe(Split split) {
  switch (split) {
    case Split::comma:
      return "commas";
    case Split::semicolon:
      return "semicolons";
    case Split::tab:
      return "tabs";
    case Split::blanks:
    case Split::wide:
      return "blanks";
  }
  return "";
}

std::optional<std::string> split_line(std::string_view line, Split split, Fields& fields,
                                      std::string& unquoted) {
  fields.clear();
  switch (split) {
    case Split::comma:
      return split_csv(line, ',', fields, unquoted);
    case Split::semicolon:
      return split_csv(line, ';', fields, unquoted);
    case Split::tab:
      return split_csv(line, '\t', fields, unquoted);
    case Split::blanks:
      return split_blanks(line, fields);
    case Split::wide:
      return split_wide(line, fields);
  }
  return std::nullopt;
}

std::vector<Split> possible_splits(std::string_view line) {
  std::vector<Split> out;
  if (line.find('\t') != npos) out.push_back(Split::tab);
  if (line.find(';') != npos) out.push_back(Split::semicolon);
  if (line.find(',') != npos) out.push_back(Split::comma);
  out.insert(out.end(), {Split::blanks, Split::wide});
  return out;
}

std::vector<std::string> header_names(std::string_view line, Split split) {
  std::string clean = without_escapes(line);
  std::string_view text = std::string_view(clean).substr(0, clean.find_last_not_of(" \t\r") + 1);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (split != Split::tab) text = trim(text);
  while (text.starts_with('#')) text.remove_prefix(1);
  if (split == Split::blanks || split == Split::wide) text = bare(text);
  Fields fields;
  std::string unquoted;
  if (split_line(text, split, fields, unquoted)) return {};
  std::vector<std::string> out;
  for (std::string_view field : fields) out.emplace_back(bare(field));
  return out;
}

std::vector<NamedValue> named_values(std::string_view line) {
  std::vector<NamedValue> out;
  std::size_t from = 0;  // behind the last value
  for (std::size_t at = 1; at + 1 < line.size() && out.size() < kMostNamed; ++at) {
    bool equals = line[at] == '=', colon = line[at] == ':';
    if ((!equals && !colon) || (colon && digit_at(line, at - 1) && digit_at(line, at + 1))) continue;
    std::string name = name_before(line.substr(from, at - from), equals);
    std::size_t begin = std::min(line.find_first_not_of(" \t\"'", at + 1), line.size());
    std::string_view value = value_at(line.substr(begin));
    // "Mem: 33000 4000 …" is a row of a table.
    std::size_t behind = begin + value.size();
    bool row =
        behind < line.size() && line[behind] == ' ' && digit_at(line, line.find_first_not_of(' ', behind));
    if (name.empty() || value.empty() || row) continue;
    out.push_back({std::move(name), value});
    from = begin + value.size();
    at = from - 1;
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> json_values(std::string_view line) {
  constexpr std::size_t kLongest = 1 << 20;
  std::vector<std::pair<std::string, std::string>> out;
  std::size_t from = line.find('{');
  if (from == npos || line.size() > kLongest) return out;
  auto json = nlohmann::json::parse(line.substr(from), nullptr, false);
  if (json.is_object()) flatten(json, "", 0, out);
  return out;
}

std::optional<UsageOfLimit> usage_of_limit(std::string_view line) {
  constexpr std::string_view kBetween = " \t,;|\"'{}[]:=";
  constexpr std::size_t kLongest = 24;
  for (std::size_t slash = line.find('/'); slash != npos; slash = line.find('/', slash + 1)) {
    std::size_t begin = slash - std::min(slash, kLongest + 2);
    std::string_view left = line.substr(begin, slash - begin), right = line.substr(slash + 1, kLongest + 2);
    std::size_t used_end = left.find_last_not_of(' ') + 1;
    std::size_t before = left.substr(0, used_end).find_last_of(kBetween);
    std::size_t used_from = before == npos ? 0 : before + 1;
    std::size_t limit_from = std::min(right.find_first_not_of(' '), right.size());
    std::size_t limit_end = std::min(right.find_first_of(kBetween, limit_from), right.size());
    if (used_end <= used_from) continue;
    auto used = parse_amount(left.substr(used_from, used_end - used_from), false);
    auto limit = parse_amount(right.substr(limit_from, limit_end - limit_from), false);
    if (!used || !limit || !used->unit || !limit->unit) continue;
    UsageOfLimit out;
    out.usage_and_limit = line.substr(begin + used_from, slash + 1 + limit_end - begin - used_from);
    // The last word before it that is no share.
    std::string_view words = line.substr(0, begin + used_from);
    while (!words.empty()) {
      std::size_t end = words.find_last_not_of(kBetween);
      if (end == npos) break;
      std::size_t gap = words.substr(0, end + 1).find_last_of(kBetween);
      std::size_t from = gap == npos ? 0 : gap + 1;
      std::string_view word = words.substr(from, end + 1 - from);
      if (!word.ends_with('%') && word != "raw" && word != "memory" && word != "MemUsage") {
        out.name = word;
        break;
      }
      words = words.substr(0, from);
    }
    return out;
  }
  return std::nullopt;
}

std::string without_escapes(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\033') {
      out += line[at];
      continue;
    }
    if (at + 1 >= line.size() || line[at + 1] != '[') continue;
    at += 2;
    while (at < line.size() && (line[at] < '@' || line[at] > '~')) ++at;
  }
  return out;
}

}  // namespace oomcast
