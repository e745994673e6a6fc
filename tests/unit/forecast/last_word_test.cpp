// No sentence that the newest ten samples contradict.
#include "forecast/last_word.h"

#include <gtest/gtest.h>

#include "forecast/forecaster.h"
#include "forecast/series_of.h"

namespace oomcast {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// 100 samples at `level`, and ten that move by `by` in all; GiB.
History with_newest(double level, double by) {
  History history;
  for (int i = 0; i < 100; ++i) history.add(at_s(i), Bytes{std::llround(level * 1073741824)});
  for (int i = 1; i <= 10; ++i)
    history.add(at_s(99 + i), Bytes{std::llround((level + by * i / 10) * 1073741824)});
  return history;
}

// What each verdict claims of the present: as they are written in rest.cpp, forecaster.cpp and surplus.cpp.
const Sentence kStanding[] = {
    {"no rise above noise in 2 h"},
    {"the level shifted by 4.00 GiB, 10 min 00 s ago", ", and is flat since"},
    {"it rose by 15.0 GiB at the start", " and levelled off"},
    {"5 peaks of 4.00 GiB every 1 min 00 s came back", ", the baseline between them does not rise"},
    {"1.00 GiB became private while the RSS stayed at 2.00 GiB"},
    {"3.00 GiB of what grew can be dropped (page cache); what cannot stands at 10.0 GiB"},
};
const Sentence kRising[] = {
    {"its baseline has risen 10.0 MiB/s for the last 1 min 00 s", "", true},
    {"too early to tell a start-up from a leak: 1.00 GiB in 20 s", ", and it still rises", true},
};

TEST(LastWord, nothing_is_said_to_stand_still_while_its_newest_samples_rise) {
  for (const Sentence& sentence : kStanding) {
    std::string why = last_word(sentence, with_newest(20, 4), GiB(100), {});
    EXPECT_TRUE(has(why, "but it rose by 3.60 GiB in the last 9.0 s")) << why;
    EXPECT_TRUE(sentence.claim.empty() || !has(why, sentence.claim)) << why;
  }
}

TEST(LastWord, nothing_is_said_to_rise_while_its_newest_samples_fall) {
  for (const Sentence& sentence : kRising) {
    std::string why = last_word(sentence, with_newest(20, -4), GiB(100), {});
    EXPECT_TRUE(has(why, "but it fell by 3.60 GiB in the last 9.0 s")) << why;
    EXPECT_FALSE(has(why, "still rises")) << why;
  }
}

TEST(LastWord, what_the_newest_samples_agree_with_is_said_as_it_was) {
  for (const Sentence& sentence : kStanding)
    EXPECT_EQ(last_word(sentence, with_newest(20, 0), GiB(100), {}), sentence.said + sentence.claim);
  for (const Sentence& sentence : kRising)
    EXPECT_EQ(last_word(sentence, with_newest(20, 4), GiB(100), {}), sentence.said + sentence.claim);
}

TEST(LastWord, a_jump_to_where_it_never_was_is_said) {
  History history;
  for (int i = 0; i < 110; ++i) history.add(at_s(i), GiB(i < 100 ? 20 : 24));
  EXPECT_TRUE(has(last_word(kStanding[0], history, GiB(100), {}), "stands 4.00 GiB higher than ever before"))
      << last_word(kStanding[0], history, GiB(100), {});
}

// A run's summary said "0 B higher than ever before" of a program that had ended.
TEST(LastWord, what_holds_nothing_any_more_is_not_said_to_stand_higher) {
  History history;
  for (int i = 0; i < 110; ++i) history.add(at_s(i), Bytes{});
  EXPECT_FALSE(has(last_word(kStanding[0], history, GiB(100), {}), "higher"))
      << last_word(kStanding[0], history, GiB(100), {});
}

TEST(LastWord, at_97_percent_of_the_limit_it_is_said_how_much_is_left_whatever_else_is) {
  for (double by : {-1.0, 0.0, 1.0})
    for (const auto* sentences : {&kStanding[0], &kStanding[1], &kStanding[2], &kStanding[3], &kStanding[4],
                                  &kStanding[5], &kRising[0], &kRising[1]}) {
      std::string why = last_word(*sentences, with_newest(98.5, by), GiB(100), {});
      EXPECT_TRUE(has(why, "iB are left of its limit")) << why;
    }
  EXPECT_TRUE(
      has(last_word(kStanding[0], with_newest(100, 0), GiB(100), {}), "nothing is left of its limit"));
  EXPECT_FALSE(has(last_word(kStanding[0], with_newest(96, 0), GiB(100), {}), "left"));
}

// Between two analyses, too: an hour's worth of a long history is a hundredth of four days.
TEST(LastWord, holds_for_each_forecast_and_not_only_for_those_that_were_analysed_anew) {
  struct {
    const char* name;
    std::function<double(double)> before;
  } series[] = {{"stable", [](double) { return 40.0; }},
                {"step", [](double t) { return t < 8'000 ? 30.0 : 40.0; }},
                {"ramp", [](double t) { return 40 - 25 * std::exp(-t / 1'500); }},
                {"spikes", [](double t) { return std::fmod(t, 600) < 60 ? 60.0 : 40.0; }}};
  for (const auto& each : series) {
    Noise noise;
    Forecaster f;
    feed(f, 0, 20'000, 20, 100, [&](double t) { return each.before(t) + 0.05 * noise(); });
    ASSERT_EQ(to_string(f.forecast().verdict), each.name) << f.forecast().why;
    for (double t = 20'100; t < 20'300; t += 20) {
      feed(f, t, t + 10, 20, 100, [&](double at) { return 40.5 + (at - 20'100) * 0.01; });
      if (t < 20'280) continue;
      const std::string& why = f.forecast().why;
      EXPECT_FALSE(has(why, "flat since") || has(why, "levelled off") || has(why, "does not rise")) << why;
      EXPECT_TRUE(has(why, "rose by") || has(why, "rises")) << why;
    }
  }
}

}  // namespace
}  // namespace oomcast
