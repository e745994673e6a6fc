#include "present/curve_trend.h"

#include <gtest/gtest.h>

#include <functional>

namespace oomcast {
namespace {

// A value each second of the last `seconds`, in MiB.
std::string trend_of(int seconds, const std::function<double(double)>& mib, std::optional<Bytes> limit = {}) {
  Curve curve;
  std::vector<double> at;
  for (int s = -seconds; s <= 0; ++s) {
    at.push_back(s);
    curve.total.push_back(Bytes{static_cast<std::int64_t>(mib(s + seconds) * (1 << 20))});
    curve.limit.push_back(limit);
  }
  return describe_trend(curve, at);
}

TEST(CurveTrend, says_from_where_to_where_it_rose_and_how_fast) {
  EXPECT_EQ(trend_of(
                15, [](double s) { return 20 + 12 * s; }, MiB(200)),
            "rose from 20.0 MiB to 200 MiB in 15 s, +12.0 MiB/s; the limit is 200 MiB");
  EXPECT_EQ(trend_of(10, [](double s) { return 200 - 10 * s; }),
            "fell from 200 MiB to 100 MiB in 10 s, -10.0 MiB/s");
}

TEST(CurveTrend, says_for_how_long_it_stood_before_it_rose) {
  EXPECT_EQ(trend_of(60, [](double s) { return s < 50 ? 30 : 30 + 17 * (s - 50); }),
            "stayed near 30.0 MiB for 51 s, then rose to 200 MiB in 9.0 s, +17.0 MiB/s");
}

TEST(CurveTrend, says_that_it_stayed) {
  EXPECT_EQ(trend_of(60, [](double) { return 100; }), "stayed at 100 MiB for 1 min 00 s");
  EXPECT_EQ(trend_of(60, [](double s) { return s == 7 ? 103 : 100; }),
            "stayed between 100 MiB and 103 MiB for 1 min 00 s");
}

TEST(CurveTrend, says_that_it_went_up_and_down) {
  EXPECT_EQ(trend_of(20, [](double s) { return s <= 10 ? 10 + 10 * s : 210 - 10 * s; }),
            "rose from 10.0 MiB to 110 MiB 10 s before the kill, then fell to 10.0 MiB");
  EXPECT_EQ(trend_of(60, [](double s) { return static_cast<int>(s) % 10 < 5 ? 20. : 120.; }),
            "moved between 20.0 MiB and 120 MiB for 1 min 00 s, and ended at 20.0 MiB");
}

TEST(CurveTrend, is_empty_where_fewer_than_two_values_are_known) {
  Curve curve;
  curve.total = {MiB(1), std::nullopt};
  EXPECT_EQ(describe_trend(curve, {-1, 0}), "");
  EXPECT_EQ(describe_trend(Curve{}, {}), "");
}

TEST(CurveTrend, leaves_out_what_came_after_the_kill_and_says_when_its_values_end) {
  Curve curve;
  curve.total = {MiB(10), MiB(40), std::nullopt, std::nullopt, Bytes()};
  EXPECT_EQ(describe_trend(curve, {-30, -10, -5, 0, 1}),
            "rose from 10.0 MiB to 40.0 MiB in 20 s, +1.50 MiB/s; the last value is of 10 s before the kill");
}

}  // namespace
}  // namespace oomcast
