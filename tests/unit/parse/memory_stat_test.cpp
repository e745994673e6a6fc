#include "parse/memory_stat.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

TEST(MemoryStat, v1_takes_the_lines_with_descendants) {
  MemoryStat s =
      parse_memory_stat(Hierarchy::v1,
                        "cache 1\nrss 2\nshmem 3\nactive_file 4\n"
                        "hierarchical_memory_limit 9223372036854771712\n"
                        "total_cache 1000\ntotal_rss 2000\ntotal_shmem 300\ntotal_mapped_file 50\n"
                        "total_swap 60\ntotal_pgfault 70\ntotal_inactive_anon 11\ntotal_active_anon 12\n"
                        "total_inactive_file 13\ntotal_active_file 14\ntotal_unevictable 15\n");
  EXPECT_EQ(s.anon, Bytes{2000});
  EXPECT_EQ(s.shmem, Bytes{300});
  EXPECT_EQ(s.mapped_file, Bytes{50});
  EXPECT_EQ(s.swap, Bytes{60});
  EXPECT_EQ(s.pgfault, 70u);
  EXPECT_EQ(s.inactive_anon, Bytes{11});
  EXPECT_EQ(s.active_anon, Bytes{12});
  EXPECT_EQ(s.inactive_file, Bytes{13});
  EXPECT_EQ(s.active_file, Bytes{14});
  EXPECT_EQ(s.unevictable, Bytes{15});
  EXPECT_EQ(s.slab_reclaimable, std::nullopt);
  EXPECT_EQ(s.kernel, std::nullopt);
}

TEST(MemoryStat, file_leaves_out_shmem_on_both_hierarchies) {
  EXPECT_EQ(parse_memory_stat(Hierarchy::v1, "total_cache 1000\ntotal_shmem 300\n").file, Bytes{700});
  EXPECT_EQ(parse_memory_stat(Hierarchy::v2, "file 1000\nshmem 300\n").file, Bytes{700});
  EXPECT_EQ(parse_memory_stat(Hierarchy::v2, "file 100\nshmem 104\n").file, Bytes{0});
}

TEST(MemoryStat, file_is_unknown_where_shmem_is_not_told) {
  EXPECT_EQ(parse_memory_stat(Hierarchy::v1, "total_cache 1000\n").file, std::nullopt);
}

TEST(MemoryStat, v2_kernel_is_the_kernels_own_sum_or_else_its_parts) {
  EXPECT_EQ(parse_memory_stat(Hierarchy::v2, "kernel 500\nslab 100\nkernel_stack 50\n").kernel, Bytes{500});
  EXPECT_EQ(parse_memory_stat(Hierarchy::v2, "kernel_stack 50\nslab 100\npagetables 7\nsock 9\n").kernel,
            Bytes{157});
  EXPECT_EQ(parse_memory_stat(Hierarchy::v2, "anon 1\n").kernel, std::nullopt);
}

TEST(MemoryStat, absent_and_malformed_lines_are_unknown_and_not_zero) {
  MemoryStat s =
      parse_memory_stat(Hierarchy::v2, "anon 12x\nshmem\nfile -1\n\nunevictable 99999999999999999999\nanon");
  EXPECT_EQ(s.anon, std::nullopt);
  EXPECT_EQ(s.shmem, std::nullopt);
  EXPECT_EQ(s.file, std::nullopt);
  EXPECT_EQ(s.unevictable, std::nullopt);
}

TEST(Limit, both_hierarchies_spell_no_limit) {
  for (auto none : {"max\n", "9223372036854771712\n", "9223372036854710272\n", "18446744073709551615\n"}) {
    auto limit = parse_limit(none);
    ASSERT_TRUE(limit) << none;
    EXPECT_EQ(*limit, std::nullopt) << none;
  }
  EXPECT_EQ(**parse_limit("20971520\n"), MiB(20));
  EXPECT_EQ(**parse_limit("0\n"), Bytes{0});
  EXPECT_FALSE(parse_limit(""));
  EXPECT_FALSE(parse_limit("maximum"));
}

TEST(Pressure, both_lines_are_read) {
  Pressure p = parse_pressure(
      "some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\nfull avg10=0.75 avg60=0.12 avg300=0.00 "
      "total=65432\n");
  ASSERT_TRUE(p.some && p.full);
  EXPECT_DOUBLE_EQ(p.some->avg10, 1.5);
  EXPECT_DOUBLE_EQ(p.some->avg60, 0.25);
  EXPECT_EQ(p.some->total_us, 123456u);
  EXPECT_DOUBLE_EQ(p.full->avg10, 0.75);
}

TEST(Pressure, a_line_that_does_not_parse_is_unknown) {
  Pressure p =
      parse_pressure("some avg10=nan avg60=0.00 avg300=0.00 total=1\nfull avg10=1 avg60=1 avg300=1 total=\n");
  EXPECT_FALSE(p.some);
  EXPECT_FALSE(p.full);
}

}  // namespace
}  // namespace oomcast
