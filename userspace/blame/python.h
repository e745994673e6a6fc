// CPython in a process: where its threads keep their frames, and the source line of a code object.
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

/// The CPython found in a process.
struct PythonFinding {
  std::optional<Python> python;
  std::string why_not;  // why a CPython's frames cannot be read; empty: not a CPython
  MappedFile file;      // of the interpreter
};
/// About 5 ms for a CPython, 1 ms for any other process.
PythonFinding find_python(const ProcessMemory& memory, std::span<const Mapping> maps);

/// The line of instruction number `instruction` (two bytes each; up to 3.9 a byte offset). nullopt: the
/// compiler assigned no line, or the table is invalid.
std::optional<std::uint32_t> line_of(PythonObjects::Lines kind, std::span<const std::byte> table,
                                     std::uint32_t first_line, std::uint64_t instruction);

/// Frames that the kernel programs read from a dying process, without those with an unreadable name or file.
std::vector<CodePlace> places_of(const wire::DyingCode& code);

/// The content of a str. nullopt: not a str, or longer than any name.
std::optional<std::string> python_text(const ProcessMemory& memory, const PythonObjects& objects,
                                       std::uint64_t address);

/// Names and lines of code objects, each read once. Detects code objects that were freed and replaced since
/// the fault.
class PythonCode {
 public:
  PythonCode(const ProcessMemory& memory, const Python& python)
      : memory_(memory), layout_(python.layout), objects_(python.objects) {}
  /// nullopt: the code object of the fault is not there (any more), or the process exited before it was read.
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
