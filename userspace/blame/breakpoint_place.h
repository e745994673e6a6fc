// Finds the cheapest place for a breakpoint near a function's entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace oomcast {

struct BreakpointPlace {
  std::size_t behind_entry = 0;
  /// The kernel single-steps the instruction out of line, with a trap after it: 9.7 µs a call on a virtual
  /// machine, against 0.6 µs if the kernel emulates the instruction.
  bool stepped = true;
};

/// Registers that carry arguments, by their x86-64 register numbers.
enum ArgumentRegister : unsigned { kRsi = 1U << 6, kRdi = 1U << 7, kRdx = 1U << 2 };

/// `code`: the bytes from the function's entry on, as far as known; untrusted. `size`: of the function, from
/// its symbol; what follows is another function, with other callers. The instructions before the place change
/// neither the stack pointer, nor `arguments` (ArgumentRegister), nor the control flow, nor memory, so that
/// the state there is that of the entry; and no jump in `code` targets the place. For what the kernel
/// emulates see arch_uprobe_analyze_insn() in arch/x86/kernel/uprobes.c.
BreakpointPlace find_breakpoint_place(std::span<const std::uint8_t> code, std::size_t size,
                                      unsigned arguments);

}  // namespace oomcast
