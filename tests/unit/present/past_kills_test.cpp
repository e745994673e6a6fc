#include "present/past_kills.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>

#include "stream/cells.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{1785000000s};  // 2026-07-25 17:20 UTC

std::string file(const std::string& path) {
  std::ifstream in(OOMCAST_TESTS "/unit/" + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<PastKill> kills_of(const std::string& log) {
  OomReports reports;
  std::istringstream in(file(log));
  for (std::string line; std::getline(in, line);) reports.line(line);
  std::vector<PastKill> kills;
  for (const LoggedOom& oom : reports.finish())
    if (auto kill = past_kill(oom, EpisodeSource::file)) {
      kill->files = {"/var/log/syslog"};
      kills.push_back(*std::move(kill));
    }
  kills = each_once(std::move(kills));
  for (PastKill& kill : kills) kill.episode.id = name_of(kill);
  return kills;
}

class HistoryOf : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
  HistoryFacts facts_{
      .version = "0.0", .sources = {"/var/log/syslog"}, .now = kNow, .of_files = true, .machine = {}};

  // OOMCAST_WRITE_GOLDEN=1 writes the files anew; look at the difference.
  void expect_golden(const std::string& name, const std::string& text) {
    if (std::getenv("OOMCAST_WRITE_GOLDEN"))
      std::ofstream(OOMCAST_TESTS "/unit/present/golden/" + name) << text;
    EXPECT_EQ(text, file("present/golden/" + name));
  }
};

TEST_F(HistoryOf, the_run_that_dies_every_eight_days) {
  auto kills = kills_of("parse/logs/incident-1.syslog");
  expect_golden("history-incident-1.txt", history_text(kills, facts_, {}));
  expect_golden("history-incident-1.json", history_json(kills, facts_));
}

std::vector<PastKill> regular(std::size_t times) {
  std::vector<PastKill> kills;
  auto one = kills_of("parse/logs/6.12-memcg.log").at(0);
  for (std::size_t i = 0; i < times; ++i) {
    PastKill kill = one;
    kill.episode.victims[0].tid += static_cast<std::uint32_t>(i);
    set_time(kill, {1783000000s + i * 96h + (i % 2 ? 2h : 0h), 1s});
    kill.episode.id = name_of(kill);
    kills.push_back(kill);
  }
  return each_once(std::move(kills));
}

TEST_F(HistoryOf, a_regular_kill_in_a_cgroup) {
  auto kills = regular(5);
  expect_golden("history-regular.txt", history_text(kills, facts_, {}));
  expect_golden("history-regular.json", history_json(kills, facts_));
}

TEST_F(HistoryOf, a_terminal_of_80_columns_breaks_no_cell_and_tells_all) {
  facts_.columns = 80;
  std::string text = history_text(kills_of("parse/logs/incident-1.syslog"), facts_, {});
  std::istringstream lines(text.substr(0, text.find("\n\n*")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(text.find("python3[2809156]"), std::string::npos);
  EXPECT_NE(text.find("Z-2809156"), std::string::npos);
}

TEST_F(HistoryOf, of_80_columns_has_two_lines_of_a_kill_however_long_its_names_are) {
  facts_.columns = 80;
  auto kills = regular(2);
  for (PastKill& kill : kills) {
    kill.episode.victims[0].process.cmdline = {"python3", std::string(60, 'x')};
    auto limit = std::make_shared<CgroupRef>(*kill.episode.limit_cgroup);
    limit->path = "/process_api/" + std::string(50, 'y');
    kill.episode.limit_cgroup = limit;
  }
  std::istringstream lines(history_text(kills, facts_, {}));
  std::vector<std::string> told;
  for (std::string line; std::getline(lines, line) && !line.starts_with("*");) told.push_back(line);
  ASSERT_GT(told.size(), 2u);
  EXPECT_EQ(std::ranges::count_if(told, [](const std::string& line) { return line.starts_with("    "); }), 3)
      << "of the heading and of two kills";
  for (const std::string& line : told) EXPECT_LE(display_width(line), 80u) << line;
}

TEST_F(HistoryOf, kills_in_one_minute_are_told_with_the_time_that_they_took) {
  auto kills = regular(3);
  for (std::size_t i = 0; i < kills.size(); ++i) set_time(kills[i], {1783000000s + (2 - i) * 50s, 1s});
  std::string text = history_text(kills, facts_, {});
  EXPECT_NE(text.find("3 kills in 1 min 40 s"), std::string::npos) << text;
}

TEST_F(HistoryOf, a_host_with_two_names_is_one) {
  auto kills = regular(4);
  kills[0].host = kills[2].host = "web1";
  kills[1].host = kills[3].host = "web1.example.com";
  auto found = recurring(kills, true);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].kills.size(), 4u);
  kills[2].host = "web1.example.org";
  EXPECT_LT(recurring(kills, true)[0].kills.size(), 4u) << "two whole names";
}

TEST_F(HistoryOf, a_cgroup_that_another_killer_killed_is_a_line_with_its_path) {
  OomReports reports;
  reports.line(
      "2026-07-21T05:24:41Z a1 systemd-oomd[581]: Killed /user.slice/a.scope due to memory used (9) / total "
      "(9) and "
      "swap used (9) / total (9) being more than 90.00%");
  reports.finish();
  for (const OtherKill& kill : reports.others().kills())
    facts_.user_kills.push_back({kill, WallTime(kill.wall->since_epoch), "a.log"});
  EXPECT_NE(history_text({}, facts_, {})
                .find("2026-07-21 05:24:41  /user.slice/a.scope got SIGKILL from systemd-oomd\n"),
            std::string::npos)
      << history_text({}, facts_, {});
  std::string json = history_json({}, facts_);
  for (const char* part : {R"("cause":"systemd-oomd")", R"("pid":null)", R"("path":"/user.slice/a.scope")",
                           R"("hierarchy":null)", R"("unit":"a.scope")"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
}

TEST_F(HistoryOf, a_kill_that_was_due_and_did_not_come) {
  facts_.now += 24h * 60;
  EXPECT_NE(history_text(regular(5), facts_, {}).find("next was due"), std::string::npos);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(HistoryOf, kills_that_only_a_text_file_tells_of_are_not_counted_to_the_machines) {
  auto kills = regular(5);
  facts_.of_files = false;
  std::string text = history_text(kills, facts_, {}), json = history_json(kills, facts_);
  EXPECT_NE(text.find(kCannotShowWriter), std::string::npos);
  EXPECT_NE(text.find("5 kills so marked: not counted below"), std::string::npos);
  EXPECT_EQ(text.find("How often"), std::string::npos) << text;
  EXPECT_EQ(count(json, "\"written_by_kernel\":null"), 5u);
  EXPECT_EQ(count(json, "\"type\":\"recurrence\""), 0u);
  for (std::size_t i = 0; i < 4; ++i) kills[i].confirmed = true;
  text = history_text(kills, facts_, {}), json = history_json(kills, facts_);
  EXPECT_NE(text.find("4 kills, every"), std::string::npos) << text;
  EXPECT_EQ(count(json, "\"written_by_kernel\":true"), 4 + count(json, "\"type\":\"recurrence\""));
  kills[4].confirmed = true;
  EXPECT_EQ(history_text(kills, facts_, {}).find(kCannotShowWriter), std::string::npos);
}

TEST_F(HistoryOf, more_memory_than_this_machine_has_is_doubtful_in_a_log_of_this_machine_alone) {
  auto kills = regular(1);
  Bytes anon = *kills[0].episode.victims[0].anon;
  kills[0].host = "a1";
  facts_.machine = {"a1.example.org", Bytes{anon.count - 1}};
  EXPECT_NE(doubt_of(kills[0], facts_), "");
  EXPECT_NE(history_text(kills, facts_, {}).find("doubtful"), std::string::npos);
  facts_.machine.memory = anon;
  EXPECT_EQ(doubt_of(kills[0], facts_), "");
  facts_.machine = {"b1", Bytes{1}};
  EXPECT_EQ(doubt_of(kills[0], facts_), "") << "another machine's";
  kills[0].host.clear();
  EXPECT_EQ(doubt_of(kills[0], facts_), "") << "it does not say whose";
  kills[0].host = "b1";
  kills[0].confirmed = true;
  EXPECT_EQ(doubt_of(kills[0], facts_), "") << "the kernel's own word";
}

TEST_F(HistoryOf, no_kill_is_a_plain_sentence) {
  EXPECT_EQ(history_text({}, facts_, {}), "no OOM kill found in /var/log/syslog\n");
  facts_.filtered = true;
  EXPECT_EQ(history_text({}, facts_, {}), "no OOM kill that was asked for found in /var/log/syslog\n");
}

TEST_F(HistoryOf, a_name_cannot_break_a_line) {
  auto kills = regular(1);
  kills[0].episode.victims[0].process.comm = "a\n\x1b[31m<\xff";
  kills[0].episode.limit_cgroup = nullptr;
  std::string text = history_text(kills, facts_, {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

}  // namespace
}  // namespace oomcast
