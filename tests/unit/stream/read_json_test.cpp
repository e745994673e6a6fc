#include "stream/read_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "stream/facts_of_each_type.h"
#include "stream/json.h"

namespace oomcast {
namespace {

using namespace test;

ClockMap live_clocks() {
  return {Nanos(1'795'227'784'000'000'000), Nanos(1'795'227'000'000'000'000), Nanos(10'000'000)};
}

// A line, read and written again.
std::string again(const std::string& line) {
  auto fact = read_fact(line);
  if (!fact) return "error: " + fact.error().message;
  return *fact ? to_json(**fact, clocks_of_read_facts()) : "unknown type";
}

std::vector<Fact> facts_of_gpus() {
  MonoTime t = mono_from_ns(1'000'000'000);
  ProcessRef p = process(100, "python3", {"python3", "train.py"}, cgroup(10, "/job"));
  auto card = parse_gpu_uuid("GPU-8f6e1a30-0001-0002-0003-000000000004");
  EXPECT_TRUE(card);
  GpuEvent event;
  event.op = GpuEvent::Op::oom;
  event.kind = GpuMemoryKind::managed;
  event.bytes = MiB(512);
  event.address = 0x7f01;
  event.device = card;
  event.status = 0x51;
  event.code = {{"step", "/job/train.py", 31}};
  GpuEvent close;
  close.op = GpuEvent::Op::close;
  close.bytes = MiB(5);
  close.managed = MiB(1);
  close.pinned = Bytes{};
  GpuEvent xid;
  xid.op = GpuEvent::Op::xid;
  xid.status = 31;
  xid.bus = "0000:3b:00";
  xid.message = "MMU Fault";
  GpuSample of_process{t, p, card, MiB(900), MiB(400)};
  of_process.managed = MiB(3);
  of_process.moved_in = MiB(7);
  of_process.faults = 12;
  GpuSample of_card{t, {}, card, MiB(900)};
  of_card.limit = GiB(80);
  of_card.free = GiB(70);
  GpuSample before{t, p, {}};
  before.since_before = true;
  return {GpuFact{t, p, event}, GpuFact{t, p, close}, GpuFact{t, {}, xid}, of_process, of_card, before};
}

TEST(ReadJson, gives_facts_that_are_the_same_line_again_for_every_type) {
  std::vector<Fact> facts = known_facts();
  for (const auto& more : {unknown_facts(), facts_of_gpus()})
    facts.insert(facts.end(), more.begin(), more.end());
  ProcessRef p = process(7, "sh", {}, nullptr);
  facts.push_back(ExitFact{mono_from_ns(9), p});
  facts.push_back(
      LimitChangedFact{mono_from_ns(9), cgroup(10, "/job"), nullptr, LimitKind::high, {}, MiB(7)});
  Forecast forecast = known_forecast();
  forecast.limit_kind = LimitKind::high;
  forecast.evidence.near_limit = NearLimit{MiB(1), MiB(2), Seconds(3)};
  forecast.evidence.thrashing.emplace().lasts = Seconds(12);
  forecast.evidence.peaks = 4;
  facts.push_back(ForecastFact{mono_from_ns(9), cgroup(10, "/job"), std::nullopt, nullptr, forecast});
  ForecastFact series{MonoTime(), nullptr, std::nullopt, nullptr, known_forecast()};
  series.time_s = 12.5;
  series.series = "worker 3";
  facts.push_back(series);
  std::set<std::string_view> types;
  for (const Fact& fact : facts) {
    std::string line = to_json(fact, live_clocks());
    EXPECT_EQ(again(line), line);
    types.insert(type_of(fact));
  }
  for (std::string_view type : fact_types()) EXPECT_TRUE(types.contains(type)) << type << " was not read";
}

// A sentence escapes for people what a name has already escaped to be UTF-8.
std::string without_message(const std::string& line) {
  auto json = nlohmann::ordered_json::parse(line);
  json.erase("message");
  return json.dump();
}

TEST(ReadJson, gives_names_that_strangers_chose_as_they_were_written) {
  for (const std::string& name : hostile_names())
    for (const Fact& fact : hostile_facts(name)) {
      std::string line = to_json(fact, live_clocks());
      std::string read = again(line);
      EXPECT_EQ(without_message(read), without_message(line));
      EXPECT_EQ(again(read), read);
    }
}

TEST(ReadJson, takes_arguments_without_a_source_for_unknown) {
  std::string line = to_json(
      ExitFact{mono_from_ns(1), process(100, "python3", {"python3", "train.py"}, nullptr)}, live_clocks());
  std::size_t at = line.find("\"cmdline_source\"");
  ASSERT_NE(at, std::string::npos) << line;
  line.replace(at, 16, "\"cmdline_sauce_\"");
  std::string read = again(line);
  EXPECT_NE(read.find("\"cmdline\":null"), std::string::npos) << read;
  EXPECT_EQ(again(read), read);
}

TEST(ReadJson, keeps_all_that_a_kill_says) {
  Fact fact =
      known_oom(process(100, "python3", {"python3", "train.py"}, cgroup(10, "/job")), cgroup(10, "/job"));
  auto read = read_fact(to_json(fact, live_clocks()));
  ASSERT_TRUE(read);
  ASSERT_TRUE(*read);
  const auto& kill = std::get<OomEvent>(**read);
  ASSERT_EQ(kill.episode.victims.size(), 1u);
  EXPECT_EQ(kill.episode.victims[0].anon, MiB(90));
  EXPECT_EQ(kill.episode.limit_cgroup->path, "/job");
  ASSERT_EQ(kill.episode.grew_from.holders.size(), 1u);
  EXPECT_EQ(kill.episode.grew_from.holders[0].adder.at(0).line, 7u);
  EXPECT_EQ(kill.forecast_before->forecast.eta, Seconds(13));
  EXPECT_EQ(clocks_of_read_facts().wall(kill.episode.time),
            live_clocks().wall(std::get<OomEvent>(fact).episode.time));
}

TEST(ReadJson, passes_over_what_a_later_version_has_added) {
  auto type = read_fact(R"({"type":"weather","time":"2026-11-21T02:03:04Z"})");
  ASSERT_TRUE(type);
  EXPECT_FALSE(*type);
  auto field =
      read_fact(R"({"type":"lost","time":"2026-11-21T02:03:04Z","reason":"x","count":3,"more":[{}]})");
  ASSERT_TRUE(field);
  EXPECT_EQ(std::get<LostFact>(**field).count, 3u);
}

TEST(ReadJson, names_what_is_wrong_with_a_line) {
  auto error_of = [](const std::string& line) {
    auto fact = read_fact(line);
    return fact ? std::string("none") : fact.error().message;
  };
  for (auto [line, words] : {
           std::pair(R"({"type":"lost","time":"2026-11-21T02:03:04Z","reason":"x","count":"3"})",
                     "count is not"),
           {R"({"type":"lost","time":"2026-11-21T02:03:04Z","reason":"x","count":-3})", "count is not"},
           {R"({"type":"lost","time":"yesterday","reason":"x","count":3})", "time is not"},
           {R"({"type":"lost","time":"2026-13-41T02:03:04Z","reason":"x","count":3})", "time is not"},
           {R"({"type":"lost","reason":"x","count":3})", "time is not there"},
           {R"({"type":"sample","time":"2026-11-21T02:03:04Z","cgroup":"/job"})", "cgroup is not an object"},
           {R"({"type":"oom","time":"2026-11-21T02:03:04Z","victims":[7]})",
            "victims is not a list of objects"},
           {R"({"time":"2026-11-21T02:03:04Z"})", "no type"},
           {R"([1])", "no JSON object"},
           {R"({"type":"lost",)", "no JSON object"},
           {"", "no JSON object"},
       })
    EXPECT_NE(error_of(line).find(words), std::string::npos) << line << "\n" << error_of(line);
}

TEST(ReadJson, refuses_a_line_that_is_nested_deeper_or_longer_than_any_of_its_own) {
  std::string deep =
      R"({"type":"lost","more":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  auto refused = read_fact(deep);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("deeper"), std::string::npos) << refused.error().message;
  auto too_long = read_fact(R"({"type":"lost","reason":")" + std::string(kMaxJsonLine, 'x') + "\"}");
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("longer"), std::string::npos);
}

}  // namespace
}  // namespace oomcast
