// The kernel side's arithmetic, compiled natively.
#include <accounting.bpf.h>
#include <gtest/gtest.h>

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

}  // namespace
