// One frame of a stack, for display.
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
  std::string function;  // untrusted bytes; empty: unknown
  std::string file;      // the mapped file, or the Python source; may be empty
  std::optional<std::uint32_t> line;
  auto operator<=>(const Frame&) const = default;
};

/// Keeps `most` bytes of each name, of a file the last ones: a hostile stack of 64 frames with names of 4 KiB
/// takes 512 KiB, and thousands of stacks are kept.
void shorten(Frame& frame, std::size_t most);

/// Outermost first.
using Stack = std::vector<Frame>;

inline std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace oomcast
