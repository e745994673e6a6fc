// What the kernel's text files are made of: whole numbers, lines and fields. No locale, no exceptions.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace oomcast {

/// A whole decimal number and nothing else: no sign, no space. nullopt also when it does not fit.
std::optional<std::uint64_t> parse_u64(std::string_view text);
std::optional<std::uint32_t> parse_u32(std::string_view text);
/// As parse_u64, as bytes; nullopt past 2^63 − 1.
std::optional<Bytes> parse_bytes(std::string_view text);
/// "1708 kB" as in /proc: a number of KiB, as bytes. nullopt for another unit or past 2^63 − 1.
std::optional<Bytes> parse_kib(std::string_view text);

inline constexpr std::size_t npos = std::string_view::npos;

/// Takes `prefix` off `text`; false, and nothing taken: it begins with something else.
bool take(std::string_view& text, std::string_view prefix);
/// Takes a number off `text`, as far as its digits go; nullopt, and nothing taken: none is there, or it does
/// not fit.
template <typename T>
std::optional<T> take_number(std::string_view& text, int base = 10) {
  T value{};
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (err != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}
/// Takes the next line (without its newline) off `rest`; false at the end.
bool next_line(std::string_view& rest, std::string_view& line);
/// Takes the next run of bytes that are neither space nor tab off `rest`; empty at the end.
std::string_view next_field(std::string_view& rest);
std::string_view trim(std::string_view text);
/// Takes the first character of a quoted text off it, of an escape what it means: "\n" and "\t" a newline and
/// a tab, any other the character behind the backslash. `text` is not empty.
char take_unescaped(std::string_view& text);
/// The value of the line `key value` (or `key: value`) in `text`, trimmed.
std::optional<std::string_view> find_value(std::string_view text, std::string_view key);

}  // namespace oomcast
