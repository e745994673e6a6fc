#include "model/series.h"

#include <gtest/gtest.h>

#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;

Series counting(std::size_t capacity, std::int64_t points) {
  Series s(capacity);
  for (std::int64_t i = 0; i < points; ++i) s.add({at_s(static_cast<double>(i)), Bytes{i}});
  return s;
}

TEST(Series, keeps_everything_until_it_is_full) {
  Series s = counting(16, 16);
  ASSERT_EQ(s.points().size(), 16u);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(s.points()[static_cast<std::size_t>(i)].value, Bytes{i});
}

TEST(Series, is_bounded_and_keeps_the_first_and_the_newest) {
  for (std::size_t capacity : {8u, 9u, 24u, 256u})
    for (std::int64_t count : {10, 100, 1000, 10'000}) {
      Series s = counting(capacity, count);
      auto points = s.points();
      ASSERT_LE(points.size(), capacity);
      EXPECT_EQ(points.front().value, Bytes{0});
      EXPECT_EQ(points.back().value, Bytes{count - 1});
      for (std::size_t i = 1; i < points.size(); ++i) ASSERT_LT(points[i - 1].time, points[i].time);
    }
}

TEST(Series, stays_dense_at_its_newest_end) {
  Series s = counting(64, 10'000);
  auto newest = s.points().last(16);
  for (std::size_t i = 1; i < newest.size(); ++i)
    EXPECT_EQ(newest[i].time - newest[i - 1].time, std::chrono::seconds(1));
}

TEST(Series, never_has_a_capacity_too_small_to_tell_a_trend) {
  EXPECT_EQ(counting(0, 8).points().size(), 8u);
}

TEST(Series, drops_time_that_runs_backwards) {
  Series s = counting(16, 3);
  s.add({at_s(1), Bytes{100}});
  ASSERT_EQ(s.points().size(), 3u);
  EXPECT_EQ(s.points().back().value, Bytes{2});
}

TEST(Series, replaces_a_point_of_the_same_time) {
  Series s = counting(16, 3);
  s.add({at_s(2), Bytes{100}});
  ASSERT_EQ(s.points().size(), 3u);
  EXPECT_EQ(s.points().back().value, Bytes{100});
}

TEST(Series, since_begins_with_the_first_point_that_is_not_older) {
  Series s = counting(16, 10);
  EXPECT_EQ(s.since(at_s(7)).size(), 3u);
  EXPECT_EQ(s.since(at_s(7) - Nanos(1)).size(), 3u);
  EXPECT_EQ(s.since(at_s(7) + Nanos(1)).size(), 2u);
  EXPECT_EQ(s.since(at_s(-5)).size(), 10u);
  EXPECT_TRUE(s.since(at_s(10)).empty());
  EXPECT_TRUE(Series().since(at_s(0)).empty());
}

TEST(Series, is_empty_after_it_was_cleared) {
  Series s = counting(16, 10);
  s.clear();
  EXPECT_TRUE(s.empty());
  s.add({at_s(0), Bytes{1}});
  EXPECT_EQ(s.points().size(), 1u) << "old times are allowed again";
}

}  // namespace
}  // namespace oomcast
