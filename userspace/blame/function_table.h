// Files that processes have mapped, and which function stands where in them: for all processes of a look.
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

/// Which file an open descriptor is, by the kernel's word.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

/// A mapped file, open as long as one process needs it: forty processes of one program have each library open
/// once.
struct OpenFile {
  ProcessMemory::File file;
  FileIdentity identity;
  std::optional<ElfFile> elf;  // nullopt: it is none
};

/// Functions of a file by address, 8 bytes each: what else a symbol says is read again when one is asked for.
class FunctionTable {
 public:
  static constexpr std::size_t kMaxFunctions = 1'000'000;  // 8 MiB, while it is made 16
  /// nullopt: it has more of them, or a larger table, than are read. 24 bytes are read twice for each symbol.
  static std::optional<FunctionTable> read(const ElfFile& elf);
  /// Its name as the file has it; empty: none is known to stand there.
  std::string name_at(const ElfFile& elf, std::uint64_t address) const;
  std::size_t bytes() const { return functions_.size() * sizeof(functions_[0]); }

 private:
  std::size_t table_ = 0;                   // of the file's
  std::uint64_t base_ = 0;                  // addresses count from here
  std::vector<std::uint64_t> functions_{};  // address, and below it the symbol's number: 32 bits each
};

class MappedFiles {
 public:
  /// nullptr: it is no regular file, or gone.
  std::shared_ptr<const OpenFile> open(const ProcessMemory& memory, const Mapping& mapping);
  std::shared_ptr<const OpenFile> share(ProcessMemory::File file);
  /// As FunctionTable::name_at().
  std::string name_at(const OpenFile& file, std::uint64_t address);
  /// A small ELF file of nothing but what unwinds: what is loaded where, .eh_frame and its table. nullptr: it
  /// has none, or more than there is room for, of one file or of all that are in use.
  std::shared_ptr<std::vector<char>> unwinding_of(const OpenFile& file);
  /// Of tables that were not read: larger than what is read of one file, or no more was to be read.
  std::uint64_t unread() const { return unread_; }

 private:
  // Of all tables that are held, and of symbols that are read for them while this lives: a second of a CPU,
  // whatever files there are and in whatever turn they are asked for.
  static constexpr std::size_t kMaxBytes = 12 << 20, kMaxTables = 1024;
  static constexpr std::size_t kMaxUnwinding = 12 << 20, kMaxAllUnwinding = 16 << 20;
  static constexpr std::uint64_t kMaxRead = std::uint64_t{1} << 30;
  struct Held {
    FileIdentity of;
    std::optional<FunctionTable> table;  // nullopt: it is not to be read
  };
  void make_room(std::size_t bytes);

  std::map<FileIdentity, std::weak_ptr<const OpenFile>> files_;
  std::list<Held> tables_;  // used last comes first
  std::map<FileIdentity, std::weak_ptr<std::vector<char>>> unwinding_;
  std::size_t bytes_ = 0;
  std::uint64_t read_ = 0, unread_ = 0;
};

}  // namespace oomcast
