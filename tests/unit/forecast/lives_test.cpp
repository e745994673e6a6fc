// Jobs that die at their limit and are started again.
#include <gtest/gtest.h>

#include <algorithm>

#include "forecast/forecaster.h"
#include "forecast/restarts.h"
#include "forecast/series_of.h"

namespace oomcast {
namespace {

// One life of a job: a level, and then a straight way to its limit, or one that slows down.
double life(double age, double length, double top, bool slows, Noise& noise) {
  double rest = 0.1 * length, way = std::max(0.0, age - rest) / (length - rest);
  if (slows) way = (1 - std::exp(-2 * way)) / (1 - std::exp(-2.0));
  return 8 + (top - 8) * way + 0.2 * noise();
}

struct Loop {
  double step, length, top;
  bool slows;
};

// Whether it was silent at the beginning of a life (its first twentieth) and alerted before its end.
void expect_an_alert_in_each_life(const Loop& loop, int lives) {
  Noise noise;
  Forecaster f;
  for (int k = 0; k < lives; ++k) {
    bool alerted = false, silent = false;
    for (double age = 0; age < loop.length; age += loop.step) {
      double t = k * loop.length + age;
      feed(f, t, t + loop.step / 2, loop.step, 100, [&](double) {
        return std::min(loop.top, life(age, loop.length - loop.step, loop.top, loop.slows, noise));
      });
      bool alert = f.forecast().alert;
      silent = silent || !alert;
      alerted = alerted || (silent && alert);
    }
    EXPECT_TRUE(alerted) << "life " << k << " of " << loop.length << " s to " << loop.top << " %, every "
                         << loop.step << " s: " << f.forecast().why;
  }
}

TEST(Lives, a_job_that_dies_at_its_limit_again_and_again_has_an_alert_in_each_life) {
  for (const Loop& loop : {Loop{30, 720, 98.5, false}, Loop{1, 65, 100, false}, Loop{60, 6'600, 100, false},
                           Loop{10, 353, 98.5, false}})
    expect_an_alert_in_each_life(loop, 6);
}

TEST(Lives, so_has_one_of_few_samples_whose_growth_slows_down_once_two_lives_showed_its_end) {
  Loop loop{30, 480, 98.5, true};
  expect_an_alert_in_each_life(loop, 5);
}

TEST(Lives, the_last_lives_say_where_the_next_one_ends_and_when) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 3 * 720 + 100, 10, 100,
       [&](double t) { return std::min(98.5, life(std::fmod(t, 720), 710, 98.5, false, noise)); });
  EXPECT_NE(f.forecast().why.find("the last 3 lives ended at 98 % of the limit after 1"), std::string::npos)
      << f.forecast().why;
  EXPECT_FALSE(f.forecast().alert) << f.forecast().why;
}

// As seen of a host: full, killed, and full again after half an hour of calm.
TEST(Lives, heights_before_a_death_were_not_survived) {
  Noise noise;
  Forecaster f;
  auto series = [&](double t) {
    double since = t - 500;
    double value = t < 500         ? 30 + std::max(0.0, t - 100) * 68 / 400
                   : since < 1'600 ? 8
                                   : 8 + 90 * (since - 1'600) / 300;
    return std::min(98.0, value) + 0.1 * noise();
  };
  feed(f, 0, 2'300, 30, 100, series);
  EXPECT_FALSE(f.forecast().alert && f.forecast().evidence.near_limit) << f.forecast().why;
  feed(f, 2'310, 2'400, 15, 100, series);
  EXPECT_TRUE(f.forecast().alert) << f.forecast().why;
}

// A heap that is collected at nine tenths of its limit stays above where the program began.
TEST(Lives, what_a_collector_frees_at_the_limit_is_no_death) {
  History history;
  for (double t = 0; t < 1'000; t += 1)
    history.add(at_s(t),
                Bytes{std::llround((t < 50 ? 1 + t / 10 : 22 + 75 * std::fmod(t, 100) / 100) * 1e9)});
  EXPECT_EQ(find_restarts(history, Bytes{100'000'000'000}).died, 0);
}

TEST(Lives, a_death_is_found_where_it_was_also_behind_hundreds_of_others) {
  History history;
  for (double t = 0; t < 40'000; t += 1)
    history.add(at_s(t), Bytes{std::llround((8 + 91 * std::fmod(t, 70) / 69) * 1e9)});
  Restarts restarts = find_restarts(history, Bytes{100'000'000'000});
  EXPECT_NEAR(restarts.died, 39'970, 2);
  EXPECT_GE(restarts.lives.count, 2);
  EXPECT_NEAR(restarts.lives.shortest, 70, 3);
  EXPECT_NEAR(restarts.lives.longest, 70, 3);
}

// 5 % of the limit, and for a second in twenty nearly all of it.
double spiky(double t) {
  return std::fmod(t, 20) < 19 ? 0.015 : 0.291 + 0.0005 * std::fmod(std::floor(t / 20), 7);
}

TEST(Lives, a_program_that_spikes_to_its_limit_for_a_second_and_lives_on_has_not_died) {
  Forecaster f;
  for (double t = 0; t < 600; t += 0.5) {
    feed(f, t, t + 0.25, 0.5, 0.3, spiky);
    const Forecast& now = f.forecast();
    EXPECT_EQ(now.why.find("ended at"), std::string::npos) << t << " s: " << now.why;
    EXPECT_FALSE(now.eta) << t << " s: " << now.why;
    EXPECT_FALSE(now.alert && t > 60) << t << " s: " << now.why;
  }
  EXPECT_EQ(f.forecast().verdict, Verdict::spikes) << f.forecast().why;
}

// Its container waits for longer than it lives.
TEST(Lives, what_falls_from_its_limit_to_nothing_has_died_however_short_it_lived) {
  History history;
  auto series = [](double t) { return std::fmod(t, 100) < 90 ? 0.0 : 10 * (std::fmod(t, 100) - 89.5); };
  for (double t = 0; t < 405; t += 0.5) history.add(at_s(t), Bytes{std::llround(series(t) * 1e9)});
  Restarts restarts = find_restarts(history, Bytes{100'000'000'000});
  EXPECT_NEAR(restarts.died, 400, 2);
  EXPECT_EQ(restarts.lives.count, 3);
}

// Up to 88 % of the limit, by so much each 10 s, and back.
Restarts after_a_climb_by(double step) {
  History history;
  double t = 0;
  for (double v = 5; v <= 88; v += step, t += 10) history.add(at_s(t), Bytes{std::llround(v * 1e9)});
  for (int k = 0; k < 8; ++k, t += 10) history.add(at_s(t), Bytes{5'000'000'000});
  return find_restarts(history, Bytes{100'000'000'000});
}

TEST(Lives, what_falls_far_below_its_limit_may_have_died_if_it_took_such_steps) {
  EXPECT_GT(after_a_climb_by(8.3).may_have_died, 0);
  EXPECT_EQ(after_a_climb_by(0.83).may_have_died, 0);
}

// 150 MiB in 30 s, freed, again: each tooth rises along one line that meets the limit. In GiB for feed().
double tooth(double t) {
  return 0.005 + 0.145 * std::fmod(t, 30) / 30;
}

TEST(Lives, a_sawtooth_of_half_a_minute_is_no_leak_once_its_first_tooth_was_freed) {
  Forecaster f;
  feed(f, 0, 30, 0.5, 0.3, tooth);
  EXPECT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  for (double t = 30; t < 240; t += 0.5) {
    feed(f, t, t + 0.25, 0.5, 0.3, tooth);
    const Forecast& now = f.forecast();
    EXPECT_NE(now.verdict, Verdict::leak) << t << " s: " << now.why;
    EXPECT_FALSE(now.eta) << t << " s: " << now.why;
  }
}

// Each tooth tops the one before by a hair, and the samples lie across the falls as they come.
TEST(Lives, a_tooth_that_is_higher_than_the_last_by_a_hair_is_no_leak) {
  Forecaster f;
  auto series = [](double t) { return tooth(t) * (1 + 0.005 * std::floor(t / 30)); };
  feed(f, 0, 32, 0.3, 0.3, series);
  for (double t = 32.1; t < 150; t += 0.3) {
    feed(f, t, t + 0.15, 0.3, 0.3, series);
    const Forecast& now = f.forecast();
    EXPECT_NE(now.verdict, Verdict::leak) << t << " s: " << now.why;
    EXPECT_FALSE(now.eta) << t << " s: " << now.why;
    EXPECT_FALSE(now.alert) << t << " s: " << now.why;
  }
}

// Fine buckets hold the newest teeth alone, coarse ones have a tooth in a few.
TEST(Lives, the_trend_of_a_tooth_ends_with_its_fall) {
  Forecaster f;
  for (double t = 0; t < 300; t += 0.15) {
    feed(f, t, t + 0.1, 0.15, 0.3, tooth);
    if (t > 30 && std::fmod(t, 30) < 5) {
      EXPECT_NE(f.forecast().verdict, Verdict::leak) << t << " s: " << f.forecast().why;
    }
  }
}

TEST(Lives, a_tooth_whose_fall_lies_within_a_coarse_bucket_is_no_leak) {
  Forecaster f;
  auto slow = [](double t) { return tooth(t * 30 / 200); };
  feed(f, 0, 205, 0.5, 0.3, slow);
  for (double t = 205; t < 1'000; t += 0.5) {
    feed(f, t, t + 0.25, 0.5, 0.3, slow);
    EXPECT_NE(f.forecast().verdict, Verdict::leak) << t << " s: " << f.forecast().why;
  }
}

TEST(Lives, a_tooth_that_rises_beyond_what_was_freed_before_is_a_leak) {
  Forecaster f;
  feed(f, 0, 90, 0.5, 0.3, tooth);
  feed(f, 90, 125, 0.5, 0.3, [](double t) { return tooth(0) + 0.145 * (t - 90) / 30; });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_TRUE(f.forecast().eta);
}

}  // namespace
}  // namespace oomcast
