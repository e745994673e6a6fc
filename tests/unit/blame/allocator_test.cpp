#include "blame/allocator.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <gtest/gtest.h>
#include <libelf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "blame/breakpoint_place.h"
#include "sanitized.h"

namespace oomcast {
namespace {

struct Self {
  ProcessMemory memory{Roots{}, static_cast<std::uint32_t>(getpid())};
  std::vector<Mapping> maps = *memory.maps();
};

TEST(FindAllocator, is_where_calls_of_malloc_lead) {
  Self self;
  auto found = find_allocator(self.memory, self.maps);
  ASSERT_TRUE(found) << found.error().message;
  constexpr std::size_t kFurthest = 32;  // behind the entry
  std::array<char, 16> in_file{};
  std::array<char, 16 + kFurthest> here{};
  auto place = static_cast<off_t>(found->allocates[static_cast<std::size_t>(wire::Allocates::malloc)]);
  ASSERT_EQ(pread(found->file.fd.get(), in_file.data(), in_file.size(), place), 16);
  std::memcpy(here.data(), dlsym(RTLD_DEFAULT, "malloc"), here.size());
  EXPECT_NE(std::search(here.begin(), here.end(), in_file.begin(), in_file.end()), here.end());
  EXPECT_NE(found->free, 0u);
  EXPECT_NE(found->free, found->allocates[0]);
}

// A program with another allocator before libc's.
class Preloaded {
 public:
  explicit Preloaded(const char* library) {
    pid_ = fork();
    if (pid_ == 0) {
      setenv("LD_PRELOAD", library, 1);
      unsetenv("ASAN_OPTIONS");
      execl("/bin/sleep", "sleep", "60", nullptr);
      _exit(126);
    }
  }
  ~Preloaded() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Preloaded(const Preloaded&) = delete;
  Preloaded& operator=(const Preloaded&) = delete;
  std::optional<FoundAllocator> allocator(std::string_view name) const {
    ProcessMemory memory{Roots{}, static_cast<std::uint32_t>(pid_)};
    for (int tries = 0; tries < 500; ++tries, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      auto maps = memory.maps();
      if (!maps || std::none_of(maps->begin(), maps->end(), [&](const Mapping& m) {
            return m.executable && m.path.find(name) != std::string::npos;
          }))
        continue;
      if (auto found = find_allocator(memory, *maps)) return *std::move(found);
    }
    return std::nullopt;
  }

 private:
  pid_t pid_;
};

// Of an exported function in its file; 0: there is none of that name.
std::uint64_t place_in(const std::string& library, std::string_view function) {
  elf_version(EV_CURRENT);
  UniqueFd fd(open(library.c_str(), O_RDONLY | O_CLOEXEC));
  std::unique_ptr<Elf, decltype(&elf_end)> elf(elf_begin(fd.get(), ELF_C_READ, nullptr), &elf_end);
  std::uint64_t address = 0;
  for (Elf_Scn* at = elf_nextscn(elf.get(), nullptr); at; at = elf_nextscn(elf.get(), at)) {
    GElf_Shdr header;
    if (!gelf_getshdr(at, &header) || header.sh_type != SHT_DYNSYM) continue;
    GElf_Sym symbol;
    for (int i = 0; gelf_getsym(elf_getdata(at, nullptr), i, &symbol); ++i)
      if (elf_strptr(elf.get(), header.sh_link, symbol.st_name) == function) address = symbol.st_value;
  }
  GElf_Phdr part;
  for (int i = 0; gelf_getphdr(elf.get(), i, &part); ++i)
    if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
      return address - part.p_vaddr + part.p_offset;
  return 0;
}

// Where its breakpoint is.
std::uint64_t breakpoint_in(const std::string& library, const char* function) {
  std::uint64_t entry = place_in(library, function);
  std::array<std::uint8_t, 512> code{};
  UniqueFd fd(open(library.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_GT(pread(fd.get(), code.data(), code.size(), static_cast<off_t>(entry)), 0);
  return entry + find_breakpoint_place(code, code.size(), kRdi).behind_entry;
}

bool contains(const std::vector<std::uint64_t>& all, std::uint64_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// While its return is probed, no exception passes it.
TEST(FindAllocator, an_allocator_has_its_operator_delete_watched_and_no_operator_new_that_throws) {
  for (std::string name : {"jemalloc.so.2", "tcmalloc_minimal.so.4", "mimalloc.so.2"}) {
    std::string library = "/usr/lib/x86_64-linux-gnu/lib" + name;
    if (access(library.c_str(), R_OK) != 0) continue;  // scripts/setup --full
    auto found = Preloaded(library.c_str()).allocator(name);
    ASSERT_TRUE(found) << name;
    Allocator all{UniqueFd(), found->allocates, found->free, found->others};
    auto makes = all.places(static_cast<std::size_t>(wire::Allocates::malloc));
    auto frees = all.places(wire::kAllocates);
    EXPECT_GT(makes.size(), 1u) << name;
    EXPECT_TRUE(found->has_own_new) << name;
    for (const char* throwing : {"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"})
      EXPECT_FALSE(contains(makes, breakpoint_in(library, throwing))) << throwing << " of " << name;
    EXPECT_TRUE(contains(makes, breakpoint_in(library, "_ZnwmRKSt9nothrow_t"))) << name;
    EXPECT_GT(frees.size(), 1u) << name;
    std::set<std::uint64_t> places(makes.begin(), makes.end());
    places.insert(frees.begin(), frees.end());
    EXPECT_EQ(places.size(), makes.size() + frees.size()) << "each is counted once, in " << name;
    EXPECT_FALSE(found->glibc);
  }
}

// By magic number, as linux/magic.h and the file systems' own sources have it.
TEST(ReadsByItself, is_what_a_disk_or_memory_holds_and_nothing_that_asks_a_server_or_a_program) {
  for (std::uint64_t disk : {0xef53ull /* ext4 */, 0x58465342ull /* XFS */, 0x9123683eull /* Btrfs */,
                             0x01021994ull /* tmpfs */, 0x794c7630ull /* overlay */, 0x2fc12fc1ull /* ZFS */})
    EXPECT_TRUE(reads_by_itself(disk)) << std::hex << disk;
  for (std::uint64_t other :
       {0x65735546ull /* FUSE */, 0x6969ull /* NFS */, 0xff534d42ull /* CIFS */, 0xfe534d42ull /* SMB2 */,
        0x01021997ull /* 9p */, 0x00c36400ull /* Ceph */, 0x0bd00bd0ull /* Lustre */, 0x5346414full /* AFS */,
        0x47504653ull /* GPFS */, 0x19830326ull /* BeeGFS */, 0x12345678ull /* what comes next */})
    EXPECT_FALSE(reads_by_itself(other)) << std::hex << other;
}

TEST(FindAllocator, libc_has_no_others) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers have an allocator of their own";
  Self self;
  auto found = find_allocator(self.memory, self.maps);
  ASSERT_TRUE(found && found->glibc);
  Allocator all{UniqueFd(), found->allocates, found->free, found->others};
  EXPECT_EQ(all.places(wire::kAllocates), std::vector<std::uint64_t>{found->free});
}

TEST(FindAllocator, a_process_without_one_is_said_to_have_none) {
  Self self;
  std::erase_if(self.maps, [](const Mapping& m) { return m.inode != 0; });
  EXPECT_FALSE(find_allocator(self.memory, self.maps));
}

TEST(BlockHeld, a_block_whose_mapping_is_gone_was_freed) {
  Self self;
  constexpr std::size_t kSize = 2 << 20;
  void* mapping = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::uint64_t header = kSize | 2;  // as of a block with a mapping of its own
  std::memcpy(static_cast<char*>(mapping) + 8, &header, sizeof(header));
  auto address = reinterpret_cast<std::uint64_t>(mapping) + 16;
  EXPECT_EQ(block_held(self.memory, address, MiB(2) - Bytes{16}), true);
  EXPECT_EQ(block_held(self.memory, address, MiB(1)), true) << "aligned to 1 MiB";
  EXPECT_EQ(block_held(self.memory, address, MiB(3)), false) << "another one in its place";
  munmap(mapping, kSize);
  EXPECT_EQ(block_held(self.memory, address, MiB(2) - Bytes{16}), false);
}

// Two blocks of the heap, as they stand in memory.
TEST(BlockHeld, a_longer_block_is_another_one_unless_realloc_may_have_made_it_longer) {
  Self self;
  alignas(16) static std::array<std::uint64_t, 16 * 1024> chunks{};
  constexpr std::uint64_t kSize = 64 * 1024;
  chunks[1] = kSize | 1;
  chunks[1 + kSize / sizeof(chunks[0])] = 32 | 1;
  auto address = reinterpret_cast<std::uint64_t>(&chunks[2]);
  EXPECT_EQ(block_held(self.memory, address, KiB(63), false), true);
  EXPECT_EQ(block_held(self.memory, address, KiB(16), false), false);
  EXPECT_EQ(block_held(self.memory, address, KiB(16), true), true);
  chunks[1 + kSize / sizeof(chunks[0])] = 32;
  EXPECT_EQ(block_held(self.memory, address, KiB(16), true), false) << "free";
}

// A heap as it stands in memory: living blocks of 64 KiB and 48 bytes, a free one of 64 KiB, a living one,
// and what was not given out.
struct FakeHeap {
  static constexpr std::uint64_t kSize = 1 << 20, kLarge = 64 << 10;
  alignas(4096) static inline std::array<std::uint64_t, kSize / sizeof(std::uint64_t)> words{};
  std::uint64_t begin = reinterpret_cast<std::uint64_t>(words.data()), end = begin + kSize;
  std::uint64_t small = begin + kLarge, free = small + 48, last = free + kLarge, top = last + kLarge;
  FakeHeap() {
    header(begin) = kLarge | 1;
    header(small) = 48 | 1;
    header(free) = kLarge | 1;
    header(last) = kLarge;
    header(top) = (end - top) | 1;
  }
  std::uint64_t& header(std::uint64_t block) { return words[(block - begin) / sizeof(words[0]) + 1]; }
};

TEST(ReadHeap, tells_large_blocks_that_live_from_what_is_free) {
  Self self;
  FakeHeap f;
  Heap heap = read_heap(self.memory, f.begin, f.end, KiB(16));
  EXPECT_EQ(heap.end, f.end);
  EXPECT_FALSE(heap.may_be_free(f.begin + 4096));
  EXPECT_TRUE(heap.may_be_free(f.small + 20)) << "a small one is met by chance only";
  EXPECT_TRUE(heap.may_be_free(f.free + 4096));
  EXPECT_FALSE(heap.may_be_free(f.last + 4096));
  EXPECT_TRUE(heap.may_be_free(f.top + 4096));
  EXPECT_FALSE(heap.may_be_free(f.end));
}

TEST(ReadHeap, knows_nothing_behind_what_is_no_header) {
  Self self;
  FakeHeap f;
  f.header(f.last) = 0x7fff12345678;
  Heap heap = read_heap(self.memory, f.begin, f.end, KiB(16));
  EXPECT_EQ(heap.end, f.last);
  EXPECT_TRUE(heap.may_be_free(f.free + 4096));
  EXPECT_FALSE(heap.may_be_free(f.top + 4096));
  f.header(f.begin) = 0;
  EXPECT_FALSE(read_heap(self.memory, f.begin, f.end, KiB(16)).may_be_free(f.free + 4096));
}

TEST(BlockHeld, a_header_of_glibc_tells_whether_a_large_block_lives) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers have an allocator of their own";
  Self self;
  auto found = find_allocator(self.memory, self.maps);
  ASSERT_TRUE(found && found->glibc);
  for (std::size_t size : {std::size_t{3000}, std::size_t{100'000}, std::size_t{3} << 20}) {
    void* block = std::malloc(size);
    void* behind = std::malloc(size);  // else its place would be the heap's end, and unused
    auto address = reinterpret_cast<std::uint64_t>(block);
    Bytes bytes{static_cast<std::int64_t>(size)};
    EXPECT_EQ(block_held(self.memory, address, bytes), true) << size;
    EXPECT_EQ(block_held(self.memory, address, bytes + bytes + KiB(64)), false) << "another one in its place";
    std::free(block);
    EXPECT_NE(block_held(self.memory, address, bytes), true) << size;
    std::free(behind);
  }
}

}  // namespace
}  // namespace oomcast
