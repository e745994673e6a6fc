// One process as far as its stacks are concerned: what is mapped, how to unwind it, what its functions are
// called, which Python it runs.
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

/// A fault's stack, with what is wrong with it.
struct ReadStack {
  Stack frames;                 // outermost first
  bool complete = true;         // false: outer frames are missing
  bool python_complete = true;  // false: Python frames are missing, or a code object could not be read
  bool python_placed = true;    // false: which native frame runs which Python frame is not known
  std::size_t unnamed = 0;      // native frames without a function's name
};

class ProcessView {
 public:
  /// Of a process that may be gone already: then every function is unknown. About 5 ms. `blind`: neither its
  /// files nor its memory are touched, and nothing is known of it. `files` is for all processes, `guard` as
  /// ProcessMemory has it.
  ProcessView(const Roots& roots, std::uint32_t pid, MappedFiles& files, bool blind = false,
              ProcessMemory::Guard guard = {});

  /// Reads its mappings again when the stack leads where nothing was mapped, at most once a second.
  ReadStack read(const wire::UserStack& at, MonoTime now);
  /// As oomcast::find_allocator() has it.
  Result<FoundAllocator> find_allocator() const;
  /// As read_heap() has it, behind a look at the mappings; empty: it has none.
  Heap heap(Bytes least) const;
  std::optional<bool> block_held(std::uint64_t address, Bytes size, bool resized) const;
  const PythonFinding& python() const { return python_; }
  /// nullptr: it is no CPython that can be read.
  PythonHeap* python_heap();
  /// nullopt: not known, as of each of a blind one.
  std::optional<ProcessMemory::Page> page_at(std::uint64_t address) const;
  bool blind() const { return blind_; }
  /// As ProcessMemory::refused().
  std::uint64_t refused() const { return memory_->refused(); }
  /// As Symbols::cut().
  std::uint64_t symbols_cut() const { return symbols_ ? symbols_->cut() : 0; }

 private:
  void open();
  bool is_mapped(std::uint64_t address) const;

  bool blind_;
  MappedFiles& files_;
  std::unique_ptr<ProcessMemory> memory_;  // of fixed address: the others refer to it
  std::vector<Mapping> maps_;
  std::unique_ptr<Unwinder> unwinder_;
  std::unique_ptr<Symbols> symbols_;
  PythonFinding python_;
  std::optional<PythonCode> code_;
  std::unique_ptr<PythonHeap> heap_;
  MonoTime next_open_{};
};

/// Puts Python frames in the place of the interpreter's native ones. Both innermost first; the answer
/// outermost first. false in `fits`: their numbers do not agree. What is left of Python then stands
/// outermost, or, where no native frame is known as the interpreter's loop, just inside of those of the file
/// `interpreter`.
Stack interleave(const std::vector<Frame>& native, const std::vector<std::optional<Frame>>& python,
                 const std::vector<wire::PythonFrame>& addresses, std::string_view interpreter, bool& fits);

}  // namespace oomcast
