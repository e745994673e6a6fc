// Native stacks from a copied piece of stack and the registers, by the .eh_frame of what is mapped and by
// frame pointers where there is none (elfutils libdwfl).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "blame/function_table.h"
#include "collect/process_memory.h"

namespace oomcast {

class Unwinder {
 public:
  /// Opens each mapped ELF file, 256 at most; what cannot be opened, is none or has more to unwind by than
  /// there is room for is left out. About 0.1 ms a file. `files` is for all processes, and outlives this.
  Unwinder(const ProcessMemory& memory, std::span<const Mapping> maps, MappedFiles& files);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  struct Frames {
    std::vector<std::uint64_t> addresses;  // innermost first; inside the calling instruction for callers
    bool complete = false;  // false: the piece ended, or a caller was not found, before the outermost
  };
  /// `registers` in DWARF's order; `stack` begins at the stack pointer. At most 256 frames. About 2 µs a
  /// frame.
  Frames unwind(std::span<const std::uint64_t, 17> registers, std::span<const std::byte> stack);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oomcast
