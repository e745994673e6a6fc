// A place in a program's code.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace oomcast {

/// A line of a program, or a function of a mapped file; bytes of the process's choice.
struct CodePlace {
  std::string function, file;
  std::optional<std::uint32_t> line;  // of the source `file`
  auto operator<=>(const CodePlace&) const = default;
};

}  // namespace oomcast
