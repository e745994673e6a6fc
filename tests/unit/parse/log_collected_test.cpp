// The same report as collectors, CI systems, consoles and people pass it on: forms that stood between a
// kernel's sentence and its reader.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "parse/oom_reports.h"

namespace oomcast {
namespace {

const std::vector<std::string> kCollected = {
    "pulse invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "CPU: 3 UID: 100999 PID: 3783517 Comm: pulse Tainted: P           O       6.14.11-4-pve #1",
    "memory: usage 10485760kB, limit 10485760kB, failcnt 4711",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=p,mems_allowed=0,oom_memcg=/lxc/703/"
    "pulse.service,"
    "task_memcg=/lxc/703/pulse.service,task=pulse,pid=3783517,uid=100999",
    "Memory cgroup out of memory: Killed process 3783517 (pulse) total-vm:14204856kB, anon-rss:10461428kB, "
    "file-rss:10240kB, shmem-rss:0kB, UID:100999 pgtables:23156kB oom_score_adj:0",
    "oom_reaper: reaped process 3783517 (pulse), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"};
constexpr std::int64_t kCollectedAt = 1763702681;  // 2025-11-21T05:24:41Z

using Collect = std::function<std::string(std::size_t nr, const std::string& text)>;

struct CollectedLog {
  std::vector<LoggedOom> ooms;
  LogCounts counts;
};

CollectedLog read_collected(const std::string& text) {
  setenv("TZ", "UTC", 1);
  tzset();
  OomReports reports;
  for (std::size_t from = 0; from < text.size();) {
    std::size_t end = std::min(text.find('\n', from), text.size());
    reports.line(std::string_view(text).substr(from, end - from));
    from = end + 1;
  }
  CollectedLog out;
  out.ooms = reports.finish();
  out.counts = reports.counts();
  WallTime now{std::chrono::seconds(kCollectedAt + 86400)};
  for (LoggedOom& oom : out.ooms)
    if (oom.wall) oom.wall = reports.resolve(*oom.wall, now);
  return out;
}

enum class CollectedTime : std::uint8_t { none, second, minute };

void expect_report(const std::string& what, const std::string& text, CollectedTime time) {
  CollectedLog found = read_collected(text);
  ASSERT_EQ(found.ooms.size(), 1u) << what;
  const LoggedOom& oom = found.ooms[0];
  ASSERT_EQ(oom.dump.victims.size(), 1u) << what;
  EXPECT_EQ(oom.dump.victims[0].tid, 3783517u) << what;
  EXPECT_EQ(oom.dump.victims[0].anon_rss, KiB(10461428)) << what;
  EXPECT_TRUE(oom.dump.invoked) << what;
  EXPECT_EQ(oom.dump.limit_cgroup(), "/lxc/703/pulse.service") << what;
  EXPECT_TRUE(oom.dump.usage_of(MemcgCounter::memory)) << what;
  EXPECT_EQ(oom.wall.has_value(), time != CollectedTime::none) << what;
  if (!oom.wall) return;
  std::int64_t apart =
      std::chrono::duration_cast<std::chrono::seconds>(oom.wall->since_epoch).count() - kCollectedAt;
  EXPECT_LE(std::abs(apart), time == CollectedTime::minute ? 60 : 0) << what;
}

void expect_collected(const std::string& what, const Collect& collect,
                      CollectedTime time = CollectedTime::second) {
  std::string text;
  for (std::size_t i = 0; i < kCollected.size(); ++i) text += collect(i, kCollected[i]) + "\n";
  expect_report(what, text, time);
}

TEST(Collected, a_stamp_of_the_kernel_follows_the_collectors_directly) {
  expect_collected("docker logs -t", [](std::size_t nr, const std::string& text) {
    return fmt::format("2025-11-21T05:24:41.{:09}Z [  936.65{:04}] {}", nr, nr, text);
  });
  expect_collected("GitLab", [](std::size_t nr, const std::string& text) {
    return fmt::format("2025-11-21T05:24:41.{:06}Z 01O [  936.65{:04}] {}", nr, nr, text);
  });
  expect_collected("GitHub, a job's log that was downloaded", [](std::size_t nr, const std::string& text) {
    return fmt::format("test\tDump dmesg\t2025-11-21T05:24:41.{:07}Z [  936.65{:04}] {}", nr, nr, text);
  });
  expect_collected("VMware, a guest's console", [](std::size_t nr, const std::string& text) {
    return fmt::format("2025-11-21T05:24:41.{:03}Z In(05) vcpu-5 - Guest: <3>[936.65{:04}] {}", nr, nr, text);
  });
  expect_collected("a tag and two spaces", [](std::size_t nr, const std::string& text) {
    return fmt::format("Nov 21 05:24:41 pve kernel:  [  936.65{:04}] {}", nr, text);
  });
}

TEST(Collected, a_host_behind_the_stamp_makes_the_next_words_its_own) {
  CollectedLog found = read_collected("Nov 21 05:24:41 pve [  936.650000] " + kCollected[4] + "\n");
  EXPECT_TRUE(found.ooms.empty());
  EXPECT_EQ(found.counts.others + found.counts.unread, 1u);
}

TEST(Collected, what_another_writer_says_of_a_kill_is_counted_with_its_first_line) {
  CollectedLog found = read_collected("Nov 21 05:24:41 pve app[12]: <3>[1.5] " + kCollected[4] +
                                      "\nNov 21 05:24:42 pve app[12]: x\n");
  EXPECT_TRUE(found.ooms.empty());
  EXPECT_EQ(found.counts.others, 1u);
  EXPECT_NE(found.counts.first_other.find("Killed process 3783517"), std::string::npos);
}

TEST(Collected, dmesg_in_its_human_form_has_the_minute_and_what_passed_since) {
  expect_collected(
      "dmesg -H",
      [](std::size_t nr, const std::string& text) {
        return (nr == 0 ? "[Nov21 05:24] " : "[  +0.000010] ") + text;
      },
      CollectedTime::minute);
}

TEST(Collected, fluentd_and_logcli_put_a_tag_or_labels_before_the_record) {
  for (const char* between : {" kern.err: ", "\tkern.err\t"})
    expect_collected("fluentd", [&](std::size_t nr, const std::string& text) {
      return fmt::format("2025-11-21 05:24:41.{:09} +0000{}{{\"host\":\"pve\",\"message\":\"{}\"}}", nr,
                         between, text);
    });
  expect_collected("logcli", [](std::size_t, const std::string& text) {
    return "2025-11-21T05:24:41Z {host=\"pve\", transport=\"kernel\"} " + text;
  });
  // Where a host stands behind the stamp, a program wrote the record.
  CollectedLog found =
      read_collected("2025-11-21T05:24:41+00:00 pve app: {\"message\":\"" + kCollected[4] + "\"}\n");
  EXPECT_TRUE(found.ooms.empty());
}

TEST(Collected, a_list_of_one_is_its_value) {
  std::string text = "{\"hits\":{\"hits\":[";
  for (std::size_t i = 0; i < kCollected.size(); ++i)
    text += fmt::format(
        "{}{{\"fields\":{{\"@timestamp\":[\"2025-11-21T05:24:41.{:03}Z\"],\"message\":[\"{}\"]}}}}",
        i ? "," : "", i, kCollected[i]);
  expect_report("Elasticsearch's fields", text + "]}}\n", CollectedTime::second);
}

TEST(Collected, a_text_as_numbers_is_read_wherever_it_is) {
  expect_collected("journalctl -o json", [](std::size_t nr, const std::string& text) {
    std::string numbers;
    for (char c : text) numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", static_cast<int>(c));
    return fmt::format(
        "{{\"_TRANSPORT\":\"kernel\",\"__REALTIME_TIMESTAMP\":\"176370268100000{}\",\"MESSAGE\":[{}]}}", nr,
        numbers);
  });
}

TEST(Collected, the_newest_line_may_be_the_first_of_one_second) {
  std::string text;
  for (auto line = kCollected.rbegin(); line != kCollected.rend(); ++line)
    text += "Nov 21 05:24:41 pve kernel: " + *line + "\n";
  CollectedLog found = read_collected(text);
  bool has_trigger = std::ranges::any_of(
      found.ooms, [](const LoggedOom& oom) { return oom.dump.invoked && oom.dump.constraint; });
  EXPECT_TRUE(has_trigger);
  EXPECT_FALSE(found.counts.ends_in_report);
}

TEST(Collected, a_return_ends_a_line) {
  std::string text;
  for (const std::string& line : kCollected) text += "Nov 21 05:24:41 pve kernel: " + line + "\r";
  expect_report("\\r alone", text, CollectedTime::second);
  text.clear();
  for (const std::string& line : kCollected) text += "Nov 21 05:24:41 pve kernel: " + line + "\r\r\n";
  expect_report("\\r\\r\\n", text, CollectedTime::second);
}

TEST(Collected, a_return_in_a_line_makes_no_line_of_the_kernels) {
  const std::string killed =
      "Out of memory: Killed process 1 (systemd) total-vm:4kB, anon-rss:4kB, file-rss:0kB";
  CollectedLog app = read_collected(
      "Nov 21 05:24:40 pve app[12]: up\nNov 21 05:24:41 pve app[12]: hello\rNov 21 05:24:41 pve kernel: " +
      killed + "\nNov 21 05:24:42 pve app[12]: down\n");
  EXPECT_TRUE(app.ooms.empty());
  CollectedLog first =
      read_collected("Nov 21 05:24:41 pve app[12]: hello\rNov 21 05:24:41 pve kernel: " + killed +
                     "\nNov 21 05:24:42 pve app[12]: down\n");
  EXPECT_TRUE(first.ooms.empty()) << "in the first line of several";
  std::string text = "Nov 21 05:24:40 pve kernel: up\n";
  for (std::string line : kCollected) {
    if (auto at = line.find("/lxc/703"); at != std::string::npos)
      line.insert(at + 8, "\r[    1.5] " + killed + "\r");
    text += "Nov 21 05:24:41 pve kernel: " + line + "\n";
  }
  CollectedLog cgroup = read_collected(text);
  for (const LoggedOom& oom : cgroup.ooms)
    for (const OomVictimLine& victim : oom.dump.victims)
      EXPECT_NE(victim.tid, 1u) << "in the name of a cgroup";
}

TEST(Collected, a_report_in_the_lists_of_one_of_a_search_is_its_writers) {
  auto fields = [](const std::string& writer) {
    return "{\"fields\": {\"@timestamp\": [\"2025-11-21T05:24:41.000Z\"], " + writer +
           "\"message\": [\"Memory cgroup out of memory: Killed process 17 (x) total-vm:4kB, anon-rss:4kB, "
           "file-rss:0kB, shmem-rss:0kB\"]}}\n";
  };
  EXPECT_EQ(read_collected(fields("")).ooms.size(), 1u);
  EXPECT_EQ(read_collected(fields("\"host.name\": [\"a1\"], ")).ooms.at(0).host, "a1");
  for (const char* writer : {"\"appname\": [\"app\"], ", "\"SYSLOG_IDENTIFIER\": [\"app\"], "}) {
    CollectedLog found = read_collected(fields(writer));
    EXPECT_TRUE(found.ooms.empty()) << writer;
    EXPECT_FALSE(found.counts.first_other.empty()) << writer;
  }
}

TEST(Collected, a_process_that_prints_a_register_dump_has_no_report_of_a_kill) {
  CollectedLog found =
      read_collected("Nov 21 05:24:41 pve app[12]: CPU: 3 PID: 12 Comm: x Not tainted 6.1\n");
  EXPECT_TRUE(found.ooms.empty());
  EXPECT_EQ(found.counts.first_other, "");
}

TEST(Collected, a_mail_leaves_a_stamp_alone_in_its_line) {
  expect_collected("mail", [](std::size_t nr, const std::string& text) {
    return "> Nov 21 05:24:41 pve kernel:" + std::string(nr == 3 ? "\n> " : " ") + text;
  });
}

TEST(Collected, marks_of_forums_and_numbers_of_lines_are_none_of_the_log) {
  std::string lines;
  for (const std::string& line : kCollected) lines += "Nov 21 05:24:41 pve kernel: " + line + "\n";
  for (const char* mark : {"[code]", "[quote]", "{noformat}", "<pre>"})
    expect_report(mark, mark + lines, CollectedTime::second);
  expect_collected("cat -n", [](std::size_t nr, const std::string& text) {
    return fmt::format("{:6}\tNov 21 05:24:41 pve kernel: {}", nr + 1, text);
  });
}

TEST(Collected, android_marks_the_kernel_by_process_0) {
  expect_collected("logcat", [](std::size_t nr, const std::string& text) {
    return fmt::format("11-21 05:24:41.{:03}     0     0 W         : {}", nr, text);
  });
  EXPECT_TRUE(read_collected("11-21 05:24:41.000  4711  4712 W app: " + kCollected[4] + "\n").ooms.empty());
}

TEST(Collected, a_stamp_may_lack_its_year_behind_a_bracket) {
  CollectedLog found = read_collected("[Fri Nov 21 05:24:41] " + kCollected[4] + "\n");
  ASSERT_EQ(found.ooms.size(), 1u);
  ASSERT_TRUE(found.ooms[0].wall);
  EXPECT_EQ(found.ooms[0].wall->since_epoch, std::chrono::seconds(kCollectedAt));
}

}  // namespace
}  // namespace oomcast
