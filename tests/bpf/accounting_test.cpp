// The kernel side's arithmetic, compiled natively.
#include <accounting.bpf.h>
#include <gtest/gtest.h>

#include <random>

namespace {

constexpr u64 kGiB = 1ull << 18;  // in pages of 4 KiB

TEST(StepPages, is_a_256th_of_the_limit_and_at_least_a_mebibyte) {
  EXPECT_EQ(oc_step_pages(0), 256u);
  EXPECT_EQ(oc_step_pages(1), 256u);
  EXPECT_EQ(oc_step_pages(256 * 256), 256u);
  EXPECT_EQ(oc_step_pages(256 * 257 - 1), 256u);
  EXPECT_EQ(oc_step_pages(256 * 257), 257u);
  EXPECT_EQ(oc_step_pages(100 * kGiB), 100 * kGiB / 256);
  EXPECT_EQ(oc_step_pages(~0ull), ~0ull >> 8) << "no limit: hardly ever";
}

TEST(StepPages, keeps_what_was_sent_within_a_percent) {
  for (u64 limit = 256 * 256; limit < 1ull << 40; limit += limit / 3)
    EXPECT_LT(oc_step_pages(limit) * 100, limit);
}

TEST(WorthSending, is_a_step_in_either_direction_at_once) {
  EXPECT_EQ(oc_worth_sending(1000, 50, 1256, 51, 256, 1000), OC_SEND_MOVED);
  EXPECT_EQ(oc_worth_sending(1256, 50, 1000, 51, 256, 1000), OC_SEND_MOVED);
  EXPECT_EQ(oc_worth_sending(1000, 50, 1255, 51, 256, 1000), OC_SEND_NOTHING);
  EXPECT_EQ(oc_worth_sending(1255, 50, 1000, 51, 256, 1000), OC_SEND_NOTHING);
  EXPECT_EQ(oc_worth_sending(0, 0, ~0ull, 0, 256, 1000), OC_SEND_MOVED);
  EXPECT_EQ(oc_worth_sending(~0ull, 0, 0, 0, 256, 1000), OC_SEND_MOVED);
}

TEST(WorthSending, is_any_change_once_the_interval_has_passed) {
  EXPECT_EQ(oc_worth_sending(1000, 50, 1001, 1050, 256, 1000), OC_SEND_DUE);
  EXPECT_EQ(oc_worth_sending(1000, 50, 999, 1050, 256, 1000), OC_SEND_DUE);
  EXPECT_EQ(oc_worth_sending(1000, 50, 1001, 1049, 256, 1000), OC_SEND_NOTHING);
}

TEST(WorthSending, is_nothing_that_stands_however_long) {
  EXPECT_EQ(oc_worth_sending(1000, 0, 1000, ~0ull, 256, 1000), OC_SEND_NOTHING);
}

// Lists that grow by an eighth in each of 43 calls, from 512 bytes to 80 KiB; a block of S bytes is
// met with a chance of (S + 20 KiB) / 512 KiB.
TEST(ResizeBlock, what_was_met_by_chance_stands_for_as_much_as_there_is) {
  std::mt19937_64 random(7);
  constexpr double kEach = 512 << 10, kExtra = 20 << 10;
  double told = 0, truth = 0;
  for (int list = 0; list < 20'000; ++list) {
    oc_block block{};
    u64 last = 0;
    for (u64 size = 512; size < 80 << 10; size += size / 8) {
      double chance = (static_cast<double>(size) + kExtra) / kEach;
      bool met = std::uniform_real_distribution<>(0, 1)(random) < chance;
      u64 weight = met ? static_cast<u64>(static_cast<double>(size) / chance) : 0;
      if (block.born_ns) oc_resize_block(&block, size, weight);
      if (!block.born_ns && met) block = {1, size, size, 0, (weight << 8) / size};
      last = size;
    }
    truth += static_cast<double>(last - 512);
    told += static_cast<double>(block.weight_bytes);
  }
  EXPECT_NEAR(told / truth, 1, 0.1);
}

TEST(ResizeBlock, what_realloc_makes_smaller_stands_for_less_than_nothing) {
  oc_block block{1, 1000, 1000, 0, 512};
  oc_resize_block(&block, 400, 800);
  EXPECT_EQ(block.weight_bytes, -1200);
  EXPECT_EQ(block.bytes, 400u);
  EXPECT_EQ(block.scale, 512u);
  oc_resize_block(&block, 1000, 0);
  EXPECT_EQ(block.weight_bytes, 0);
  oc_resize_block(&block, 4000, 0);
  EXPECT_EQ(block.weight_bytes, 0) << "this call was not met, and the next one's growth is another's";
}

}  // namespace
