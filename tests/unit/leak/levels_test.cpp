#include "leak/levels.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

std::vector<Dot> levels(std::initializer_list<double> each, int dots) {
  std::vector<Dot> out;
  for (double level : each)
    for (int i = 0; i < dots; ++i) {
      double t = static_cast<double>(out.size());
      out.push_back({t, level + (i % 2 ? 1e5 : -1e5)});
    }
  return out;
}

TEST(Levels, finds_when_and_by_how_much_it_shifted_up_and_down) {
  Levels found = find_levels(levels({1e9, 3e9, 2e9}, 40), 1e8);
  ASSERT_EQ(found.shifts.size(), 2u);
  EXPECT_EQ(found.shifts[0].time, 40);
  EXPECT_NEAR(found.shifts[0].by, 2e9, 1e6);
  EXPECT_EQ(found.shifts[1].time, 80);
  EXPECT_NEAR(found.shifts[1].by, -1e9, 1e6);
  EXPECT_GT(found.explained, 0.99);
  EXPECT_NEAR(found.error, 120 * 1e10, 1e11);
}

TEST(Levels, leaves_out_what_is_less_than_was_asked_for) {
  Levels found = find_levels(levels({1e9, 3e9, 2e9}, 40), 1.5e9);
  ASSERT_EQ(found.shifts.size(), 1u);
  EXPECT_EQ(found.shifts[0].time, 40);
}

TEST(Levels, says_nothing_of_a_handful_of_dots_or_of_none) {
  EXPECT_TRUE(find_levels(levels({1e9, 3e9}, 5), 1e8).shifts.empty());
  EXPECT_TRUE(find_levels({}, 1e8).shifts.empty());
}

}  // namespace
}  // namespace oomcast
