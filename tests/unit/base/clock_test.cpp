#include "base/clock.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

TEST(Clock, is_ahead_of_another_by_as_much_although_all_readings_but_one_were_interrupted) {
  Nanos now = 5s;
  int readings = 0;
  auto from = [&] { return now += 20ns; };
  auto to = [&] {
    now += 20ns;
    Nanos shown = now + 1000s;
    if (++readings != 7) now += 3ms;
    return shown;
  };
  EXPECT_EQ(clock_ahead(from, to), 1000s);
}

}  // namespace
}  // namespace oomcast
