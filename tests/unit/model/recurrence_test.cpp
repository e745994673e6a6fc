#include "model/recurrence.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr auto kDay = 24h;

std::vector<KillPoint> kills(const std::vector<double>& days, const std::vector<int>& gib = {}) {
  std::vector<KillPoint> out;
  for (std::size_t i = 0; i < days.size(); ++i) {
    std::optional<Bytes> size;
    if (i < gib.size()) size = GiB(gib[i]);
    out.push_back({WallTime(std::chrono::duration_cast<Nanos>(days[i] * kDay)), size});
  }
  return out;
}

TEST(Recurrence, two_kills_are_apart_but_no_period) {
  auto r = recurrence_of(kills({0, 8}, {58, 50}));
  EXPECT_EQ(r->interval, Seconds(8 * kDay));
  EXPECT_FALSE(r->regular);
  EXPECT_FALSE(r->next);
  EXPECT_EQ(r->trend, SizeTrend::unknown);
}

TEST(Recurrence, three_kills_are_regular_only_if_the_intervals_are_nearly_the_same) {
  EXPECT_TRUE(recurrence_of(kills({0, 8, 16.2}))->regular);
  EXPECT_FALSE(recurrence_of(kills({0, 8, 17}))->regular);
}

TEST(Recurrence, more_kills_may_vary_more_and_a_missed_one_is_forgiven_in_five) {
  EXPECT_TRUE(recurrence_of(kills({0, 8, 15, 24}))->regular);
  EXPECT_FALSE(recurrence_of(kills({0, 8, 12, 24}))->regular);
  EXPECT_TRUE(recurrence_of(kills({0, 8, 16, 32, 40, 48}))->regular);
  EXPECT_FALSE(recurrence_of(kills({0, 8, 24, 32, 48}))->regular);
}

TEST(Recurrence, the_next_is_due_one_interval_on_within_a_range) {
  auto r = recurrence_of(kills({0, 8, 15.5, 24}));
  ASSERT_TRUE(r->next);
  EXPECT_EQ(r->next->at, r->last + 8 * kDay);
  // mean 8 d, s 0.5 d: t(0.95, 2) · s · √(4/3) = 2.92 · 0.5 · 1.1547 = 1.686 d
  EXPECT_NEAR(Seconds(r->next->high - r->next->at).count() / 86400, 1.686, 0.001);
  EXPECT_NEAR(Seconds(r->next->at - r->next->low).count() / 86400, 1.686, 0.001);
  EXPECT_EQ(r->spread, Seconds(12h));
}

TEST(Recurrence, kills_of_one_minute_are_one_time_with_the_largest_size) {
  auto burst = kills({0, 0.0001, 0.0002, 8, 8.0001}, {4, 9, 5, 7, 6});
  auto r = recurrence_of(burst);
  EXPECT_EQ(r->kills, 5u);
  EXPECT_EQ(r->times, 2u);
  EXPECT_EQ(r->sizes, (std::vector<std::optional<Bytes>>{GiB(9), GiB(7)}));
}

TEST(Recurrence, sizes_have_a_trend_from_three_on) {
  EXPECT_EQ(recurrence_of(kills({0, 1, 2}, {40, 50, 60}))->trend, SizeTrend::rising);
  EXPECT_EQ(recurrence_of(kills({0, 1, 2}, {60, 50, 40}))->trend, SizeTrend::falling);
  EXPECT_EQ(recurrence_of(kills({0, 1, 2}, {50, 52, 51}))->trend, SizeTrend::steady);
  EXPECT_EQ(recurrence_of(kills({0, 1, 2}, {50, 90, 60}))->trend, SizeTrend::varied);
  EXPECT_EQ(recurrence_of(kills({0, 1, 2}))->trend, SizeTrend::unknown);
}

TEST(Recurrence, nothing_is_no_recurrence) {
  EXPECT_FALSE(recurrence_of({}));
}

}  // namespace
}  // namespace oomcast
