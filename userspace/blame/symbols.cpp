#include "blame/symbols.h"

#include <bcc/bcc_elf.h>
#include <bcc/bcc_syms.h>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

constexpr std::uint32_t kFunctions = 1u << STT_FUNC | 1u << STT_GNU_IFUNC;
constexpr std::size_t kMostFunctions = 1'000'000;  // of one file

/// BCC opens what a process has mapped by its name, and that may be the name of a FIFO by now: whoever opens
/// one waits for a writer for ever, unless a signal comes. Regular files do not notice.
class NeverWaitingForWriters {
 public:
  NeverWaitingForWriters() {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    sigaction(SIGALRM, &nothing, &before_);
    itimerval soon{{0, 1000}, {0, 300'000}};  // then at once: there may be thousands
    setitimer(ITIMER_REAL, &soon, nullptr);
  }
  ~NeverWaitingForWriters() {
    itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }
  NeverWaitingForWriters(const NeverWaitingForWriters&) = delete;
  NeverWaitingForWriters& operator=(const NeverWaitingForWriters&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

/// The functions of one file, for what BCC does not find by its name: after a chroot the name that /proc
/// shows is nobody's.
struct Symbols::File {
  struct Function {
    std::uint64_t begin, size;
    std::string name;
  };
  struct Part {
    std::uint64_t address, size, offset;
  };
  std::vector<Function> functions;  // by address
  std::vector<Part> parts;

  explicit File(const std::string& path) {
    bcc_symbol_option options{};
    options.use_debug_file = 1;
    options.use_symbol_type = kFunctions;
    auto take_function = [](const char* name, std::uint64_t begin, std::uint64_t size, void* self) {
      auto& all = static_cast<File*>(self)->functions;
      if (size) all.push_back({begin, size, name});
      return all.size() < kMostFunctions ? 0 : -1;
    };
    auto take_part = [](std::uint64_t address, std::uint64_t size, std::uint64_t offset, void* self) {
      static_cast<File*>(self)->parts.push_back({address, size, offset});
      return 0;
    };
    bcc_elf_foreach_load_section(path.c_str(), take_part, this);
    bcc_elf_foreach_sym(path.c_str(), take_function, &options, this);
    std::sort(functions.begin(), functions.end(),
              [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  std::string name_at(std::uint64_t offset) const {
    for (const Part& part : parts) {
      if (offset < part.offset || offset - part.offset >= part.size) continue;
      std::uint64_t address = offset - part.offset + part.address;
      auto after = std::upper_bound(functions.begin(), functions.end(), address,
                                    [](std::uint64_t at, const Function& f) { return at < f.begin; });
      if (after == functions.begin() || address - std::prev(after)->begin >= std::prev(after)->size)
        return {};
      const std::string& name = std::prev(after)->name;
      int status = 0;
      std::unique_ptr<char, decltype(&std::free)> plain(
          abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
      return status == 0 ? plain.get() : name;
    }
    return {};
  }
};

Symbols::Symbols(const ProcessMemory& memory, std::span<const Mapping> maps) : memory_(memory), maps_(maps) {
  bcc_symbol_option options{};
  options.use_debug_file = 1;
  options.check_debug_file_crc = 0;
  options.lazy_symbolize = 1;
  options.use_symbol_type = kFunctions;
  NeverWaitingForWriters guard;
  cache_ = bcc_symcache_new(static_cast<int>(memory.pid()), &options);
}

Symbols::~Symbols() {
  if (cache_) bcc_free_symcache(cache_, static_cast<int>(memory_.pid()));
}

std::string Symbols::named_by_file(std::uint64_t address) {
  auto after = std::upper_bound(maps_.begin(), maps_.end(), address,
                                [](std::uint64_t at, const Mapping& m) { return at < m.begin; });
  if (after == maps_.begin() || address >= std::prev(after)->end || std::prev(after)->inode == 0) return {};
  const Mapping& m = *std::prev(after);
  auto& file = files_[{m.device, m.inode}];
  if (!file) file = std::make_unique<File>(memory_.file_of(m));
  return file->name_at(address - m.begin + m.offset);
}

const Frame& Symbols::resolve(std::uint64_t address) {
  auto [at, fresh] = known_.try_emplace(address);
  if (!fresh || !cache_) return at->second;
  NeverWaitingForWriters guard;
  bcc_symbol symbol{};
  bool named = bcc_symcache_resolve(cache_, address, &symbol) == 0;
  if (named) {
    if (const char* name = symbol.demangle_name ? symbol.demangle_name : symbol.name)
      at->second.function = name;
    bcc_symbol_free_demangle_name(&symbol);
  }
  if (symbol.module) at->second.file = symbol.module;
  if (at->second.function.empty()) at->second.function = named_by_file(address);
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
