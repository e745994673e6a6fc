// Names of native functions of one process (BCC's ELF symbols, perf-PID.map, demangling).
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
#include "collect/process_memory.h"

namespace oomcast {

/// Whatever it reads, the process has chosen, and libelf may crash on it or take all memory that it is
/// allowed: for a process that can be lost.
class Symbols {
 public:
  /// Opens the process's files, so that it still resolves after the process has ended. About 10 µs a file.
  Symbols(const ProcessMemory& memory, std::span<const Mapping> maps);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  /// Each address is looked up once. An unknown function has an empty name, an unknown file none.
  const Frame& resolve(std::uint64_t address);

 private:
  struct File;
  struct Jit;
  const Mapping* mapping_at(std::uint64_t address) const;
  void name_by_file(const Mapping& mapping, std::uint64_t address, Frame& frame);
  void name_by_jit(std::uint64_t address, Frame& frame);

  const ProcessMemory& memory_;
  std::span<const Mapping> maps_;
  std::map<std::pair<std::string, std::uint64_t>, std::unique_ptr<File>> files_;  // by device and inode
  std::unique_ptr<Jit> jit_;
  std::unordered_map<std::uint64_t, Frame> known_;
};

/// The value of a symbol in an ELF file; 0 is never one.
struct ElfSymbols {
  bool executable = false;  // of fixed address: values are addresses
  std::unordered_map<std::string, std::uint64_t> values;
};
/// Looks for `names`, of any kind, in one pass. About 1 ms per 10,000 symbols.
ElfSymbols find_elf_symbols(const std::string& path, std::span<const std::string_view> names);
/// Where a section of an ELF file is loaded, from the file's beginning or, in one of fixed address, its
/// address. nullopt: it has none, or is none.
std::optional<std::uint64_t> find_elf_section(const std::string& path, std::string_view name);

}  // namespace oomcast
