#include "forecast/alert_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace oomcast {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t';
}
bool in_number(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) || c == '.';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Without spaces; "4 0G" is unchanged, and no parser accepts it.
std::string squeeze(std::string_view text) {
  std::string out;
  text = trim(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_space(text[i])) {
      out += text[i];
      continue;
    }
    std::size_t next = i;
    while (is_space(text[next])) ++next;
    if (in_number(text[i - 1]) && in_number(text[next])) return std::string(text);
    i = next - 1;
  }
  return out;
}

std::optional<double> percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (err != std::errc{} || end != text.data() + text.size() || !(value > 0 && value <= 100))
    return std::nullopt;
  return value / 100;
}

std::optional<double> seconds_of(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  if (unit == "h") return 3600;
  if (unit == "d") return 86400;
  return std::nullopt;
}

std::optional<double> size_of(std::string_view text) {
  auto bytes = parse_size(text);
  if (!bytes || bytes->count == 0) return std::nullopt;
  return bytes->as_double();
}

std::optional<double> rate_of(std::string_view text) {
  std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  auto bytes = size_of(text.substr(0, slash));
  auto per = seconds_of(text.substr(slash + 1));
  if (!bytes || !per) return std::nullopt;
  return *bytes / *per;
}

}  // namespace

Result<AlertRule> parse_alert_rule(std::string_view text) {
  auto bad = [&](std::string why) {
    return Error::usage(
        fmt::format("'{}': {}; write level>40G, level>80% (of the limit), growth>500M/m or eta<20m, each "
                    "with 'for 2m' behind it if it must last that long",
                    text, why));
  };
  AlertRule rule;
  rule.text = std::string(trim(text));
  std::size_t sign = text.find_first_of("<>");
  std::string_view what = trim(text.substr(0, sign));
  if (what != "level" && what != "growth" && what != "eta")
    return bad(fmt::format("'{}' is none of level, growth, eta", what));
  char wanted = what == "eta" ? '<' : '>';
  if (sign == std::string_view::npos || text[sign] != wanted)
    return bad(fmt::format("'{}' is followed by '{}'", what, wanted));

  std::string_view rest = text.substr(sign + 1);
  std::size_t hold = rest.find("for");
  std::string value = squeeze(rest.substr(0, hold));
  std::optional<double> threshold;
  if (what == "growth") {
    rule.quantity = Quantity::growth;
    threshold = rate_of(value);
    if (!threshold) return bad(fmt::format("'{}' is no growth", value));
  } else if (what == "eta") {
    rule.quantity = Quantity::eta;
    if (auto time = parse_duration(value)) threshold = Seconds(*time).count();
    if (!threshold) return bad(fmt::format("'{}' is no duration", value));
  } else {
    rule.quantity = value.ends_with('%') ? Quantity::share : Quantity::level;
    threshold = rule.quantity == Quantity::share ? percentage(value) : size_of(value);
    if (!threshold) return bad(fmt::format("'{}' is neither a size nor a percentage up to 100", value));
    bool bare = value.find_first_not_of("0123456789.") == std::string::npos;
    if (bare && *threshold < 1 << 20)
      return bad(
          fmt::format("'{}' is {} bytes, hardly what is meant ({}% or {}M)", value, value, value, value));
  }
  rule.threshold = *threshold;
  if (hold != std::string_view::npos) {
    std::string duration = squeeze(rest.substr(hold + 3));
    auto time = parse_duration(duration);
    if (!time) return bad(fmt::format("'{}' after 'for' is no duration", duration));
    rule.hold = *time;
  }
  return rule;
}

}  // namespace oomcast
