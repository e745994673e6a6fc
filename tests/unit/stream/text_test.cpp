#include "stream/text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stream/cells.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace test;
using Words = std::vector<std::string>;

std::string text_of(const Fact& fact, bool color = false) {
  return to_text(fact, ClockMap{}, TextStyle{color});
}

Words split_lines(const std::string& text) {
  Words out{""};
  for (char c : text)
    if (c == '\n')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

std::string unwrapped(std::string text) {
  const std::string joint = "\n" + std::string(14, ' ');
  for (std::size_t at; (at = text.find(joint)) != std::string::npos;) text.replace(at, joint.size(), " ");
  return text;
}

// Without those that go on with the one above, and the path that no line has room for.
std::ptrdiff_t lines_of(const std::string& text) {
  return std::ranges::count_if(split_lines(text), [](const std::string& line) {
    return !line.starts_with(std::string(14, ' ')) && !line.starts_with("    cgroup    ");
  });
}

TEST(Text, says_something_of_every_fact_known_or_not) {
  for (const auto& facts : {known_facts(), unknown_facts()})
    for (const Fact& fact : facts) {
      std::string text = text_of(fact);
      EXPECT_FALSE(text.empty()) << fact.index();
      EXPECT_NE(text.back(), '\n');
    }
}

TEST(Text, is_not_broken_by_names) {
  auto plain = hostile_facts("name");
  for (const std::string& name : hostile_names()) {
    auto facts = hostile_facts(name);
    for (std::size_t i = 0; i < facts.size(); ++i) {
      std::string text = text_of(facts[i]);
      EXPECT_EQ(lines_of(text), lines_of(text_of(plain[i]))) << text;
      for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        ASSERT_TRUE(c == '\n' || (byte >= 0x20 && byte != 0x7f)) << "control character in: " << text;
      }
      EXPECT_EQ(text.find("\u202e"), std::string::npos);
      EXPECT_EQ(text.find("\u009b"), std::string::npos);
    }
  }
}

TEST(Text, has_colour_only_when_asked_for) {
  for (const Fact& fact : known_facts()) EXPECT_EQ(text_of(fact).find('\033'), std::string::npos);
  EXPECT_NE(text_of(known_oom(unknown_process(), nullptr), true).find('\033'), std::string::npos);
}

TEST(Text, of_where_it_grew_tells_what_the_looks_lost) {
  OomEvent oom = known_oom(unknown_process(), nullptr);
  ASSERT_EQ(oom.episode.grew_from.sites.size(), 1u);
  EXPECT_EQ(text_of(oom).find("samples"), std::string::npos);
  oom.episode.grew_from.sites[0].samples = 30;
  oom.episode.grew_from.sites[0].lost = 10;
  oom.episode.grew_from.sites[0].faults_watched = 0.5;
  std::string text = unwrapped(text_of(oom));
  EXPECT_NE(
      text.find(
          "was not traced) (10 of 40 samples were lost; page faults were watched for 50 % of that time)"),
      std::string::npos)
      << text;
}

TEST(Text, of_an_oom_kill_tells_who_where_and_how_sure) {
  std::string text = unwrapped(text_of(known_oom(
      process(100, "python3", {"python3", "train.py"}, cgroup(11, "/job/step")), cgroup(10, "/job"))));
  for (const char* part :
       {"/job hit its limit of 100 MiB", "python3[100] train.py in step: anon", "anon 90.0 MiB",
        "memory back after 250 ms", "shared its memory", "trigger", "by 80.0 MiB of RSS in the last 20 s",
        "1 by the kernel's event, 1 by its log, 1 by its counter"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

// Of a kill in a container's inner cgroup: the path was there five times, and each line 180 columns wide.
OomEvent container_kill(const std::string& inner) {
  const std::string path =
      "/kubepods.slice/kubepods-burstable.slice/docker-" + std::string(64, 'a') + ".scope";
  return known_oom(process(100, "python3", {"python3", "train.py"}, cgroup(11, path + inner)),
                   cgroup(10, path));
}

TEST(Text, of_an_oom_kill_has_the_path_once_and_then_the_name) {
  for (const std::string inner : {"", "/step", "/deep/step"}) {
    std::string text = text_of(container_kill(inner));
    EXPECT_NE(text.find("OOM kill: aaaaaaaaaaaa hit its limit of 100 MiB\n"), std::string::npos) << text;
    std::size_t first = text.find("/kubepods.slice");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("/kubepods.slice", first + 1), std::string::npos) << text;
    EXPECT_EQ(text.find(std::string(13, 'a')), std::string::npos) << text;
    std::string killed = inner.empty() ? "python3[100] train.py: anon"
                                       : "python3[100] train.py in " + inner.substr(1) + ": anon";
    EXPECT_NE(text.find("killed    " + killed), std::string::npos) << text;
  }
}

TEST(Text, of_an_oom_kill_is_no_wider_than_80_columns_but_for_a_path) {
  for (const std::string& line : split_lines(text_of(container_kill("/step"))))
    EXPECT_TRUE(line.starts_with("    cgroup    ") || line.size() <= 80) << line;
}

TEST(Text, of_an_oom_kill_keeps_a_number_and_its_unit_on_one_line) {
  OomEvent oom = container_kill("/step");
  for (std::size_t longer = 0; longer < 30; ++longer) {
    oom.episode.victims[0].process.cmdline = {"python3", std::string(longer + 1, 'x')};
    for (const std::string& line : split_lines(text_of(oom))) {
      EXPECT_FALSE(line.starts_with("              MiB") || line.starts_with("              KiB")) << line;
      EXPECT_EQ(line.find("\u00a0"), std::string::npos) << line;
    }
  }
}

TEST(Text, of_a_forecast_has_the_name_where_the_path_does_not_fit) {
  auto told = [](const std::string& path) {
    return text_of(ForecastFact{{}, cgroup(10, path), std::nullopt, nullptr, known_forecast()});
  };
  EXPECT_NE(told("/job").find(" /job  leak"), std::string::npos) << told("/job");
  std::string text = told("/a/very/long/path/to/where/it/is/oomcast-run-1497");
  EXPECT_NE(text.find("forecast oomcast-run-1497  leak"), std::string::npos) << text;
}

TEST(Text, of_a_forecast_has_one_name_of_a_cgroup_whatever_else_is_in_the_line) {
  Forecast leak = known_forecast(), stable;
  stable.verdict = Verdict::stable;
  for (const std::string path : {"/job", "/a/very/long/path/to/where/it/is/oomcast-run-1497"}) {
    auto name_in = [&](const Forecast& forecast) {
      std::string text = text_of(ForecastFact{{}, cgroup(10, path), std::nullopt, nullptr, forecast});
      std::size_t begin = text.find("forecast ") + 9;
      return text.substr(begin, text.find("  ", begin) - begin);
    };
    EXPECT_EQ(name_in(leak), name_in(stable));
  }
}

TEST(Text, of_a_forecast_is_no_wider_than_80_columns) {
  Forecast f = known_forecast();
  f.growth->rate = BytesPerSec{9.44 * 1048576};
  for (double eta : {0.03, 0.9, 39.0, 67.0, 3000.0, 1e5, 1e7}) {
    f.eta = Seconds(eta);
    f.eta_low = Seconds(eta * 0.8);
    f.eta_high = Seconds(eta * 1.3);
    ProcessRef process = test::process(41234, "python3", {"python3", std::string(60, 'x')}, {});
    for (const ForecastFact& fact :
         {ForecastFact{{}, cgroup(10, "/process_api/cd846501caf3f9f6/oomcast-run-41234"), {}, nullptr, f},
          ForecastFact{{}, nullptr, process, nullptr, f}}) {
      std::string text = text_of(fact);
      EXPECT_LE(display_width(text), 80u) << text;
    }
  }
}

// "unknown … no OOM in sight" was printed as the kernel killed it.
TEST(Text, of_a_forecast_that_is_too_early_does_not_say_that_no_oom_is_in_sight) {
  std::string text = text_of(ForecastFact{{}, cgroup(10, "/job"), std::nullopt, nullptr, {}});
  EXPECT_NE(text.find("/job  unknown too early to say"), std::string::npos) << text;
}

TEST(Text, of_a_kill_that_comes_again_is_no_wider_than_80_columns) {
  OomEvent oom = container_kill("/step");
  oom.episode.limit_cgroup = cgroup(10, "/process_api/cd846501caf3f9f6/oomcast-run-41234");
  oom.episode.series = {.kills = 12, .since = oom.episode.time - std::chrono::seconds(75)};
  std::string text = text_of(oom);
  EXPECT_NE(
      text.find("OOM kill: oomcast-run-41234 hit its limit of 100 MiB\n    again     kill 12 in 1 min 15 s"),
      std::string::npos)
      << text;
  for (const std::string& line : split_lines(text))
    EXPECT_TRUE(line.starts_with("    cgroup    ") || display_width(line) <= 80) << line;
}

TEST(Text, of_an_action_says_in_words_how_it_went) {
  ActionRun run{ActionRun::Kind::exec, "./save.sh", ActionRun::Result::running};
  EXPECT_EQ(result_of(run), "still runs");
  run.result = ActionRun::Result::failed;
  run.exit_code = 3;
  run.took = Seconds(0.012);
  EXPECT_EQ(result_of(run), "exit code 3 after 12 ms");
  EXPECT_EQ(result_of({ActionRun::Kind::signal, "USR1", ActionRun::Result::ok}), "sent");
  EXPECT_EQ(result_of({ActionRun::Kind::exec, "x", ActionRun::Result::lost}),
            "not started: too many were running");
  EXPECT_EQ(result_of({ActionRun::Kind::exec, "x", ActionRun::Result::timed_out, {}, 9}),
            "killed, it took too long");
}

TEST(Text, of_the_start_names_sources_in_words) {
  StartFact start;
  start.version = "1";
  start.sources = {"cgroupfs-v1", "kmsg", "bpf", "a.csv"};
  EXPECT_EQ(text_of(start), "oomcast 1: cgroup files (v1), kernel log, kernel programs, a.csv");
}

TEST(Text, says_unknown_not_zero) {
  for (const Fact& fact : unknown_facts()) {
    if (!std::holds_alternative<OomEvent>(fact) && !std::holds_alternative<Sample>(fact)) continue;
    std::string text = text_of(fact);
    EXPECT_NE(text.find("unknown"), std::string::npos) << text;
    EXPECT_EQ(text.find(" 0 B"), std::string::npos) << text;
  }
  EXPECT_NE(unwrapped(text_of(unknown_facts()[4])).find("exit not seen"), std::string::npos);
  EXPECT_NE(text_of(unknown_facts()[4]).find("- by the kernel's event"), std::string::npos);
}

TEST(Text, at_the_end_names_losses_or_that_there_were_none) {
  EXPECT_NE(text_of(EndFact{{}, 5, {}}).find("5 records, lost: none"), std::string::npos);
  EXPECT_NE(text_of(EndFact{{}, 5, {{"x", 0}, {"y", 3}}}).find("lost: 3 records (y)"), std::string::npos);
}

TEST(Describe, names_the_most_telling_argument) {
  auto shown = [](std::vector<std::string> cmdline) {
    return describe(process(7, "python3", std::move(cmdline), {}));
  };
  EXPECT_EQ(shown({"python3", "-u", "train.py", "--big"}), "python3[7] train.py");
  EXPECT_EQ(shown({"python3", "-m", "torch.run"}), "python3[7] torch.run");
  EXPECT_EQ(shown({"python3", "-c", "print(1)"}), "python3[7] -c 'print(1)'");
  EXPECT_EQ(shown({"python3"}), "python3[7]");
  EXPECT_EQ(shown({}), "python3[7]");
  EXPECT_EQ(shown({"python3", "", "-v"}), "python3[7]");
  EXPECT_EQ(shown({"x", std::string(50, 'a')}), "python3[7] " + std::string(40, 'a') + "…");
}

TEST(DescribeDeadline, tells_the_interval_and_when_there_is_none) {
  Forecast f = known_forecast();
  EXPECT_EQ(describe_deadline(f), "OOM in 13 s (11–15)");
  f.eta_high.reset();
  EXPECT_EQ(describe_deadline(f), "OOM in 13 s (11–never)");
  f.eta.reset();
  EXPECT_EQ(describe_deadline(f), "OOM in 11 s at the earliest, may never");
  EXPECT_EQ(describe_deadline({}), "too early to say");
  Forecast calm;
  calm.verdict = Verdict::stable;
  EXPECT_EQ(describe_deadline(calm), "no OOM in sight");
  f.eta = f.eta_low = Seconds(0.01);
  EXPECT_EQ(describe_deadline(f), "OOM now");
}

GpuSample on_card() {
  GpuSample s;
  s.process.emplace();
  s.process->id = {7, 70};
  s.process->comm = "python3";
  s.device.emplace().bytes.fill(0x1a);
  s.held = GiB(20);
  s.limit = GiB(32);
  s.pinned = GiB(4);
  return s;
}

TEST(Text, of_gpu_memory_says_at_least_where_there_was_some_before_and_unknown_where_none_came_since) {
  auto told = [](const GpuSample& s) { return to_text(Fact(s), ClockMap{}, TextStyle{false}); };
  GpuSample s = on_card();
  EXPECT_NE(told(s).find("20.0 GiB of 32.0 GiB, pinned host memory 4.00 GiB"), std::string::npos) << told(s);
  s.since_before = true;
  EXPECT_NE(told(s).find("at least 20.0 GiB"), std::string::npos) << told(s);
  s.held = Bytes{};
  EXPECT_NE(told(s).find("unknown"), std::string::npos) << told(s);
  EXPECT_EQ(told(s).find(" 0 B"), std::string::npos) << told(s);
}

TEST(Text, names_who_holds_gpu_memory_for_others) {
  GpuSample s = on_card();
  auto told = [&] { return to_text(Fact(s), ClockMap{}, TextStyle{false}); };
  EXPECT_EQ(told().find("(for"), std::string::npos);
  s.process->comm = "nvidia-cuda-mps";
  EXPECT_NE(told().find("(for the clients of MPS)"), std::string::npos) << told();
  s.process->comm = "exe";
  s.process->cmdline = {"/usr/local/bin/runsc-sandbox", "--root=/run"};
  EXPECT_NE(told().find("(for a gVisor sandbox)"), std::string::npos) << told();
}

TEST(Text, of_a_process_whose_pages_are_followed_says_what_was_evicted) {
  GpuSample s = on_card();
  auto told = [&] { return to_text(Fact(s), ClockMap{}, TextStyle{false}); };
  s.moved_out = MiB(8);
  EXPECT_NE(told().find(", moved out 8.00 MiB"), std::string::npos) << told();
  s.evicted = MiB(6);
  EXPECT_NE(told().find(", evicted 6.00 MiB"), std::string::npos) << told();
}

TEST(Text, of_an_error_of_a_card_says_what_its_number_means_and_what_the_driver_says) {
  GpuFact f;
  f.event.op = GpuEvent::Op::xid;
  f.event.status = 31;
  f.event.bus = "0000:01:00.0";
  f.event.message = "pid=7, MMU\x1b[31m";
  auto told = [&] { return to_text(Fact(f), ClockMap{}, TextStyle{false}); };
  EXPECT_NE(told().find("Xid 31 (memory page fault on the card): pid=7, MMU"), std::string::npos) << told();
  EXPECT_NE(told().find(" at 0000:01:00.0"), std::string::npos) << told();
  EXPECT_EQ(told().find('\x1b'), std::string::npos);
  f.event.device.emplace().bytes.fill(0x1a);
  f.event.status = 4242;
  EXPECT_NE(told().find("Xid 4242: pid=7"), std::string::npos) << told();
  EXPECT_NE(told().find(" on GPU-1a1a1a1a-"), std::string::npos) << told();
}

}  // namespace
}  // namespace oomcast
