#include <gtest/gtest.h>

#include "model/logged_kill.h"

namespace oomcast {
namespace {

OomDump with_stats(std::vector<MemcgStat> stats) {
  OomDump dump;
  dump.stats.push_back({"/a", std::move(stats)});
  return dump;
}

TEST(MemoryAtKill, is_unknown_without_statistics_or_when_they_may_be_anothers) {
  EXPECT_FALSE(memory_at_kill(OomDump{}));
  OomDump dump = with_stats({{"anon", 7}});
  ASSERT_TRUE(memory_at_kill(dump));
  dump.interleaved = true;
  EXPECT_FALSE(memory_at_kill(dump));
}

TEST(MemoryAtKill, takes_shmem_out_of_file_and_adds_up_the_kernels_parts) {
  OomDump dump = with_stats({{"anon", 100},
                             {"file", 50},
                             {"shmem", 20},
                             {"kernel_stack", 1},
                             {"pagetables", 2},
                             {"slab", 4},
                             {"swap", 9}});
  auto memory = memory_at_kill(dump);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{100});
  EXPECT_EQ(memory->file, Bytes{30});
  EXPECT_EQ(memory->shmem, Bytes{20});
  EXPECT_EQ(memory->kernel, Bytes{7});
  EXPECT_EQ(memory->slab, Bytes{4});
  EXPECT_EQ(memory->swap, Bytes{9});
  dump.stats[0].stats.push_back({"kernel", 8});
  EXPECT_EQ(memory_at_kill(dump)->kernel, Bytes{8}) << "its own sum comes first";
}

TEST(MemoryAtKill, adds_up_the_cgroups_of_old_kernels) {
  OomDump dump = with_stats({{"cache", 50}, {"rss", 100}, {"shmem", 5}});
  dump.stats.push_back({"/a/b", {{"cache", 1}, {"rss", 2}, {"shmem", 1}}});
  dump.usage = {{MemcgCounter::memory, {200}, Bytes{200}, 3},
                {MemcgCounter::memory_swap, {260}, Bytes{300}, 0},
                {MemcgCounter::kmem, {40}, std::nullopt, 0}};
  auto memory = memory_at_kill(dump);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{102});
  EXPECT_EQ(memory->file, Bytes{45});
  EXPECT_EQ(memory->shmem, Bytes{6});
  EXPECT_EQ(memory->kernel, Bytes{40});
  EXPECT_EQ(memory->swap, Bytes{60});
}

TEST(TasksAtKill, are_the_largest_with_their_swap_in_bytes) {
  OomDump dump;
  for (std::uint32_t pid = 1; pid <= 100; ++pid) {
    TaskRow row;
    row.pid = pid;
    row.rss_pages = pid;
    row.swap_pages = pid == 3 ? 1000 : 0;
    dump.tasks.push_back(row);
  }
  auto tasks = tasks_at_kill(dump, KiB(64));
  ASSERT_EQ(tasks.size(), Episode::kMostTasks);
  EXPECT_EQ(tasks[0].process.id.tgid, 3u);
  EXPECT_EQ(tasks[0].swap, KiB(64000));
  EXPECT_EQ(tasks[1].process.id.tgid, 100u);
  EXPECT_EQ(tasks[1].rss, KiB(6400));
  dump.tasks[0].rss_pages = ~std::uint64_t{0};
  EXPECT_EQ(tasks_at_kill(dump, KiB(64)).size(), Episode::kMostTasks)
      << "a number that no machine has is none";
}

}  // namespace
}  // namespace oomcast
