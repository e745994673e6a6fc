#include "blame/allocator.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

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
  std::array<char, 16> in_file{}, here{};
  auto place = static_cast<off_t>(found->allocates[static_cast<std::size_t>(wire::Allocates::malloc)]);
  ASSERT_EQ(pread(found->file.fd.get(), in_file.data(), in_file.size(), place), 16);
  std::memcpy(here.data(), dlsym(RTLD_DEFAULT, "malloc"), here.size());
  EXPECT_EQ(in_file, here);
  EXPECT_NE(found->free, 0u);
  EXPECT_NE(found->free, found->allocates[0]);
}

TEST(FindAllocator, a_process_without_one_is_said_to_have_none) {
  Self self;
  std::erase_if(self.maps, [](const Mapping& m) { return m.inode != 0; });
  EXPECT_FALSE(find_allocator(self.memory, self.maps));
}

TEST(BlockHeld, a_header_of_glibc_tells_whether_a_large_block_lives) {
  Self self;
  auto found = find_allocator(self.memory, self.maps);
  if (!found || !found->glibc) GTEST_SKIP() << "another allocator, as the sanitizers have one";
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
