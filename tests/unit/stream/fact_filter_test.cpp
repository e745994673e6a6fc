#include "stream/fact_filter.h"

#include <gtest/gtest.h>

#include "stream/facts_of_each_type.h"
#include "stream/json.h"

namespace oomcast {
namespace {

using namespace test;
using Words = std::vector<std::string>;

constexpr Nanos kOneSecond = std::chrono::seconds(1);

MonoTime after(int second) {
  return MonoTime(second * kOneSecond);
}

Sample sample_at(int second, std::uint64_t inode) {
  Sample out;
  out.time = after(second);
  out.cgroup = cgroup(inode, "/" + std::to_string(inode));
  return out;
}

ForecastFact forecast_at(int second, Verdict verdict, bool alert = false) {
  ForecastFact out{after(second), cgroup(10, "/job"), std::nullopt, nullptr, {}};
  out.forecast.verdict = verdict;
  out.forecast.alert = alert;
  return out;
}

FactChoice all_of_it() {
  FactChoice out;
  out.all = true;
  return out;
}

FactChoice only_of(std::set<std::string> types) {
  FactChoice out;
  out.only = std::move(types);
  return out;
}

FactChoice apart(Nanos samples) {
  FactChoice out;
  out.samples = samples;
  return out;
}

Words types_of(FactFilter filter, const std::vector<Fact>& facts) {
  Words out;
  for (const Fact& fact : facts)
    if (filter.wants(fact)) out.emplace_back(type_of(fact));
  return out;
}

TEST(FactFilter, of_text_gives_what_happens_and_neither_samples_nor_what_was_said_before) {
  EXPECT_EQ(types_of(FactFilter({}, true), known_facts()),
            (Words{"start", "forecast", "oom", "kill", "alert", "lost", "end"}));
  EXPECT_EQ(types_of(FactFilter({}, false), known_facts()).size(), known_facts().size())
      << "JSON has everything";
  EXPECT_EQ(types_of(FactFilter(all_of_it(), true), known_facts()).size(), known_facts().size());
}

TEST(FactFilter, of_text_gives_a_forecast_when_verdict_or_alert_change) {
  FactFilter filter({}, true);
  EXPECT_FALSE(filter.wants(forecast_at(1, Verdict::unknown))) << "too early to tell";
  EXPECT_FALSE(filter.wants(forecast_at(2, Verdict::stable))) << "quiet from the start";
  EXPECT_TRUE(filter.wants(forecast_at(3, Verdict::leak)));
  EXPECT_FALSE(filter.wants(forecast_at(4, Verdict::leak)));
  EXPECT_TRUE(filter.wants(forecast_at(5, Verdict::leak, true)));
  EXPECT_TRUE(filter.wants(forecast_at(6, Verdict::stable)));
  EXPECT_FALSE(filter.wants(forecast_at(7, Verdict::unknown)));
  EXPECT_FALSE(filter.wants(forecast_at(8, Verdict::stable)));
  EXPECT_TRUE(filter.wants(forecast_at(9, Verdict::leak)));
  EXPECT_TRUE(filter.wants(forecast_at(10, Verdict::unknown))) << "it was no leak";
}

// A program whose memory comes and goes gave two lines a second, and none asked for anything.
TEST(FactFilter, of_text_gives_verdicts_that_ask_for_nothing_at_most_once_in_ten_seconds) {
  FactFilter filter({}, true);
  EXPECT_TRUE(filter.wants(forecast_at(1, Verdict::spikes)));
  EXPECT_FALSE(filter.wants(forecast_at(2, Verdict::stable)));
  EXPECT_FALSE(filter.wants(forecast_at(3, Verdict::spikes)));
  EXPECT_FALSE(filter.wants(forecast_at(9, Verdict::ramp)));
  EXPECT_TRUE(filter.wants(forecast_at(10, Verdict::leak))) << "that asks for something";
  EXPECT_TRUE(filter.wants(forecast_at(11, Verdict::spikes))) << "it is over";
  EXPECT_FALSE(filter.wants(forecast_at(12, Verdict::stable)));
  EXPECT_TRUE(filter.wants(forecast_at(13, Verdict::stable, true))) << "an alert";
  EXPECT_TRUE(filter.wants(forecast_at(14, Verdict::stable)));
  EXPECT_TRUE(filter.wants(forecast_at(24, Verdict::spikes)));
}

TEST(FactFilter, knows_the_series_of_a_file_apart) {
  auto of = [](const char* name, Verdict verdict) {
    ForecastFact out;
    out.series = name;
    out.forecast.verdict = verdict;
    return out;
  };
  FactFilter filter({}, true);
  EXPECT_TRUE(filter.wants(of("GPU 0", Verdict::leak)));
  EXPECT_FALSE(filter.wants(of("GPU 1", Verdict::stable)));
  EXPECT_FALSE(filter.wants(of("GPU 0", Verdict::leak)));
  EXPECT_TRUE(filter.wants(of("GPU 1", Verdict::leak)));
}

TEST(FactFilter, gives_the_types_that_were_asked_for_alone) {
  EXPECT_EQ(types_of(FactFilter(only_of({"oom", "sample"}), false), known_facts()), (Words{"sample", "oom"}));
  EXPECT_EQ(types_of(FactFilter(only_of({"oom"}), true), known_facts()), (Words{"oom", "lost"}))
      << "a person does not miss that something was lost";
}

TEST(FactFilter, gives_one_sample_of_each_cgroup_in_the_time_that_was_asked_for) {
  FactFilter filter(apart(10 * kOneSecond), false);
  for (int second = 0; second < 30; ++second) {
    EXPECT_EQ(filter.wants(sample_at(second, 10)), second % 10 == 0) << second;
    EXPECT_EQ(filter.wants(sample_at(second, 11)), second % 10 == 0) << second;
  }
  filter.wants(ForgottenFact{after(30), {Hierarchy::v1, 11}});
  EXPECT_TRUE(filter.wants(sample_at(30, 10)));
  EXPECT_FALSE(filter.wants(sample_at(31, 10)));
  EXPECT_TRUE(filter.wants(sample_at(31, 11))) << "another cgroup with the same inode";
}

TEST(FactFilter, with_fewer_samples_leaves_out_no_event_and_no_turn) {
  FactFilter filter(apart(10 * kOneSecond), false);
  EXPECT_TRUE(filter.wants(forecast_at(0, Verdict::stable)));
  EXPECT_FALSE(filter.wants(forecast_at(1, Verdict::stable)));
  EXPECT_TRUE(filter.wants(forecast_at(2, Verdict::leak)));
  EXPECT_FALSE(filter.wants(forecast_at(3, Verdict::leak)));
  EXPECT_TRUE(filter.wants(forecast_at(10, Verdict::leak)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(filter.wants(known_oom(unknown_process(), nullptr)));
  EXPECT_EQ(
      types_of(FactFilter(apart(Nanos{}), false), known_facts()),
      (Words{"start", "forecast", "oom", "kill", "reclaim", "pressure", "alert", "lost", "totals", "end"}))
      << "none";
}

TEST(FactFilter, of_a_recording_gives_the_lines_that_it_gave_live) {
  FactFilter text({}, true), only(only_of({"gpu"}), false);
  GpuFact gpu;
  for (auto op : {GpuEvent::Op::alloc, GpuEvent::Op::oom, GpuEvent::Op::xid}) {
    gpu.event.op = op;
    std::string json = to_json(Fact(gpu), ClockMap{});
    EXPECT_EQ(text.wants("gpu", json), text.wants(Fact(gpu))) << json;
    EXPECT_TRUE(only.wants("gpu", json));
  }
  EXPECT_TRUE(text.wants("oom", ""));
  EXPECT_TRUE(text.wants("end", ""));
  EXPECT_FALSE(text.wants("pressure", ""));
  EXPECT_FALSE(text.wants("gpu", "[1")) << "damaged";
  EXPECT_FALSE(text.wants("", ""));
  EXPECT_FALSE(only.wants("oom", ""));
}

}  // namespace
}  // namespace oomcast
