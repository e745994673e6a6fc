#include "stream/json.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace test;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

ClockMap clock_map() {
  return {Nanos(1'795'227'784'000'000'000), Nanos(1'795'227'000'000'000'000), Nanos(10'000'000)};
}

// Throws, which fails the test, on anything that is not one valid object.
Json parsed(const Fact& fact) {
  std::string text = to_json(fact, clock_map());
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  Json out = Json::parse(text);
  EXPECT_TRUE(out.is_object());
  return out;
}

Json of_type(const std::vector<Fact>& facts, const std::string& type) {
  for (const Fact& fact : facts)
    if (Json out = parsed(fact); out["type"] == type) return out;
  ADD_FAILURE() << "no " << type;
  return {};
}

const std::map<std::string, Words> kContract = {
    {"start", {"schema", "version", "kernel", "host", "boot_id", "sources"}},
    {"sample",
     {"cgroup", "usage_bytes", "limit_bytes", "limit_cgroup", "anon_bytes", "file_bytes", "shmem_bytes",
      "kernel_bytes", "swap_bytes", "pinned_bytes"}},
    {"process",
     {"process", "rss_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "swap_bytes", "private_bytes",
      "growth_bytes_per_s"}},
    {"forecast",
     {"cgroup", "process", "device", "verdict", "growth_bytes_per_s", "growth_low_bytes_per_s",
      "growth_high_bytes_per_s", "limit_bytes", "limit_cgroup", "eta_s", "eta_low_s", "eta_high_s", "alert",
      "why", "evidence"}},
    {"oom",
     {"id", "message", "scope", "limit_cgroup", "usage_bytes", "limit_bytes", "trigger", "order", "gfp",
      "group_kill", "victims", "also_killed", "grew_most", "grew_from", "holders", "forecast_before",
      "checks"}},
    {"kill", {"victim", "sender", "cause"}},
    {"reclaim", {"cgroup", "stalls", "stall_s", "reclaimed_bytes"}},
    {"pressure", {"cgroup", "some", "full"}},
    {"alert", {"rule", "cgroup", "message", "forecast", "action"}},
    {"lost", {"reason", "count"}},
    {"totals", {"since", "kills", "episodes", "group_kills", "user_kills", "alerts", "lost"}},
    {"end", {"records", "lost"}}};
const Words kProcess = {"pid", "start_time", "comm", "cmdline", "uid", "ppid", "cgroup"};
const Words kVictim = {"tid",        "anon_bytes",     "file_bytes",     "shmem_bytes",
                       "swap_bytes", "pgtables_bytes", "total_vm_bytes", "oom_score_adj",
                       "killed",     "freed_after_s"};
const Words kCgroup = {"id",        "hierarchy", "path", "name",      "kind",
                       "container", "pod",       "unit", "slurm_job", "slurm_step"};

void expect_keys(const Json& object, const Words& keys, const std::string& what) {
  ASSERT_TRUE(object.is_object()) << what << ": " << object.dump();
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << what << " lacks " << key;
}

TEST(Json, has_the_contracts_keys_in_every_record_known_or_not) {
  for (const auto& facts : {known_facts(), unknown_facts()}) {
    std::size_t types = 0;
    for (const Fact& fact : facts) {
      Json out = parsed(fact);
      std::string type = out.at("type");
      ASSERT_TRUE(kContract.contains(type)) << type;
      expect_keys(out, {"time"}, type);
      expect_keys(out, kContract.at(type), type);
      ++types;
    }
    EXPECT_EQ(types, kContract.size());
  }
}

TEST(Json, has_the_contracts_keys_in_processes_victims_and_cgroups) {
  for (const auto& facts : {known_facts(), unknown_facts()}) {
    expect_keys(of_type(facts, "process")["process"], kProcess, "process");
    Json victim = of_type(facts, "oom")["victims"][0];
    expect_keys(victim, kProcess, "victim");
    expect_keys(victim, kVictim, "victim");
    expect_keys(of_type(facts, "kill")["sender"], kProcess, "sender");
    expect_keys(of_type(facts, "oom")["checks"], {"mark_victim", "kmsg", "vmstat"}, "checks");
  }
  expect_keys(of_type(known_facts(), "sample")["cgroup"], kCgroup, "cgroup");
}

TEST(Json, shows_what_is_unknown_as_null_and_never_as_zero) {
  auto all_null = [](const Json& object, const Words& keys, const std::string& what) {
    for (const std::string& key : keys) EXPECT_TRUE(object.at(key).is_null()) << what << "." << key;
  };
  auto facts = unknown_facts();
  all_null(of_type(facts, "sample"), kContract.at("sample"), "sample");
  Json process = of_type(facts, "process");
  all_null(process, {"private_bytes", "growth_bytes_per_s"}, "process");
  all_null(process["process"], {"start_time", "cmdline", "uid", "ppid", "cgroup"}, "process.process");
  Json forecast = of_type(facts, "forecast");
  all_null(forecast,
           {"cgroup", "process", "device", "growth_bytes_per_s", "growth_low_bytes_per_s",
            "growth_high_bytes_per_s", "limit_bytes", "limit_cgroup", "eta_s", "eta_low_s", "eta_high_s"},
           "forecast");
  EXPECT_EQ(forecast["verdict"], "unknown");
  EXPECT_EQ(forecast["alert"], false);
  Json oom = of_type(facts, "oom");
  all_null(oom,
           {"scope", "limit_cgroup", "usage_bytes", "limit_bytes", "trigger", "order", "gfp", "group_kill",
            "forecast_before"},
           "oom");
  all_null(oom["checks"], {"mark_victim", "kmsg", "vmstat"}, "checks");
  all_null(oom["victims"][0], kVictim, "victim");
  all_null(of_type(facts, "pressure"), {"cgroup", "some", "full"}, "pressure");
  all_null(of_type(facts, "kill"), {"cause"}, "kill");
}

TEST(Json, says_what_an_alert_ran_and_what_came_of_it) {
  Json action = of_type(known_facts(), "alert")["action"];
  EXPECT_EQ(action["result"], "failed");
  EXPECT_EQ(action["exec"]["command"], "mail root");
  EXPECT_EQ(action["exec"]["exit_code"], 3);
  EXPECT_TRUE(action["exec"]["signal"].is_null());
  EXPECT_EQ(action["exec"]["took_s"], 0.5);
  EXPECT_EQ(action["touch"]["file"], "/job/.stop");
  EXPECT_EQ(action["touch"]["result"], "ok");
  EXPECT_EQ(action["signal"]["name"], "SIGUSR1");
  EXPECT_EQ(action["signal"]["process"]["pid"], 100);
  EXPECT_TRUE(of_type(unknown_facts(), "alert")["action"].is_null());
  EXPECT_TRUE(of_type(unknown_facts(), "alert")["forecast"].is_null());
}

TEST(Json, calls_an_alert_running_until_its_last_action_ended) {
  AlertFact alert = known_alert(unknown_process(), nullptr);
  for (std::size_t i = 0; i < 3; ++i) {
    AlertFact one = alert;
    one.actions[i].result = ActionRun::Result::running;
    EXPECT_EQ(parsed(one)["action"]["result"], "running") << i;
  }
}

TEST(Json, shows_a_zero_that_is_known) {
  auto facts = known_facts();
  EXPECT_EQ(of_type(facts, "sample")["file_bytes"], 0);
  Json oom = of_type(facts, "oom");
  EXPECT_EQ(oom["order"], 0);
  EXPECT_EQ(oom["victims"][0]["shmem_bytes"], 0);
  EXPECT_EQ(oom["victims"][0]["oom_score_adj"], 0);
  EXPECT_EQ(oom["group_kill"], false);
}

TEST(Json, carries_the_values) {
  auto facts = known_facts();
  Json sample = of_type(facts, "sample");
  EXPECT_EQ(sample["time"], "2026-11-21T02:23:05.000000000Z");
  EXPECT_EQ(sample["usage_bytes"], 50 << 20);
  EXPECT_EQ(sample["pinned_bytes"], 45 << 20);
  EXPECT_EQ(sample["cgroup"]["id"], 11);
  EXPECT_EQ(sample["cgroup"]["hierarchy"], "v1");
  EXPECT_EQ(sample["cgroup"]["kind"], "plain");
  EXPECT_TRUE(sample["cgroup"]["container"].is_null());
  EXPECT_EQ(sample["limit_cgroup"]["path"], "/job");
  Json forecast = of_type(facts, "forecast");
  EXPECT_EQ(forecast["verdict"], "leak");
  EXPECT_EQ(forecast["eta_s"], 13);
  EXPECT_EQ(forecast["growth_low_bytes_per_s"], 1e6);
  EXPECT_EQ(forecast["evidence"]["samples"], 20);
  Json oom = of_type(facts, "oom");
  EXPECT_EQ(oom["scope"], "memcg");
  EXPECT_EQ(oom["victims"][0]["pid"], 100);
  EXPECT_EQ(oom["victims"][0]["cmdline"], Json({"python3", "-u", "train.py"}));
  EXPECT_EQ(oom["victims"][0]["start_time"], "2026-11-21T02:10:42.000000000Z");
  EXPECT_EQ(oom["victims"][0]["freed_after_s"], 0.25);
  EXPECT_EQ(oom["forecast_before"]["first_time"], "2026-11-21T02:23:07.000000000Z");
  EXPECT_EQ(oom["checks"], Json({{"mark_victim", 1}, {"kmsg", 1}, {"vmstat", 1}}));
  EXPECT_EQ(of_type(facts, "pressure")["some"]["total_s"], 4.0);
  EXPECT_EQ(of_type(facts, "end")["lost"]["samples_ring_full"], 12);
  EXPECT_EQ(of_type(facts, "start")["schema"], 1);
}

TEST(Json, of_a_cgroup_only_the_log_knows_has_no_id) {
  Sample sample = known_sample();
  sample.cgroup = cgroup(0, "/gone");
  EXPECT_TRUE(parsed(sample)["cgroup"]["id"].is_null());
}

TEST(Json, of_a_process_with_an_empty_argv_differs_from_one_whose_argv_is_unknown) {
  ProcessRef p = process(1, "x", {}, nullptr);
  EXPECT_EQ(parsed(UserKillFact{{}, p, p, {}})["victim"]["cmdline"], Json::array());
  p.cmdline_source.reset();
  EXPECT_TRUE(parsed(UserKillFact{{}, p, p, {}})["victim"]["cmdline"].is_null());
}

TEST(Json, is_valid_whatever_the_names_are) {
  for (const std::string& name : hostile_names())
    for (const Fact& fact : hostile_facts(name)) {
      std::string text = to_json(fact, clock_map());
      ASSERT_TRUE(Json::accept(text)) << text;
      ASSERT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_EQ(text.find("\xef\xbf\xbd"), std::string::npos)
          << "replaced by the last resort instead of escaped: " << text;
    }
}

TEST(Json, keeps_hostile_names_recognisable) {
  auto facts = hostile_facts("a\xff\"b\n");
  EXPECT_EQ(of_type(facts, "kill")["victim"]["comm"], "a\\xff\"b\n");
  EXPECT_EQ(of_type(facts, "kill")["victim"]["cmdline"][0], "a\\xff\"b\n");
}

TEST(OomScope, has_the_contracts_words) {
  std::string all;
  for (auto s : {OomScope::memcg, OomScope::global, OomScope::cpuset, OomScope::mempolicy, OomScope::sysrq})
    all += std::string(to_string(s)) + " ";
  EXPECT_EQ(all, "memcg global cpuset mempolicy sysrq ");
}

}  // namespace
}  // namespace oomcast
