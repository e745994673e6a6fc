#include "collect/held_locks.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using Held = std::vector<wire::HeldLock>;

// What each look finds; the last one again and again.
HeldLocks locks_of(std::vector<Held> looks) {
  auto look = std::make_shared<std::size_t>(0);
  return HeldLocks([look, looks] { return looks[std::min((*look)++, looks.size() - 1)]; });
}

TEST(HeldLocks, of_no_process_are_one_look) {
  int looks = 0;
  HeldLocks locks([&] { return ++looks, Held{}; });
  EXPECT_EQ(locks.keeper(), std::nullopt);
  EXPECT_EQ(looks, 1);
}

TEST(HeldLocks, are_kept_by_one_who_has_had_no_cpu_since) {
  EXPECT_EQ(locks_of({{{7, 70, 5ms}, {8, 80, 5ms}}, {{8, 80, 5ms}}}).keeper(), 8u);
}

TEST(HeldLocks, are_not_kept_by_one_who_runs_or_lets_go_or_by_one_after_the_other) {
  EXPECT_EQ(locks_of({{{7, 70, 5ms}}, {{7, 70, 6ms}}}).keeper(), std::nullopt);
  EXPECT_EQ(locks_of({{{7, 70, 5ms}}, {}, {{7, 70, 5ms}}}).keeper(), std::nullopt);
  EXPECT_EQ(locks_of({{{7, 70, 5ms}}, {{7, 71, 5ms}}}).keeper(), std::nullopt);
}

TEST(HeldLocks, are_waited_for_until_they_are_let_go_or_patience_ends) {
  Held kept = {{7, 70, 5ms}};
  int looks = 0;
  HeldLocks let_go([&] { return ++looks < 20 ? kept : Held{}; });
  MonoTime began = mono_now();
  let_go.wait(1h);
  EXPECT_EQ(looks, 20);
  locks_of({kept}).wait(50ms);
  EXPECT_LT(mono_now() - began, 1min);
}

}  // namespace
}  // namespace oomcast
