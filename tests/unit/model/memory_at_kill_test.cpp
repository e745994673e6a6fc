#include "model/memory_at_kill.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

OomDump with_stats(std::vector<MemcgStat> stats) {
  OomDump dump;
  dump.stats.push_back({"/a", std::move(stats)});
  return dump;
}

TEST(MemoryAtKill, is_unknown_without_statistics_or_when_they_may_be_anothers) {
  EXPECT_FALSE(memory_at_kill(OomDump{}, KiB(4)));
  OomDump dump = with_stats({{"anon", 7}});
  ASSERT_TRUE(memory_at_kill(dump, KiB(4)));
  dump.interleaved = true;
  EXPECT_FALSE(memory_at_kill(dump, KiB(4)));
}

TEST(MemoryAtKill, takes_shmem_out_of_file_and_adds_up_the_kernels_parts) {
  OomDump dump = with_stats({{"anon", 100},
                             {"file", 50},
                             {"shmem", 20},
                             {"kernel_stack", 1},
                             {"pagetables", 2},
                             {"slab", 4},
                             {"swap", 9}});
  auto memory = memory_at_kill(dump, KiB(4));
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{100});
  EXPECT_EQ(memory->file, Bytes{30});
  EXPECT_EQ(memory->shmem, Bytes{20});
  EXPECT_EQ(memory->kernel, Bytes{7});
  EXPECT_EQ(memory->slab, Bytes{4});
  EXPECT_EQ(memory->swap, Bytes{9});
  dump.stats[0].stats.push_back({"kernel", 8});
  EXPECT_EQ(memory_at_kill(dump, KiB(4))->kernel, Bytes{8}) << "its own sum comes first";
}

TEST(MemoryAtKill, adds_up_the_cgroups_of_old_kernels) {
  OomDump dump = with_stats({{"cache", 50}, {"rss", 100}, {"shmem", 5}});
  dump.stats.push_back({"/a/b", {{"cache", 1}, {"rss", 2}, {"shmem", 1}}});
  dump.usage = {{MemcgCounter::memory, {200}, Bytes{200}, 3},
                {MemcgCounter::memory_swap, {260}, Bytes{300}, 0},
                {MemcgCounter::kmem, {40}, std::nullopt, 0}};
  auto memory = memory_at_kill(dump, KiB(4));
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{102});
  EXPECT_EQ(memory->file, Bytes{45});
  EXPECT_EQ(memory->shmem, Bytes{6});
  EXPECT_EQ(memory->kernel, Bytes{40});
  EXPECT_EQ(memory->swap, Bytes{60});
}

OomDump of_the_machine() {
  OomDump dump;
  OomMemInfo& info = dump.mem_info;
  info.pages = {{"active_anon", 10},
                {"inactive_anon", 200},
                {"isolated_anon", 1},
                {"active_file", 3},
                {"inactive_file", 4},
                {"isolated_file", 0},
                {"slab_reclaimable", 50},
                {"slab_unreclaimable", 70},
                {"shmem", 11},
                {"pagetables", 5},
                {"free", 9},
                {"unevictable", 8}};
  info.ram = {1000, 100};
  info.swap = {MiB(1), MiB(3)};
  info.zones = {{0, "DMA", KiB(8), KiB(1), KiB(2), KiB(3), {}, {}},
                {1, "Normal", KiB(28), KiB(40), {}, {}, {}, {}}};
  for (int i = 1; i <= 40; ++i) info.slabs.push_back({"slab-" + std::to_string(i), KiB(i), KiB(2 * i)});
  return dump;
}

TEST(MemoryAtKill, of_the_machine_is_by_its_lists_of_pages) {
  auto memory = memory_at_kill(of_the_machine(), KiB(4));
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, KiB(4 * 200)) << "without shared memory, which is on the same lists";
  EXPECT_EQ(memory->shmem, KiB(4 * 11));
  EXPECT_EQ(memory->file, KiB(4 * 7));
  EXPECT_EQ(memory->slab, KiB(4 * 120));
  EXPECT_EQ(memory->kernel, KiB(4 * 125));
  EXPECT_EQ(memory->swap, MiB(2));
  EXPECT_FALSE(memory_at_kill(of_the_machine(), std::nullopt)) << "pages of an unknown size";
  OomDump cut = of_the_machine();
  cut.mem_info.pages = {{"free", 9}};
  cut.mem_info.swap.free.reset();
  EXPECT_FALSE(memory_at_kill(cut, KiB(4)));
}

std::optional<Bytes> part_of(const MemoryAtKill& memory, std::string_view name) {
  for (const MemoryAtKill::Part& part : memory.parts)
    if (part.name == name) return part.size;
  return std::nullopt;
}

TEST(MemoryAtKill, counts_each_page_of_the_machine_once) {
  OomDump dump = of_the_machine();
  dump.mem_info.pages.push_back({"free_pcp", 2});
  dump.mem_info.nodes = {{0, KiB(16), {}, {}}, {1, KiB(8), MiB(1), {}}};
  dump.mem_info.huge_pages = {{0, 4, 4, MiB(2)}, {0, 0, 0, GiB(1)}};
  auto memory = memory_at_kill(dump, KiB(4));
  ASSERT_TRUE(memory);
  Bytes sum;
  for (const MemoryAtKill::Part& part : memory->parts) sum += part.size;
  // anon and shmem 211, file 7, unevictable 8, slab 120, pagetables 5, free 11
  EXPECT_EQ(sum, KiB(4 * (211 + 7 + 8 + 120 + 5 + 11)) + KiB(24) + MiB(1) + MiB(8));
  EXPECT_EQ(part_of(*memory, "hugetlb"), MiB(8));
  EXPECT_EQ(part_of(*memory, "kernel_stack"), KiB(24));
  EXPECT_EQ(part_of(*memory, "shmem"), KiB(44));
}

TEST(MemoryAtKill, of_the_first_hierarchy_counts_the_children_too) {
  auto memory = memory_at_kill(with_stats({{"cache", 0},
                                           {"rss", 10},
                                           {"shmem", 0},
                                           {"total_cache", 50},
                                           {"total_rss", 1000},
                                           {"total_shmem", 20}}),
                               KiB(4));
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{1000});
  EXPECT_EQ(memory->file, Bytes{30});
}

TEST(MemoryAtKill, tells_what_of_the_kernels_memory_its_parts_do_not_name) {
  auto memory = memory_at_kill(with_stats({{"anon", 100},
                                           {"kernel", 50},
                                           {"kernel_stack", 5},
                                           {"slab_unreclaimable", 15},
                                           {"slab", 15},
                                           {"sock", 7}}),
                               KiB(4));
  ASSERT_TRUE(memory);
  EXPECT_EQ(part_of(*memory, "kernel_other"), Bytes{30});
  EXPECT_EQ(part_of(*memory, "sock"), Bytes{7});
  EXPECT_FALSE(part_of(*memory, "slab")) << "it is counted by its halves";
}

TEST(MachineAtKill, has_the_zones_the_largest_slabs_and_what_is_free) {
  auto machine = machine_at_kill(of_the_machine(), KiB(4));
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->ram, KiB(3600));
  EXPECT_EQ(machine->free, KiB(36));
  EXPECT_EQ(machine->swap_total, MiB(3));
  ASSERT_EQ(machine->zones.size(), 2u);
  EXPECT_EQ(machine->zones[1].node, 1u);
  EXPECT_EQ(machine->zones[1].min, KiB(40));
  EXPECT_EQ(machine->zones[1].low, std::nullopt);
  ASSERT_EQ(machine->slabs.size(), MachineAtKill::kMaxSlabs);
  EXPECT_EQ(machine->slabs[0].name, "slab-40");
  auto of_unknown_pages = machine_at_kill(of_the_machine(), std::nullopt);
  ASSERT_TRUE(of_unknown_pages) << "zones are printed in kB";
  EXPECT_FALSE(of_unknown_pages->ram);
}

TEST(MachineAtKill, has_the_nodes_of_a_kill_that_was_not_a_memory_cgroups) {
  OomDump dump;
  dump.constraint.emplace();
  dump.invoked.emplace();
  dump.invoked->order = 0;
  dump.constraint->scope = OomConstraintScope::mempolicy;
  dump.constraint->nodemask = "0";
  dump.constraint->cpuset = "/";
  dump.constraint->mems_allowed = "0-1";
  auto machine = machine_at_kill(dump, KiB(4));
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->nodemask, "0");
  EXPECT_EQ(machine->mems_allowed, "0-1");
  dump.constraint->nodemask = "(null)";
  EXPECT_FALSE(machine_at_kill(dump, KiB(4))->nodemask);
  dump.constraint->scope = OomConstraintScope::memcg;
  EXPECT_FALSE(machine_at_kill(dump, KiB(4)));
  EXPECT_FALSE(machine_at_kill(OomDump{}, KiB(4)));
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
  auto tasks = tasks_at_kill(dump, KiB(64)).rows;
  ASSERT_EQ(tasks.size(), Episode::kMaxTasks);
  EXPECT_EQ(tasks[0].process.id.tgid, 3u);
  EXPECT_EQ(tasks[0].swap, KiB(64000));
  EXPECT_EQ(tasks[1].process.id.tgid, 100u);
  EXPECT_EQ(tasks[1].rss, KiB(6400));
  dump.tasks[0].rss_pages = ~std::uint64_t{0};
  EXPECT_EQ(tasks_at_kill(dump, KiB(64)).rows.size(), Episode::kMaxTasks)
      << "a number that no machine has is none";
}

}  // namespace
}  // namespace oomcast
