// Native stacks from registers and a copied part of the stack, with the .eh_frame of the mapped files, or
// with frame pointers where there is none (elfutils libdwfl).
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
  /// Opens each mapped ELF file, at most 256, and skips files that cannot be opened, are not ELF, or have
  /// more unwind data than there is room for. About 0.1 ms a file. `files` is shared by all processes, and
  /// must outlive this.
  Unwinder(const ProcessMemory& memory, std::span<const Mapping> maps, MappedFiles& files);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  struct Frames {
    std::vector<std::uint64_t> addresses;  // innermost first; inside the calling instruction for callers
    bool complete = false;  // false: the copy ended, or a caller was not found, before the outermost frame
  };
  /// `registers` in DWARF order; `stack` starts at the stack pointer. At most 256 frames, about 2 µs each.
  Frames unwind(std::span<const std::uint64_t, 17> registers, std::span<const std::byte> stack);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oomcast
