// An ELF file for x86-64, read in pieces: its loaded parts, its sections, its symbols. Never mapped: who
// truncates a file while it is mapped here would end us with a SIGBUS.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oomcast {

/// Whatever it says, its owner has chosen, and a sparse file of 12 KiB says that it has 450 MiB of symbols.
/// So nothing here takes memory by what a file says: 64 KiB at a time, 64 loaded parts, 65,536 section
/// headers looked at, of which a few are kept. The descriptor stays the caller's, and must stay open.
class ElfFile {
 public:
  /// nullopt: it is none of 64 bits and little-endian.
  static std::optional<ElfFile> open(int fd);

  bool fixed_address() const { return fixed_; }
  bool needs_libraries() const { return needs_libraries_; }
  std::span<const Elf64_Phdr> parts() const { return parts_; }  // PT_LOAD
  /// An ELF file of nothing but what unwinds: loaded parts, .eh_frame_hdr and .eh_frame. Empty: it has none,
  /// or would be longer than `most`.
  std::vector<char> unwinding(std::size_t most, bool& too_large) const;
  /// From the file's bytes to addresses of its code. nullopt: no code is loaded from there.
  std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  /// From its addresses to its bytes, of whatever is loaded.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  /// "9abc0123…"; empty: it has none.
  std::string build_id() const;
  /// Where a section is loaded: an address of the file's own. nullopt: it has no such section.
  std::optional<std::uint64_t> section_address(std::string_view name) const;
  std::optional<Elf64_Shdr> section(std::string_view name) const;

  struct Symbols {
    bool dynamic = false;
    std::uint64_t offset = 0, count = 0;  // of its entries
    std::uint64_t names_offset = 0, names_bytes = 0;
  };
  /// Those of .symtab first.
  std::span<const Symbols> symbols() const { return symbols_; }
  /// Bytes of tables that for_each() reads. 5.6 million symbols, .1 s.
  static constexpr std::uint64_t kMaxTable = 128 << 20;
  /// Until `each` returns false. false: the table is larger than kMaxTable, and nothing was read.
  using Each = std::function<bool(const Elf64_Sym&, std::uint32_t number)>;
  bool for_each(const Symbols& table, const Each& each) const;
  std::optional<Elf64_Sym> symbol(const Symbols& table, std::uint32_t number) const;
  /// Up to 4 KiB of it; empty: it has none.
  std::string name(const Symbols& table, const Elf64_Sym& symbol) const;
  /// Of many symbols in turn, whose names mostly lie beside each other: 20 ns a name, .5 µs where it does
  /// not.
  class Names {
   public:
    Names(const ElfFile& file, const Symbols& table) : file_(file), table_(table), bytes_(kLongestName) {}
    /// Until the next call; up to its first 2 KiB.
    std::string_view of(const Elf64_Sym& symbol);

   private:
    const ElfFile& file_;
    const Symbols& table_;
    std::vector<char> bytes_;
    std::uint64_t begin_ = 0, had_ = 0;
  };

  /// As much as there is, of `to.size()` at most.
  std::size_t read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  static constexpr std::size_t kLongestName = 4096;
  explicit ElfFile(int fd) : fd_(fd) {}
  template <typename T>
  bool read_one(std::uint64_t offset, T& to) const {
    return read(offset, std::as_writable_bytes(std::span(&to, 1))) == sizeof(to);
  }
  std::optional<Elf64_Shdr> section_at(std::uint64_t number) const;
  void read_parts(const Elf64_Ehdr& head);
  void find_code(const Elf64_Ehdr& head);
  void find_symbols();
  template <typename F>
  void for_each_section(F&& each) const;  // until it returns false

  int fd_;
  bool fixed_ = false, needs_libraries_ = false;
  std::vector<Elf64_Phdr> parts_, notes_;
  struct Code {
    std::uint64_t address, bytes, offset;
  };
  std::vector<Code> code_;
  std::uint64_t sections_at_ = 0, sections_ = 0, names_ = 0;  // names_: the section that has theirs
  std::vector<Symbols> symbols_;
};

}  // namespace oomcast
