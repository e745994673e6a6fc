#include "blame/function_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace oomcast {
namespace {

constexpr std::size_t kMaxAround = 8;  // functions that begin before an address and may contain it

bool is_function(const Elf64_Sym& symbol) {
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_size && symbol.st_shndx != SHN_UNDEF;
}

std::uint64_t symbol_bytes(const ElfFile& elf) {
  std::uint64_t out = 0;
  for (const ElfFile::Symbols& table : elf.symbols())
    if (table.count <= ElfFile::kMaxTable / sizeof(Elf64_Sym)) out += 2 * table.count * sizeof(Elf64_Sym);
  return out;
}

}  // namespace

// .symtab includes .dynsym and local functions.
std::optional<FunctionTable> FunctionTable::read(const ElfFile& elf) {
  FunctionTable out;
  out.base_ = std::numeric_limits<std::uint64_t>::max();
  for (const Elf64_Phdr& part : elf.parts()) out.base_ = std::min(out.base_, part.p_vaddr);
  for (; out.table_ < elf.symbols().size(); ++out.table_) {
    const ElfFile::Symbols& table = elf.symbols()[out.table_];
    std::size_t count = 0;
    auto each = [&](auto&& take) {
      return elf.for_each(table, [&](const Elf64_Sym& symbol, std::uint32_t number) {
        std::uint64_t at = symbol.st_value - out.base_;
        if (is_function(symbol) && symbol.st_value >= out.base_ && at <= UINT32_MAX) take(at << 32 | number);
        return count <= kMaxFunctions;
      });
    };
    if (!each([&](std::uint64_t) { ++count; }) || count > kMaxFunctions) return std::nullopt;
    if (!count) continue;
    out.functions_.reserve(count);
    // The file may have changed since the count.
    each([&](std::uint64_t f) {
      if (out.functions_.size() < count) out.functions_.push_back(f);
    });
    std::ranges::sort(out.functions_);
    break;
  }
  return out;
}

// Of several names for one address the first in the file; of nested functions the innermost.
std::string FunctionTable::name_at(const ElfFile& elf, std::uint64_t address) const {
  if (table_ >= elf.symbols().size() || address < base_) return {};
  const ElfFile::Symbols& table = elf.symbols()[table_];
  std::uint64_t at = address - base_;
  if (at > UINT32_MAX) return {};
  auto after = std::ranges::upper_bound(functions_, at << 32 | UINT32_MAX);
  std::string name;
  std::uint64_t found = 0;
  for (std::size_t back = 0; back < kMaxAround && after != functions_.begin(); ++back) {
    --after;
    if (!name.empty() && *after >> 32 != found) break;
    auto symbol = elf.symbol(table, static_cast<std::uint32_t>(*after));
    if (!symbol || symbol->st_value != base_ + (*after >> 32) ||
        address - symbol->st_value >= symbol->st_size)
      continue;
    found = *after >> 32;
    name = elf.name(table, *symbol);
  }
  return name;
}

std::shared_ptr<const OpenFile> MappedFiles::open(const ProcessMemory& memory, const Mapping& mapping) {
  auto file = memory.open_file(mapping);
  return file ? share(*std::move(file)) : nullptr;
}

std::shared_ptr<const OpenFile> MappedFiles::share(ProcessMemory::File file) {
  struct stat about {};
  if (fstat(file.fd.get(), &about) != 0) return nullptr;
  FileIdentity identity{about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size),
                        about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec};
  if (auto known = files_.find(identity); known != files_.end())
    if (auto open = known->second.lock()) return open;
  std::erase_if(files_, [](const auto& f) { return f.second.expired(); });
  int fd = file.fd.get();
  auto open = std::make_shared<const OpenFile>(OpenFile{std::move(file), identity, ElfFile::open(fd)});
  files_[identity] = open;
  return open;
}

void MappedFiles::make_room(std::size_t bytes) {
  while (!tables_.empty() && (bytes_ + bytes > kMaxBytes || tables_.size() >= kMaxTables)) {
    if (tables_.back().table) bytes_ -= tables_.back().table->bytes();
    tables_.pop_back();
  }
}

std::string MappedFiles::name_at(const OpenFile& file, std::uint64_t address) {
  if (!file.elf) return {};
  auto held = std::ranges::find(tables_, file.identity, &Held::of);
  if (held == tables_.end()) {
    std::uint64_t bytes = symbol_bytes(*file.elf);
    std::optional<FunctionTable> table;
    make_room(0);
    if (read_ + bytes <= kMaxRead) {
      read_ += bytes;
      table = FunctionTable::read(*file.elf);
    }
    unread_ += !table;
    if (table) {
      make_room(table->bytes());
      bytes_ += table->bytes();
    }
    tables_.push_front({file.identity, std::move(table)});
  } else {
    tables_.splice(tables_.begin(), tables_, held);
  }
  const auto& table = tables_.front().table;
  return table ? table->name_at(*file.elf, address) : std::string();
}

std::shared_ptr<std::vector<char>> MappedFiles::unwinding_of(const OpenFile& file) {
  if (!file.elf) return nullptr;
  if (auto known = unwinding_.find(file.identity); known != unwinding_.end())
    if (auto image = known->second.lock()) return image;
  std::size_t used = 0;
  std::erase_if(unwinding_, [](const auto& u) { return u.second.expired(); });
  for (const auto& [identity, image] : unwinding_)
    if (auto held = image.lock()) used += held->size();
  bool too_large = false;
  auto bytes = file.elf->unwinding(
      std::min(kMaxUnwinding, kMaxAllUnwinding - std::min(used, kMaxAllUnwinding)), too_large);
  unread_ += too_large;
  if (bytes.empty()) return nullptr;
  auto image = std::make_shared<std::vector<char>>(std::move(bytes));
  unwinding_[file.identity] = image;
  return image;
}

}  // namespace oomcast
