#include "parse/text.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace oomcast {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (err != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}
std::optional<std::uint32_t> parse_u32(std::string_view text) {
  return parse_whole<std::uint32_t>(text);
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  auto value = parse_u64(text);
  if (!value || *value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*value)};
}

std::optional<Bytes> parse_kib(std::string_view text) {
  auto value = parse_bytes(next_field(text));
  if (!value || next_field(text) != "kB" || !trim(text).empty()) return std::nullopt;
  if (value->count > std::numeric_limits<std::int64_t>::max() / 1024) return std::nullopt;
  return KiB(value->count);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool next_line(std::string_view& rest, std::string_view& line) {
  if (rest.empty()) return false;
  std::size_t end = rest.find('\n');
  line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return true;
}

char take_unescaped(std::string_view& text) {
  char c = text.front();
  text.remove_prefix(1);
  if (c != '\\' || text.empty()) return c;
  c = text.front();
  text.remove_prefix(1);
  return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

std::string_view next_field(std::string_view& rest) {
  std::size_t begin = rest.find_first_not_of(" \t");
  rest.remove_prefix(begin == std::string_view::npos ? rest.size() : begin);
  std::string_view field = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(field.size());
  return field;
}

std::string_view trim(std::string_view text) {
  std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

std::optional<std::string_view> find_value(std::string_view text, std::string_view key) {
  std::string_view line;
  while (next_line(text, line)) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.starts_with(':'))
      line.remove_prefix(1);
    else if (!line.starts_with(' ') && !line.starts_with('\t'))
      continue;
    return trim(line);
  }
  return std::nullopt;
}

}  // namespace oomcast
