#include "model/headroom.h"

#include <gtest/gtest.h>

#include <array>

namespace oomcast {
namespace {

MemoryStat lists(Bytes active_file, Bytes inactive_file, std::optional<Bytes> slab_reclaimable = {}) {
  MemoryStat stat;
  stat.active_file = active_file;
  stat.inactive_file = inactive_file;
  stat.slab_reclaimable = slab_reclaimable;
  return stat;
}

HeadroomInput without_swap(Bytes usage, std::optional<Bytes> limit) {
  return {.usage = usage,
          .stat = lists(MiB(0), MiB(0)),
          .limit = limit,
          .swap = SwapUse{},
          .swap_free = Bytes{},
          .swappiness = {}};
}

TEST(PinnedBytes, what_reclaim_can_drop_is_taken_off_usage) {
  EXPECT_EQ(pinned_bytes(MiB(100), lists(MiB(10), MiB(20), MiB(5))), MiB(65));
}

TEST(PinnedBytes, slab_stays_in_where_the_kernel_does_not_tell_it) {
  EXPECT_EQ(pinned_bytes(MiB(100), lists(MiB(10), MiB(20))), MiB(70));
}

TEST(PinnedBytes, is_never_negative_though_the_lists_lag_usage) {
  EXPECT_EQ(pinned_bytes(MiB(10), lists(MiB(8), MiB(8), MiB(8))), MiB(0));
  EXPECT_EQ(pinned_bytes(MiB(10), lists(MiB(8), MiB(8))), MiB(0));
}

TEST(PinnedBytes, is_unknown_without_usage_or_a_file_list) {
  EXPECT_EQ(pinned_bytes(std::nullopt, lists(MiB(1), MiB(1))), std::nullopt);
  MemoryStat stat = lists(MiB(1), MiB(1));
  stat.active_file.reset();
  EXPECT_EQ(pinned_bytes(MiB(10), stat), std::nullopt);
}

TEST(Headroom, without_swap_is_pinned_memory_against_the_memory_limit) {
  auto h = headroom(without_swap(MiB(300), MiB(1000)));
  ASSERT_TRUE(h);
  EXPECT_EQ(h->pinned, MiB(300));
  EXPECT_EQ(h->limit, MiB(1000));
}

TEST(Headroom, without_any_limit_says_none) {
  HeadroomInput in = without_swap(MiB(300), std::nullopt);
  in.swap_free.reset();
  auto h = headroom(in);
  ASSERT_TRUE(h);
  EXPECT_EQ(h->limit, std::nullopt);
}

TEST(Headroom, free_swap_of_the_host_moves_the_limit_out) {
  HeadroomInput in = without_swap(MiB(300), MiB(1000));
  in.swap_free = MiB(500);
  EXPECT_EQ(headroom(in)->limit, MiB(1500));
}

TEST(Headroom, a_v2_swap_limit_bounds_what_the_host_has_free) {
  HeadroomInput in = without_swap(MiB(900), MiB(1000));
  in.swap = SwapUse{MiB(50), MiB(200), std::nullopt};
  in.swap_free = MiB(5000);
  EXPECT_EQ(headroom(in)->pinned, MiB(950));
  EXPECT_EQ(headroom(in)->limit, MiB(1200));
  in.swap->limit = Bytes{};  // memory.swap.max lowered to 0 with pages out there: nothing more goes
  EXPECT_EQ(headroom(in)->limit, MiB(1050));
}

TEST(Headroom, a_page_that_is_swapped_out_moves_neither_series_nor_limit) {
  HeadroomInput before = without_swap(MiB(900), MiB(1000));
  before.swap = SwapUse{MiB(50), MiB(400), std::nullopt};
  before.swap_free = MiB(250);
  HeadroomInput after = before;
  after.usage = MiB(800);
  after.swap->used = MiB(150);
  after.swap_free = MiB(150);
  EXPECT_EQ(headroom(before)->pinned, headroom(after)->pinned);
  EXPECT_EQ(headroom(before)->limit, headroom(after)->limit);
}

TEST(Headroom, a_v1_memory_and_swap_limit_caps_the_sum) {
  HeadroomInput in = without_swap(MiB(900), MiB(1000));
  in.swap = SwapUse{MiB(50), std::nullopt, MiB(1300)};
  in.swap_free = MiB(5000);
  EXPECT_EQ(headroom(in)->pinned, MiB(950));
  EXPECT_EQ(headroom(in)->limit, MiB(1300));
  in.swap_free = MiB(100);  // the host's swap ends first
  EXPECT_EQ(headroom(in)->limit, MiB(1150));
}

TEST(Headroom, v1_with_equal_limits_gains_nothing_from_swap_even_if_the_host_is_unknown) {
  HeadroomInput in = without_swap(MiB(900), MiB(1000));
  in.swap = SwapUse{MiB(50), std::nullopt, MiB(1000)};
  in.swap_free.reset();
  EXPECT_EQ(headroom(in)->limit, MiB(1000));
}

TEST(Headroom, a_group_that_may_not_swap_keeps_its_memory_limit) {
  HeadroomInput in = without_swap(MiB(300), MiB(1000));
  in.swap_free = MiB(500);
  in.swappiness = 0;
  EXPECT_EQ(headroom(in)->limit, MiB(1000));
  in.swappiness = 1;
  EXPECT_EQ(headroom(in)->limit, MiB(1500));
}

TEST(Headroom, is_unknown_while_free_swap_is_unknown_and_decides) {
  HeadroomInput in = without_swap(MiB(300), MiB(1000));
  in.swap_free.reset();
  EXPECT_FALSE(headroom(in));
  in.swap = SwapUse{MiB(10), MiB(100), std::nullopt};
  EXPECT_FALSE(headroom(in));
  in.swap = SwapUse{MiB(10), MiB(10), std::nullopt};
  ASSERT_TRUE(headroom(in));
  EXPECT_EQ(headroom(in)->limit, MiB(1010));
}

TEST(Headroom, keeps_the_distance_right_where_swap_is_not_accounted) {
  HeadroomInput in = without_swap(MiB(900), MiB(1000));
  in.swap.reset();
  in.swap_free = MiB(200);
  EXPECT_EQ(*headroom(in)->limit - headroom(in)->pinned, MiB(300));
}

TEST(Headroom, does_not_overflow_on_absurd_numbers) {
  constexpr Bytes huge{INT64_MAX};
  HeadroomInput in = without_swap(huge, huge);
  in.swap = SwapUse{huge, std::nullopt, std::nullopt};
  in.swap_free = huge;
  EXPECT_EQ(headroom(in)->pinned, huge);
  EXPECT_EQ(headroom(in)->limit, huge);
}

TEST(SwapLeft, is_the_least_that_host_self_or_an_ancestor_leaves) {
  std::array levels = {SwapUse{MiB(10), std::nullopt, std::nullopt},
                       SwapUse{MiB(90), MiB(100), std::nullopt}};
  EXPECT_EQ(swap_left(levels, MiB(500)), MiB(10));
  EXPECT_EQ(swap_left(levels, MiB(3)), MiB(3));
  levels[0].limit = MiB(5);
  EXPECT_EQ(swap_left(levels, MiB(500)), MiB(0));
}

TEST(HostHeadroom, counts_memory_and_swap_together) {
  MemInfo info = parse_meminfo(
      "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\nActive(file): 100 kB\nInactive(file): 150 "
      "kB\n"
      "SReclaimable: 50 kB\nSwapTotal: 400 kB\nSwapFree: 380 kB\n");
  auto h = host_headroom(info);
  ASSERT_TRUE(h);
  EXPECT_EQ(h->pinned, KiB(420));
  EXPECT_EQ(h->limit, KiB(1400));
  info.swap_free.reset();
  EXPECT_FALSE(host_headroom(info));
}

TEST(Room, is_what_is_left_beside_what_can_be_dropped) {
  MemoryStat stat;
  stat.active_file = MiB(10);
  stat.inactive_file = MiB(20);
  EXPECT_TRUE(has_room(MiB(96), stat, MiB(96))) << "its files make way";
  stat.active_file = stat.inactive_file = MiB(1);
  EXPECT_FALSE(has_room(MiB(96), stat, MiB(96)));
  EXPECT_TRUE(has_room(MiB(90), stat, MiB(96)));
  EXPECT_TRUE(has_room(GiB(64) - MiB(70), stat, GiB(64)));
  EXPECT_FALSE(has_room(GiB(64) - MiB(50), stat, GiB(64)));
  EXPECT_TRUE(has_room(MiB(96), stat, std::nullopt));
  EXPECT_FALSE(has_room(std::nullopt, stat, MiB(96))) << "unknown is not as much as one likes";
}

}  // namespace
}  // namespace oomcast
