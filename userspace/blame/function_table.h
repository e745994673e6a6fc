// Mapped files and their functions by address, shared by all processes of a profile.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "blame/elf_file.h"
#include "collect/process_memory.h"

namespace oomcast {

/// The identity of an open file, as the kernel reports it.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

/// A mapped file, open as long as any process needs it: forty processes of one program open each library
/// once.
struct OpenFile {
  ProcessMemory::File file;
  FileIdentity identity;
  std::optional<ElfFile> elf;  // nullopt: not ELF
};

/// Functions of a file by address, 8 bytes each: other symbol data is read again when needed.
class FunctionTable {
 public:
  static constexpr std::size_t kMaxFunctions = 1'000'000;  // 8 MiB, while it is made 16
  /// nullopt: too many functions, or the table is too large. Reads 24 bytes twice for each symbol.
  static std::optional<FunctionTable> read(const ElfFile& elf);
  /// The function's name in the file; empty: no function is known there.
  std::string name_at(const ElfFile& elf, std::uint64_t address) const;
  std::size_t bytes() const { return functions_.size() * sizeof(functions_[0]); }

 private:
  std::size_t table_ = 0;                   // number of the symbol table in the file
  std::uint64_t base_ = 0;                  // added to each address
  std::vector<std::uint64_t> functions_{};  // address in the upper 32 bits, symbol number in the lower
};

class MappedFiles {
 public:
  /// nullptr: not a regular file, or gone.
  std::shared_ptr<const OpenFile> open(const ProcessMemory& memory, const Mapping& mapping);
  std::shared_ptr<const OpenFile> share(ProcessMemory::File file);
  /// See FunctionTable::name_at().
  std::string name_at(const OpenFile& file, std::uint64_t address);
  /// A small ELF file with only what unwinding needs: segments, .eh_frame and its table. nullptr: it has
  /// none, or there is no room for it (limits per file and for all files in use).
  std::shared_ptr<std::vector<char>> unwinding_of(const OpenFile& file);
  /// Symbol tables not read: too large, or over the total limit.
  std::uint64_t unread() const { return unread_; }

 private:
  // Limits for all cached tables, and for symbols read over the lifetime: a second of CPU, whatever files are
  // used in whatever order.
  static constexpr std::size_t kMaxBytes = 12 << 20, kMaxTables = 1024;
  static constexpr std::size_t kMaxUnwinding = 12 << 20, kMaxAllUnwinding = 16 << 20;
  static constexpr std::uint64_t kMaxRead = std::uint64_t{1} << 30;
  struct Held {
    FileIdentity of;
    std::optional<FunctionTable> table;  // nullopt: must not be read
  };
  void make_room(std::size_t bytes);

  std::map<FileIdentity, std::weak_ptr<const OpenFile>> files_;
  std::list<Held> tables_;  // most recently used first
  std::map<FileIdentity, std::weak_ptr<std::vector<char>>> unwinding_;
  std::size_t bytes_ = 0;
  std::uint64_t read_ = 0, unread_ = 0;
};

}  // namespace oomcast
