// What is needed to read a process's stacks: its mappings, unwind data, function names and Python version.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "blame/allocator.h"
#include "blame/frame.h"
#include "blame/python.h"
#include "blame/python_heap.h"
#include "blame/symbols.h"
#include "blame/unwinder.h"
#include "collect/process_memory.h"
#include "wire/fault.h"

namespace oomcast {

/// The stack of a fault, and its defects.
struct ReadStack {
  Stack frames;                 // outermost first
  bool complete = true;         // false: outer frames are missing
  bool python_complete = true;  // false: Python frames are missing, or a code object could not be read
  bool python_placed = true;    // false: Python frames could not be matched to native frames
  std::size_t unnamed = 0;      // native frames without a function's name
};

class ProcessView {
 public:
  /// Also for a process that may be gone already: every function is unknown then. About 5 ms. `blind`:
  /// neither files nor memory are touched, and nothing is known. `files` is shared by all processes; `guard`:
  /// see ProcessMemory.
  ProcessView(const Roots& roots, std::uint32_t pid, MappedFiles& files, bool blind = false,
              ProcessMemory::Guard guard = {});

  /// Reads the mappings again if the stack leads to an unmapped address, at most once a second.
  ReadStack read(const wire::UserStack& at, MonoTime now);
  /// See oomcast::find_allocator().
  Result<FoundAllocator> find_allocator() const;
  /// See read_heap(), after reading the mappings; empty: no heap.
  Heap heap(Bytes least) const;
  std::optional<bool> block_held(std::uint64_t address, Bytes size, bool resized) const;
  const PythonFinding& python() const { return python_; }
  /// nullptr: not a readable CPython.
  PythonHeap* python_heap();
  /// nullopt: unknown, as always if blind.
  std::optional<ProcessMemory::Page> page_at(std::uint64_t address) const;
  bool blind() const { return blind_; }
  /// See ProcessMemory::refused().
  std::uint64_t refused() const { return memory_->refused(); }
  /// See Symbols::cut().
  std::uint64_t symbols_cut() const { return symbols_ ? symbols_->cut() : 0; }

 private:
  void open();
  bool is_mapped(std::uint64_t address) const;

  bool blind_;
  MappedFiles& files_;
  std::unique_ptr<ProcessMemory> memory_;  // at a fixed address: the others refer to it
  std::vector<Mapping> maps_;
  std::unique_ptr<Unwinder> unwinder_;
  std::unique_ptr<Symbols> symbols_;
  PythonFinding python_;
  std::optional<PythonCode> code_;
  std::unique_ptr<PythonHeap> heap_;
  MonoTime next_open_{};
};

/// Replaces the interpreter's native frames by Python frames. Both are innermost first; the result is
/// outermost first. `fits` false: the numbers of frames disagree. Remaining Python frames then come
/// outermost, or, if no native frame is known as the interpreter's loop, just inside the frames of the file
/// `interpreter`.
Stack interleave(const std::vector<Frame>& native, const std::vector<std::optional<Frame>>& python,
                 const std::vector<wire::PythonFrame>& addresses, std::string_view interpreter, bool& fits);

}  // namespace oomcast
