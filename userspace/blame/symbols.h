// Names of a process's native functions (ELF symbols, perf-PID.map, demangling).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "blame/frame.h"
#include "blame/function_table.h"
#include "collect/process_memory.h"

namespace oomcast {

/// The input is untrusted: read it in chunks of bounded size, in a process that may be lost.
class Symbols {
 public:
  /// Opens the process's files, at most 256, so that it still resolves after the process has exited. About 10
  /// µs a file. `files` is shared by all processes.
  Symbols(const ProcessMemory& memory, std::span<const Mapping> maps, MappedFiles& files);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  /// Valid until the next call. An unknown function has an empty name, an unknown file none.
  const Frame& resolve(std::uint64_t address);
  /// How often functions of a perf map were skipped.
  std::uint64_t cut() const;

 private:
  struct File {
    std::shared_ptr<const OpenFile> mapped, with_symbols;  // which may be a separate debug file
    bool searched = false;                                 // for the debug file
  };
  struct Jit;
  const Mapping* mapping_at(std::uint64_t address) const;
  void find_debug(File& file) const;
  void name_by_file(const Mapping& mapping, std::uint64_t address, Frame& frame);
  void name_by_jit(std::uint64_t address, Frame& frame);

  const ProcessMemory& memory_;
  std::span<const Mapping> maps_;
  MappedFiles& shared_;
  std::map<std::pair<std::string, std::uint64_t>, File> files_;  // by device and inode
  std::unique_ptr<Jit> jit_;
  std::unordered_map<std::uint64_t, Frame> known_;
  std::size_t known_bytes_ = 0;
};

/// The value of a symbol in an ELF file; never 0.
struct ElfSymbols {
  std::unordered_map<std::string, std::uint64_t> values;
};
/// Finds `names`, of any symbol type, in one pass over the first 2 million symbols. About 1 ms per 10,000.
ElfSymbols find_elf_symbols(const ElfFile& elf, std::span<const std::string_view> names);

}  // namespace oomcast
