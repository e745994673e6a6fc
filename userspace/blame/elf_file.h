// An ELF file for x86-64, read in pieces: segments, sections, symbols. Never mapped: if its owner truncated a
// mapped file, we would die of SIGBUS.
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

/// The file is untrusted: a sparse file of 12 KiB can claim 450 MiB of symbols. So no allocation depends on
/// sizes in the file: 64 KiB at a time, 64 loaded segments, 65,536 section headers scanned and a few kept.
/// The descriptor belongs to the caller, and must stay open.
class ElfFile {
 public:
  /// nullopt: not a 64-bit little-endian ELF file.
  static std::optional<ElfFile> open(int fd);

  bool fixed_address() const { return fixed_; }
  bool needs_libraries() const { return needs_libraries_; }
  std::span<const Elf64_Phdr> parts() const { return parts_; }  // PT_LOAD
  /// An ELF file with only what unwinding needs: segments, .eh_frame_hdr and .eh_frame. Empty: it has none,
  /// or would exceed `most`.
  std::vector<char> unwinding(std::size_t most, bool& too_large) const;
  /// File offset to code address. nullopt: no code is loaded from there.
  std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  /// Address to file offset, for any loaded segment.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  /// "9abc0123…"; empty if missing.
  std::string build_id() const;
  /// Load address of a section, in the file's own addresses. nullopt: no such section.
  std::optional<std::uint64_t> section_address(std::string_view name) const;
  std::optional<Elf64_Shdr> section(std::string_view name) const;

  struct Symbols {
    bool dynamic = false;
    std::uint64_t offset = 0, count = 0;  // of its entries
    std::uint64_t names_offset = 0, names_bytes = 0;
  };
  /// .symtab first.
  std::span<const Symbols> symbols() const { return symbols_; }
  /// Longest table that for_each() reads, in bytes: 5.6 million symbols, 0.1 s.
  static constexpr std::uint64_t kMaxTable = 128 << 20;
  /// Stops when `each` returns false. false: the table is larger than kMaxTable, and nothing was read.
  using Each = std::function<bool(const Elf64_Sym&, std::uint32_t number)>;
  bool for_each(const Symbols& table, const Each& each) const;
  std::optional<Elf64_Sym> symbol(const Symbols& table, std::uint32_t number) const;
  /// At most its first 4 KiB; empty if missing.
  std::string name(const Symbols& table, const Elf64_Sym& symbol) const;
  /// For many symbols in a row, whose names mostly are close together: 20 ns a name, 0.5 µs otherwise.
  class Names {
   public:
    Names(const ElfFile& file, const Symbols& table) : file_(file), table_(table), bytes_(kLongestName) {}
    /// Valid until the next call; at most the first 2 KiB.
    std::string_view of(const Elf64_Sym& symbol);

   private:
    const ElfFile& file_;
    const Symbols& table_;
    std::vector<char> bytes_;
    std::uint64_t begin_ = 0, had_ = 0;
  };

  /// Reads what is available, at most `to.size()`.
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
  void for_each_section(F&& each) const;  // stops when it returns false

  int fd_;
  bool fixed_ = false, needs_libraries_ = false;
  std::vector<Elf64_Phdr> parts_, notes_;
  struct Code {
    std::uint64_t address, bytes, offset;
  };
  std::vector<Code> code_;
  std::uint64_t sections_at_ = 0, sections_ = 0, names_ = 0;  // names_: the section with section names
  std::vector<Symbols> symbols_;
};

}  // namespace oomcast
