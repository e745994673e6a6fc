// Page faults as the kernel programs sample them, and what they must be told to read Python frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
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

/// A page fault that stands for `weight` and for `faults` of them: what its process touched since its last
/// one.
struct Fault {
  MonoTime time;
  Task task;
  std::optional<Memory> memory;  // just after the fault
  std::uint64_t address = 0;
  Bytes weight;
  std::uint64_t faults = 0;
  std::array<std::uint64_t, 17> registers{};  // of user mode; x86-64 in DWARF's order: 7 is the stack pointer
  std::vector<std::byte> stack;               // from the stack pointer on, as much as was readable
  PythonState python_state = PythonState::none;
  std::vector<PythonFrame> python;  // innermost first
};

/// Error: not such a record. Cost: one copy.
Result<Fault> decode_fault(std::span<const std::byte> bytes, const Units& units);
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
/// Tells a code object from another that took its place: addresses of its file, name and lines.
std::uint64_t python_identity(std::uint64_t file, std::uint64_t name, std::uint64_t lines);
/// As the kernel programs take it.
std::vector<std::byte> encode(const PythonLayout& layout);

/// What a process holds of its own when the window begins, as the kernel programs take it.
std::vector<std::byte> encode_baseline(Bytes resident, const Units& units);

}  // namespace oomcast::wire
