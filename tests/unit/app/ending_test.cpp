#include "app/ending.h"

#include <gtest/gtest.h>

#include <string>

#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;

TEST(BeforeTheEnd, what_is_given_back_at_the_end_is_no_part_of_a_life) {
  BeforeTheEnd<std::string> life;
  for (int s = 1; s <= 20; ++s) life.add(at_s(s), MiB(10 * s), "leak");
  for (int k = 1; k <= 30; ++k) life.add(at_s(20 + 0.1 * k), MiB(200 - 6 * k), "ramp");
  EXPECT_EQ(life.said(at_s(0), at_s(23.1)), "leak");
}

TEST(BeforeTheEnd, that_may_take_a_fourth_of_it) {
  BeforeTheEnd<std::string> life;
  for (int k = 1; k <= 80; ++k) life.add(at_s(0.1 * k), MiB(2 * k), "leak");
  for (int k = 1; k <= 28; ++k) life.add(at_s(8 + 0.1 * k), MiB(160 - 5 * k), k < 5 ? "leak" : "ramp");
  life.add(at_s(10.9), MiB(0), "ramp");
  EXPECT_EQ(life.said(at_s(0), at_s(11)), "leak");
}

TEST(BeforeTheEnd, what_is_said_of_its_last_milliseconds_is_none_of_the_moment_before) {
  BeforeTheEnd<std::string> life;
  for (int s = 1; s <= 20; ++s) life.add(at_s(s), MiB(10 * s), "leak");
  for (int k = 1; k <= 10; ++k) life.add(at_s(20 + 0.004 * k), MiB(200 - 18 * k), "ramp");
  EXPECT_EQ(life.said(at_s(0), at_s(21.5)), "leak");
}

TEST(BeforeTheEnd, a_level_that_went_down_and_stayed_is_one) {
  BeforeTheEnd<std::string> life;
  for (int s = 1; s <= 20; ++s) life.add(at_s(s), MiB(200), "stable");
  for (int s = 21; s <= 40; ++s) life.add(at_s(s), MiB(60), "step");
  EXPECT_EQ(life.said(at_s(0), at_s(40.5)), "step");
}

TEST(BeforeTheEnd, who_ends_at_once_had_no_time_for_another_verdict) {
  BeforeTheEnd<std::string> life;
  for (int s = 1; s <= 20; ++s) life.add(at_s(s), MiB(200), "stable");
  life.add(at_s(20.5), MiB(200), "leak");
  EXPECT_EQ(life.said(at_s(0), at_s(20.6)), "stable");
}

TEST(BeforeTheEnd, of_a_short_life_the_first_word_counts) {
  BeforeTheEnd<std::string> life;
  EXPECT_EQ(life.said(at_s(0), at_s(1)), std::nullopt);
  life.add(at_s(0.4), MiB(2), "stable");
  EXPECT_EQ(life.said(at_s(0), at_s(0.5)), "stable");
}

TEST(BeforeTheEnd, a_minute_of_a_long_life_is_kept) {
  BeforeTheEnd<std::string> life;
  for (int s = 0; s < 100000; ++s) life.add(at_s(s), MiB(100), "leak");
  for (int s = 100000; s < 100050; ++s) life.add(at_s(s), MiB(100 - 2 * (s - 100000)), "ramp");
  EXPECT_EQ(life.said(at_s(0), at_s(100050)), "leak");
}

}  // namespace
}  // namespace oomcast
