#include "blame/breakpoint_place.h"

#include <cstring>

namespace oomcast {
namespace {

constexpr std::size_t kMaxAhead = 32;
constexpr unsigned kRsp = 1U << 4;

struct ModRm {
  unsigned mode, reg, rm;  // including the REX bits
  std::size_t bytes;       // including operands
  bool in_memory() const { return mode != 3; }
};

struct Code {
  std::span<const std::uint8_t> bytes;
  // 0 beyond the end.
  std::uint8_t operator[](std::size_t i) const { return i < bytes.size() ? bytes[i] : std::uint8_t{0}; }
};

ModRm mod_rm(const Code& code, std::size_t at, unsigned rex) {
  constexpr unsigned kSib = 4, kNoBase = 5;
  unsigned byte = code[at], mode = byte >> 6, rm = byte & 7;
  std::size_t bytes = 1, displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
  if (mode != 3 && rm == kSib) {
    ++bytes;
    if (mode == 0 && (code[at + 1] & 7) == kNoBase) displacement = 4;
  } else if (mode == 0 && rm == kNoBase) {
    displacement = 4;
  }
  return {mode, (byte >> 3 & 7) | (rex & 4) << 1, rm | (rex & 1) << 3, bytes + displacement};
}

// Length of an instruction that may run before the breakpoint; 0: it may not, or is not a common first
// instruction.
std::size_t harmless(const Code& code, unsigned kept) {
  constexpr std::uint8_t kFs = 0x64;
  constexpr unsigned kEndbr64 = 0xfa1e0ff3;
  unsigned first = 0;
  for (std::size_t i = 0; i < sizeof(first); ++i) first |= unsigned{code[i]} << 8 * i;
  if (first == kEndbr64) return sizeof(first);
  std::size_t at = code[0] == kFs ? 1 : 0;
  unsigned rex = (code[at] & 0xf0) == 0x40 ? code[at++] : 0;
  unsigned op = code[at++];
  ModRm m = mod_rm(code, at, rex);
  auto writes = [&](unsigned reg, std::size_t immediate = 0) {
    return (kept | kRsp) >> reg & 1 ? 0 : at + m.bytes + immediate;
  };
  switch (op) {
    case 0x38:
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x84:
    case 0x85:  // cmp, test
      return at + m.bytes;
    case 0x8b:
    case 0x8d:
    case 0x03:
    case 0x0b:
    case 0x23:
    case 0x2b:
    case 0x33:  // mov, lea, add, or, and, sub, xor
      return writes(m.reg);
    case 0x89:
    case 0x01:
    case 0x09:
    case 0x21:
    case 0x29:
    case 0x31:  // the same, operands swapped
      return m.in_memory() ? 0 : writes(m.rm);
    case 0x80:
    case 0x81:
    case 0x83: {  // immediate operand: cmp, and the others if to a full register
      std::size_t immediate = op == 0x81 ? 4 : 1;
      if ((m.reg & 7) == 7) return at + m.bytes + immediate;
      return m.in_memory() || op == 0x80 ? 0 : writes(m.rm, immediate);
    }
    default:
      return 0;
  }
}

bool emulated(const Code& code) {
  unsigned op = code[0];
  if (op == 0x41) return (code[1] & 0xf8) == 0x50;              // push of r8 to r15
  if (op == 0x0f) return (code[1] & 0xf0) == 0x80;              // conditional jump, near
  return (op & 0xf8) == 0x50 || (op & 0xf0) == 0x70 ||          // push; conditional jump, short
         op == 0xe8 || op == 0xe9 || op == 0xeb || op == 0x90;  // call, jmp, nop
}

// Assumes an instruction at every byte: at worst something else is taken for a jump.
bool jumps_to(const Code& code, std::size_t place) {
  for (std::size_t at = 0; at < code.bytes.size(); ++at) {
    unsigned op = code[at];
    if (op == 0xeb || (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0)
      if (at + 2 + static_cast<std::size_t>(static_cast<std::int8_t>(code[at + 1])) == place) return true;
    bool far = op == 0x0f && (code[at + 1] & 0xf0) == 0x80;
    if (!far && op != 0xe8 && op != 0xe9) continue;
    std::size_t number = at + (far ? 2 : 1);
    std::int32_t by = 0;
    if (number + sizeof(by) > code.bytes.size()) continue;
    std::memcpy(&by, code.bytes.data() + number, sizeof(by));
    if (number + sizeof(by) + static_cast<std::size_t>(by) == place) return true;
  }
  return false;
}

}  // namespace

BreakpointPlace find_breakpoint_place(std::span<const std::uint8_t> code, std::size_t size,
                                      unsigned arguments) {
  for (std::size_t at = 0; at < code.size() && at <= kMaxAhead && (at == 0 || at < size);) {
    Code rest{code.subspan(at)};
    if (emulated(rest)) {
      if (at && jumps_to(Code{code}, at)) break;
      return {at, false};
    }
    std::size_t length = harmless(rest, arguments);
    if (!length) break;
    at += length;
  }
  return {};
}

}  // namespace oomcast
