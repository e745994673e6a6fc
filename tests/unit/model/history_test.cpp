#include "model/history.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

MonoTime after_5_s(double s) {
  return MonoTime(Nanos(static_cast<std::int64_t>((s + 5) * 1e9)));
}

TEST(History, keeps_every_sample_while_there_are_few) {
  History h;
  for (int i = 0; i < 100; ++i) h.add(after_5_s(i), MiB(i));
  ASSERT_EQ(h.levels(), 1u);
  ASSERT_EQ(h.all().size(), 100u);
  EXPECT_EQ(h.all()[42].mean, static_cast<float>(MiB(42).count));
}

TEST(History, reaches_back_to_the_first_sample_in_bounded_memory) {
  History h;
  for (int i = 0; i < 700'000; ++i) h.add(after_5_s(i), MiB(100));
  std::size_t buckets = 0;
  for (std::size_t k = 0; k < h.levels(); ++k) buckets += h.level(k).size();
  EXPECT_LT(buckets, 1'100u);
  EXPECT_LT(h.all().front().time, 9'000) << "eight days, in buckets of hours";
  std::uint64_t samples = 0;
  for (const Bucket& b : h.all()) samples += b.count;
  EXPECT_EQ(samples, 700'000u);
}

TEST(History, keeps_a_peak_of_one_sample_at_every_resolution) {
  History h;
  for (int i = 0; i < 100'000; ++i) h.add(after_5_s(i), i == 99'950 ? GiB(7) : GiB(1));
  for (std::size_t k = 0; k < h.levels(); ++k) {
    float most = 0, when = 0;
    for (const Bucket& b : h.level(k))
      if (b.high > most) most = b.high, when = b.peak_time;
    EXPECT_EQ(most, static_cast<float>(GiB(7).count)) << "level " << k;
    EXPECT_NEAR(when, 99'950, 0.1) << "level " << k;
  }
}

TEST(History, ignores_what_is_older_than_the_newest) {
  History h;
  h.add(after_5_s(10), MiB(1));
  h.add(after_5_s(5), MiB(2));
  EXPECT_EQ(h.samples(), 1u);
  EXPECT_EQ(h.newest_value(), MiB(1).as_double());
}

}  // namespace
}  // namespace oomcast
