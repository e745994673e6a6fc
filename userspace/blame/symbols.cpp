#include "blame/symbols.h"

#include <bcc/bcc_elf.h>
#include <bcc/bcc_syms.h>
#include <cxxabi.h>
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "collect/procfs.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::uint32_t kFunctions = 1u << STT_FUNC | 1u << STT_GNU_IFUNC;
constexpr std::size_t kMaxFunctions = 1'000'000;  // of one file, or one perf-PID.map
constexpr std::size_t kLongestName = 4096;
constexpr off_t kMaxJit = 64 << 20;
constexpr Nanos kJitEvery = std::chrono::seconds(1);
constexpr std::size_t kShortestBuildId = 4, kLongestBuildId = 64;

using OwnElf = std::unique_ptr<Elf, decltype(&elf_end)>;

// Read piece by piece, never mapped: who truncates a file while it is mapped here would end us with a SIGBUS.
OwnElf open_elf(int fd) {
  elf_version(EV_CURRENT);
  return {fd >= 0 ? elf_begin(fd, ELF_C_READ, nullptr) : nullptr, &elf_end};
}

std::string demangled(const std::string& name) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : name;
}

// "9a/bc0123….debug" of "9abc0123…"; empty: it has no build id.
std::string debug_name(int fd) {
  OwnElf elf = open_elf(fd);
  const void* id = nullptr;
  ssize_t size = elf ? dwelf_elf_gnu_build_id(elf.get(), &id) : -1;
  if (size < static_cast<ssize_t>(kShortestBuildId) || size > static_cast<ssize_t>(kLongestBuildId))
    return {};
  std::string out;
  for (ssize_t i = 0; i < size; ++i)
    out += fmt::format("{:02x}{}", static_cast<const unsigned char*>(id)[i], i == 0 ? "/" : "");
  return out + ".debug";
}

}  // namespace

/// The functions of one file.
struct Symbols::File {
  struct Function {
    std::uint64_t begin, size;
    std::uint32_t section, name;  // where its name stands: a section, and from where in it
  };
  struct Part {
    std::uint64_t address, size, offset;
  };
  std::optional<ProcessMemory::File> file;   // what is mapped
  std::optional<ProcessMemory::File> debug;  // the file with its symbols, where that is another
  bool read = false;
  std::vector<Function> functions;  // by address
  std::vector<Part> parts;
  std::map<std::uint32_t, std::uint64_t> names_at;  // of a section its place in the file

  explicit File(std::optional<ProcessMemory::File> opened) : file(std::move(opened)) {}

  // Separate symbols are found by build id alone: a debug link is a path of the file's own choice.
  void find_debug(const ProcessMemory& memory) {
    std::string name = debug_name(file->fd.get());
    if (name.empty()) return;
    name = "/usr/lib/debug/.build-id/" + name;
    debug = memory.open_in_root(name, 0);
    if (!debug) debug = memory.open_of_machine(name);
  }

  void read_functions(const ProcessMemory& memory) {
    read = true;
    find_debug(memory);
    bcc_symbol_option options{};
    options.use_symbol_type = kFunctions;
    auto take = [](std::size_t section, std::size_t name, std::size_t, std::uint64_t begin,
                   std::uint64_t size, int, void* self) {
      auto& all = static_cast<File*>(self)->functions;
      if (size)
        all.push_back({begin, size, static_cast<std::uint32_t>(section), static_cast<std::uint32_t>(name)});
      return all.size() < kMaxFunctions ? 0 : -1;
    };
    auto take_part = [](std::uint64_t address, std::uint64_t size, std::uint64_t offset, void* self) {
      static_cast<File*>(self)->parts.push_back({address, size, offset});
      return 0;
    };
    bcc_elf_foreach_load_section(file->path.c_str(), take_part, this);
    if (debug) bcc_elf_foreach_sym_lazy(debug->path.c_str(), take, &options, this);
    if (functions.empty()) {
      debug.reset();
      bcc_elf_foreach_sym_lazy(file->path.c_str(), take, &options, this);
    }
    std::sort(functions.begin(), functions.end(),
              [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  // A string table of a large library is some hundred MiB: of each name only its own bytes are read.
  std::string name_of(const Function& function) {
    int fd = (debug ? debug : file)->fd.get();
    auto [at, fresh] = names_at.try_emplace(function.section, 0);
    if (fresh) {
      OwnElf elf = open_elf(fd);
      GElf_Shdr header;
      Elf_Scn* section = elf ? elf_getscn(elf.get(), function.section) : nullptr;
      if (section && gelf_getshdr(section, &header)) at->second = header.sh_offset;
    }
    std::array<char, kLongestName> bytes;
    ssize_t n = at->second
                    ? pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at->second + function.name))
                    : 0;
    if (n <= 0) return {};
    return demangled(std::string(bytes.data(), strnlen(bytes.data(), static_cast<std::size_t>(n))));
  }

  std::string name_at(std::uint64_t offset) {
    for (const Part& part : parts) {
      if (offset < part.offset || offset - part.offset >= part.size) continue;
      std::uint64_t address = offset - part.offset + part.address;
      auto after = std::upper_bound(functions.begin(), functions.end(), address,
                                    [](std::uint64_t at, const Function& f) { return at < f.begin; });
      if (after == functions.begin() || address - std::prev(after)->begin >= std::prev(after)->size)
        return {};
      return name_of(*std::prev(after));
    }
    return {};
  }
};

/// What a program that makes its code as it runs says of it in /tmp/perf-PID.map: "START SIZE name", in
/// hexadecimal digits.
struct Symbols::Jit {
  std::string path;
  std::uint32_t owner = 0;
  MonoTime next_read{};
  off_t size = 0;
  struct Function {
    std::uint64_t begin, size;
    std::string name;
  };
  std::vector<Function> functions;  // by address

  void read(const ProcessMemory& memory) {
    auto file = memory.open_in_root(path, owner);
    struct stat about {};
    if (!file || fstat(file->fd.get(), &about) != 0 || about.st_size == size) return;
    if (about.st_size > kMaxJit) return;  // sparse, or a mistake
    size = about.st_size;
    std::string text(static_cast<std::size_t>(size), '\0');
    std::size_t had = 0;
    for (ssize_t n = 1; n > 0 && had < text.size(); had += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
      n = pread(file->fd.get(), text.data() + had, text.size() - had, static_cast<off_t>(had));
    functions.clear();
    std::string_view rest = std::string_view(text).substr(0, had), line;
    while (functions.size() < kMaxFunctions && next_line(rest, line)) {
      Function f{};
      auto hex = [&](std::uint64_t& value) {
        std::string_view word = next_field(line);
        return std::from_chars(word.data(), word.data() + word.size(), value, 16).ec == std::errc{};
      };
      if (!hex(f.begin) || !hex(f.size)) continue;
      f.name = trim(line).substr(0, kLongestName);
      functions.push_back(std::move(f));
    }
    std::stable_sort(functions.begin(), functions.end(),
                     [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  const Function* at(std::uint64_t address) const {
    auto after = std::upper_bound(functions.begin(), functions.end(), address,
                                  [](std::uint64_t a, const Function& f) { return a < f.begin; });
    if (after == functions.begin() || address - std::prev(after)->begin >= std::prev(after)->size)
      return nullptr;
    return &*std::prev(after);
  }
};

Symbols::Symbols(const ProcessMemory& memory, std::span<const Mapping> maps) : memory_(memory), maps_(maps) {
  for (const Mapping& m : maps)
    if (m.inode != 0 && m.executable && !files_.contains({m.device, m.inode}))
      files_.emplace(std::pair(m.device, m.inode), std::make_unique<File>(memory.open_file(m)));
}

Symbols::~Symbols() = default;

const Mapping* Symbols::mapping_at(std::uint64_t address) const {
  auto after = std::upper_bound(maps_.begin(), maps_.end(), address,
                                [](std::uint64_t at, const Mapping& m) { return at < m.begin; });
  return after == maps_.begin() || address >= std::prev(after)->end ? nullptr : &*std::prev(after);
}

void Symbols::name_by_file(const Mapping& m, std::uint64_t address, Frame& frame) {
  frame.file = m.path;
  auto found = files_.find({m.device, m.inode});
  if (found == files_.end() || !found->second->file) return;
  if (!found->second->read) found->second->read_functions(memory_);
  frame.function = found->second->name_at(address - m.begin + m.offset);
}

void Symbols::name_by_jit(std::uint64_t address, Frame& frame) {
  MonoTime now = mono_now();
  if (!jit_) {
    jit_ = std::make_unique<Jit>();
    auto status = memory_.status();
    if (status && !status->ns_pid.empty() && status->uid) {
      jit_->path = fmt::format("/tmp/perf-{}.map", status->ns_pid.back());
      jit_->owner = *status->uid;
    }
  }
  const Jit::Function* function = jit_->at(address);
  if (!function && !jit_->path.empty() && now >= jit_->next_read) {
    jit_->next_read = now + kJitEvery;
    jit_->read(memory_);
    function = jit_->at(address);
  }
  if (!function) return;
  frame.function = function->name;
  frame.file = jit_->path;
}

const Frame& Symbols::resolve(std::uint64_t address) {
  auto [at, fresh] = known_.try_emplace(address);
  if (!fresh) return at->second;
  const Mapping* mapping = mapping_at(address);
  if (mapping && mapping->inode != 0)
    name_by_file(*mapping, address, at->second);
  else if (mapping)
    name_by_jit(address, at->second);
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
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  OwnElf elf = open_elf(fd.get());
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
