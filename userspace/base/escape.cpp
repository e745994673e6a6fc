#include "base/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/escape_json.h"

namespace oomcast {
namespace {

// Length of the well-formed sequence at the front (RFC 3629: no overlong forms, surrogates or values past
// U+10FFFF), 0 if there is none.
std::size_t decode(std::string_view s, std::uint32_t& code) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned char lead = byte(0);
  if (lead < 0x80) return code = lead, 1;
  std::size_t size = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (lead >= 0xf5 || size == 0 || s.size() < size) return 0;
  code = lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return size;
}

constexpr std::uint32_t kDelete = 0x7f;

bool is_invisible_format(std::uint32_t c) {
  return (c >= 0x80 && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

template <typename Valid>
std::string rewrite(std::string_view bytes, Valid valid) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    std::uint32_t code = 0;
    std::size_t size = decode(bytes, code);
    if (size == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0])), size = 1;
    else
      valid(out, bytes.substr(0, size), code);
    bytes.remove_prefix(size);
  }
  return out;
}

}  // namespace

namespace {

std::string without_controls(std::string_view bytes, std::string_view backslash) {
  return rewrite(bytes, [&](std::string& out, std::string_view text, std::uint32_t code) {
    if (code == '\n')
      out += "\\n";
    else if (code == '\t')
      out += "\\t";
    else if (code == '\\')
      out += backslash;
    else if (code < 0x20 || code == kDelete)
      out += fmt::format("\\x{:02x}", code);
    else if (is_invisible_format(code))
      out += fmt::format("\\u{{{:x}}}", code);
    else
      out += text;
  });
}

}  // namespace

std::string escape_for_terminal(std::string_view bytes) {
  return without_controls(bytes, "\\\\");
}

std::string make_harmless(std::string_view text) {
  return without_controls(text, "\\");
}

std::string shell_word(std::string_view bytes) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@=%";
  if (!bytes.empty() && bytes.find_first_not_of(kPlain) == std::string_view::npos) return std::string(bytes);
  bool harmless = make_harmless(bytes) == bytes;
  std::string out = harmless ? "'" : "$'";
  for (char c : bytes) {
    auto code = static_cast<unsigned char>(c);
    if (c == '\'')
      out += harmless ? "'\\''" : "\\'";
    else if (!harmless && c == '\\')
      out += "\\\\";
    else if (!harmless && (code < 0x20 || code >= kDelete))
      out += fmt::format("\\x{:02x}", code);
    else
      out += c;
  }
  return out + "'";
}

std::string to_valid_utf8(std::string_view bytes) {
  return rewrite(bytes, [](std::string& out, std::string_view text, std::uint32_t) { out += text; });
}

std::string escape_json_for_terminal(std::string json) {
  // Hardly any document has one: what is plain ASCII is passed on as it is.
  if (std::ranges::none_of(json, [](char c) { return static_cast<unsigned char>(c) >= kDelete; }))
    return json;
  return rewrite(json, [](std::string& out, std::string_view text, std::uint32_t code) {
    if (code == kDelete || is_invisible_format(code))
      out += fmt::format("\\u{:04x}", code);
    else
      out += text;
  });
}

}  // namespace oomcast
