#include "parse/log_lines.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "parse/oom_reports.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

class LogLines : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
  LogPrefix read(const std::string& raw) {
    raw_ = raw;
    return reader_.read(raw_, false, line_);
  }
  static Nanos at(const std::string& utc) {
    std::tm t{};
    strptime(utc.c_str(), "%Y-%m-%d %H:%M:%S", &t);
    return std::chrono::seconds(timegm(&t));
  }
  LogLineReader reader_;
  LogLine line_;
  std::string raw_;
};

TEST_F(LogLines, dmesg_counts_from_boot) {
  auto prefix = read("[ 8123.500040] Out of memory: Killed process 1 (a)");
  EXPECT_EQ(prefix.since_boot, 8123s + 500040us);
  EXPECT_FALSE(prefix.wall);
  EXPECT_EQ(line_.text, "Out of memory: Killed process 1 (a)");
}

TEST_F(LogLines, dmesg_may_name_a_priority_a_caller_and_what_passed_since_the_line_before) {
  EXPECT_EQ(read("<6>[    1.5][   T12] text").since_boot, 1500ms);
  EXPECT_EQ(line_.text, "text");
  EXPECT_EQ(line_.caller, "T12");
  read("[    1.500000] [    C3] text");
  EXPECT_EQ(line_.caller, "C3");
  EXPECT_EQ(read("[    1.500000 <    0.000012>] text").since_boot, 1500ms);
  EXPECT_EQ(line_.text, "text");
  EXPECT_TRUE(read("kern  :info  : [    1.500000] text").kernel);
  EXPECT_EQ(line_.text, "text");
}

TEST_F(LogLines, dmesg_of_a_person_has_the_time_of_day_to_a_second_and_the_drift) {
  auto prefix = read("[Sat Nov 21 03:04:05 2026] text");
  EXPECT_EQ(prefix.wall->since_epoch, at("2026-11-21 03:04:05"));
  EXPECT_EQ(prefix.wall->error, 3s);
  prefix = read("2026-11-21T03:04:05,123456+01:00 systemd-journal invoked text");
  EXPECT_EQ(prefix.wall->since_epoch, at("2026-11-21 02:04:05") + 123456us);
  EXPECT_EQ(line_.text, "systemd-journal invoked text");
}

TEST_F(LogLines, syslog_has_the_time_of_day_and_may_have_the_boots_clock_too) {
  auto prefix = read("2026-11-21T03:04:05.5Z host kernel: [  123.456000] text");
  EXPECT_EQ(prefix.wall->since_epoch, at("2026-11-21 03:04:05") + 500ms);
  EXPECT_EQ(prefix.since_boot, 123456ms);
  EXPECT_EQ(line_.text, "text");
  EXPECT_EQ(read("2026-11-21T03:04:05+0000 host kernel: text").wall->error, 2s);
}

TEST_F(LogLines, what_others_than_the_kernel_wrote_is_told) {
  EXPECT_FALSE(read("Nov 21 03:04:05 host app[12]: Killed process 1 (a)").kernel);
  EXPECT_FALSE(read("Nov 21 03:04:05 host app: kernel: Killed process 1 (a)").kernel);
  EXPECT_FALSE(read("<14>[    1.5] Killed process 1 (a)").kernel);
  EXPECT_FALSE(read("user  :notice: [    1.5] Killed process 1 (a)").kernel);
  EXPECT_FALSE(read("12,1,1500000,-;Killed process 1 (a)").kernel);
}

TEST_F(LogLines, a_stamp_without_a_year_is_of_the_nearest_past_one) {
  auto prefix = read("Nov 21 03:04:05 host kernel: text");
  ASSERT_TRUE(prefix.wall->yearless);
  auto year = [&](const std::string& now) {
    return reader_.resolve(*prefix.wall, WallTime(at(now))).since_epoch;
  };
  EXPECT_EQ(year("2026-11-21 03:04:06"), at("2026-11-21 03:04:05"));
  EXPECT_EQ(year("2026-11-20 12:00:00"), at("2026-11-21 03:04:05"));  // a clock that is off
  EXPECT_EQ(year("2026-11-10 00:00:00"), at("2025-11-21 03:04:05"));
}

TEST_F(LogLines, january_behind_december_is_another_year) {
  auto december = read("Dec 31 23:59:59 host kernel: a").wall;
  auto january = read("Jan  1 00:00:01 host kernel: b").wall;
  WallTime now(at("2026-03-01 00:00:00"));
  EXPECT_EQ(reader_.resolve(*december, now).since_epoch, at("2025-12-31 23:59:59"));
  EXPECT_EQ(reader_.resolve(*january, now).since_epoch, at("2026-01-01 00:00:01"));
}

TEST_F(LogLines, a_stamp_without_a_year_is_not_of_the_future_where_lines_are_out_of_order) {
  auto november = read("Nov 21 03:04:05 host kernel: a").wall;
  auto september = read("Sep  1 00:00:01 host kernel: b").wall;
  WallTime now(at("2026-10-01 00:00:00"));
  EXPECT_EQ(reader_.resolve(*september, now).since_epoch, at("2026-09-01 00:00:01"));
  EXPECT_EQ(reader_.resolve(*november, now).since_epoch, at("2025-11-21 03:04:05"));
}

TEST_F(LogLines, dmesg_in_any_language_has_the_time_of_day) {
  for (const char* stamp :
       {"[月  1月 26 01:49:41 2026] ", "[Mo Jan 26 01:49:41 2026] ", "[lun. janv. 26 01:49:41 2026] ",
        "[一 1月 26 01:49:41 2026] ", "[Пн янв 26 01:49:41 2026] ", "[lun ene 26 01:49:41 2026] "}) {
    auto prefix = read(stamp + std::string("text"));
    ASSERT_TRUE(prefix.wall) << stamp;
    EXPECT_EQ(prefix.wall->since_epoch, at("2026-01-26 01:49:41")) << stamp;
    EXPECT_EQ(line_.text, "text") << stamp;
  }
  // French for Tuesday sounds like March.
  EXPECT_EQ(read("[mar. janv. 27 01:49:41 2026] text").wall->since_epoch, at("2026-01-27 01:49:41"));
}

TEST_F(LogLines, a_programs_words_before_the_prefix_cost_nothing) {
  auto prefix = read("INFO: 2026-11-21T03:04:05Z host kernel: text");
  EXPECT_EQ(prefix.wall->since_epoch, at("2026-11-21 03:04:05"));
  EXPECT_EQ(prefix.host, "host");
  EXPECT_EQ(line_.text, "text");
}

TEST_F(LogLines, the_29th_of_february_is_of_a_leap_year) {
  auto leap = read("Feb 29 01:00:00 host kernel: a").wall;
  EXPECT_EQ(reader_.resolve(*leap, WallTime(at("2026-06-01 00:00:00"))).since_epoch,
            at("2024-02-29 01:00:00"));
}

TEST_F(LogLines, a_table_row_is_no_stamp) {
  EXPECT_FALSE(read("[   4515]     0  4515    15192    13290   159744        0             0 python3").any);
  EXPECT_FALSE(read("[  pid  ]   uid  tgid total_vm      rss").any);
}

std::string kill(int pid) {
  return "Out of memory: Killed process " + std::to_string(pid) +
         " (a) total-vm:40kB, anon-rss:30kB, file-rss:20kB, shmem-rss:10kB";
}

TEST(OomReports, believes_lines_without_a_prefix_only_in_a_log_without_any) {
  auto count = [](const std::vector<std::string>& lines) {
    OomReports reports;
    for (const std::string& line : lines) reports.line(line);
    return reports.finish().size();
  };
  EXPECT_EQ(count({kill(1)}), 1u);
  EXPECT_EQ(count({kill(1), kill(2)}), 2u);
  EXPECT_EQ(count({kill(1), "[    1.000000] text"}), 0u);
  EXPECT_EQ(count({"[    1.000000] text", kill(1)}), 0u);
  EXPECT_EQ(count({"\xef\xbb\xbf[    1.000000] " + kill(1)}), 1u);
}

// One kill, and whether the log shows who told of it.
bool shows_writer(const std::vector<std::string>& lines) {
  OomReports reports;
  for (const std::string& line : lines) reports.line(line);
  EXPECT_EQ(reports.finish().size(), 1u);
  return reports.shows_writer();
}

TEST(OomReports, only_journalds_own_records_show_that_the_kernel_wrote_a_line) {
  const std::string line = kill(7);
  const std::string fields = R"({"_BOOT_ID":"b","__REALTIME_TIMESTAMP":"1785000000000000",)";
  const std::string journal =
      fields + R"("_TRANSPORT":"kernel","SYSLOG_FACILITY":"0","MESSAGE":")" + line + "\"}";
  const std::string user =
      fields + R"("_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel","MESSAGE":")" + line + "\"}";
  const std::string syslog = "Nov 21 03:04:05 a1 kernel: [ 1.5] " + line;
  EXPECT_TRUE(shows_writer({journal}));
  EXPECT_TRUE(shows_writer({user, journal, ""})) << "the user's is left out";
  EXPECT_TRUE(
      shows_writer({"{", "\t\"_BOOT_ID\" : \"b\",", "\t\"__REALTIME_TIMESTAMP\" : \"1785000000000000\",",
                    "\t\"_TRANSPORT\" : \"kernel\",", "\t\"MESSAGE\" : \"" + line + "\"", "}"}))
      << "json-pretty";
  EXPECT_FALSE(shows_writer({syslog}));
  EXPECT_FALSE(shows_writer({"[    1.500000] " + line}));
  EXPECT_FALSE(shows_writer({R"({"_TRANSPORT":"kernel","MESSAGE":")" + line + "\"}"})) << "of somebody else";
  EXPECT_FALSE(shows_writer({"Nov 21 03:04:04 a1 sshd[12]: hello", journal}))
      << "a line that a user may print";
  EXPECT_FALSE(shows_writer({R"({"log":"{\"_TRANSPORT\":\"kernel\",\"_BOOT_ID\":\"b\",)"
                             R"(\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":\")" +
                             line + R"(\"}\n","stream":"stdout","time":"2026-11-21T03:04:05Z"})"}))
      << "a container's output";
}

TEST(OomReports, a_boot_ends_the_reports_of_the_one_before) {
  OomReports reports;
  reports.line("[ 9000.000000] a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0");
  reports.line("[    1.000000] " + kill(7));
  auto found = reports.finish();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FALSE(found[1].dump.invoked);
  EXPECT_EQ(found[1].since_boot, 1s);
}

TEST(OomReports, counts_lines_that_only_look_like_the_kernels) {
  OomReports reports;
  reports.line("Nov 21 03:04:05 host app: " + kill(1));
  EXPECT_TRUE(reports.finish().empty());
  EXPECT_EQ(reports.counts().others, 1u);
}

}  // namespace
}  // namespace oomcast
