// Page faults and allocations as sampled by the kernel programs, and the layouts that these need to read Python
// frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/records.h"

namespace oomcast::wire {

/// One frame of CPython, by address in its process.
struct PythonFrame {
  std::uint64_t code = 0;         // the code object
  std::uint64_t instruction = 0;  // address, or its number up to 3.10
  std::uint64_t identity = 0;     // of what the code object was then, as python_identity()
  bool outermost = false;         // of the native frame of the interpreter that runs it
};
enum class PythonState { none, read, no_thread, cut };

/// A thread's user-mode state, as needed to unwind it.
struct UserStack {
  std::array<std::uint64_t, 17> registers{};  // x86-64 in DWARF's order: 7 is the stack pointer
  std::vector<std::byte> stack;               // from the stack pointer on, as much as was readable
  PythonState python_state = PythonState::none;
  std::vector<PythonFrame> python;  // innermost first
};

/// A page fault that stands for `weight` and for `faults` of them: what its process touched since its last
/// one.
struct Fault : UserStack {
  MonoTime time;
  Task task;
  std::optional<Memory> memory;  // just after the fault
  std::uint64_t address = 0;
  Bytes weight;
  std::uint64_t faults = 0;
};

/// The allocator's functions, as far as they are watched.
enum class Allocates { malloc, calloc, realloc, posix_memalign, aligned_alloc, memalign };
constexpr std::size_t kAllocates = 6;
/// Processes whose allocators are watched at a time, each by its number.
constexpr std::size_t kWatched = 4;
/// What the kernel programs count of each of them, and of free(), which comes behind them; of each process.
struct AllocatorCalls {
  std::uint64_t calls = 0, bytes = 0;
};
constexpr std::size_t kAllocatorFunctions = kAllocates + 1;

/// A block that was allocated, or has grown in realloc(), and stands for `weight` of them. Its stack is the
/// caller's.
struct Allocation : UserStack {
  MonoTime time, born;  // born: when the block was seen first, which realloc() keeps
  Task task;
  std::uint64_t address = 0;
  std::uint64_t replaces = 0;  // the address that it had before realloc(); 0: none that was told of
  Bytes size;
  Bytes base;    // of these it had when it was seen first, in realloc()
  Bytes weight;  // less than 0: of what realloc() made smaller
  Allocates function = Allocates::malloc;
};
struct Freed {
  MonoTime time;
  std::uint32_t tgid = 0;
  std::uint64_t address = 0;
};
/// A reported block that is not freed yet, from the kernel programs' map, even if its records were lost.
struct LivingBlock {
  std::uint64_t address = 0;
  MonoTime born;
};
/// A container that became longer, by the thread whose stack it is.
struct Addition : UserStack {
  MonoTime time;
  Task task;
  std::uint64_t length_at = 0;  // where its length stands
  std::uint64_t length = 0;     // now
};
using FaultRecord = std::variant<Fault, Allocation, Freed, Addition>;

/// An mmap_lock that was held when it was read. `owner` identifies the thread that took it last, which has run on a
/// CPU for `ran` so far: two equal readings mean that the thread slept.
struct HeldLock {
  std::uint32_t tgid = 0;
  std::uint64_t owner = 0;
  Nanos ran{};
  bool operator==(const HeldLock&) const = default;
};

/// Where a thread asked the NVIDIA driver for memory: that of its last GpuCall.
struct GpuStack : UserStack {
  MonoTime time;
  Task task;
};
/// Without decoding the rest.
bool is_gpu_stack(std::span<const std::byte> bytes);
/// Error: not such a record. Cost: one copy.
Result<GpuStack> decode_gpu_stack(std::span<const std::byte> bytes, const Units& units);

/// Without decoding the rest: a Fault, and no other record.
bool is_fault(std::span<const std::byte> bytes);
/// Error: not such a record. Cost: one copy.
Result<FaultRecord> decode_fault(std::span<const std::byte> bytes, const Units& units);
/// Of a map's keys and values, those of one process.
std::vector<LivingBlock> decode_living(std::span<const std::byte> keys, std::span<const std::byte> values,
                                       std::uint32_t tgid);
/// Of what the iterator wrote, whole ones.
std::vector<HeldLock> decode_held_locks(std::span<const std::byte> bytes);
std::size_t max_fault_bytes();
std::span<const std::string_view> fault_lost_reasons();

/// Where one CPython keeps what its threads execute: offsets in bytes, nullopt where it has no such field.
struct PythonLayout {
  enum class Entry { each, flag, owner };
  std::uint64_t interpreters = 0;  // address of the pointer to the first interpreter
  std::uint32_t interpreter_next = 0, interpreter_threads = 0;
  std::uint32_t thread_next = 0, thread_id = 0, thread_frame = 0;
  std::optional<std::uint32_t> cframe_frame;
  std::uint32_t frame_code = 0, frame_previous = 0, frame_instruction = 0;
  std::uint32_t frame_entry = 0;
  Entry entry = Entry::each;
  std::uint32_t entry_owner = 0;
  std::uint32_t code_file = 0, code_name = 0, code_lines = 0;
};
/// Where a version of CPython keeps what is read of code objects and strings; bytes from the object's start.
struct PythonObjects {
  enum class Lines { numbered, ranges, locations };  // co_lnotab up to 3.9, co_linetable of 3.10, since 3.11
  std::uint32_t object_type = 8;
  bool counted = true;  // an object begins with its count of references; not without the global lock
  std::uint32_t code_first_line = 0;
  std::uint32_t code_instructions = 0;  // since 3.11 they are in the code object itself
  std::uint32_t bytes_size = 16, bytes_data = 32;
  std::uint32_t text_length = 16, text_state = 32, text_kind_bit = 2, text_ascii = 48, text_compact = 72;
  std::uint32_t type_name = 24;
  std::uint32_t frame_locals = 0;  // what they are called: a tuple at code_local_names of their code, that
  std::uint32_t code_local_names = 0;  // of a closure's variables behind it up to 3.10, behind them since
  Lines lines = Lines::locations;
  std::uint64_t code_type = 0, text_type = 0, bytes_type = 0;  // addresses of the types; 0: not known
};
/// Distinguishes a code object from another at the same address: addresses of its file, name and lines.
std::uint64_t python_identity(std::uint64_t file, std::uint64_t name, std::uint64_t lines);
/// As the kernel programs take it; `objects` for those that read names and lines.
std::vector<std::byte> encode(const PythonLayout& layout, const PythonObjects& objects = {});

/// How the kernel programs know a process that is in scope.
std::uint64_t scope_key(const TaskId& process);

/// A length that is watched: what it is in, and the writes to it since.
struct WatchedLength {
  enum class State { arming, open, done };
  State state = State::arming;
  std::uint32_t writes = 0;
};
constexpr std::uint32_t kLengthWrites = 16;  // that are looked at, while it is open
/// As the kernel programs know it, and what they say of it. nullopt: not such a one.
std::vector<std::byte> length_key(std::uint32_t tgid, std::uint64_t length_at);
std::vector<std::byte> encode(const WatchedLength& length);
std::optional<WatchedLength> decode_length(std::span<const std::byte> bytes);

/// What a process holds of its own when the window begins, as the kernel programs take it.
std::vector<std::byte> encode_baseline(Bytes resident, const Units& units);

}  // namespace oomcast::wire
