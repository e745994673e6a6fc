#include "blame/symbols.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "collect/procfs.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxFiles = 256, kMaxKnown = 16384;  // addresses
constexpr std::size_t kMaxKnownBytes = 2 << 20;
constexpr std::size_t kLongestName = 4096;
constexpr std::uint32_t kMaxNamed = 2'000'000;
constexpr off_t kMaxJit = 64 << 20;
constexpr std::size_t kMaxJitFunctions = 256 << 10;  // 24 bytes each
constexpr Nanos kJitEvery = std::chrono::seconds(1);

// The demangled name may be 2^30 times as long: then malloc() fails.
std::string demangled(const std::string& name) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(plain.get(), strnlen(plain.get(), kLongestName)) : name;
}

}  // namespace

/// Functions that a JIT compiler lists in /tmp/perf-PID.map: "START SIZE name", in hexadecimal.
struct Symbols::Jit {
  std::string path;
  std::uint32_t owner = 0;
  MonoTime next_read{};
  std::optional<ProcessMemory::File> file;
  off_t size = 0;  // bytes read, up to the last complete line
  std::uint64_t cut = 0;
  struct Function {
    std::uint64_t begin, size;
    std::uint32_t name;  // offset in the file
  };
  std::vector<Function> functions;  // by address

  // Reads appended lines. Names stay in the file until needed.
  void read(const ProcessMemory& memory) {
    auto now = memory.open_in_root(path, owner);
    struct stat about {};
    if (!now || fstat(now->fd.get(), &about) != 0) return;
    if (about.st_size < size) {
      functions.clear();
      size = 0;
    }
    file = std::move(now);
    if (about.st_size == size) return;
    std::string piece(64 << 10, '\0');
    while (size < kMaxJit) {
      ssize_t n = pread(file->fd.get(), piece.data(), piece.size(), size);
      auto had = std::string_view(piece).substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
      std::size_t lines = had.rfind('\n') + 1;  // 0: there is none
      if (!lines) break;
      take(had.substr(0, lines));
      size += static_cast<off_t>(lines);
    }
    cut += about.st_size > kMaxJit;  // sparse, or broken
    std::ranges::stable_sort(functions, {}, &Function::begin);
  }

  void take(std::string_view text) {
    std::string_view rest = text, line;
    while (next_line(rest, line)) {
      Function f{};
      auto hex = [&](std::uint64_t& value) {
        std::string_view word = next_field(line);
        return std::from_chars(word.data(), word.data() + word.size(), value, 16).ec == std::errc{};
      };
      if (!hex(f.begin) || !hex(f.size)) continue;
      f.name = static_cast<std::uint32_t>(size + (trim(line).data() - text.data()));
      if (functions.size() >= kMaxJitFunctions) {
        ++cut;
        return;
      }
      functions.push_back(f);
    }
  }

  std::string name_of(const Function& function) const {
    std::string out(kLongestName, '\0');
    ssize_t n = pread(file->fd.get(), out.data(), out.size(), function.name);
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return std::string(trim(std::string_view(out).substr(0, out.find('\n'))));
  }

  const Function* at(std::uint64_t address) const {
    auto after = std::ranges::upper_bound(functions, address, {}, &Function::begin);
    if (after == functions.begin() || address - std::prev(after)->begin >= std::prev(after)->size)
      return nullptr;
    return &*std::prev(after);
  }
};

Symbols::Symbols(const ProcessMemory& memory, std::span<const Mapping> maps, MappedFiles& files)
    : memory_(memory), maps_(maps), shared_(files) {
  for (const Mapping& m : maps) {
    if (m.inode == 0 || !m.executable || files_.size() >= kMaxFiles) continue;
    auto [at, fresh] = files_.try_emplace({m.device, m.inode});
    if (fresh) at->second.mapped = files.open(memory, m);
  }
}

std::uint64_t Symbols::cut() const {
  return jit_ ? jit_->cut : 0;
}

Symbols::~Symbols() = default;

const Mapping* Symbols::mapping_at(std::uint64_t address) const {
  auto after = std::upper_bound(maps_.begin(), maps_.end(), address,
                                [](std::uint64_t at, const Mapping& m) { return at < m.begin; });
  return after == maps_.begin() || address >= std::prev(after)->end ? nullptr : &*std::prev(after);
}

// Debug files are found only by build id: a debug link is a path chosen by the file.
void Symbols::find_debug(File& file) const {
  if (std::exchange(file.searched, true)) return;
  std::string id = file.mapped->elf->build_id();
  if (id.empty()) return;
  std::string name = fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2));
  auto debug = memory_.open_in_root(name, 0);
  if (!debug) debug = memory_.open_of_machine(name);
  if (debug) file.with_symbols = shared_.share(*std::move(debug));
}

void Symbols::name_by_file(const Mapping& m, std::uint64_t address, Frame& frame) {
  frame.file = m.path;
  auto found = files_.find({m.device, m.inode});
  if (found == files_.end() || !found->second.mapped || !found->second.mapped->elf) return;
  File& file = found->second;
  auto in_file = file.mapped->elf->address_of(address - m.begin + m.offset);
  if (!in_file) return;
  find_debug(file);
  std::string name = file.with_symbols ? shared_.name_at(*file.with_symbols, *in_file) : std::string();
  if (name.empty()) name = shared_.name_at(*file.mapped, *in_file);
  if (!name.empty()) frame.function = demangled(name);
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
  frame.function = jit_->name_of(*function);
  frame.file = jit_->path;
}

const Frame& Symbols::resolve(std::uint64_t address) {
  if (known_.size() >= kMaxKnown || known_bytes_ >= kMaxKnownBytes) {
    known_.clear();
    known_bytes_ = 0;
  }
  auto [at, fresh] = known_.try_emplace(address);
  if (!fresh) return at->second;
  const Mapping* mapping = mapping_at(address);
  if (mapping && mapping->inode != 0)
    name_by_file(*mapping, address, at->second);
  else if (mapping)
    name_by_jit(address, at->second);
  known_bytes_ += sizeof(*at) + at->second.function.size() + at->second.file.size();
  return at->second;
}

ElfSymbols find_elf_symbols(const ElfFile& elf, std::span<const std::string_view> names) {
  ElfSymbols out;
  for (const ElfFile::Symbols& table : elf.symbols()) {
    ElfFile::Names called(elf, table);
    elf.for_each(table, [&](const Elf64_Sym& symbol, std::uint32_t number) {
      if (!symbol.st_value || symbol.st_shndx == SHN_UNDEF) return number < kMaxNamed;
      std::string_view name = called.of(symbol);
      if (std::ranges::find(names, name) != names.end()) out.values.emplace(name, symbol.st_value);
      return number < kMaxNamed && out.values.size() < names.size();
    });
  }
  return out;
}

}  // namespace oomcast
