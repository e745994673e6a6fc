// Reading the kernel's text files: bounded reads, whole-number parsing, lines and fields. No locale, no
// exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

/// Takes the next line (without its newline) off `rest`; false at the end.
bool next_line(std::string_view& rest, std::string_view& line);
/// Takes the next run of bytes that are neither space nor tab off `rest`; empty at the end.
std::string_view next_field(std::string_view& rest);
std::string_view trim(std::string_view text);
/// The value of the line `key value` (or `key: value`) in `text`, trimmed.
std::optional<std::string_view> find_value(std::string_view text, std::string_view key);

/// Bytes that a terminal must not see, as \xNN; everything printable in ASCII and every byte ≥ 0x80 stays.
std::string printable(std::string_view bytes);

/// A whole read of `path` (relative to `dirfd` unless absolute), at most `max` bytes: what is past them is
/// cut, which the caller sees as size() == max. Follows no symlink in the last component. nullopt sets errno.
std::optional<std::string> read_file_at(int dirfd, const char* path, std::size_t max);
/// The same into a caller's buffer, without allocation. The view is of `buffer`.
std::optional<std::string_view> read_file_at(int dirfd, const char* path, std::span<char> buffer);

}  // namespace oomcast
