// CPython in a process: where its threads keep what they execute, and which line of which file a code object
// stands for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "blame/frame.h"
#include "blame/python_layout.h"
#include "collect/process_memory.h"
#include "model/code_place.h"
#include "wire/fault.h"

namespace oomcast {

/// What was found in a process.
struct PythonFinding {
  std::optional<Python> python;
  std::string why_not;  // it is a CPython whose frames cannot be read: why; empty: it is none
  MappedFile file;      // of the interpreter
};
/// About 5 ms for a process that has one, 1 ms for one that has none.
PythonFinding find_python(const ProcessMemory& memory, std::span<const Mapping> maps);

/// The line of instruction number `instruction` (of two bytes each, up to 3.9 its offset in bytes).
/// nullopt: the compiler gave it none, or the table is not one.
std::optional<std::uint32_t> line_of(PythonObjects::Lines kind, std::span<const std::byte> table,
                                     std::uint32_t first_line, std::uint64_t instruction);

/// What the kernel programs read of a dying process. Frames whose name or file was unreadable are left out.
std::vector<CodePlace> places_of(const wire::DyingCode& code);

/// What a str says. nullopt: it is none, or longer than any name.
std::optional<std::string> python_text(const ProcessMemory& memory, const PythonObjects& objects,
                                       std::uint64_t address);

/// Names and lines of code objects, read once each. What was freed since the fault is told from what took its
/// place.
class PythonCode {
 public:
  PythonCode(const ProcessMemory& memory, const Python& python)
      : memory_(memory), layout_(python.layout), objects_(python.objects) {}
  /// nullopt: what stands there is not the code object of the fault (any more), or the process is gone and it
  /// was never read.
  std::optional<Frame> resolve(const wire::PythonFrame& frame);

 private:
  struct Code {
    std::string file, name;
    std::uint32_t first_line = 0;
    std::vector<std::byte> lines;
  };
  bool is_alive(std::uint64_t object, std::uint64_t& type, std::string_view name);
  std::optional<Code> read(const wire::PythonFrame& frame);
  std::optional<std::vector<std::byte>> bytes_at(std::uint64_t address) const;

  const ProcessMemory& memory_;
  wire::PythonLayout layout_;
  PythonObjects objects_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Code> known_;  // by address and identity
  std::size_t known_bytes_ = 0;
};

}  // namespace oomcast
