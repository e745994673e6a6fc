#include "model/kill_ledger.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

MonoTime at(int ms) {
  return MonoTime{} + std::chrono::milliseconds(ms);
}

TEST(KillLedger, has_no_kill_of_a_storm_as_unseen_that_is_known_a_moment_after_it_is_counted) {
  KillLedger ledger;
  ledger.on({at(0), at(0), 0});
  for (std::uint64_t n = 1; n <= 60; ++n) {  // one is on its way each time
    int now = static_cast<int>(n) * 100;
    ledger.on({at(now), at(now), n});
    EXPECT_EQ(ledger.unseen(at(now), false), 0u) << "at " << now << " ms";
    ledger.add_known();
  }
  ledger.close({at(7000), at(7000), 60});
  EXPECT_EQ(ledger.unseen(at(7000), false), 0u);
}

TEST(KillLedger, has_what_nobody_told_of_in_a_storm_as_unseen_once_it_is_over) {
  KillLedger ledger;
  ledger.on({at(0), at(0), 0});
  for (std::uint64_t n = 1; n <= 60; ++n) {
    int now = static_cast<int>(n) * 100;
    ledger.on({at(now), at(now), n});
    (void)ledger.unseen(at(now), false);
    if (n % 20) ledger.add_known();
  }
  std::uint64_t unseen = 0;
  for (int now = 6100; now < 12'000; now += 100) unseen = ledger.unseen(at(now), false);
  EXPECT_EQ(unseen, 3u);
}

}  // namespace
}  // namespace oomcast
