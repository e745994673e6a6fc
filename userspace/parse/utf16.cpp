#include "parse/utf16.h"

#include <algorithm>

namespace oomcast {
namespace {

constexpr unsigned kHighSurrogate = 0xd800, kLowSurrogate = 0xdc00, kBehindSurrogates = 0xe000;
constexpr unsigned kByteOrderMark = 0xfeff, kNoCharacter = 0xfffd, kLastCharacter = 0x10ffff;

}  // namespace

void append_utf8(std::string& out, unsigned code) {
  if (code > kLastCharacter || (code >= kHighSurrogate && code < kBehindSurrogates)) code = kNoCharacter;
  auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  auto put_rest = [&](unsigned shift) { put(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put_rest(0);
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put_rest(6);
    put_rest(0);
  } else {
    put(0xf0 | (code >> 18));
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

std::optional<Utf16Decoder> Utf16Decoder::of(std::string_view beginning) {
  if (beginning.starts_with("\xff\xfe")) return Utf16Decoder(false);
  if (beginning.starts_with("\xfe\xff")) return Utf16Decoder(true);
  constexpr std::size_t kEnough = 64, kFewest = 4;
  beginning = beginning.substr(0, kEnough);
  if (beginning.size() < kFewest) return std::nullopt;
  std::size_t even = 0, odd = 0;
  for (std::size_t i = 0; i < beginning.size(); ++i)
    if (beginning[i] == '\0') ++(i % 2 ? odd : even);
  std::size_t units = beginning.size() / 2;
  if (even == 0 && odd * 4 >= units * 3) return Utf16Decoder(false);
  if (odd == 0 && even * 4 >= units * 3) return Utf16Decoder(true);
  return std::nullopt;
}

void Utf16Decoder::decode(std::string_view bytes, std::string& out) {
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    if (!half_) {
      half_ = byte;
      continue;
    }
    unsigned unit = big_endian_ ? (*half_ << 8) | byte : (unsigned{byte} << 8) | *half_;
    half_.reset();
    if (unit == kByteOrderMark) continue;
    if (high_ && unit >= kLowSurrogate && unit < kBehindSurrogates) {
      append_utf8(out, 0x10000 + ((high_ - kHighSurrogate) << 10) + (unit - kLowSurrogate));
      high_ = 0;
      continue;
    }
    if (high_) append_utf8(out, kNoCharacter);
    high_ = unit >= kHighSurrogate && unit < kLowSurrogate ? unit : 0;
    if (!high_) append_utf8(out, unit);
  }
}

}  // namespace oomcast
