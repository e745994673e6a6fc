// Which allocator a process uses, and where it is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "collect/allocation_budget.h"
#include "collect/process_memory.h"
#include "wire/fault.h"

namespace oomcast {

struct FoundAllocator {
  ProcessMemory::File file;
  // Places in the file, at the function's entry or little behind it; 0: it has no such function.
  std::array<std::uint64_t, wire::kAllocates> allocates{};
  std::uint64_t free = 0;
  OtherFunctions others{};    // operator delete, and new that does not throw, where they are its own
  std::uint32_t stepped = 0;  // bits of functions: as BreakpointPlace says
  bool has_own_new = false;   // that may throw, and is not watched: C++ allocates by it
  bool glibc = false;         // its blocks have headers that block_held() reads
};

/// Whether a block of glibc's is still one of this size, by its header and the next one's, which free() marks
/// but for blocks of up to about 1 KiB (kTellsFrom). nullopt: not in memory, but in swap. Four system calls.
/// `resized`: realloc() may have made it longer where it is.
std::optional<bool> block_held(const ProcessMemory& memory, std::uint64_t address, Bytes size,
                               bool resized = false);
constexpr Bytes kTellsFrom = KiB(2);

/// The heap of glibc's that ends at the program break, as far as its headers could be followed.
struct Heap {
  std::uint64_t begin = 0, end = 0;
  std::map<std::uint64_t, std::uint64_t> living;  // its large blocks that are in use: begin, end
  /// It is in the heap, and in none of these.
  bool may_be_free(std::uint64_t address) const;
};
/// Blocks from `least` on. It changes while it is read: three tries. Cost: 15 µs for each 128 KiB of small
/// blocks or for a large one, 1 GiB of them at most.
Heap read_heap(const ProcessMemory& memory, std::uint64_t begin, std::uint64_t end, Bytes least);

/// Whether a file system of this kind (statfs() f_type) reads from a disk or from memory. Others ask a
/// program or a server, which may never answer, or are not known. An overlay hides what is below it.
bool reads_by_itself(std::uint64_t file_system);

/// The one whose malloc() the program's calls lead to: its own if it has one, else that of a library that is
/// called an allocator (jemalloc, tcmalloc, mimalloc), else that of libc. What it reads the process has
/// chosen: for a process that can be lost. 1 ms, more where a large program has its symbols in it. The pages
/// of its functions are in the page cache then: who sets a breakpoint reads them. The places are those where
/// one costs least (find_breakpoint_place()). Error: it has none that is
/// found, or in a file that may not answer.
Result<FoundAllocator> find_allocator(const ProcessMemory& memory, std::span<const Mapping> maps);

}  // namespace oomcast
