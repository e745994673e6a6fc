// Helpers that split lines of the OOM report, for oom_lines.cpp and oom_kill_lines.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "parse/oom_lines.h"
#include "parse/text.h"

namespace oomcast {

inline constexpr std::size_t kMaxComm = 15;  // TASK_COMM_LEN less its NUL
inline constexpr std::string_view kInvoked = " invoked oom-killer";
inline constexpr std::string_view kElided = ": ...";  // behind it: a person left out what followed

inline bool take_end(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

template <typename T>
std::optional<T> whole_number(std::string_view text) {
  auto value = take_number<T>(text);
  return text.empty() ? value : std::nullopt;
}

// A uid is printed with %d in one place and %u in the other.
inline std::optional<std::uint32_t> whole_uid(std::string_view text) {
  auto value = whole_number<std::int64_t>(text);
  if (!value || *value < INT32_MIN || *value > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

inline std::optional<Bytes> from_kb(std::optional<std::uint64_t> number) {
  if (!number || *number > static_cast<std::uint64_t>(INT64_MAX) / 1024) return std::nullopt;
  return KiB(static_cast<std::int64_t>(*number));
}

// "12kB"; 4.6 prints "12lkB" in one place.
inline std::optional<Bytes> whole_kb(std::string_view text) {
  if (!take_end(text, "kB")) return std::nullopt;
  take_end(text, "l");
  return from_kb(whole_number<std::uint64_t>(text));
}

inline std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

inline std::string_view without_trailing_number(std::string_view text) {
  return text.substr(0, text.find_last_not_of("0123456789-") + 1);
}

inline ParsedLine begun() {
  return {std::nullopt, false};
}

}  // namespace oomcast
