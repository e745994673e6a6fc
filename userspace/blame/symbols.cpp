#include "blame/symbols.h"

#include <bcc/bcc_elf.h>
#include <bcc/bcc_syms.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <memory>

#include "base/unique_fd.h"

namespace oomcast {

Symbols::Symbols(std::uint32_t pid) : pid_(pid) {
  bcc_symbol_option options{};
  options.use_debug_file = 1;
  options.check_debug_file_crc = 0;
  options.lazy_symbolize = 1;
  options.use_symbol_type = 1u << STT_FUNC | 1u << STT_GNU_IFUNC;
  cache_ = bcc_symcache_new(static_cast<int>(pid), &options);
}

Symbols::~Symbols() {
  if (cache_) bcc_free_symcache(cache_, static_cast<int>(pid_));
}

const Frame& Symbols::resolve(std::uint64_t address) {
  auto [at, fresh] = known_.try_emplace(address);
  if (!fresh || !cache_) return at->second;
  bcc_symbol symbol{};
  bool named = bcc_symcache_resolve(cache_, address, &symbol) == 0;
  if (named) {
    if (const char* name = symbol.demangle_name ? symbol.demangle_name : symbol.name)
      at->second.function = name;
    bcc_symbol_free_demangle_name(&symbol);
  }
  if (symbol.module) at->second.file = symbol.module;
  return at->second;
}

ElfSymbols find_elf_symbols(const std::string& path, std::span<const std::string_view> names) {
  struct Search {
    std::span<const std::string_view> names;
    ElfSymbols out;
  } search{names, {}};
  search.out.executable = bcc_elf_get_type(path.c_str()) == ET_EXEC;
  bcc_symbol_option options{};
  options.use_symbol_type = BCC_SYM_ALL_TYPES;
  auto take = [](const char* name, std::uint64_t value, std::uint64_t, void* context) {
    auto& s = *static_cast<Search*>(context);
    if (value && std::find(s.names.begin(), s.names.end(), name) != s.names.end())
      s.out.values.emplace(name, value);
    return s.out.values.size() == s.names.size() ? -1 : 0;
  };
  bcc_elf_foreach_sym(path.c_str(), take, &options, &search);
  return std::move(search.out);
}

std::optional<std::uint64_t> find_elf_section(const std::string& path, std::string_view name) {
  elf_version(EV_CURRENT);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  std::unique_ptr<Elf, decltype(&elf_end)> elf(fd ? elf_begin(fd.get(), ELF_C_READ, nullptr) : nullptr,
                                               &elf_end);
  std::size_t names = 0;
  if (!elf || elf_getshdrstrndx(elf.get(), &names) != 0) return std::nullopt;
  for (Elf_Scn* at = elf_nextscn(elf.get(), nullptr); at; at = elf_nextscn(elf.get(), at)) {
    GElf_Shdr header;
    const char* called = gelf_getshdr(at, &header) ? elf_strptr(elf.get(), names, header.sh_name) : nullptr;
    if (called && called == name) return header.sh_addr;
  }
  return std::nullopt;
}

}  // namespace oomcast
