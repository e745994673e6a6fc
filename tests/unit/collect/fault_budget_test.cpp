#include "collect/fault_budget.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr FaultBudget::Limits kLimits{.per_s = 5000, .burst = 32768, .window = 1024};

// A program that faults `per_s` times a second while somebody lives to count: how many faults were watched.
struct Watch {
  std::uint64_t watched = 0;
  int windows = 1;
  double share = 1;
};
Watch watch(double per_s, Nanos length, double chance = 0.5) {
  MonoTime now{}, end = now + length;
  FaultBudget budget(kLimits, now);
  Watch out;
  while (now < end) {
    Nanos step = budget.next_look();
    now += step;
    bool before = budget.watching();
    auto faults = before ? static_cast<std::uint64_t>(per_s * Seconds(step).count()) : 0;
    out.watched += faults;
    out.windows += budget.look(now, faults, chance) && !before;
  }
  out.share = budget.watched_share();
  return out;
}

TEST(FaultBudget, watches_all_the_time_what_faults_less_than_the_budget) {
  Watch slow = watch(4900, 60s);
  EXPECT_EQ(slow.windows, 1);
  EXPECT_EQ(slow.share, 1);
}

TEST(FaultBudget, holds_a_program_that_does_nothing_else_to_its_budget) {
  for (double chance : {0.0, 0.5, 0.99}) {
    Watch fast = watch(1e6, 60s, chance);
    EXPECT_LT(static_cast<double>(fast.watched), kLimits.burst + kLimits.per_s * 60 + 1e6 * 0.05);
    EXPECT_GT(static_cast<double>(fast.watched), kLimits.per_s * 60 / 2);
    EXPECT_LT(fast.share, 0.02);
    EXPECT_GT(fast.windows, 50);
  }
}

TEST(FaultBudget, goes_on_at_a_moment_that_chance_moves) {
  auto resumed = [](double chance) {
    FaultBudget budget(kLimits, MonoTime{});
    MonoTime now = MonoTime{} + 1ms;
    budget.look(now, 40000, chance);
    EXPECT_FALSE(budget.watching());
    while (!budget.look(now, 0, 0)) now += budget.next_look();
    return now;
  };
  EXPECT_GT(resumed(0.9) - resumed(0.1), 100ms);
}

}  // namespace
}  // namespace oomcast
