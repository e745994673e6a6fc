// Finds the allocator that a process uses, and its functions.
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
  // Offsets in the file, at the function's entry or slightly after it; 0: no such function.
  std::array<std::uint64_t, wire::kAllocates> allocates{};
  std::uint64_t free = 0;
  OtherFunctions others{};    // operator delete and nothrow new, if they are its own
  std::uint32_t stepped = 0;  // bits of functions: see BreakpointPlace
  bool has_own_new = false;   // throwing, and not traced: C++ allocates through it
  bool glibc = false;         // its blocks have headers that block_held() reads
};

/// Whether a block of glibc's still exists with this size, judged by its header and the next one, in which
/// free() leaves a mark except for blocks of up to about 1 KiB (kTellsFrom). nullopt: swapped out. Four
/// system calls. `resized`: realloc() may have extended it in place.
std::optional<bool> block_held(const ProcessMemory& memory, std::uint64_t address, Bytes size,
                               bool resized = false);
constexpr Bytes kTellsFrom = KiB(2);

/// The glibc heap that ends at the program break, as far as its headers could be followed.
struct Heap {
  std::uint64_t begin = 0, end = 0;
  std::map<std::uint64_t, std::uint64_t> living;  // large blocks in use: begin, end
  /// The address is in the heap, but in none of these blocks.
  bool may_be_free(std::uint64_t address) const;
};
/// Lists blocks of at least `least`. The heap changes during the walk: up to three tries. Cost: 15 µs per
/// large block or per 128 KiB of small blocks, at most 1 GiB of those.
Heap read_heap(const ProcessMemory& memory, std::uint64_t begin, std::uint64_t end, Bytes least);

/// Whether a file system of this type (statfs() f_type) reads from a disk or from memory. Others ask a
/// program or a server, which may never answer, or are unknown. An overlay hides what is below it.
bool reads_by_itself(std::uint64_t file_system);

/// The allocator whose malloc() the program's calls resolve to: its own if it has one, else that of a library
/// known as an allocator (jemalloc, tcmalloc, mimalloc), else libc's. The input is untrusted: call it in a
/// process that may be lost. 1 ms, more for a large program with its own symbols. Leaves the pages of these
/// functions in the page cache, so setting a breakpoint there needs no disk. The places are those where a
/// breakpoint costs least (find_breakpoint_place()). Error: no allocator found, or only in a file that may
/// not answer.
Result<FoundAllocator> find_allocator(const ProcessMemory& memory, std::span<const Mapping> maps);

}  // namespace oomcast
