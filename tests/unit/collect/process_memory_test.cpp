#include "collect/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "fixture_tree.h"

namespace oomcast {
namespace {

TEST(ParseMaps, reads_what_the_kernel_prints) {
  auto maps = parse_maps(
      "00400000-0041f000 r-xp 00001000 fe:00 131 /usr/bin/my prog\n"
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
      "7ffe00000000-7ffe00021000 rw-s 00000000 00:01 9 /dev/shm/x (deleted)\n");
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].begin, 0x400000u);
  EXPECT_EQ(maps[0].offset, 0x1000u);
  EXPECT_EQ(maps[0].inode, 131u);
  EXPECT_EQ(maps[0].path, "/usr/bin/my prog");
  EXPECT_TRUE(maps[0].executable);
  EXPECT_EQ(maps[1].path, "");
  EXPECT_TRUE(maps[2].shared);
  EXPECT_EQ(maps[2].path, "/dev/shm/x (deleted)");
}

TEST(ParseMaps, leaves_out_what_is_no_mapping) {
  EXPECT_TRUE(parse_maps("").empty());
  EXPECT_TRUE(
      parse_maps("nonsense\n5000-4000 r-xp 0 00:00 0\n1000-2000 r 0 00:00 0\n1000-2000 r-xp 0 00:00\n")
          .empty());
}

class OwnMemory : public testing::Test {
 protected:
  ProcessMemory memory_{Roots{}, static_cast<std::uint32_t>(getpid())};
};

TEST_F(OwnMemory, is_read_as_it_stands) {
  volatile std::uint64_t value = 0x1122334455667788;
  EXPECT_EQ(memory_.read<std::uint64_t>(reinterpret_cast<std::uint64_t>(&value)), 0x1122334455667788u);
}

TEST_F(OwnMemory, is_unknown_where_nothing_is_mapped) {
  EXPECT_EQ(memory_.read<std::uint64_t>(16), std::nullopt);
}

TEST(Arguments, of_more_than_the_bound_are_cut_and_that_is_said) {
  FixtureTree tree;
  tree.write("proc/7/cmdline", std::string(4096, 'a'));
  tree.write("proc/8/cmdline", std::string(5000, 'a'));
  EXPECT_FALSE(ProcessMemory(tree.roots(), 7).arguments()->truncated);
  auto cut = ProcessMemory(tree.roots(), 8).arguments();
  EXPECT_TRUE(cut->truncated);
  EXPECT_EQ(cut->args[0].size(), 4096u);
  EXPECT_EQ(ProcessMemory(tree.roots(), 9).arguments(), std::nullopt);
}

TEST(Arguments, and_environment_are_read_only_where_they_are_in_memory) {
  FixtureTree tree;
  std::string stat = "7 (a) S";
  for (int field = 4; field <= 52; ++field) {
    const std::uint64_t at[] = {4096 + 100, 4096 + 200, 4096 + 200, 2 * 4096 + 50};
    stat += " " + std::to_string(field >= 48 && field <= 51 ? at[field - 48] : 1);
  }
  tree.write("proc/7/stat", stat + "\n");
  tree.write("proc/7/cmdline", "a");
  tree.write("proc/7/environ", "B=1");
  auto shows = [&](std::vector<std::uint64_t> entries) {
    tree.write("proc/7/pagemap",
               {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(entries[0])});
    ProcessMemory memory(tree.roots(), 7);
    return std::pair(memory.arguments().has_value(), memory.environment(4096).has_value());
  };
  constexpr std::uint64_t kHere = std::uint64_t{1} << 63;
  EXPECT_EQ(shows({0, kHere, kHere}), std::pair(true, true));
  EXPECT_EQ(shows({0, kHere, 0}), std::pair(false, false)) << "both may be read up to there";
  EXPECT_EQ(shows({0, 0, kHere}), std::pair(false, false));
}

TEST_F(OwnMemory, that_was_never_touched_is_not_brought_there) {
  auto* page =
      static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  auto at = reinterpret_cast<std::uint64_t>(page);
  EXPECT_FALSE(memory_.read<std::uint64_t>(at));
  EXPECT_FALSE(memory_.page_at(at)->held);
  page[0] = 1;
  EXPECT_EQ(memory_.read<std::uint64_t>(at), 1u);
  munmap(page, 4096);
}

TEST_F(OwnMemory, of_a_file_that_was_never_touched_is_as_the_file_has_it) {
  char name[] = "/tmp/oomcast-mapped-XXXXXX";
  UniqueFd fd(mkstemp(name));
  std::string bytes(2 * 4096, 'f');
  ASSERT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto* at =
      static_cast<char*>(mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0));
  ASSERT_NE(at, MAP_FAILED);
  auto begin = reinterpret_cast<std::uint64_t>(at);
  at[4095] = 'm';  // the other page does not come with it
  std::array<std::byte, 2> both{};
  ASSERT_FALSE(memory_.read(begin + 4095, both));
  memory_.set_file({std::move(fd), {{begin, begin + bytes.size(), 0, true, false, false, 1, "", name}}});
  ASSERT_TRUE(memory_.read(begin + 4095, both));
  EXPECT_EQ(both[0], std::byte{'m'});
  EXPECT_EQ(both[1], std::byte{'f'});
  munmap(at, bytes.size());
  unlink(name);
}

TEST(SharedMemory, of_a_forked_process_is_read_and_stays_shared) {
  constexpr std::size_t kSize = 64 * 4096;
  auto* at =
      static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(at, MAP_FAILED);
  madvise(at, kSize, MADV_NOHUGEPAGE);
  std::memset(at, 's', kSize);
  pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(child));
  auto begin = reinterpret_cast<std::uint64_t>(at);
  // Bit 56 of pagemap: mapped by one process alone.
  auto exclusive = [&] {
    UniqueFd pagemap(open(fmt::format("/proc/{}/pagemap", child).c_str(), O_RDONLY));
    std::array<std::uint64_t, 64> entries{};
    EXPECT_EQ(pread(pagemap.get(), entries.data(), sizeof(entries), static_cast<off_t>(begin / 4096 * 8)),
              static_cast<ssize_t>(sizeof(entries)));
    return std::ranges::count_if(entries, [](std::uint64_t entry) { return entry >> 56 & 1; });
  };
  EXPECT_EQ(exclusive(), 0);
  std::vector<std::byte> to(kSize / 2);
  EXPECT_EQ(memory.read_present(begin, to), 0xffffffffu);
  EXPECT_TRUE(memory.read(begin + kSize / 2, to));
  EXPECT_EQ(to.back(), std::byte{'s'});
  EXPECT_EQ(exclusive(), 0) << "a copy was charged to its cgroup";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  munmap(at, kSize);
}

// A file's page that is in memory, and one that was written to, which is the process's own.
struct PagesOfAFile {
  UniqueFd fd;
  char* at = nullptr;
  std::uint64_t begin = 0;
  std::vector<Mapping> mappings;

  PagesOfAFile() {
    char name[] = "/tmp/oomcast-mapped-XXXXXX";
    fd.reset(mkstemp(name));
    std::string bytes(2 * 4096, 'f');
    EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    at = static_cast<char*>(mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0));
    EXPECT_EQ(*static_cast<volatile char*>(at), 'f');
    at[4096] = 'm';
    begin = reinterpret_cast<std::uint64_t>(at);
    mappings = {{begin, begin + bytes.size(), 0, true, false, false, 1, "", name}};
    unlink(name);
  }
  ~PagesOfAFile() { munmap(at, 2 * 4096); }
  PagesOfAFile(const PagesOfAFile&) = delete;
};

TEST_F(OwnMemory, that_reclaim_may_take_before_the_read_is_left_where_its_guard_has_no_room) {
  PagesOfAFile pages;
  memory_.set_guard([](bool anon) { return anon; });
  std::vector<std::byte> to(2 * 4096);
  EXPECT_EQ(memory_.read_present(pages.begin, to), 2u) << "its own page stays where it is";
  EXPECT_EQ(to[4096], std::byte{'m'});
  EXPECT_FALSE(memory_.read<char>(pages.begin));
  EXPECT_EQ(memory_.read<char>(pages.begin + 4096), 'm');
  EXPECT_EQ(memory_.refused(), 2u);
  memory_.set_guard([](bool) { return true; });
  EXPECT_EQ(memory_.read_present(pages.begin, to), 3u);
  memory_.set_guard([](bool) { return false; });  // where there is swap
  EXPECT_EQ(memory_.read_present(pages.begin, to), 0u);
}

TEST_F(OwnMemory, that_its_guard_refuses_is_read_from_the_file) {
  PagesOfAFile pages;
  memory_.set_guard([](bool anon) { return anon; });
  memory_.set_file({std::move(pages.fd), pages.mappings});
  std::vector<std::byte> to(2 * 4096);
  EXPECT_EQ(memory_.read_present(pages.begin, to), 3u);
  EXPECT_EQ(to[0], std::byte{'f'});
  EXPECT_EQ(to[4096], std::byte{'m'});
  EXPECT_EQ(memory_.read<char>(pages.begin), 'f');
  EXPECT_EQ(memory_.refused(), 0u);
}

// Three pages of this process at a low address, so that their pagemap is a small file, which the tree shows.
struct LowPages {
  static constexpr std::size_t kPage = 4096, kPages = 3;
  static constexpr std::uint64_t kHere = std::uint64_t{1} << 63, kOnce = std::uint64_t{1} << 56;
  static constexpr std::uint64_t kBegin = 0x10000000;
  FixtureTree tree;
  std::vector<std::uint64_t> entries = std::vector<std::uint64_t>(kBegin / kPage + kPages, kHere | kOnce);
  bool mapped = false;

  LowPages() {
    auto* low = reinterpret_cast<void*>(kBegin);
    mapped = mmap(low, kPages * kPage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == low;
    if (mapped) std::memset(low, 7, kPages * kPage);
    tree.make_dir(dir());
    tree.link(dir() + "/mem", "/proc/self/mem");
  }
  ~LowPages() {
    if (mapped) munmap(reinterpret_cast<void*>(kBegin), kPages * kPage);
  }
  LowPages(const LowPages&) = delete;
  static std::string dir() { return fmt::format("proc/{}", getpid()); }
  void show(std::size_t page, std::uint64_t entry) { entries[kBegin / kPage + page] = entry; }
  ProcessMemory memory() const {
    tree.write(dir() + "/pagemap",
               {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(entries[0])});
    return {tree.roots(), static_cast<std::uint32_t>(getpid())};
  }
};

TEST(SwappedMemory, is_not_brought_back) {
  LowPages pages;
  if (!pages.mapped) GTEST_SKIP() << "something else is mapped there";
  pages.show(1, std::uint64_t{1} << 62);
  ProcessMemory memory = pages.memory();
  std::uint64_t second = LowPages::kBegin + LowPages::kPage;
  EXPECT_TRUE(memory.read<std::uint64_t>(second - 8));
  EXPECT_FALSE(memory.read<std::uint64_t>(second - 4)) << "its end is on the second page";
  EXPECT_FALSE(memory.read<std::uint64_t>(second));
  EXPECT_TRUE(memory.read<std::uint64_t>(second + LowPages::kPage));
}

TEST(DeviceMemory, is_never_asked_of_its_driver) {
  LowPages pages;
  if (!pages.mapped) GTEST_SKIP() << "something else is mapped there";
  pages.show(1, LowPages::kHere);  // as memory that a fork shares, and as a device's
  std::uint64_t second = LowPages::kBegin + LowPages::kPage;
  auto reads = [&](const char* mapping) {
    pages.tree.write(LowPages::dir() + "/maps", fmt::format("10000000-10003000 {}\n", mapping));
    ProcessMemory memory = pages.memory();
    std::vector<std::byte> to(LowPages::kPages * LowPages::kPage);
    std::uint32_t read = memory.read_present(LowPages::kBegin, to);
    EXPECT_EQ(memory.read<char>(second).has_value(), (read & 2) != 0) << mapping;
    EXPECT_EQ(memory.refused(), 0u) << mapping;
    return read;
  };
  for (const char* own : {"rw-p 00000000 00:00 0", "rw-p 00000000 00:00 0 [heap]",
                          "rw-p 00001000 fe:00 131 /usr/lib/libpython3.11.so"})
    EXPECT_EQ(reads(own), 7u) << own;
  for (const char* device : {"rw-s 00000000 00:05 77 /dev/nvidia0", "rw-p 00000000 00:05 77 /dev/nvidia0",
                             "rw-s 00000000 00:0e 12 anon_inode:i915.gem", "r--p 00000000 00:00 0 [vvar]",
                             "rw-s 00000000 00:15 9 /sys/devices/pci0000:00/0000:00:02.0/resource0",
                             "rw-s 00000000 00:0a 9 /dmabuf:"})
    EXPECT_EQ(reads(device), 5u) << device;
  pages.tree.remove(LowPages::dir() + "/maps");
  ProcessMemory unknown = pages.memory();
  EXPECT_EQ(unknown.read<char>(second), std::nullopt);
  EXPECT_EQ(unknown.refused(), 1u) << "it may be the process's own";
}

TEST(GoneMemory, is_not_read_from_whoever_has_its_pid_by_now) {
  FixtureTree tree;
  std::string dir = fmt::format("proc/{}", getpid());
  tree.write(dir + "/pagemap", "");
  tree.link(dir + "/mem", "/proc/self/mem");
  volatile std::uint64_t value = 7;
  ProcessMemory memory(tree.roots(), static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(memory.read<std::uint64_t>(reinterpret_cast<std::uint64_t>(&value)), std::nullopt);
  tree.remove(dir + "/pagemap");
  ProcessMemory untold(tree.roots(), static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(untold.read<std::uint64_t>(reinterpret_cast<std::uint64_t>(&value)), 7u)
      << "where pagemap cannot be read";
}

TEST_F(OwnMemory, holds_a_page_from_its_first_write_until_it_is_given_back) {
  auto* page =
      static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  auto held = [&] {
    auto state = memory_.page_at(reinterpret_cast<std::uint64_t>(page));
    return state && state->held;
  };
  EXPECT_FALSE(held());
  page[0] = 1;
  EXPECT_TRUE(held());
  madvise(page, 4096, MADV_DONTNEED);
  EXPECT_FALSE(held());
  munmap(page, 4096);
}

// Entries of pagemap: in memory (bit 63), and mapped by this process alone (bit 56).
constexpr std::uint64_t kShared = std::uint64_t{1} << 63, kOwn = kShared | std::uint64_t{1} << 56,
                        kSwapped = std::uint64_t{1} << 62;

std::string pagemap(std::initializer_list<std::uint64_t> entries) {
  return {reinterpret_cast<const char*>(std::data(entries)), entries.size() * sizeof(std::uint64_t)};
}

TEST(PrivateMemory, is_what_no_other_process_maps) {
  FixtureTree tree;
  tree.write("proc/7/maps",
             "1000-4000 rw-p 00000000 00:00 0\n4000-6000 rw-p 00000000 00:00 0 [heap]\n"
             "6000-7000 ---p 00000000 00:00 0\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 "
             "[vsyscall]\n");
  tree.write("proc/7/pagemap", pagemap({kOwn, kOwn, kShared, 0, kSwapped, kOwn, kOwn}));
  ProcessMemory memory(tree.roots(), 7);
  EXPECT_EQ(memory.private_memory(), KiB(8)) << "of 1000-6000: the first page is that of address 0";
  EXPECT_EQ(memory.private_memory(KiB(19)), std::nullopt) << "20 KiB of addresses";
}

TEST(PrivateMemory, of_who_ends_meanwhile_is_unknown) {
  FixtureTree tree;
  tree.write("proc/7/maps", "1000-4000 rw-p 00000000 00:00 0\n");
  EXPECT_EQ(ProcessMemory(tree.roots(), 7).private_memory(), std::nullopt);
  tree.write("proc/7/pagemap", pagemap({kOwn, kOwn}));
  EXPECT_EQ(ProcessMemory(tree.roots(), 7).private_memory(), std::nullopt);
}

TEST(PrivateMemory, is_what_smaps_rollup_says) {
  pid_t pid = fork();
  if (pid == 0) {
    execlp("sleep", "sleep", "60", nullptr);
    _exit(1);
  }
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(pid));
  auto rollup = [&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    std::int64_t kib = 0, one = 0;
    for (std::string line; std::getline(file, line);)
      if (std::istringstream words(line); line.starts_with("Private_") && words >> line >> one) kib += one;
    return KiB(kib);
  };
  auto asleep = [&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/wchan");
    std::string where;
    return std::getline(file, where) && where.find("nanosleep") != std::string::npos;
  };
  for (int i = 0; i < 1000 && !asleep(); ++i) usleep(10000);
  if (!asleep()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    GTEST_SKIP() << "where it sleeps is not told here";
  }
  EXPECT_GT(rollup(), Bytes{});
  EXPECT_EQ(memory.private_memory(), rollup());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace oomcast
