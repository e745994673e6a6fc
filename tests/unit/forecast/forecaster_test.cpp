#include "forecast/forecaster.h"

#include <gtest/gtest.h>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

// 600 MB a minute on a machine of 32 GB: it dies after 40 minutes.
double fuse(double t) {
  return 8.8 + 0.58 * t / 60;
}

double eta(Forecaster& f) {
  return f.forecast().eta ? f.forecast().eta->count() : -1;
}

TEST(Forecaster, says_that_it_is_too_early) {
  Forecaster f;
  feed(f, 0, 4, 1, 32, fuse);
  EXPECT_EQ(f.forecast().verdict, Verdict::unknown);
  EXPECT_FALSE(f.forecast().eta);
  EXPECT_NE(f.forecast().why.find("too early"), std::string::npos);
}

TEST(Forecaster, tells_the_forty_minute_fuse_within_two_minutes) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 120, 10, 32, [&](double t) { return fuse(t) + 0.02 * noise(); });
  double left = (32 - 8.8) / 0.58 * 60 - 110;
  const Forecast& now = f.forecast();
  ASSERT_EQ(now.verdict, Verdict::leak);
  ASSERT_TRUE(now.eta_low && now.eta_high);
  EXPECT_LE(now.eta_low->count(), left);
  EXPECT_GE(now.eta_high->count(), left);
  EXPECT_GE(now.eta_low->count(), 0.7 * left);
  EXPECT_LE(now.eta_high->count(), 1.3 * left);
}

// Under a collector that takes back half a gigabyte; the samples meet its teeth where they will.
TEST(Forecaster, tells_the_fuse_of_a_heap_that_a_collector_has_just_swept) {
  struct {
    double start, every, tooth;
  } heaps[] = {{2, 15, 13}, {8, 15, 13}, {8, 10, 41}};
  for (const auto& heap : heaps) {
    double start = heap.start, every = heap.every, tooth = heap.tooth;
    Forecaster f;
    feed(f, 0, 121, every, 32,
         [=](double t) { return start + 0.01 * t + 0.5 * std::fmod(t, tooth) / tooth; });
    double left = (32 - start) / 0.01 - 120;
    const Forecast& now = f.forecast();
    ASSERT_EQ(now.verdict, Verdict::leak) << start << " GiB, every " << every << " s: " << now.why;
    EXPECT_LE(now.eta_low->count(), left) << start << " GiB, every " << every << " s";
    ASSERT_TRUE(now.eta_high) << start << " GiB, every " << every << " s";
    EXPECT_GE(now.eta_high->count(), left) << start << " GiB, every " << every << " s";
  }
}

TEST(Forecaster, takes_a_rise_of_nine_uneven_samples_for_a_leak_and_not_for_a_few_jumps) {
  const double held[] = {7.993, 8.145, 8.302, 8.456, 8.573, 8.764, 8.903, 9.047, 9.187};
  Forecaster f;
  feed(f, 0, 121, 15, 32, [&](double t) { return held[std::lround(t / 15)]; });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
}

TEST(Forecaster, dies_at_a_spike_and_not_when_the_floor_arrives) {
  Noise noise;
  Forecaster f;
  auto value = [&](double t) {
    bool spike = std::fmod(t, 300) >= 280;
    return 14 + 14.0 * t / 10'000 + (spike ? 4 : 0) + 0.02 * noise();
  };
  feed(f, 0, 7'000, 5, 32, value);
  // The floor arrives after 12,860 s, floor and peak together at 10,000 s.
  EXPECT_NEAR(eta(f), 3'000, 300);
  ASSERT_TRUE(f.forecast().evidence.peak_above && f.forecast().evidence.period);
  EXPECT_NEAR(f.forecast().evidence.peak_above->as_double() / 1073741824.0, 4, 0.3);
  EXPECT_NEAR(f.forecast().evidence.period->count(), 300, 15);
}

// Validation every 30 s whose peaks climb by 28 MiB a minute, over a heap that goes up by steps of 84 MiB.
double validation(double t, double climbs, Noise& noise) {
  double peak = std::fmod(t, 30) >= 26 ? 0.18 : 0;
  double held = peak > 0 ? climbs * t / 60 : climbs * 3 * std::floor(t / 180);
  return 0.4 + held + peak + 0.001 * noise();
}

TEST(Forecaster, knows_the_spikes_for_as_long_as_they_come_although_the_first_was_seen_in_part) {
  Forecaster f;
  auto series = [](double t) { return 14 + 14 * t / 3600 + (std::fmod(t + 40, 300) < 60 ? 4 : 0); };
  feed(f, 0, 1'200, 10, 32, series);
  for (double t = 1'200; t < 3'500; t += 100) {
    feed(f, t, t + 100, 10, 32, series);
    ASSERT_TRUE(f.forecast().evidence.peak_above) << t << " s: " << f.forecast().why;
  }
}

TEST(Forecaster, waits_for_the_next_spike_after_hours_too_when_one_is_in_every_bucket_of_its_life) {
  Forecaster f;
  auto series = [](double t) { return 14 + 14 * t / 14'400 + (std::fmod(t + 90, 300) < 60 ? 4 : 0); };
  double end = 0;
  while (series(end) < 32) end += 10;
  feed(f, 0, 9'000, 10, 32, series);
  for (double t = 9'000; t < end - 300; t += 500) {
    feed(f, t, t + 500, 10, 32, series);
    double left = end - std::min(t + 490, end);
    const Forecast& now = f.forecast();
    ASSERT_TRUE(now.eta && now.eta_high && now.evidence.period) << t << " s: " << now.why;
    EXPECT_NEAR(now.evidence.period->count(), 300, 15) << t;
    EXPECT_NEAR(now.eta->count(), left, 310) << t;
    EXPECT_GE(now.eta_high->count(), left) << t;
  }
}

TEST(Forecaster, alerts_before_the_end_of_a_leak_that_pauses_every_night) {
  Noise noise;
  Forecaster f;
  auto held = [](double hours) {  // 20 GB on each working day of eight hours
    double days = std::floor(hours / 24);
    return 14 + 20 * (days + std::min(1.0, (hours - 24 * days) / 8));
  };
  feed(f, 0, 52 * 3'600, 60, 64, [&](double t) { return held(t / 3600) * (1 + 0.002 * noise()); });
  feed(f, 52 * 3'600, 51.9 * 3'600 + 360, 60, 64, [&](double t) { return held(t / 3600); });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_TRUE(f.forecast().alert);
}

TEST(Forecaster, keeps_silent_on_what_was_loaded_for_hours_and_is_flat_since) {
  Noise noise;
  Forecaster f;
  auto series = [&](double t) {
    return (6.4 + 40 * std::clamp((t - 21'600) / 7'200, 0.0, 1.0)) * (1 + 0.001 * noise());
  };
  feed(f, 0, 29'400, 10, 64, series);
  for (double t = 29'400; t < 31'000; t += 10) {
    feed(f, t, t + 10, 10, 64, series);
    ASSERT_FALSE(f.forecast().alert) << t - 28'800 << " s after: " << f.forecast().why;
  }
}

TEST(Forecaster, sees_the_leak_that_peaks_show_over_a_floor_in_steps) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 440, 1, 1, [&](double t) { return validation(t, 0.027, noise); });
  const Forecast& now = f.forecast();
  ASSERT_EQ(now.verdict, Verdict::leak) << now.why;
  EXPECT_NE(now.why.find("peaks have risen"), std::string::npos) << now.why;
  // They meet the limit when .4 + .18 + .00045 t does.
  ASSERT_TRUE(now.eta_low && now.eta_high);
  EXPECT_NEAR(now.eta->count(), 933 - 440, 100);
  EXPECT_NEAR(now.evidence.floor->as_double() / 1073741824.0, 0.4 + 0.027 * 6, 0.01);
}

TEST(Forecaster, believes_no_climbing_peaks_over_a_flat_floor) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 440, 1, 1, [&](double t) {
    bool peak = std::fmod(t, 30) >= 26;
    return 0.4 + (peak ? 0.18 + 0.027 * t / 60 : 0) + 0.001 * noise();
  });
  EXPECT_EQ(f.forecast().verdict, Verdict::spikes);
}

// Each two minutes a spike of 4 GiB, and before the program is back at its level 8 s with 1.4 GiB less.
double validates(double t, double level) {
  double k = std::fmod(t, 120);
  return k >= 100 && k < 105 ? level + 4.3 : k >= 105 && k < 113 ? level - 1.4 : level;
}

TEST(Forecaster, sees_the_leak_below_spikes_behind_which_the_level_dips) {
  for (double every : {1.0, 5.0}) {
    Noise noise;
    Forecaster f;
    int leaks = 0;
    for (double t = 0; t < 1200; t += every) {
      feed(f, t, t + every, every, 32,
           [&](double at) { return validates(at, 5.9 + at / 1200) + 0.01 * noise(); });
      leaks += t >= 600 && f.forecast().verdict == Verdict::leak;
    }
    EXPECT_GE(leaks, 0.98 * 600 / every) << "in its second ten minutes, every " << every << " s";
    ASSERT_TRUE(f.forecast().eta_low) << f.forecast().why;
    EXPECT_NEAR(f.forecast().growth->rate.value, 1073741824.0 / 1200, 0.05 * 1073741824.0 / 1200);
    EXPECT_EQ(f.forecast().why.find("does not rise"), std::string::npos) << f.forecast().why;
  }
}

TEST(Forecaster, calls_spikes_behind_which_the_level_dips_no_leak_while_it_stands_still) {
  for (double every : {1.0, 5.0}) {
    Noise noise;
    Forecaster f;
    for (double t = 0; t < 1200; t += every) {
      feed(f, t, t + every, every, 32,
           [&](double at) { return validates(at, 5.9 + 0.05 * at / 1200) + 0.01 * noise(); });
      EXPECT_NE(f.forecast().verdict, Verdict::leak)
          << "at " << t << " s, every " << every << " s: " << f.forecast().why;
    }
    EXPECT_EQ(f.forecast().verdict, Verdict::spikes) << f.forecast().why;
  }
}

TEST(Forecaster, calls_spikes_that_come_back_spikes) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 3'000, 5, 32,
       [&](double t) { return 6.2 + (std::fmod(t, 200) >= 190 ? 4.2 : 0) + 0.02 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::spikes);
  EXPECT_FALSE(f.forecast().alert);
  EXPECT_FALSE(f.forecast().eta);
}

// A validation's buffers leave holes in the heap, which what is kept then fills.
TEST(Forecaster, does_not_say_of_a_floor_that_rose_between_two_peaks_that_it_does_not) {
  Forecaster f;
  auto floor = [](double t) { return t < 19.2 ? 0.13 + 0.003 * t : 0.26; };
  feed(f, 0, 26, 0.25, 4, [&](double t) {
    double in_peak = std::fmod(t, 9) - 7.8;
    return t < 2 ? 0.065 * t : floor(t) + (t > 5 && in_peak >= 0 && t < 19.2 ? 0.2 * in_peak / 1.2 : 0);
  });
  EXPECT_NE(f.forecast().verdict, Verdict::spikes) << f.forecast().why;
  EXPECT_EQ(f.forecast().why.find("does not rise"), std::string::npos) << f.forecast().why;
}

TEST(Forecaster, calls_a_collectors_sawtooth_with_a_flat_floor_no_leak) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 4'000, 5, 32, [&](double t) { return 10 + 6 * std::fmod(t, 250) / 250 + 0.02 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::spikes);
}

TEST(Forecaster, sees_the_leak_below_a_sawtooth) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 6'000, 5, 32,
       [&](double t) { return 10 + 16 * t / 10'000 + 6 * std::fmod(t, 250) / 250 + 0.02 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak);
  EXPECT_NEAR(eta(f), 4'000, 500);
}

TEST(Forecaster, calls_a_collectors_teeth_that_take_most_of_the_time_no_spikes) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 1500, 2, 32, [&](double t) { return 9 + 1.0 * std::fmod(t, 95) / 95 + 0.01 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::stable) << f.forecast().why;
}

// 6000 MB at first and 6050 at the end: no leak.
TEST(Forecaster, calls_fifty_megabytes_under_spikes_no_leak) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 6000, 2, 32,
       [&](double t) { return 5.6 + 0.047 * t / 6000 + 0.002 * noise() + (std::fmod(t, 300) < 10 ? 4 : 0); });
  EXPECT_EQ(f.forecast().verdict, Verdict::spikes) << f.forecast().why;
}

TEST(Forecaster, tells_a_deadline_soon_after_a_job_that_leaks_was_started_again_at_the_same_level) {
  Forecaster f;
  feed(f, 0, 7000, 5, 32, [](double t) { return 8 + 0.004 * (t < 4000 ? t : t - 4000); });
  feed(f, 7000, 7500, 5, 32, [](double t) { return 8 + 0.004 * (t - 7000); });
  ASSERT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_NEAR(eta(f), 6000 - 495, 300);
}

// Seen of training programs: 70 MiB/s for 20 s up to 45 % of the limit, then hours at 50 %.
TEST(Forecaster, a_load_in_the_first_minute_is_no_alert_below_half_of_its_limit) {
  Noise noise;
  Forecaster loads, leaks;
  for (int i = 0; i < 400; ++i) {
    double t = i * 0.1;
    feed(loads, t, t + 0.1, 0.1, 4,
         [&](double at) { return 0.2 + 0.07 * std::min(at, 22.0) + 0.002 * noise(); });
    EXPECT_FALSE(loads.forecast().alert) << t;
    feed(leaks, t, t + 0.1, 0.1, 4, [&](double at) { return 0.2 + 0.07 * at + 0.002 * noise(); });
  }
  EXPECT_TRUE(leaks.forecast().alert) << "at three quarters of it: " << leaks.forecast().why;
}

// A full collection frees nine tenths of a heap, as a restart would.
TEST(Forecaster, a_height_from_which_it_was_freed_before_is_no_alert) {
  Noise noise;
  Forecaster f;
  auto tooth = [&](double t) { return 1 + 7 * std::fmod(t, 7'000) / 7'000 + 0.02 * noise(); };
  feed(f, 0, 6'990, 10, 16, tooth);
  for (double t = 7'000; t < 13'500; t += 100) {
    feed(f, t, t + 100, 10, 16, tooth);
    EXPECT_FALSE(f.forecast().alert) << t << ": " << f.forecast().why;
  }
  feed(f, 14'000, 20'900, 10, 16, [&](double t) { return 1 + 13 * (t - 14'000) / 7'000 + 0.02 * noise(); });
  EXPECT_TRUE(f.forecast().alert) << "beyond it: " << f.forecast().why;
}

TEST(Forecaster, does_not_alert_where_it_may_as_well_never_meet_its_limit) {
  // A start-up that slows down: on from here, it levels off below the limit or only just does not.
  Noise noise;
  Forecaster f;
  bool alert = false;
  for (double t = 0; t < 3000; t += 20) {
    feed(f, t, t + 1, 20, 30,
         [&](double at) { return 12 + 17.5 * (1 - std::exp(-at / 2400)) + 0.03 * noise(); });
    const Forecast& now = f.forecast();
    if (!now.eta_high || now.eta_high->count() > 3 * now.eta.value_or(Seconds(0)).count()) {
      EXPECT_FALSE(now.alert && !alert) << "at " << t << " s: " << now.why;
    }
    alert = now.alert;
  }
}

TEST(Forecaster, the_seconds_in_which_a_program_loads_its_libraries_give_no_deadline_of_minutes) {
  Forecaster f;
  for (double t = 0; t < 4; t += 0.5) {
    feed(f, t, t + 0.5, 0.5, 32, [](double at) { return 0.15 * at; });
    EXPECT_FALSE(f.forecast().eta) << "at " << t << " s: " << f.forecast().why;
    EXPECT_EQ(f.forecast().verdict, Verdict::unknown);
  }
  EXPECT_NE(f.forecast().why.find("start-up"), std::string::npos) << f.forecast().why;
  feed(f, 4, 32, 0.5, 32, [](double at) { return 0.15 * at; });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak)
      << "half a minute of it is no start-up: " << f.forecast().why;
}

TEST(Forecaster, five_seconds_along_one_line_or_behind_a_load_are_no_load) {
  Forecaster line, behind, fits;
  feed(line, 0, 8, 1, 24, [](double at) { return 0.02 * at; });
  EXPECT_EQ(line.forecast().verdict, Verdict::leak) << line.forecast().why;
  Noise noise;
  feed(behind, 0, 20, 1, 24,
       [&](double at) { return std::min(0.08 * at, 0.3 + 0.003 * (at - 4)) + 0.0004 * noise(); });
  EXPECT_EQ(behind.forecast().verdict, Verdict::leak) << behind.forecast().why;
  const double loads[] = {0, .03, .03, .1, .11, .11, .2, .21, .26, .31, .31, .4};
  for (int i = 0; i < 12; ++i) {
    feed(fits, i, i + 1, 1, 24, [&](double) { return loads[i]; });
    EXPECT_NE(fits.forecast().verdict, Verdict::leak) << "at " << i << " s: " << fits.forecast().why;
  }
}

TEST(Forecaster, a_program_that_fills_its_limit_in_two_minutes_has_its_deadline_in_six_seconds) {
  Forecaster f;
  feed(f, 0, 7, 0.5, 54, [](double at) { return 0.45 * at; });
  ASSERT_TRUE(f.forecast().eta) << f.forecast().why;
  EXPECT_NEAR(eta(f), 120 - 6.5, 6);
}

// As seen of a PyTorch program: each of these in the second after it, or at once.
TEST(Forecaster, two_copies_of_a_model_five_seconds_apart_are_no_leak) {
  const std::pair<double, double> holds[] = {
      {0, .001},     {.16, .018},   {.29, .051}, {.47, .083},   {.7, .115},    {.81, .211}, {1, .216},
      {10.83, .238}, {10.85, .286}, {11, .311},  {15.82, .327}, {15.85, .376}, {16, .407},  {25, .407}};
  Forecaster f;
  for (std::size_t i = 0; i + 1 < std::size(holds); ++i) {
    double level = holds[i].second;
    for (double t = holds[i].first; t < holds[i + 1].first; ++t) {
      feed(f, t, t + 0.1, 1, 4, [&](double) { return level; });
      EXPECT_NE(f.forecast().verdict, Verdict::leak) << "at " << t << " s: " << f.forecast().why;
    }
  }
  EXPECT_EQ(f.forecast().verdict, Verdict::step) << f.forecast().why;
}

// What moves has more samples: its second has more of them than the ten around it.
TEST(Forecaster, sees_the_floor_under_a_peak_that_has_more_samples_than_the_rest) {
  auto floor = [](double t) { return 0.125 + 0.003 * t; };
  Forecaster f;
  feed(f, 0, 8.6, 1, 4, floor);
  feed(f, 8.7, 9.9, 0.1, 4, [&](double t) { return floor(t) + 0.18 * (t - 8.6); });
  feed(f, 10, 18, 1, 4, floor);
  EXPECT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  ASSERT_TRUE(f.forecast().growth);
  EXPECT_NEAR(f.forecast().growth->rate.value / GiB(1).as_double(), 0.003, 0.0003);
}

TEST(Forecaster, calls_a_second_copy_of_a_model_a_step) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 3'000, 5, 32, [&](double t) { return (t < 1'200 ? 9 : 15) + 0.03 * noise(); });
  const Forecast& now = f.forecast();
  EXPECT_EQ(now.verdict, Verdict::step);
  ASSERT_TRUE(now.evidence.stepped && now.evidence.step_ago);
  EXPECT_NEAR(now.evidence.stepped->as_double() / 1073741824.0, 6, 0.5);
  EXPECT_NEAR(now.evidence.step_ago->count(), 1'800, 120);
}

TEST(Forecaster, takes_the_slow_end_of_a_rise_that_levels_off_for_no_rise_of_its_own) {
  Noise noise;
  for (double tau : {7'000.0, 12'000.0, 14'000.0}) {
    Forecaster f;
    double swing = 0;  // comes and goes within minutes
    feed(f, 0, 60'000, 20, 96, [&](double t) {
      swing = 0.96 * swing + 0.03 * noise();
      return 15 + 45 * (1 - std::exp(-t / tau)) + swing;
    });
    EXPECT_EQ(f.forecast().verdict, Verdict::ramp) << tau << ": " << f.forecast().why;
    EXPECT_FALSE(f.forecast().eta) << tau;
  }
}

TEST(Forecaster, calls_a_start_up_a_ramp) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 3'000, 5, 32, [&](double t) { return 20 * (1 - std::exp(-t / 100)) + 0.03 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::ramp);
  EXPECT_FALSE(f.forecast().eta);
}

TEST(Forecaster, says_of_no_rise_that_goes_on_that_it_has_levelled_off) {
  Forecaster f;
  for (auto [t, mib] :
       {std::pair{0, 0.0}, {420, 11.5}, {826, 19.75}, {1000, 23.5}, {1436, 31.75}, {1842, 39.75}})
    f.add({MonoTime(std::chrono::seconds(100) + std::chrono::milliseconds(t)),
           Bytes{static_cast<std::int64_t>(mib * 1048576)}, GiB(2), std::nullopt});
  for (auto [t, mib] : {std::pair{2000, 43.5}, {2100, 45.0}}) {
    f.add({MonoTime(std::chrono::seconds(100) + std::chrono::milliseconds(t)),
           Bytes{static_cast<std::int64_t>(mib * 1048576)}, GiB(2), std::nullopt});
    EXPECT_NE(f.forecast().verdict, Verdict::ramp) << t << " ms: " << f.forecast().why;
  }
}

TEST(Forecaster, keeps_silent_on_noise) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 20'000, 10, 32, [&](double) { return 29 + 0.3 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::stable);
  EXPECT_FALSE(f.forecast().alert);
}

TEST(Forecaster, does_not_adapt_a_slow_leak_away) {
  Noise noise;
  Forecaster f;
  auto slow = [&](double t) { return 30 + 66 * t / (60 * 3600) + 0.3 * noise(); };
  feed(f, 0, 36 * 3600, 60, 96, slow);
  EXPECT_EQ(f.forecast().verdict, Verdict::leak);
  EXPECT_TRUE(f.forecast().alert) << "24 hours ahead";
  EXPECT_NEAR(eta(f) / 3600, 24, 2);
}

TEST(Forecaster, keeps_silent_on_full_servers_that_wander_for_hours) {
  Noise noise;
  int alerts = 0;
  for (int server = 0; server < 24; ++server) {
    Forecaster f;
    double slow = 0;
    bool before = false;
    for (double t = 0; t < 2 * 86'400; t += 60) {
      slow = 0.99 * slow + 0.141 * noise();
      feed(f, t, t + 1, 60, 96, [&](double) { return std::min(94.5, 85 + 3 * slow + 0.5 * noise()); });
      bool now = f.forecast().alert;
      alerts += now && !before;
      before = now;
    }
  }
  EXPECT_LE(alerts, 1) << "in 48 machine-days";
}

TEST(Forecaster, alerts_half_a_life_ahead_of_a_faint_leak_of_a_day) {
  Noise noise;
  Forecaster f;
  double slow = 0;
  feed(f, 0, 14 * 3600, 60, 96, [&](double t) {
    slow = 0.9 * slow + 0.2 * noise();
    return 86 + 10 * t / (28 * 3600) + slow;
  });
  EXPECT_TRUE(f.forecast().alert);
}

TEST(Forecaster, alerts_of_a_leak_that_slows_down) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 18 * 3600, 60, 96,
       [&](double t) { return 30 + 66 * std::pow(t / (36 * 3600), 0.5) + 0.1 * noise(); });
  EXPECT_TRUE(f.forecast().alert);
}

TEST(Forecaster, knows_when_noise_that_grows_with_the_level_meets_the_limit_first) {
  for (double share : {0.6, 0.75, 0.9}) {
    Noise noise;
    auto level = [&](double t) { return (6 + 26 * t / 100'000) * (1 + 0.02 * noise()); };
    double end = 0;
    while (level(end) < 32) end += 60;
    noise = {};
    Forecaster f;
    feed(f, 0, share * end, 60, 32, level);
    const Forecast& now = f.forecast();
    ASSERT_TRUE(now.eta_low && now.eta_high) << share;
    EXPECT_LE(now.eta_low->count(), (1 - share) * end) << share;
    EXPECT_GE(now.eta_high->count(), (1 - share) * end) << share;
  }
}

TEST(Forecaster, sees_a_balloon_of_seconds_after_hours_of_calm) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 20'000, 5, 61, [&](double) { return 6.4 + 0.02 * noise(); });
  feed(f, 20'000, 20'090, 5, 61, [&](double t) { return 6.4 + 54.6 * (t - 20'000) / 120 + 0.02 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak);
  EXPECT_NEAR(eta(f), 35, 10);
}

TEST(Forecaster, sees_a_balloon_of_two_minutes_after_eight_days_of_calm) {
  for (double begins : {691'000.0, 691'170.0, 691'333.0}) {  // whenever it was last looked at
    Noise noise;
    Forecaster f;
    feed(f, 0, begins - 1'000, 600, 61, [&](double) { return 6.4 + 0.02 * noise(); });
    feed(f, begins - 1'000, begins, 5, 61, [&](double) { return 6.4 + 0.02 * noise(); });
    feed(f, begins, begins + 60, 1, 61,
         [&](double t) { return 6.4 + 54.6 * (t - begins) / 120 + 0.02 * noise(); });
    EXPECT_EQ(f.forecast().verdict, Verdict::leak) << begins << ": " << f.forecast().why;
    EXPECT_TRUE(f.forecast().alert) << begins;
    EXPECT_NEAR(eta(f), 61, 15) << begins;
  }
}

// Its teeth are as high as what it grows by in four hours.
TEST(Forecaster, moves_a_deadline_after_eight_days_while_a_leak_stands_still) {
  Noise noise;
  Forecaster f;
  constexpr double kStops = 691'200, kHour = 3'600;
  auto level = [&](double t) {
    return 20 + std::min(t, kStops) / kHour + 4 * std::fmod(t, 2'100) / 2'100 + 0.02 * noise();
  };
  double limit = 20 + kStops / kHour + 4 + 2;
  feed(f, 0, kStops, 300, limit, level);
  ASSERT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_NEAR(eta(f), 2.3 * kHour, 0.5 * kHour);
  feed(f, kStops, kStops + 1.5 * kHour, 60, limit, level);
  EXPECT_GT(eta(f), kHour) << "0.8 h are left of what was told before: " << f.forecast().why;
}

TEST(Forecaster, sees_a_leak_that_begins_late) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 10'000, 10, 32,
       [&](double t) { return 10 + (t < 5'000 ? 0 : 20 * (t - 5'000) / 8'000) + 0.05 * noise(); });
  EXPECT_EQ(f.forecast().verdict, Verdict::leak);
  EXPECT_NEAR(eta(f), 3'800, 400);
}

// Two minutes of spikes and dips before it were taken for the leak's own, on top of the level that it had
// reached: an alert came 30 s before the kill.
TEST(Forecaster, sees_a_leak_that_begins_behind_a_few_spikes_and_dips) {
  for (double step : {10.0, 30.0}) {
    Noise noise;
    Forecaster f;
    auto level = [&](double t) {
      double before = t < 3'600 ? 6 : 9, in = std::fmod(t, 120);
      if (t >= 8'380 && t < 8'500) before += in < 60 ? 5 : in < 90 ? -1.5 : 0;
      return before + std::max(0.0, t - 8'640) * 0.155 + 0.008 * noise();
    };
    feed(f, 0, 8'640, step, 100, level);
    EXPECT_FALSE(f.forecast().alert) << step;
    for (double at = 8'640; at < 9'180; at += step) {
      feed(f, at, at + step, step, 100, level);
      double truth = 8'640 + 91 / 0.155 - at;
      if (at < 8'640 + 10 * step) continue;
      ASSERT_EQ(f.forecast().verdict, Verdict::leak) << step << " " << at << ": " << f.forecast().why;
      EXPECT_NEAR(eta(f), truth, 0.1 * truth) << step << " " << at << ": " << f.forecast().why;
      bool expected = truth < 1.7 * (at - 8'640) && at > 8'640 + 12 * step;
      EXPECT_TRUE(f.forecast().alert || !expected) << step << " " << at;
    }
  }
}

TEST(Forecaster, sees_that_a_leak_has_stopped) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 4'000, 10, 32, [&](double t) { return 10 + std::min(t, 2'000.0) / 200 + 0.05 * noise(); });
  EXPECT_NE(f.forecast().verdict, Verdict::leak);
  EXPECT_FALSE(f.forecast().eta);
}

TEST(Forecaster, says_of_a_leak_that_thrashes_at_its_limit_that_it_has_arrived) {
  for (double stands : {1.0, 3.0, 5.5}) {
    Noise noise;
    Forecaster f;
    feed(f, 0, 6.4 + stands, 0.05, 0.128,
         [&](double t) { return std::min(0.004 + 0.0195 * t, 0.1277) - 0.0001 * std::abs(noise()); });
    EXPECT_EQ(f.forecast().verdict, Verdict::leak) << stands << ": " << f.forecast().why;
    EXPECT_TRUE(f.forecast().alert) << stands;
    EXPECT_EQ(eta(f), 0) << stands;
    EXPECT_NEAR(f.forecast().growth->rate.value, 0.0195 * 1073741824, 1e6) << stands;
  }
}

TEST(Forecaster, takes_what_stands_at_its_limit_for_longer_than_it_rose_for_no_leak) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 600, 1, 10, [&](double t) { return std::min(2 + t / 20, 9.8) - 0.005 * std::abs(noise()); });
  EXPECT_NE(f.forecast().verdict, Verdict::leak);
  EXPECT_FALSE(f.forecast().alert);
}

TEST(Forecaster, follows_a_limit_that_moves) {
  Forecaster f;
  feed(f, 0, 600, 5, 32, fuse);
  double before = eta(f);
  f.add({at_s(600), GiB(15), GiB(64)});
  EXPECT_GT(eta(f), 2 * before);
  f.add({at_s(605), GiB(15), std::nullopt});
  EXPECT_FALSE(f.forecast().eta) << "no limit, no deadline";
  EXPECT_EQ(f.forecast().verdict, Verdict::leak);
}

TEST(Forecaster, says_the_same_however_often_it_is_asked) {
  Noise a, b;
  Forecaster often, once;
  auto with = [](Noise& n) { return [&n](double t) { return fuse(t) + 0.05 * n(); }; };
  for (double t = 0; t < 900; t += 5) {
    feed(often, t, t + 5, 5, 32, with(a));
    (void)often.forecast();
  }
  feed(once, 0, 900, 5, 32, with(b));
  EXPECT_EQ(often.forecast().eta, once.forecast().eta);
  EXPECT_EQ(often.forecast().why, once.forecast().why);
}

TEST(Forecaster, lives_with_gaps_and_irregular_samples) {
  Noise noise;
  Forecaster f;
  double t = 0;
  for (int i = 0; i < 200; ++i) {
    t += i % 3 == 0 ? 1 : 9;
    if (t > 600 && t < 900) continue;
    feed(f, t, t + 0.5, 1, 32, [&](double s) { return fuse(s) + 0.03 * noise(); });
  }
  EXPECT_NEAR(eta(f), 2'400 - t, 120);
}

TEST(Forecaster, tells_page_cache_from_a_leak) {
  Forecaster f(Surplus::droppable);
  for (int i = 0; i < 300; ++i)
    f.add({at_s(i * 5), GiB(4), GiB(32), Bytes{GiB(4).count + i * MiB(60).count}});
  EXPECT_EQ(f.forecast().verdict, Verdict::cache);
  EXPECT_FALSE(f.forecast().eta);
}

TEST(Forecaster, sees_the_leak_of_a_loader_that_fills_the_page_cache_ten_times_as_fast) {
  Forecaster f(Surplus::droppable);
  Noise noise;
  for (int i = 0; i < 24; ++i) {
    auto held = Bytes{GiB(9).count + static_cast<std::int64_t>((i * 50 + noise()) * 1048576)};
    f.add({at_s(i * 5), held, GiB(32), std::min(held + MiB(1024 + i * 500), GiB(31))});
  }
  ASSERT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_NEAR(eta(f), (23 * 1024 - 1150) / 10.0, 120);
}

TEST(Forecaster, names_copy_on_write_while_the_rss_is_flat) {
  Forecaster f(Surplus::shared);
  for (int i = 0; i < 20; ++i)
    f.add({at_s(i), Bytes{MiB(10).count + i * MiB(18).count}, std::nullopt, GiB(3)});
  const Forecast& now = f.forecast();
  EXPECT_EQ(now.verdict, Verdict::cow);
  ASSERT_TRUE(now.evidence.shared);
  EXPECT_LT(*now.evidence.shared, GiB(3));
}

TEST(Forecaster, tells_when_copies_meet_a_limit_that_is_less_than_what_is_shared) {
  Noise noise;
  auto copies = [&](double limit) {
    Forecaster f(Surplus::shared);
    for (double t = 0; t < 300; t += 1)
      f.add({at_s(t), GiB(1) + Bytes{static_cast<std::int64_t>((5e6 * t) + 1e5 * noise())},
             Bytes{static_cast<std::int64_t>(limit * 1073741824)}, GiB(8)});
    return f.forecast();
  };
  Forecast bounded = copies(9), meets = copies(4);
  EXPECT_EQ(bounded.verdict, Verdict::cow);
  EXPECT_FALSE(bounded.eta);
  EXPECT_EQ(meets.verdict, Verdict::cow) << meets.why;
  ASSERT_TRUE(meets.eta);
  EXPECT_NEAR(meets.eta->count(), (3 * 1073741824.0 - 5e6 * 299) / 5e6, 20);
  EXPECT_TRUE(meets.alert);
}

TEST(Forecaster, names_copy_on_write_of_workers_that_were_forked_under_its_eyes) {
  Forecaster f(Surplus::shared);
  for (int i = 0; i < 10; ++i) f.add({at_s(i), GiB(2), std::nullopt, GiB(3)});
  for (int i = 0; i < 30; ++i)
    f.add({at_s(10 + i), Bytes{GiB(2).count + i * MiB(60).count}, std::nullopt, GiB(12)});
  EXPECT_EQ(f.forecast().verdict, Verdict::cow);
}

// A data set in two parts; GiB. What the second is for nobody knows; that it is over is seen.
TEST(Forecaster, gives_no_deadline_for_what_has_stood_still_for_five_seconds) {
  for (double step : {0.2, 0.5, 1.0})
    for (double pause : {4.0, 11.0, 25.0})
      for (double part : {0.5, 1.0, 1.5}) {
        Forecaster f;
        double flat = 3 + 5 + pause + 4;
        feed(f, 0, flat + 5.5, step, 8, [=](double t) {
          return 0.3 + std::clamp((t - 3) / 5, 0.0, 1.0) + part * std::clamp((t - 8 - pause) / 4, 0.0, 1.0);
        });
        EXPECT_FALSE(f.forecast().eta) << "every " << step << " s, paused for " << pause << ", then " << part
                                       << " GiB: " << f.forecast().why;
        EXPECT_NE(f.forecast().verdict, Verdict::leak) << f.forecast().why;
      }
}

TEST(Forecaster, takes_what_rests_again_and_again_for_a_staircase) {
  Noise noise;
  Forecaster f;
  feed(f, 0, 290, 1, 32, [&](double t) { return 8 + std::floor(t / 20) + 0.01 * noise(); });
  ASSERT_EQ(f.forecast().verdict, Verdict::leak) << f.forecast().why;
  EXPECT_NEAR(eta(f), (32 - 8) * 20 - 290, 40);
}

// As seen in a pod: five hours that look like the beginning of an exponential, and then hours of calm.
TEST(Forecaster, no_deadline_is_sooner_than_a_fourth_of_what_the_growth_beside_it_leaves) {
  int deadlines = 0;
  for (double bend : {0.5, 2.0, 3.0, 5.0}) {
    Noise noise;
    Forecaster f;
    for (double t = 0; t < 18900; t += 300) {
      feed(f, t, t + 300, 60, 2000, [&](double at) {
        return 428 + 56 * (std::exp(bend * at / 18900) - 1) / (std::exp(bend) - 1) + 1.5 * noise();
      });
      const Forecast& said = f.forecast();
      if (!said.eta || !said.growth) continue;
      ++deadlines;
      double room = 2000 * 1073741824.0 - said.evidence.floor->as_double();
      if (room < 100 * 1073741824.0) continue;  // no further than it has come
      EXPECT_GE(said.eta->count() * said.growth->high.value, 0.24 * room) << bend << " at " << t;
    }
  }
  EXPECT_GT(deadlines, 0);
}

// As seen in a pod: nine hours at the same level, and then 13 minutes.
TEST(Forecaster, tells_of_a_level_near_its_limit_that_rises_by_more_than_is_left) {
  Noise noise;
  Forecaster f;
  auto pod = [&](double t) { return 78 + 19 * std::clamp((t - 32400) / 780, 0.0, 1.0) + 0.2 * noise(); };
  feed(f, 0, 32400, 60, 100, pod);
  EXPECT_FALSE(f.forecast().alert) << f.forecast().why;
  feed(f, 32400, 33181, 60, 100, pod);
  EXPECT_TRUE(f.forecast().alert) << f.forecast().why;
  ASSERT_TRUE(f.forecast().evidence.near_limit);
  EXPECT_NEAR(f.forecast().evidence.near_limit->left.as_double() / 1073741824.0, 3, 1);
  EXPECT_NEAR(f.forecast().evidence.near_limit->moved.as_double() / 1073741824.0, 19, 1);
}

// Nine in ten; noise that is new each time would have it in four of ten of these.
TEST(Forecaster, the_growth_of_a_level_that_wanders_about_it_may_be_none) {
  Noise noise;
  int holds = 0, all = 0;
  for (int series = 0; series < 60; ++series) {
    Forecaster f;
    double above = 0;
    feed(f, 0, 300, 1, 100, [&](double) {
      above = 0.9 * above + 0.05 * noise();
      return 20 + above;
    });
    const auto& growth = f.forecast().growth;
    if (f.forecast().verdict == Verdict::leak || !growth) continue;
    ++all;
    holds += growth->low.value <= 0 && 0 <= growth->high.value;
  }
  EXPECT_GT(all, 40);
  EXPECT_GT(holds, all * 3 / 4);
}

// As seen in a pod: an hour at the same level, one jump, and what settles below its limit.
TEST(Forecaster, a_jump_to_a_level_near_its_limit_that_settles_there_is_no_alert) {
  const double after[] = {124.8, 128.3, 129.6, 130.1, 130.2, 130.2, 130.3, 130.3};
  Noise noise;
  Forecaster f;
  feed(f, 0, 3600, 60, 134.2, [&](double) { return 48.9 + 0.1 * noise(); });
  for (int i = 0; i < 8; ++i) {
    feed(f, 3600 + 60 * i, 3660 + 60 * i, 60, 134.2, [&](double) { return after[i]; });
    EXPECT_FALSE(f.forecast().alert) << i << ": " << f.forecast().why;
  }
}

TEST(Forecaster, a_level_near_its_limit_that_stays_is_no_alert) {
  Noise noise;
  Forecaster f;
  bool alert = false;
  for (int s = 0; s < 7200; s += 10) {
    feed(f, s, s + 10, 10, 100, [&](double) { return 97 + 0.2 * noise(); });
    alert = alert || f.forecast().alert;
  }
  EXPECT_FALSE(alert) << f.forecast().why;
}

TEST(Forecaster, a_heap_that_has_just_been_started_is_no_alert_far_from_its_limit) {
  // MiB, each second; the limit is 29 GiB.
  const double held[] = {213, 216, 263, 401, 754, 947, 947, 955, 963, 977, 985};
  Forecaster f;
  for (int s = 0; s < 11; ++s) {
    feed(f, s, s + 1, 1, 29, [&](double) { return held[s] / 1024; });
    EXPECT_FALSE(f.forecast().alert) << s << " s: " << f.forecast().why;
  }
}

}  // namespace
}  // namespace oomcast
