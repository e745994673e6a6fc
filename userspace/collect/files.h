// Reads the kernel's files: bounded, and never blocks on a fifo.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace oomcast {

/// A whole read of `path` (relative to `dirfd` unless absolute), at most `max` bytes: what is past them is
/// cut, which the caller sees as size() == max. Follows no symlink in the last component. nullopt sets errno.
std::optional<std::string> read_file_at(int dirfd, const char* path, std::size_t max);
/// The same of what is open, from where it stands.
std::optional<std::string> read_file(int fd, std::size_t max);
/// The same into a caller's buffer, without allocation. The view is of `buffer`.
std::optional<std::string_view> read_file_at(int dirfd, const char* path, std::span<char> buffer);

}  // namespace oomcast
