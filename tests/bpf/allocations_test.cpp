// The breakpoints by which blame learns which blocks stay.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "blame/allocator.h"
#include "collect/bpf_source_allocations.h"
#include "collect/bpf_source_faults.h"
#include "collect/process_memory.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// This machine, but for what its /proc/meminfo says.
class Machine {
 public:
  explicit Machine(const std::string& available) : dir_(testing::TempDir() + "oomcast-room-XXXXXX") {
    if (!mkdtemp(dir_.data())) return;
    std::filesystem::create_directory(dir_ + "/proc");
    std::filesystem::create_directory_symlink("/sys", dir_ + "/sys");
    std::ofstream(dir_ + "/proc/meminfo")
        << "MemTotal:       1000000 kB\nMemAvailable:   " << available << " kB\n";
  }
  ~Machine() { std::filesystem::remove_all(dir_); }
  Machine(const Machine&) = delete;
  Roots roots() const { return Roots{dir_}; }

 private:
  std::string dir_;
};

Result<Allocator> own_allocator() {
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(getpid()));
  auto maps = memory.maps();
  if (!maps) return maps.error();
  auto found = find_allocator(memory, *maps);
  if (!found) return found.error();
  return Allocator{std::move(found->file.fd), found->allocates, found->free, found->others};
}

unsigned char code_at_malloc() {
  static void* (*volatile const function)(std::size_t) = &std::malloc;
  return *reinterpret_cast<const volatile unsigned char*>(function);
}

constexpr unsigned char kBreakpoint = 0xCC;  // int3

// What became of it, and malloc()'s first byte meanwhile.
std::pair<Status, unsigned char> watched_on(const Machine& machine) {
  auto features = read_kernel_features(Roots{});
  if (!features) return {features.error(), code_at_malloc()};
  FaultOptions options;
  options.roots = machine.roots();
  options.features = *features;
  options.processes = {static_cast<std::uint32_t>(getpid())};
  options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  auto source = FaultSource::open(options);
  if (!source) return {source.error(), code_at_malloc()};
  auto allocator = own_allocator();
  if (!allocator) return {allocator.error(), code_at_malloc()};
  MonoTime now = mono_now();
  Status watched =
      (*source)->watch_allocations(static_cast<std::uint32_t>(getpid()), *allocator, 1, now, now + 1s);
  unsigned char code = code_at_malloc();
  (*source)->end_allocations(mono_now());
  return {watched, code};
}

TEST(Breakpoints, are_set_while_the_machine_has_room) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  unsigned char before = code_at_malloc();
  ASSERT_NE(before, kBreakpoint);
  auto [watched, code] = watched_on(Machine("500000"));
  if (!watched) GTEST_SKIP() << watched.error().message;
  EXPECT_EQ(code, kBreakpoint);
  EXPECT_EQ(code_at_malloc(), before);
}

// What is done with a record may be what makes the next one: of a look at all processes, its own.
TEST(Records, are_left_by_a_reader_although_each_makes_another) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  FaultOptions options;
  options.processes = {static_cast<std::uint32_t>(getpid())};
  options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  auto source = FaultSource::open(options);
  if (!source) GTEST_SKIP() << source.error().message;
  auto allocator = own_allocator();
  ASSERT_TRUE(allocator);
  MonoTime now = mono_now();
  if (auto ok = (*source)->begin(now); !ok) GTEST_SKIP() << ok.error().message;
  if (auto ok = (*source)->watch_allocations(options.processes[0], *allocator, 1, now, now + 60s); !ok)
    GTEST_SKIP() << ok.error().message;
  constexpr std::size_t kAlwaysTold = 128 << 20, kTooMany = 20'000;
  void* volatile block = nullptr;
  auto allocate = [&] {
    std::free(block);
    block = std::malloc(kAlwaysTold);
  };
  std::size_t records = 0;
  // At first calls are only counted.
  for (MonoTime until = now + 10s; records == 0 && mono_now() < until;) {
    allocate();
    ASSERT_TRUE((*source)->drain(
        [&](std::span<const std::byte> record) {
          if (!wire::is_fault(record) && ++records < kTooMany) allocate();
        },
        mono_now()));
  }
  (*source)->end_allocations(mono_now());
  std::free(block);
  EXPECT_GT(records, 0U);
  EXPECT_LT(records, kTooMany / 2);
}

TEST(Breakpoints, are_not_set_where_the_kernel_may_have_no_page_for_one) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  unsigned char before = code_at_malloc();
  auto [watched, code] = watched_on(Machine("20000"));
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().message, kNoPages);
  EXPECT_EQ(code, before);
}

// The page in which malloc() begins, in this process.
class Mapped {
 public:
  Mapped(const Allocator& allocator, int times) {
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < times; ++i) {
      // Apart from each other: side by side they would be one.
      int protection = i % 2 ? PROT_READ : PROT_READ | PROT_EXEC;
      all_.push_back(mmap(nullptr, page, protection, MAP_PRIVATE, allocator.file.get(),
                          static_cast<off_t>(allocator.allocates[0] / page * page)));
    }
  }
  ~Mapped() {
    for (void* at : all_) munmap(at, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  }
  Mapped(const Mapped&) = delete;

 private:
  std::vector<void*> all_;
};

TEST(Breakpoints, are_not_set_in_a_process_that_maps_the_allocators_page_often_nor_the_page_copied) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  auto allocator = own_allocator();
  ASSERT_TRUE(allocator) << allocator.error().message;
  unsigned char before = code_at_malloc();
  auto [usual, code_then] = watched_on(Machine("500000"));
  if (!usual) GTEST_SKIP() << usual.error().message;
  {
    Mapped often(*allocator, static_cast<int>(CodeMappings::kMaxOfProcess));
    auto [watched, code] = watched_on(Machine("500000"));
    ASSERT_FALSE(watched);
    EXPECT_NE(watched.error().message.find("has mapped its allocator 9 times"), std::string::npos)
        << watched.error().message;
    EXPECT_EQ(code, before);
  }
  auto [watched, code] = watched_on(Machine("500000"));
  EXPECT_TRUE(watched) << watched.error().message;
  EXPECT_EQ(code, kBreakpoint) << "once they are unmapped";
}

}  // namespace
}  // namespace oomcast
