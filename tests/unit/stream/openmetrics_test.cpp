#include "stream/openmetrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>

#include "base/escape.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace test;

constexpr MonoTime kNow = mono_from_ns(10'000'000'000);
constexpr ClockMap kClock{std::chrono::seconds(1'000'000)};

std::string page_of(const Metrics& metrics, MonoTime now = kNow) {
  return metrics.render(now, kClock);
}

// What a reader gets for a series; empty: it is not there.
std::string value_of(const std::string& page, const std::string& series) {
  std::size_t at = ("\n" + page).find("\n" + series + " ");
  if (at == std::string::npos) return "";
  at += series.size() + 1;
  return page.substr(at, page.find('\n', at) - at);
}
std::string value_of(const Metrics& metrics, const std::string& series) {
  return value_of(page_of(metrics), series);
}

std::size_t count_of(const std::string& page, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = page.find(text, at)) != std::string::npos; ++at) ++count;
  return count;
}

Sample sample_of(const CgroupPtr& of, std::optional<Bytes> limit = MiB(100), Bytes pinned = MiB(5)) {
  Sample s = known_sample();
  s.cgroup = of;
  s.limit = limit;
  s.pinned = pinned;
  return s;
}

ForecastFact forecast_of(const CgroupPtr& of, const Forecast& forecast) {
  return {mono_from_ns(4'000'000'000), of, std::nullopt, of, forecast};
}

OomEvent kill_in(const CgroupPtr& in, MonoTime time = mono_from_ns(5'000'000'000)) {
  OomEvent kill = known_oom(process(100, "python3", {}, in), in);
  kill.episode.time = time;
  return kill;
}

CgroupPtr plain(std::uint64_t inode) {
  return cgroup(inode, "/c" + std::to_string(inode));
}

const std::string kPod = "/kubepods/burstable/pod12345678-1234-1234-1234-123456789012/";

TEST(Metrics, count_kills_of_each_scope_from_0_on) {
  Metrics metrics;
  for (std::string scope : {"memcg", "global", "cpuset", "mempolicy", "sysrq", "unknown"})
    EXPECT_EQ(value_of(metrics, "oomcast_oom_kills_total{scope=\"" + scope + "\"}"), "0");
  OomEvent kill = kill_in(plain(1));
  kill.episode.victims.push_back(kill.episode.victims.front());
  metrics.on(kill);
  kill.episode.scope.reset();
  metrics.on(kill);
  EXPECT_EQ(value_of(metrics, "oomcast_oom_kills_total{scope=\"memcg\"}"), "2");
  EXPECT_EQ(value_of(metrics, "oomcast_oom_kills_total{scope=\"unknown\"}"), "2");
  EXPECT_EQ(value_of(metrics, "oomcast_oom_kills_total{scope=\"global\"}"), "0");
}

TEST(Metrics, have_no_time_of_a_last_kill_before_the_first) {
  Metrics metrics;
  EXPECT_EQ(page_of(metrics).find("oomcast_oom_kill_last"), std::string::npos);
  metrics.on(kill_in(plain(1), mono_from_ns(5'250'000'000)));
  EXPECT_EQ(value_of(metrics, "oomcast_oom_kill_last_timestamp_seconds"), "1000005.250");
}

TEST(Metrics, count_kills_of_what_has_a_limit_from_0_on_and_go_on_when_its_cgroup_is_gone) {
  Metrics metrics;
  CgroupPtr unit = cgroup(10, "/system.slice/nginx.service");
  metrics.on(sample_of(unit));
  metrics.on(sample_of(cgroup(11, "/system.slice/cron.service"), std::nullopt));
  std::string series = "oomcast_workload_oom_kills_total{kind=\"unit\",name=\"nginx.service\"}";
  EXPECT_EQ(value_of(metrics, series), "0");
  EXPECT_EQ(page_of(metrics).find("oomcast_workload_oom_kills_total{kind=\"unit\",name=\"cron"),
            std::string::npos)
      << "it has no limit, and was not killed";
  metrics.on(kill_in(unit));
  metrics.on(ForgottenFact{kNow, unit->id});
  EXPECT_EQ(value_of(metrics, series), "1");
  metrics.on(kill_in(cgroup(12, "/system.slice/nginx.service")));
  EXPECT_EQ(value_of(metrics, series), "2") << "after a restart";
}

TEST(Metrics, count_kills_of_a_workload_without_the_names_of_one_run_of_it) {
  Metrics metrics;
  metrics.on(kill_in(cgroup(1, kPod + std::string(64, 'a'))));
  metrics.on(kill_in(cgroup(2, kPod + std::string(64, 'b'))));
  metrics.on(kill_in(cgroup(3, "/slurm/uid_1000/job_42/step_0")));
  metrics.on(kill_in(cgroup(4, "/slurm/uid_1000/job_43/step_0")));
  metrics.on(kill_in(cgroup(5, "/user.slice/user-0.slice/session-7.scope")));
  metrics.on(kill_in(cgroup(6, "/user.slice/user-0.slice/session-12.scope")));
  metrics.on(kill_in(cgroup(7, "/system.slice/run-r0123456789abcdef0123456789abcdef.service")));
  std::string page = page_of(metrics);
  EXPECT_EQ(value_of(page, "oomcast_workload_oom_kills_total{kind=\"container\"}"), "2");
  EXPECT_EQ(value_of(page, "oomcast_workload_oom_kills_total{kind=\"slurm\"}"), "2");
  EXPECT_EQ(value_of(page, "oomcast_workload_oom_kills_total{kind=\"unit\",name=\"session-#.scope\"}"), "2");
  EXPECT_EQ(value_of(page, "oomcast_workload_oom_kills_total{kind=\"unit\",name=\"run-r#.service\"}"), "1");
}

TEST(Metrics, forget_the_workload_that_was_killed_longest_ago_and_never_a_kill_for_one_without) {
  Metrics metrics;
  auto series = [](std::uint64_t inode) {
    return "oomcast_workload_oom_kills_total{kind=\"plain\",name=\"/c" + std::to_string(inode) + "\"}";
  };
  for (std::uint64_t i = 1; i <= Metrics::kMostWorkloads; ++i)
    metrics.on(kill_in(plain(i), MonoTime(std::chrono::seconds(i))));
  metrics.on(kill_in(plain(1), MonoTime(std::chrono::seconds(1000))));
  metrics.on(sample_of(plain(500)));
  EXPECT_EQ(value_of(metrics, series(2)), "1");
  EXPECT_EQ(value_of(metrics, series(500)), "");
  metrics.on(kill_in(plain(501), MonoTime(std::chrono::seconds(1001))));
  EXPECT_EQ(value_of(metrics, series(2)), "");
  EXPECT_EQ(value_of(metrics, series(1)), "2");
  EXPECT_EQ(value_of(metrics, series(501)), "1");
  EXPECT_EQ(count_of(page_of(metrics), "\noomcast_workload_oom_kills_total{"), Metrics::kMostWorkloads);
}

TEST(Metrics, give_a_place_without_kills_to_another_workload_after_an_hour) {
  Metrics metrics;
  auto at = [](std::uint64_t inode, int minutes) {
    Sample s = sample_of(plain(inode));
    s.time = MonoTime(std::chrono::minutes(minutes));
    return s;
  };
  for (std::uint64_t i = 1; i <= Metrics::kMostWorkloads; ++i) metrics.on(at(i, 1));
  std::string series = "oomcast_workload_oom_kills_total{kind=\"plain\",name=\"/c";
  metrics.on(at(500, 30));
  EXPECT_EQ(value_of(metrics, series + "500\"}"), "");
  metrics.on(at(501, 90));
  EXPECT_EQ(value_of(metrics, series + "501\"}"), "0");
}

TEST(Metrics, say_when_the_end_is_expected_with_its_bounds) {
  Metrics metrics;
  metrics.on(sample_of(plain(1)));
  metrics.on(forecast_of(plain(1), known_forecast()));
  std::string of = "oomcast_cgroup_oom_expected_timestamp_seconds{kind=\"plain\",name=\"/c1\",bound=";
  EXPECT_EQ(value_of(metrics, of + "\"low\"}"), "1000015.000");
  EXPECT_EQ(value_of(metrics, of + "\"median\"}"), "1000017.000");
  EXPECT_EQ(value_of(metrics, of + "\"high\"}"), "1000019.000");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_forecast_alert{kind=\"plain\",name=\"/c1\"}"), "1");
  std::string growth = "oomcast_cgroup_memory_growth_bytes_per_second{kind=\"plain\",name=\"/c1\",bound=";
  EXPECT_EQ(std::stod(value_of(metrics, growth + "\"median\"}")), 2e6);

  Forecast may = known_forecast();
  may.eta_high.reset();
  metrics.on(forecast_of(plain(1), may));
  EXPECT_EQ(value_of(metrics, of + "\"high\"}"), "+Inf") << "it may never come";
  may.eta.reset(), may.eta_low.reset();
  may.alert = false;
  metrics.on(forecast_of(plain(1), may));
  EXPECT_EQ(value_of(metrics, of + "\"low\"}"), "+Inf");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_forecast_alert{kind=\"plain\",name=\"/c1\"}"), "0");
}

TEST(Metrics, expect_no_end_where_the_kernel_throttles_before_it_kills) {
  Metrics metrics;
  Forecast high = known_forecast();
  high.limit_kind = LimitKind::high;
  metrics.on(forecast_of(plain(1), high));
  EXPECT_EQ(page_of(metrics).find("expected"), std::string::npos);
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_forecast_alert{kind=\"plain\",name=\"/c1\"}"), "1");
}

TEST(Metrics, have_no_series_of_what_is_unknown) {
  Metrics metrics;
  Sample unknown = sample_of(plain(1), std::nullopt);
  unknown.usage.reset(), unknown.pinned.reset();
  metrics.on(unknown);
  EXPECT_EQ(page_of(metrics).find("/c1"), std::string::npos);
  Forecast early = known_forecast();
  early.verdict = Verdict::unknown;
  metrics.on(forecast_of(plain(1), early));
  EXPECT_EQ(page_of(metrics).find("memory_growth"), std::string::npos);
  EXPECT_EQ(page_of(metrics).find("expected"), std::string::npos);
  for (const Fact& fact : unknown_facts()) metrics.on(fact);
}

TEST(Metrics, of_processes_and_cards_are_not_taken_for_those_of_their_cgroup) {
  Metrics metrics;
  ForecastFact of_process = forecast_of(plain(1), known_forecast());
  of_process.process = process(100, "python3", {}, plain(1));
  metrics.on(of_process);
  EXPECT_EQ(page_of(metrics).find("oomcast_cgroup_forecast_alert"), std::string::npos);
}

TEST(Metrics, have_no_series_of_a_cgroup_that_is_gone) {
  Metrics metrics;
  CgroupPtr job = cgroup(10, "/job");
  metrics.on(sample_of(job));
  metrics.on(forecast_of(job, known_forecast()));
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_memory_usage_bytes{kind=\"plain\",name=\"/job\"}"), "52428800");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_memory_limit_bytes{kind=\"plain\",name=\"/job\"}"),
            "104857600");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_memory_pinned_bytes{kind=\"plain\",name=\"/job\"}"), "5242880");
  metrics.on(ForgottenFact{kNow, job->id});
  EXPECT_EQ(page_of(metrics).find("oomcast_cgroup_"), std::string::npos);
}

TEST(Metrics, are_of_64_cgroups_and_the_root_those_that_matter_most) {
  Metrics metrics;
  for (std::uint64_t i = 1; i <= 200; ++i)
    metrics.on(sample_of(plain(i), MiB(10'000), MiB(static_cast<std::int64_t>(i))));
  metrics.on(sample_of(cgroup(300, "/"), std::nullopt, Bytes{}));
  metrics.on(kill_in(plain(1)));                                // an hour is not over
  metrics.on(forecast_of(plain(2), known_forecast()));          // an alert
  metrics.on(sample_of(plain(3), MiB(6), MiB(3)));              // half of its limit
  metrics.on(kill_in(plain(4), kNow - std::chrono::hours(2)));  // long ago
  std::string page = page_of(metrics);
  EXPECT_EQ(count_of(page, "\noomcast_cgroup_memory_usage_bytes{"), 65u);
  for (std::string name : {"/", "/c1", "/c2", "/c3", "/c200", "/c140"})
    EXPECT_NE(page.find("name=\"" + name + "\"} 52428800"), std::string::npos) << name;
  for (std::string name : {"/c139", "/c4"})
    EXPECT_EQ(page.find("name=\"" + name + "\"} 52428800"), std::string::npos) << name;
  EXPECT_EQ(value_of(page, "oomcast_cgroups"), "201");
  EXPECT_EQ(value_of(page, "oomcast_cgroups_exported"), "65");
}

TEST(Metrics, with_the_same_labels_are_those_of_the_container_and_of_its_newest_run) {
  Metrics metrics;
  std::string labels = "{kind=\"slurm\",slurm_job=\"42\",slurm_step=\"0\"}";
  CgroupPtr step = cgroup(1, "/slurm/uid_1000/job_42/step_0");
  metrics.on(sample_of(step, MiB(100), MiB(1)));
  metrics.on(sample_of(cgroup(2, "/slurm/uid_1000/job_42/step_0/task_0"), MiB(100), MiB(2)));
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_memory_pinned_bytes" + labels), "1048576");
  EXPECT_EQ(count_of(page_of(metrics), "oomcast_cgroup_memory_pinned_bytes" + labels), 1u);
  metrics.on(sample_of(cgroup(3, "/slurm/uid_1000/job_42/step_0"), MiB(100), Bytes{}));
  EXPECT_EQ(value_of(metrics, "oomcast_cgroup_memory_pinned_bytes" + labels), "0");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroups"), "3");
  EXPECT_EQ(value_of(metrics, "oomcast_cgroups_exported"), "1");
}

TEST(Metrics, are_bounded_however_many_cgroups_there_are) {
  Metrics metrics;
  for (std::uint64_t i = 1; i <= Metrics::kMostKnown + 5; ++i) metrics.on(sample_of(plain(i), std::nullopt));
  EXPECT_EQ(value_of(metrics, "oomcast_cgroups"), std::to_string(Metrics::kMostKnown));
}

TEST(Metrics, count_losses_of_each_reason_from_0_on_and_unknown_ones_together) {
  Metrics metrics;
  EXPECT_EQ(value_of(metrics, "oomcast_lost_total{reason=\"samples_ring_full\"}"), "0");
  metrics.on(LostFact{kNow, "samples_ring_full", 12});
  metrics.on(LostFact{kNow, "samples_ring_full", 3});
  for (int i = 0; i < 1000; ++i) metrics.on(LostFact{kNow, "reason " + std::to_string(i), 2});
  EXPECT_EQ(value_of(metrics, "oomcast_lost_total{reason=\"samples_ring_full\"}"), "15");
  EXPECT_EQ(value_of(metrics, "oomcast_lost_total{reason=\"other\"}"), "2000");
}

TEST(Metrics, say_which_sources_are_read_and_which_are_not) {
  Metrics metrics;
  metrics.on(StartFact{kNow, "0.1.0", "6.1.0", {"cgroupfs-v1", "bpf", "gpu:uprobe"}});
  EXPECT_EQ(value_of(metrics, "oomcast_build_info{version=\"0.1.0\",kernel=\"6.1.0\"}"), "1");
  for (std::string source : {"cgroupfs", "bpf", "gpu"})
    EXPECT_EQ(value_of(metrics, "oomcast_source_up{source=\"" + source + "\"}"), "1") << source;
  EXPECT_EQ(value_of(metrics, "oomcast_source_up{source=\"kmsg\"}"), "0");
}

std::vector<Fact> hostile_paths() {
  std::vector<Fact> out;
  std::uint64_t inode = 1;
  for (const std::string& name : hostile_names()) {
    for (std::string path : {"/" + name, "/system.slice/" + name + ".service", "/docker/" + name,
                             "/" + std::string(1000, 'x') + name + std::string(300, '\xc3')})
      out.emplace_back(sample_of(cgroup(++inode, path)));
    for (const Fact& fact : hostile_facts(name)) out.push_back(fact);
    out.emplace_back(StartFact{kNow, name, name, {name}});
    out.emplace_back(LostFact{kNow, name, 1});
  }
  return out;
}

TEST(Metrics, of_hostile_names_are_a_line_for_each_series_with_short_values_of_utf8) {
  Metrics metrics;
  for (const Fact& fact : hostile_paths()) metrics.on(fact);
  std::string page = page_of(metrics);
  EXPECT_EQ(to_valid_utf8(page), page);
  std::set<std::string> seen;
  for (std::size_t at = 0, end; at < page.size(); at = end + 1) {
    end = page.find('\n', at);
    std::string line = page.substr(at, end - at);
    ASSERT_TRUE(line.starts_with("# ") || line.starts_with("oomcast_")) << line;
    EXPECT_EQ(line.find_first_of("\r\t\x1b\x7f"), std::string::npos) << line;
    if (line.starts_with("# ")) continue;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
    std::size_t quoted = 0;
    bool inside = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"')
        inside = !inside, quoted = 0;
      else if (inside && line[i] == '\\')
        ++i, ++quoted;
      else if (inside)
        ++quoted;
      EXPECT_LE(quoted, Metrics::kLongestValue) << line;
    }
    EXPECT_FALSE(inside) << line;
  }
}

TEST(Metrics, of_openmetrics_name_families_of_counters_without_their_ending_and_have_an_end) {
  Metrics metrics;
  metrics.on(kill_in(plain(1)));
  std::string page = metrics.render(kNow, kClock, Metrics::Dialect::openmetrics);
  EXPECT_NE(page.find("# TYPE oomcast_oom_kills counter\noomcast_oom_kills_total{"), std::string::npos);
  EXPECT_NE(page.find("# TYPE oomcast_cgroups gauge\noomcast_cgroups "), std::string::npos);
  EXPECT_TRUE(page.ends_with("\n# EOF\n"));
  EXPECT_EQ(page_of(metrics).find("# EOF"), std::string::npos);
}

// Prometheus' own reader, and its rules for names.
TEST(Metrics, of_hostile_names_pass_promtool) {
  if (access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "there is no /usr/bin/promtool";
  Metrics metrics;
  for (const Fact& fact : hostile_paths()) metrics.on(fact);
  for (const Fact& fact : known_facts()) metrics.on(fact);
  metrics.on(forecast_of(plain(1), known_forecast()));
  FILE* tool = popen("/usr/bin/promtool check metrics 2>&1", "w");
  ASSERT_NE(tool, nullptr);
  std::string page = page_of(metrics);
  EXPECT_EQ(fwrite(page.data(), 1, page.size(), tool), page.size());
  EXPECT_EQ(WEXITSTATUS(pclose(tool)), 0);
}

}  // namespace
}  // namespace oomcast
