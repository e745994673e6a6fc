#include "blame/elf_file.h"

#include <bcc/bcc_elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxParts = 64, kMaxNotes = 8, kMaxSymbolTables = 4;
constexpr std::uint64_t kMaxSections = 65'536, kMaxOfBcc = 4096, kMaxNoteBytes = 16 << 10;
constexpr std::size_t kLongestSectionName = 32;
constexpr std::size_t kShortestBuildId = 4, kLongestBuildId = 64;
constexpr std::size_t kPiece = 64 << 10;

}  // namespace

std::size_t ElfFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  std::size_t had = 0;
  while (had < to.size() && offset + had < static_cast<std::uint64_t>(INT64_MAX)) {
    ssize_t n = pread(fd_, to.data() + had, to.size() - had, static_cast<off_t>(offset + had));
    if (n <= 0) break;
    had += static_cast<std::size_t>(n);
  }
  return had;
}

std::optional<ElfFile> ElfFile::open(int fd) {
  ElfFile file(fd);
  Elf64_Ehdr head{};
  if (fd < 0 || !file.read_one(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
    return std::nullopt;
  file.fixed_ = head.e_type == ET_EXEC;
  file.read_parts(head);
  if (head.e_shoff && head.e_shentsize == sizeof(Elf64_Shdr)) {
    file.sections_at_ = head.e_shoff;
    file.sections_ = head.e_shnum;
    file.names_ = head.e_shstrndx;
    // Values that do not fit in the header are in section 0.
    if (auto first = head.e_shnum && head.e_shstrndx != SHN_XINDEX ? std::nullopt : file.section_at(0)) {
      if (!head.e_shnum) file.sections_ = first->sh_size;
      if (head.e_shstrndx == SHN_XINDEX) file.names_ = first->sh_link;
    }
  }
  file.find_code(head);
  if (file.sections_ > kMaxSections) file.sections_ = 0;
  file.find_symbols();
  return file;
}

void ElfFile::read_parts(const Elf64_Ehdr& head) {
  if (head.e_phentsize != sizeof(Elf64_Phdr)) return;
  for (std::size_t i = 0; i < std::min<std::size_t>(head.e_phnum, kMaxParts); ++i) {
    Elf64_Phdr part{};
    if (!read_one(head.e_phoff + i * sizeof(part), part)) return;
    needs_libraries_ |= part.p_type == PT_INTERP;
    if (part.p_type == PT_LOAD) parts_.push_back(part);
    if (part.p_type == PT_NOTE && notes_.size() < kMaxNotes) notes_.push_back(part);
  }
}

// Uses BCC, whose libelf allocates memory for each section that the file claims, and iterates over each
// segment.
void ElfFile::find_code(const Elf64_Ehdr& head) {
  if (sections_ > kMaxOfBcc || head.e_phnum > kMaxParts) return;
  auto take = [](std::uint64_t address, std::uint64_t bytes, std::uint64_t offset, void* code) {
    static_cast<std::vector<Code>*>(code)->push_back({address, bytes, offset});
    return 0;
  };
  bcc_elf_foreach_load_section(path_of(fd_).c_str(), take, &code_);
}

std::optional<Elf64_Shdr> ElfFile::section_at(std::uint64_t number) const {
  Elf64_Shdr header{};
  if (number > kMaxSections || !read_one(sections_at_ + number * sizeof(header), header)) return std::nullopt;
  return header;
}

template <typename F>
void ElfFile::for_each_section(F&& each) const {
  std::vector<Elf64_Shdr> headers(std::min<std::uint64_t>(sections_, kPiece / sizeof(Elf64_Shdr)));
  for (std::uint64_t at = 0; at < sections_;) {
    std::size_t want = std::min<std::uint64_t>(headers.size(), sections_ - at);
    std::size_t got =
        read(sections_at_ + at * sizeof(Elf64_Shdr), std::as_writable_bytes(std::span(headers).first(want))) /
        sizeof(Elf64_Shdr);
    for (const Elf64_Shdr& header : std::span(headers).first(got))
      if (!each(header)) return;
    if (got < want) return;
    at += got;
  }
}

void ElfFile::find_symbols() {
  for_each_section([&](const Elf64_Shdr& header) {
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) return true;
    auto names = header.sh_entsize == sizeof(Elf64_Sym) && header.sh_link < sections_
                     ? section_at(header.sh_link)
                     : std::nullopt;
    if (names && names->sh_type == SHT_STRTAB)
      symbols_.push_back({header.sh_type == SHT_DYNSYM, header.sh_offset, header.sh_size / sizeof(Elf64_Sym),
                          names->sh_offset, names->sh_size});
    return symbols_.size() < kMaxSymbolTables;
  });
  std::ranges::stable_sort(symbols_, {}, &Symbols::dynamic);
}

std::optional<std::uint64_t> ElfFile::address_of(std::uint64_t offset) const {
  for (const Code& part : code_)
    if (offset >= part.offset && offset - part.offset < part.bytes)
      return offset - part.offset + part.address;
  return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::offset_of(std::uint64_t address) const {
  for (const Elf64_Phdr& part : parts_)
    if (address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
      return address - part.p_vaddr + part.p_offset;
  return std::nullopt;
}

// Notes: sizes of name and description, type; name and description are padded to four bytes.
std::string ElfFile::build_id() const {
  auto rounded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  for (const Elf64_Phdr& part : notes_) {
    std::vector<std::byte> bytes(std::min<std::uint64_t>(part.p_filesz, kMaxNoteBytes));
    bytes.resize(read(part.p_offset, bytes));
    Elf64_Nhdr note{};
    for (std::uint64_t at = 0; at + sizeof(note) <= bytes.size();) {
      std::memcpy(&note, bytes.data() + at, sizeof(note));
      std::uint64_t name = at + sizeof(note), id = name + rounded(note.n_namesz);
      at = id + rounded(note.n_descsz);
      if (at > bytes.size()) break;
      bool is_id = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
                   std::memcmp(bytes.data() + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0;
      if (!is_id || note.n_descsz < kShortestBuildId || note.n_descsz > kLongestBuildId) continue;
      std::string out;
      for (std::byte b : std::span(bytes).subspan(id, note.n_descsz))
        out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
      return out;
    }
  }
  return {};
}

std::optional<Elf64_Shdr> ElfFile::section(std::string_view name) const {
  auto names = names_ < sections_ ? section_at(names_) : std::nullopt;
  if (!names || name.size() >= kLongestSectionName) return std::nullopt;
  std::optional<Elf64_Shdr> out;
  for_each_section([&](const Elf64_Shdr& header) {
    std::array<char, kLongestSectionName> is{};
    auto to = std::span(is).first(name.size() + 1);
    if (header.sh_name < names->sh_size &&
        read(names->sh_offset + header.sh_name, std::as_writable_bytes(to)) == to.size() &&
        std::string_view(is.data(), name.size()) == name && !is[name.size()])
      out = header;
    return !out;
  });
  return out;
}

std::optional<std::uint64_t> ElfFile::section_address(std::string_view name) const {
  auto found = section(name);
  return found ? std::optional(found->sh_addr) : std::nullopt;
}

std::vector<char> ElfFile::unwinding(std::size_t most, bool& too_large) const {
  constexpr std::string_view kNames("\0.eh_frame_hdr\0.eh_frame\0.shstrtab\0", 35);
  constexpr std::uint32_t kTableName = 1, kFramesName = 15, kNamesName = 25;
  auto frames = section(".eh_frame"), table = section(".eh_frame_hdr");
  if (!frames || frames->sh_type == SHT_NOBITS) return {};
  if (table && table->sh_type == SHT_NOBITS) table.reset();
  std::uint64_t heads = sizeof(Elf64_Ehdr) + parts_.size() * sizeof(Elf64_Phdr) + 4 * sizeof(Elf64_Shdr);
  std::uint64_t table_bytes = table ? table->sh_size : 0;
  if (frames->sh_size > most || table_bytes > most ||
      heads + kNames.size() + frames->sh_size + table_bytes + 16 > most) {
    too_large = true;
    return {};
  }
  std::vector<char> out(heads);
  std::array<Elf64_Shdr, 4> sections{};
  auto add = [&](std::size_t number, std::uint32_t name, std::uint32_t type, std::uint64_t address,
                 std::uint64_t bytes) {
    out.resize((out.size() + 7) / 8 * 8);
    sections[number] = {
        name, type, type == SHT_PROGBITS ? Elf64_Xword{SHF_ALLOC} : 0, address, out.size(), bytes, 0, 0,
        8,    0};
    out.resize(out.size() + bytes);
    return std::as_writable_bytes(std::span(out).last(bytes));
  };
  if (table) (void)read(table->sh_offset, add(1, kTableName, SHT_PROGBITS, table->sh_addr, table_bytes));
  (void)read(frames->sh_offset, add(2, kFramesName, SHT_PROGBITS, frames->sh_addr, frames->sh_size));
  std::ranges::copy(std::as_bytes(std::span(kNames)),
                    add(3, kNamesName, SHT_STRTAB, 0, kNames.size()).begin());
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = fixed_ ? ET_EXEC : ET_DYN;
  head.e_machine = EM_X86_64;
  head.e_version = EV_CURRENT;
  head.e_ehsize = sizeof(head);
  head.e_phoff = sizeof(head);
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = static_cast<Elf64_Half>(parts_.size());
  head.e_shoff = sizeof(head) + parts_.size() * sizeof(Elf64_Phdr);
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<Elf64_Half>(sections.size());
  head.e_shstrndx = 3;
  std::memcpy(out.data(), &head, sizeof(head));
  std::memcpy(out.data() + head.e_phoff, parts_.data(), parts_.size() * sizeof(Elf64_Phdr));
  std::memcpy(out.data() + head.e_shoff, sections.data(), sizeof(sections));
  return out;
}

bool ElfFile::for_each(const Symbols& table, const Each& each) const {
  if (table.count > kMaxTable / sizeof(Elf64_Sym)) return false;
  std::vector<Elf64_Sym> piece(std::min<std::uint64_t>(table.count, kPiece / sizeof(Elf64_Sym)));
  for (std::uint64_t at = 0; at < table.count;) {
    std::size_t want = std::min<std::uint64_t>(piece.size(), table.count - at);
    std::size_t got =
        read(table.offset + at * sizeof(Elf64_Sym), std::as_writable_bytes(std::span(piece).first(want))) /
        sizeof(Elf64_Sym);
    for (std::size_t i = 0; i < got; ++i)
      if (!each(piece[i], static_cast<std::uint32_t>(at + i))) return true;
    if (got < want) break;
    at += got;
  }
  return true;
}

std::optional<Elf64_Sym> ElfFile::symbol(const Symbols& table, std::uint32_t number) const {
  Elf64_Sym out{};
  if (number >= table.count || !read_one(table.offset + std::uint64_t{number} * sizeof(out), out))
    return std::nullopt;
  return out;
}

// The string table of a large library has some hundred MiB: read only the bytes of each name.
std::string ElfFile::name(const Symbols& table, const Elf64_Sym& symbol) const {
  if (symbol.st_name >= table.names_bytes) return {};
  std::array<char, kLongestName> bytes;
  std::size_t most = std::min<std::uint64_t>(bytes.size(), table.names_bytes - symbol.st_name);
  std::size_t got =
      read(table.names_offset + symbol.st_name, std::as_writable_bytes(std::span(bytes).first(most)));
  return {bytes.data(), strnlen(bytes.data(), got)};
}

std::string_view ElfFile::Names::of(const Elf64_Sym& symbol) {
  if (symbol.st_name >= table_.names_bytes) return {};
  std::uint64_t least = std::min<std::uint64_t>(bytes_.size() / 2, table_.names_bytes - symbol.st_name);
  if (symbol.st_name < begin_ || symbol.st_name + least > begin_ + had_) {
    begin_ = symbol.st_name;
    std::size_t most = std::min<std::uint64_t>(bytes_.size(), table_.names_bytes - begin_);
    had_ = file_.read(table_.names_offset + begin_, std::as_writable_bytes(std::span(bytes_).first(most)));
  }
  std::uint64_t at = symbol.st_name - begin_;
  return {bytes_.data() + at, at < had_ ? strnlen(bytes_.data() + at, had_ - at) : 0};
}

}  // namespace oomcast
