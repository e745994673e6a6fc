#include "blame/allocator.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "blame/breakpoint_place.h"
#include "blame/elf_file.h"
#include "blame/frame.h"

namespace oomcast {
namespace {

constexpr std::array<std::string_view, wire::kAllocates> kFunctionNames = {
    "malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"};
// Further functions of jemalloc, tcmalloc and mimalloc: their operator new and delete call none of the above.
constexpr std::array<std::string_view, 5> kLikeMalloc = {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
                                                         "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                                         "_ZnamSt11align_val_tRKSt9nothrow_t", "mallocx"};
// Never traced: a return probe replaces the return address on the stack, and no unwinder gets past that: a
// std::bad_alloc that the program catches would terminate it.
constexpr std::array<std::string_view, 4> kThrowing = {"_Znwm", "_Znam", "_ZnwmSt11align_val_t",
                                                       "_ZnamSt11align_val_t"};
constexpr std::array<std::string_view, 17> kLikeFree = {"_ZdlPv",
                                                        "_ZdaPv",
                                                        "_ZdlPvm",
                                                        "_ZdaPvm",
                                                        "_ZdlPvRKSt9nothrow_t",
                                                        "_ZdaPvRKSt9nothrow_t",
                                                        "_ZdlPvSt11align_val_t",
                                                        "_ZdaPvSt11align_val_t",
                                                        "_ZdlPvmSt11align_val_t",
                                                        "_ZdaPvmSt11align_val_t",
                                                        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                                        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
                                                        "cfree",
                                                        "free_sized",
                                                        "free_aligned_sized",
                                                        "dallocx",
                                                        "sdallocx"};
constexpr std::string_view kLikeRealloc = "rallocx", kOfLibc = "_int_malloc";
static_assert(kLikeMalloc.size() + kLikeFree.size() + 1 <= OtherFunctions{}.size());
constexpr std::uint32_t kMaxSymbols = 2'000'000;

// Setting a breakpoint makes the kernel read the file's pages.
bool answers(int fd) {
  struct statfs about {};
  return fstatfs(fd, &about) == 0 && reads_by_itself(static_cast<std::uint64_t>(about.f_type));
}

// Registers that each breakpoint reads, in the order of wire::Allocates; free() comes last.
constexpr std::array<unsigned, wire::kAllocatorFunctions> kArguments = {
    kRdi, kRdi | kRsi, kRdi | kRsi, kRdi | kRdx, kRsi, kRsi, kRdi};

using FunctionSizes = std::map<std::uint64_t, std::uint64_t>;  // by offset in the file

// Setting a breakpoint on a page that is not in memory would block the tracer; this process may block. Below
// an overlay, and behind a disk, there may be anything.
bool bring_in_code(FoundAllocator& found, const FunctionSizes& sizes) {
  auto move = [&](std::uint64_t& entry, std::size_t function) {
    if (entry == 0 || function >= kArguments.size()) return true;
    std::array<std::uint8_t, 512> code{};  // including the page in which the last instruction ends
    ssize_t got = pread(found.file.fd.get(), code.data(), code.size(), static_cast<off_t>(entry));
    if (got <= 0) return false;
    auto size = sizes.find(entry);
    BreakpointPlace place =
        find_breakpoint_place(std::span(code).first(static_cast<std::size_t>(got)),
                              size == sizes.end() ? 0 : size->second, kArguments[function]);
    entry += place.behind_entry;
    if (place.stepped) found.stepped |= 1U << function;
    return true;
  };
  for (std::size_t f = 0; f < found.allocates.size(); ++f)
    if (!move(found.allocates[f], f)) return false;
  return move(found.free, wire::kAllocates) &&
         std::all_of(found.others.begin(), found.others.end(),
                     [&](OtherFunction& other) { return move(other.place, other.function); });
}

// Index as in wire::Allocates; nullopt: none of these.
std::optional<std::size_t> like_which(std::string_view name) {
  if (std::find(kLikeMalloc.begin(), kLikeMalloc.end(), name) != kLikeMalloc.end())
    return static_cast<std::size_t>(wire::Allocates::malloc);
  if (std::find(kLikeFree.begin(), kLikeFree.end(), name) != kLikeFree.end()) return wire::kAllocates;
  if (name == kLikeRealloc) return static_cast<std::size_t>(wire::Allocates::realloc);
  return std::nullopt;
}

struct Others {
  std::map<std::uint64_t, std::size_t> functions;  // by offset
  std::set<std::uint64_t> throwing;                // offsets
  bool of_libc = false;
};

struct InFile {
  FoundAllocator allocator;
  FunctionSizes sizes;
};

// In a static program the linker may have made the functions local symbols.
void take_symbols(const ElfFile& elf, const ElfFile::Symbols& table, bool local, InFile& out,
                  Others& others) {
  ElfFile::Names names(elf, table);
  elf.for_each(table, [&](const Elf64_Sym& symbol, std::uint32_t number) {
    // An undefined symbol may have a value: its PLT entry in a non-PIE program.
    if (symbol.st_shndx == SHN_UNDEF || !symbol.st_value || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
        (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL && !local))
      return number < kMaxSymbols;
    std::string_view name = names.of(symbol);
    auto function = std::find(kFunctionNames.begin(), kFunctionNames.end(), name);
    bool frees = name == "free";
    bool throws = std::find(kThrowing.begin(), kThrowing.end(), name) != kThrowing.end();
    auto like = like_which(name);
    others.of_libc |= name == kOfLibc;
    if (function == kFunctionNames.end() && !frees && !throws && !like) return number < kMaxSymbols;
    auto at = elf.offset_of(symbol.st_value);
    std::uint64_t place = at ? *at : 0;
    out.sizes.emplace(place, symbol.st_size);
    if (function != kFunctionNames.end())
      out.allocator.allocates[static_cast<std::size_t>(function - kFunctionNames.begin())] = place;
    if (frees) out.allocator.free = place;
    if (like) others.functions[place] = *like;
    if (throws) others.throwing.insert(place);
    return number < kMaxSymbols;
  });
}

std::optional<InFile> allocator_in(ProcessMemory::File file, bool program) {
  auto elf = ElfFile::open(file.fd.get());
  if (!elf) return std::nullopt;
  bool local = program && !elf->needs_libraries();
  InFile in_file{{std::move(file), {}, 0, {}, 0, false, false}, {}};
  FoundAllocator& out = in_file.allocator;
  Others others;
  for (const ElfFile::Symbols& table : elf->symbols()) take_symbols(*elf, table, local, in_file, others);
  // Two names of one function would count each call twice.
  std::set<std::uint64_t> places;
  for (std::uint64_t& place : out.allocates)
    if (place && !places.insert(place).second) place = 0;
  places.insert({0, out.free});
  // If malloc() is libc's, operator new is libstdc++'s, which calls it.
  if (!others.of_libc) {
    for (std::uint64_t place : others.throwing) out.has_own_new |= places.insert(place).second;
    auto next = out.others.begin();
    for (auto [place, function] : others.functions)
      if (places.insert(place).second) *next++ = {place, function};
  }
  return out.allocates[0] && out.free ? std::optional(std::move(in_file)) : std::nullopt;
}

int rank_of(std::string_view file, bool program) {
  if (program) return 0;
  if (file.find("malloc") != std::string_view::npos) return 1;
  if (file.starts_with("libc.so") || file.starts_with("libc-2.") || file.starts_with("ld-musl") ||
      file.starts_with("libc.musl"))
    return 2;
  return 3;
}

}  // namespace

bool reads_by_itself(std::uint64_t file_system) {
  constexpr std::array<std::uint64_t, 18> kDo = {
      EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,   BTRFS_SUPER_MAGIC,      F2FS_SUPER_MAGIC,
      TMPFS_MAGIC,          RAMFS_MAGIC,       OVERLAYFS_SUPER_MAGIC,  SQUASHFS_MAGIC,
      EROFS_SUPER_MAGIC_V1, CRAMFS_MAGIC,      ISOFS_SUPER_MAGIC,      MSDOS_SUPER_MAGIC,
      REISERFS_SUPER_MAGIC, NILFS_SUPER_MAGIC, 0x2011bab0 /* exFAT */, 0x3153464a /* JFS */,
      0x2fc12fc1 /* ZFS */, 0xca451a4e /* bcachefs */};
  return std::find(kDo.begin(), kDo.end(), file_system) != kDo.end();
}

Result<FoundAllocator> find_allocator(const ProcessMemory& memory, std::span<const Mapping> maps) {
  std::vector<std::pair<int, const Mapping*>> candidates;
  std::set<std::pair<std::string, std::uint64_t>> seen;
  bool program = true;  // mapped lowest, except for mappings without an address of their own
  for (const Mapping& m : maps) {
    if (m.inode == 0 || !m.executable || !seen.emplace(m.device, m.inode).second) continue;
    if (int rank = rank_of(base_name(m.path), std::exchange(program, false)); rank < 3)
      candidates.emplace_back(rank, &m);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [rank, mapping] : candidates) {
    auto file = memory.open_file(*mapping);
    if (!file) continue;
    if (!answers(file->fd.get()))
      return Error::failed("its allocator is on a file system that may not answer");
    if (auto in_file = allocator_in(*std::move(file), rank == 0)) {
      FoundAllocator& found = in_file->allocator;
      std::string_view name = base_name(mapping->path);
      found.glibc = name.starts_with("libc.so.6") || name.starts_with("libc-2.");
      if (!bring_in_code(found, in_file->sizes)) return Error::failed("its allocator's code cannot be read");
      return std::move(found);
    }
  }
  return Error::failed("no allocator is found in it");
}

bool Heap::may_be_free(std::uint64_t address) const {
  if (address < begin || address >= end) return false;
  auto after = living.upper_bound(address);
  return after == living.begin() || address >= std::prev(after)->second;
}

// Parses the headers like block_held(). The last chunk is free memory (top).
Heap read_heap(const ProcessMemory& memory, std::uint64_t begin, std::uint64_t end, Bytes least) {
  constexpr std::uint64_t kFlags = 7, kPreviousInUse = 1, kSmallest = 32, kAlignment = 16, kHeader = 8;
  constexpr std::uint64_t kPageSize = 4096, kAtOnce = 32 * kPageSize;
  constexpr std::uint64_t kMaxReads = (1 << 30) / kAtOnce;
  constexpr int kTries = 3;
  std::vector<std::byte> bytes(kAtOnce);
  std::uint64_t reads = 0;
  Heap best;
  for (int tries = 0; tries < kTries && best.end < end; ++tries) {
    std::uint64_t there = 0;
    std::uint32_t present = 0;
    auto header_of = [&](std::uint64_t block) -> std::optional<std::uint64_t> {
      std::uint64_t at = block + kHeader, page = at / kPageSize * kPageSize;
      if (!there || page < there || page >= there + kAtOnce) {
        if (++reads > kMaxReads) return std::nullopt;
        there = page;
        present = memory.read_present(there, bytes);
      }
      if (!(present >> (page - there) / kPageSize & 1)) return std::nullopt;
      std::uint64_t header = 0;
      std::memcpy(&header, bytes.data() + (at - there), sizeof(header));
      return header;
    };
    Heap found{begin, begin, {}};
    for (auto header = header_of(begin); header && found.end < end;) {
      std::uint64_t size = *header & ~kFlags, next = found.end + size;
      if (size < kSmallest || size % kAlignment || size > end - found.end) break;
      header = next + kSmallest <= end ? header_of(next) : std::optional(std::uint64_t{0});
      if (!header) break;
      if ((*header & kPreviousInUse) && size >= static_cast<std::uint64_t>(least.count))
        found.living.emplace(found.end, next);
      found.end = next + kSmallest <= end ? next : end;
    }
    if (found.end >= best.end) best = std::move(found);
  }
  return best;
}

// malloc.c, "A chunk of memory": a block is preceded by its size with flags in the low bits; the flags of the
// next chunk's size tell whether this one is in use.
std::optional<bool> block_held(const ProcessMemory& memory, std::uint64_t address, Bytes size, bool resized) {
  constexpr std::uint64_t kFlags = 7, kPreviousInUse = 1, kMapped = 2;
  constexpr std::uint64_t kMaxBeyond = 2 * 4096;  // above the requested size: rounded up to pages
  auto asked = static_cast<std::uint64_t>(size.count);
  auto header = memory.read<std::uint64_t>(address - 8);
  if (!header) {  // that of a block that lives was written to: without memory behind it, it was unmapped
    auto page = memory.page_at(address - 8);
    return page && !page->held ? std::optional(false) : std::nullopt;
  }
  std::uint64_t bytes = *header & ~kFlags;
  if (bytes < asked) return false;
  if (*header & kMapped) return true;  // with a large alignment it has the rest of its mapping
  if (!resized && bytes > asked + kMaxBeyond) return false;
  auto next = memory.read<std::uint64_t>(address - 8 + bytes);
  if (!next) return std::nullopt;
  return (*next & kPreviousInUse) != 0;
}

}  // namespace oomcast
