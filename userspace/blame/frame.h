// One line of a stack, as a person reads it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace oomcast {

struct Frame {
  enum class Kind : std::uint8_t { native, python };
  Kind kind = Kind::native;
  std::string function;  // bytes of the process's choice; empty: not known
  std::string file;      // the mapped file, or the Python source; may be empty
  std::optional<std::uint32_t> line;
  auto operator<=>(const Frame&) const = default;
};

/// Keeps `most` bytes of each name, of a file's the last: a stack of 64 frames with 4 KiB each, as a tenant
/// likes, has 512 KiB, and thousands of stacks are kept.
void shorten(Frame& frame, std::size_t most);

/// Outermost first.
using Stack = std::vector<Frame>;

inline std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace oomcast
