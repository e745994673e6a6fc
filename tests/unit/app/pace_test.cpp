#include "app/pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// What it says at the end of windows in each of which it slept for so many of 500 ms.
std::vector<Nanos> paces(const std::vector<int>& slept_ms) {
  Pace pace;
  MonoTime now(1h);
  std::vector<Nanos> out;
  pace.advance(now);
  for (int ms : slept_ms) {
    EXPECT_EQ(pace.advance(now + Pace::kWindow / 2), std::nullopt) << "the window is not over";
    pace.slept(std::chrono::milliseconds(ms));
    now += Pace::kWindow;
    auto apart = pace.advance(now);
    EXPECT_TRUE(apart);
    out.push_back(apart.value_or(Nanos::min()));
  }
  return out;
}

TEST(LoopPace, of_a_loop_that_sleeps_most_of_the_time_leaves_nothing_out) {
  EXPECT_EQ(paces({500, 300, 260}), (std::vector<Nanos>{0ms, 0ms, 0ms}));
}

TEST(LoopPace, doubles_while_the_loop_is_busy_and_halves_once_it_sleeps) {
  EXPECT_EQ(paces({0, 100, 200, 300, 400, 450, 500, 500}),
            (std::vector<Nanos>{50ms, 100ms, 200ms, 200ms, 100ms, 50ms, 0ms, 0ms}));
}

TEST(LoopPace, never_leaves_more_than_a_minute_out) {
  EXPECT_EQ(paces(std::vector<int>(20, 0)).back(), Pace::kMax);
}

}  // namespace
}  // namespace oomcast
