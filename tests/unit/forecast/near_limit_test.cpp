#include "forecast/near_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

// As seen of a training: it loads to half of its limit, then comes and goes by spikes, and at last goes up to
// its limit within a twentieth of its life.
double training(double t, double spikes) {
  double loaded = 3 + 42 * std::clamp((t - 200) / 400, 0.0, 1.0), spike = std::fmod(t, 400) < 20 ? spikes : 0;
  return loaded + (t < 5'600 ? spike : 0) + 54 * std::clamp((t - 5'600) / 300, 0.0, 1.0);
}

std::optional<NearLimit> near_at(double end, double spikes) {
  History history;
  for (double t = 0; t <= end; t += 10) history.add(at_s(t), Bytes{std::llround(training(t, spikes) * 1e9)});
  return near_limit(history, Bytes{100'000'000'000}, {}, false);
}

TEST(NearLimit, neither_what_was_loaded_at_the_start_nor_the_tops_of_spikes_hold_the_alarm_back) {
  for (double spikes : {0.0, 20.0, 40.0}) {
    EXPECT_FALSE(near_at(5'500, spikes)) << spikes;
    EXPECT_TRUE(near_at(5'880, spikes)) << spikes;
  }
}

TEST(NearLimit, a_height_that_this_life_came_back_from_is_no_news) {
  EXPECT_FALSE(near_at(5'880, 55));
}

TEST(NearLimit, heights_before_a_death_are) {
  History history;
  for (double t = 0; t <= 5'880; t += 10)
    history.add(at_s(t), Bytes{std::llround((t < 900 ? 8 + t / 10 : training(t, 0)) * 1e9)});
  EXPECT_FALSE(near_limit(history, Bytes{100'000'000'000}, {}, false));
  EXPECT_TRUE(near_limit(history, Bytes{100'000'000'000}, {910, 910}, false));
}

}  // namespace
}  // namespace oomcast
