// Structure offsets of each CPython version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/fault.h"

namespace oomcast {

struct PythonVersion {
  unsigned major = 0, minor = 0;
  std::optional<unsigned> micro;  // versions before 3.11 have no number in memory
  auto operator<=>(const PythonVersion&) const = default;
};

using wire::PythonObjects;

struct Python {
  PythonVersion version;
  bool assumed = false;  // newer than all known versions: its own offsets are read in their format
  std::string file;      // the executable or library with the interpreter
  wire::PythonLayout layout;
  PythonObjects objects;
};
/// "CPython 3.11.2"
std::string to_string(const Python& python);

/// For 3.8 to 3.12; `interpreters` is relative to _PyRuntime then, and no types are known. Source: offsetof()
/// in each version's headers.
std::optional<Python> layout_of(PythonVersion version);

/// From 3.13 on, _PyRuntime begins with a table of its own offsets.
constexpr std::size_t kDebugOffsetWords = 112;
constexpr std::uint64_t kDebugCookie = 0x7970677562656478;  // "xdebugpy"
/// See layout_of(). Source: struct _Py_DebugOffsets of each version. Error: not such a table, or
/// inconsistent.
Result<Python> layout_from(std::span<const std::uint64_t, kDebugOffsetWords> words);

}  // namespace oomcast
