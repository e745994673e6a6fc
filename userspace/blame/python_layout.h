// Where each version of CPython keeps what is read of it.
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
  std::optional<unsigned> micro;  // no number stands in the memory of those before 3.11
  auto operator<=>(const PythonVersion&) const = default;
};

using wire::PythonObjects;

struct Python {
  PythonVersion version;
  bool assumed = false;  // newer than any version that is known: what it says of itself is read as theirs
  std::string file;      // the executable or library that it is in
  wire::PythonLayout layout;
  PythonObjects objects;
};
/// "CPython 3.11.2"
std::string to_string(const Python& python);

/// From 3.8 to 3.12; `interpreters` counts from _PyRuntime then, and no types are known. Source: offsetof()
/// in the headers of each version.
std::optional<Python> layout_of(PythonVersion version);

/// From 3.13 on, _PyRuntime begins with a table of its own offsets.
constexpr std::size_t kDebugOffsetWords = 112;
constexpr std::uint64_t kDebugCookie = 0x7970677562656478;  // "xdebugpy"
/// As layout_of(). Source: struct _Py_DebugOffsets of each version. Error: it is none, or its parts do not
/// fit each other.
Result<Python> layout_from(std::span<const std::uint64_t, kDebugOffsetWords> words);

}  // namespace oomcast
