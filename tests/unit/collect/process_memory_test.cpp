#include "collect/process_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(SwappedMemory, is_not_brought_back) {
  constexpr std::size_t kPage = 4096, kPages = 3;
  auto* low = reinterpret_cast<void*>(0x10000000);  // so that its pagemap is a small file
  auto* at = static_cast<char*>(mmap(low, kPages * kPage, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  if (at != low) GTEST_SKIP() << "something else is mapped at " << low;
  std::memset(at, 7, kPages * kPage);
  std::vector<std::uint64_t> entries(0x10000000 / kPage + kPages, std::uint64_t{1} << 63);
  entries[entries.size() - 2] = std::uint64_t{1} << 62;  // the second page
  FixtureTree tree;
  tree.write(fmt::format("proc/{}/pagemap", getpid()),
             {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(entries[0])});
  ProcessMemory memory(tree.roots(), static_cast<std::uint32_t>(getpid()));
  auto begin = reinterpret_cast<std::uint64_t>(at);
  EXPECT_TRUE(memory.read<std::uint64_t>(begin + kPage - 8));
  EXPECT_FALSE(memory.read<std::uint64_t>(begin + kPage - 4)) << "its end is on the second page";
  EXPECT_FALSE(memory.read<std::uint64_t>(begin + kPage));
  EXPECT_TRUE(memory.read<std::uint64_t>(begin + 2 * kPage));
  munmap(at, kPages * kPage);
}

TEST(GoneMemory, is_not_read_from_whoever_has_its_pid_by_now) {
  FixtureTree tree;
  std::string dir = fmt::format("proc/{}", getpid());
  tree.write(dir + "/pagemap", "");
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
