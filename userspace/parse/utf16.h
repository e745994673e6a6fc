// Text of Windows' tools (PowerShell's ">"), as UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

class Utf16Decoder {
 public:
  /// By a byte order mark, or, without one, because every other byte of an ASCII text is 0. nullopt: it is
  /// not UTF-16. `beginning`: of the file, at least 4 bytes.
  static std::optional<Utf16Decoder> of(std::string_view beginning);

  /// Appends the text of `bytes`, which may end anywhere. What is no character is U+FFFD.
  void decode(std::string_view bytes, std::string& out);

 private:
  explicit Utf16Decoder(bool big_endian) : big_endian_(big_endian) {}

  bool big_endian_;
  std::optional<unsigned> half_;  // the first byte of a unit
  unsigned high_ = 0;             // surrogate
};

/// Appends a character; U+FFFD for what is none.
void append_utf8(std::string& out, unsigned code);

}  // namespace oomcast
