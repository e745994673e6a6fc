#include "parse/log_wrapping.h"

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

const std::vector<std::string>& report() {
  static const std::vector<std::string> lines = {
      "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
      "CPU: 1 PID: 4515 Comm: python3 Not tainted 6.1.0-18-amd64 #1  Debian 6.1.76-1",
      "memory: usage 65536kB, limit 65536kB, failcnt 72",
      "Memory cgroup stats for /train/job7:",
      "anon 52428800",
      "Tasks state (memory values in pages):",
      "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
      "[   4515]     0  4515    15192    12800   139264        0             0 python3",
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/train/job7,"
      "task_memcg=/train/job7,task=python3,pid=4515,uid=0",
      "Memory cgroup out of memory: Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB oom_score_adj:0"};
  return lines;
}

using Wrap = std::function<std::string(std::size_t nr, const std::string& text)>;

std::vector<LoggedOom> read_all(const std::vector<std::string>& lines, LogCounts* counts = nullptr) {
  setenv("TZ", "UTC", 1);
  tzset();
  OomReports reports;
  for (const std::string& line : lines) {
    std::size_t begin = 0;
    for (std::size_t end; (end = line.find('\n', begin)) != std::string::npos; begin = end + 1)
      reports.line(std::string_view(line).substr(begin, end - begin));
    reports.line(std::string_view(line).substr(begin));
  }
  auto out = reports.finish();
  if (counts) *counts = reports.counts();
  return out;
}

// The whole report is there, whatever stands around its lines.
void expect_whole(const std::string& what, const Wrap& wrap, std::optional<Nanos> at = std::nullopt,
                  const std::string& host = "") {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < report().size(); ++i) lines.push_back(wrap(i, report()[i]));
  auto found = read_all(lines);
  ASSERT_EQ(found.size(), 1u) << what;
  const OomDump& dump = found[0].dump;
  ASSERT_EQ(dump.victims.size(), 1u) << what;
  EXPECT_EQ(dump.victims[0].tid, 4515u) << what;
  EXPECT_EQ(dump.victims[0].comm, "python3") << what;
  EXPECT_EQ(dump.victims[0].anon_rss, KiB(50688)) << what;
  EXPECT_EQ(dump.victims[0].oom_score_adj, 0) << what;
  EXPECT_EQ(dump.scope(), OomScope::memcg) << what;
  EXPECT_EQ(dump.limit_cgroup(), "/train/job7") << what;
  EXPECT_EQ(dump.trigger_tid, 4515u) << what;
  ASSERT_TRUE(dump.invoked) << what;
  EXPECT_EQ(dump.invoked->trigger_comm, "python3") << what;
  EXPECT_EQ(dump.tasks.size(), 1u) << what;
  ASSERT_TRUE(dump.usage_of(MemcgCounter::memory)) << what;
  EXPECT_EQ(found[0].host, host) << what;
  if (at) {
    ASSERT_TRUE(found[0].wall) << what;
    EXPECT_LE(std::chrono::abs(found[0].wall->since_epoch - *at), found[0].wall->error) << what;
  }
}

std::string stamp(std::size_t nr) {
  return fmt::format("[13579.{:06}]", nr * 21);
}
constexpr Nanos kAugust = std::chrono::seconds(1754970843);  // 2025-08-12 03:54:03 UTC

TEST(Wrapping, of_stamps_of_any_kind_leaves_the_report_whole) {
  expect_whole(
      "dmesg -T in German", [](auto, auto& l) { return "[Di Aug 12 03:54:03 2025] " + l; }, kAugust);
  expect_whole("dmesg -T in French", [](auto, auto& l) { return "[mar. août 12 03:54:03 2025] " + l; });
  expect_whole("dmesg -T in Japanese", [](auto, auto& l) { return "[火  8月 12 03:54:03 2025] " + l; });
  expect_whole("OpenWrt", [](auto n, auto& l) {
    return "Tue Aug 12 03:54:03 2025 kern.err kernel: " + stamp(n) + " " + l;
  });
  expect_whole(
      "Talos", [](auto, auto& l) { return "kern: err: [2025-08-12T03:54:03.72Z]: " + l; }, kAugust);
  expect_whole(
      "talosctl", [](auto, auto& l) { return "10.0.0.2: kern:     err: [2025-08-12T03:54:03.72Z]: " + l; },
      kAugust, "10.0.0.2");
  expect_whole(
      "short-monotonic", [](auto n, auto& l) { return stamp(n) + " host7 kernel: " + l; }, {}, "host7");
  expect_whole(
      "short-full", [](auto, auto& l) { return "Tue 2025-08-12 03:54:03 UTC host7 kernel: " + l; }, kAugust,
      "host7");
  expect_whole(
      "short-unix", [](auto, auto& l) { return "1754970843.123456 host7 kernel: " + l; }, kAugust, "host7");
  expect_whole(
      "RFC 5424",
      [](auto n, auto& l) { return "<3>1 2025-08-12T03:54:03.12Z host7 kernel - - - " + stamp(n) + " " + l; },
      {}, "host7");
  expect_whole(
      "RFC 5424 without a priority",
      [](auto, auto& l) { return "1 2025-08-12T03:54:03.12Z host7 kernel - - - " + l; }, kAugust, "host7");
  expect_whole("no date", [](auto n, auto& l) { return "kernel: " + stamp(n) + " " + l; });
  expect_whole(
      "a space in the date", [](auto, auto& l) { return "2025-08-12 03:54:03 host7 kernel: " + l; }, kAugust,
      "host7");
  expect_whole(
      "kernel with a number", [](auto, auto& l) { return "Aug 12 03:54:03 host7 kernel[0]: " + l; }, {},
      "host7");
  expect_whole("an unknown one",
               [](auto n, auto& l) { return "12/08/25 3.54|host7|kernel: " + stamp(n) + " " + l; });
}

TEST(Wrapping, of_two_stamps_or_of_marks_behind_a_stamp_leaves_the_report_whole) {
  const std::string date = "[Tue Aug 12 03:54:03 2025] ";
  expect_whole(
      "the kernel's own behind a date", [&](auto n, auto& l) { return date + stamp(n) + " " + l; }, kAugust);
  expect_whole(
      "[kernel]", [&](auto, auto& l) { return date + "[kernel] " + l; }, kAugust);
  expect_whole(
      "kernel:", [&](auto, auto& l) { return date + "kernel: " + l; }, kAugust);
  expect_whole("left out", [](auto n, auto& l) { return stamp(n) + " [..] " + l; });
  expect_whole("within a line", [](auto n, auto& l) { return "percona # " + stamp(n) + " " + l; });
}

TEST(Wrapping, marks_that_the_first_line_has_not_are_a_name) {
  auto found = read_all(
      {"[   12.000000] text",
       "[   13.000000] [..] x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
       "[   13.000001] Out of memory: Killed process 7 (a) total-vm:40kB, anon-rss:30kB, file-rss:20kB, "
       "shmem-rss:10kB"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.invoked.value().trigger_comm, "[..] x");
}

TEST(Wrapping, by_people_leaves_the_report_whole) {
  expect_whole("quoted", [](auto n, auto& l) { return "> " + stamp(n) + " " + l; });
  expect_whole(
      "quoted twice", [](auto, auto& l) { return ">> Aug 12 03:54:03 host7 kernel: " + l; }, {}, "host7");
  expect_whole("indented", [](auto n, auto& l) { return "    " + stamp(n) + " " + l; });
  expect_whole("tabs", [](auto n, auto& l) { return "\t" + stamp(n) + "\t" + l; });
  expect_whole("YAML", [](auto n, auto& l) { return (n ? "  " : "log: |\n  ") + stamp(n) + " " + l; });
  expect_whole("Markdown",
               [](auto n, auto& l) { return (n ? "" : "It was killed:\n```\n") + stamp(n) + " " + l; });
  expect_whole(
      "grep -n",
      [](auto n, auto& l) { return fmt::format("{}:Aug 12 03:54:03 host7 kernel: {}", 1200 + n, l); }, {},
      "host7");
  expect_whole(
      "grep -H",
      [](auto, auto& l) { return "/var/log/messages-20250812:Aug 12 03:54:03 host7 kernel: " + l; }, {},
      "host7");
  expect_whole("grep -Hn, lines around",
               [](auto n, auto& l) { return fmt::format("kern.log-{}-{} {}", 1200 + n, stamp(n), l); });
  expect_whole("colours",
               [](auto n, auto& l) { return "\x1b[32m" + stamp(n) + " \x1b[0m\x1b[1;31m" + l + "\x1b[0m"; });
}

TEST(Wrapping, by_collectors_leaves_the_report_whole) {
  expect_whole("CRI",
               [](auto n, auto& l) { return "2025-08-12T03:54:03.1Z stdout F " + stamp(n) + " " + l; });
  expect_whole("docker", [](auto n, auto& l) {
    return R"({"log":")" + stamp(n) + " " + l + R"(\n","stream":"stdout","time":"2025-08-12T03:54:03.1Z"})";
  });
  expect_whole("fluent-bit", [](auto n, auto& l) {
    return fmt::format(R"([{}] kmsg.0: [[1754970843.1, {{}}], {{"priority"=>3, "msg"=>"{}"}}])", n, l);
  });
  expect_whole(
      "a shipper",
      [](auto, auto& l) {
        return R"({"@timestamp":"2025-08-12T03:54:03.1Z","host":"host7","message":")" + l + R"("})";
      },
      kAugust, "host7");
  expect_whole("a shipper's inner record",
               [](auto, auto& l) { return R"({"jsonPayload":{"MESSAGE":")" + l + R"("}})"; });
  expect_whole("json-pretty", [](auto, auto& l) {
    return "{\n\t\"_TRANSPORT\" : \"kernel\",\n\t\"MESSAGE\" : \"" + l + "\"\n}";
  });
  std::string all;
  for (const std::string& line : report()) all += line + "\\n";
  auto found = read_all({R"({"ts":"2025-08-12T03:54:03Z","msg":")" + all + R"("})"});
  ASSERT_EQ(found.size(), 1u) << "a whole report in one record";
  EXPECT_EQ(found[0].dump.limit_cgroup(), "/train/job7");
}

TEST(Wrapping, what_another_wrote_is_not_believed_where_the_wrapper_says_so) {
  const std::string& kill = report().back();
  for (const std::string& line :
       {R"({"SYSLOG_IDENTIFIER":"python3","message":")" + kill + R"("})",
        R"({"_TRANSPORT":"stdout","MESSAGE":")" + kill + R"("})", "> Aug 12 03:54:03 host7 app[12]: " + kill,
        "1 2025-08-12T03:54:03Z host7 app 12 - - " + kill, "user: err: [2025-08-12T03:54:03Z]: " + kill,
        "Tue Aug 12 03:54:03 2025 user.err app: " + kill}) {
    LogCounts counts;
    EXPECT_TRUE(read_all({line}, &counts).empty()) << line;
    EXPECT_EQ(counts.others, 1u) << line;
  }
}

TEST(Wrapping, by_a_mail_program_costs_no_line) {
  auto wrap = [](const std::string& line) {
    std::string out;
    for (std::string_view rest = line; !rest.empty();) {
      std::size_t width = std::min<std::size_t>(72, rest.size());
      if (width < rest.size())
        if (std::size_t space = rest.rfind(' ', width); space != std::string_view::npos && space > 20)
          width = space;
      out += (out.empty() ? "" : "\n") + std::string(rest.substr(0, width));
      rest.remove_prefix(width);
      if (rest.starts_with(' ')) rest.remove_prefix(1);
    }
    return out;
  };
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < report().size(); ++i) lines.push_back(wrap(stamp(i) + " " + report()[i]));
  auto found = read_all(lines);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].dump.victims.size(), 1u);
  EXPECT_EQ(found[0].dump.victims[0].anon_rss, KiB(50688));
  EXPECT_EQ(found[0].dump.limit_cgroup(), "/train/job7");
  ASSERT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.invoked->order, 0);
}

TEST(Wrapping, by_comments_prompts_and_netconsole_leaves_the_report_whole) {
  auto behind = [](const std::string& front) {
    return [front](std::size_t, const std::string& text) { return front + "[ 3007.160123] " + text; };
  };
  for (const char* front : {"# ", "#", "\t\t// ", "/// ", " * ", "/* ", "> +", "> : ", "--> ", "-> # ", "`",
                            "\u21aa ", "node1 login: ", "[dmesg] ", "** 3 printk messages dropped ** "})
    expect_whole(front, behind(front));
  expect_whole("code", [](std::size_t, auto& text) { return "- `[ 3007.160123] " + text + "`, it says"; });
  expect_whole("netconsole", behind("2016-12-17 21:37:16 192.0.2.17:6665 "), std::nullopt, "192.0.2.17");
}

TEST(Wrapping, without_host_and_tag_leaves_the_sentence) {
  auto found =
      read_all({"Jul 27 10:34:28  Out of memory: Killed process 6515 (kvrocks) total-vm:8608372kB, "
                "anon-rss:1435792kB"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims[0].tid, 6515u);
}

TEST(Wrapping, the_kubelets_event_of_an_oom_of_its_node_is_a_kill) {
  auto found = read_all(
      {"  Warning  SystemOOM  5m24s  kubelet  System OOM encountered, victim process: ld-musl, pid: 11415",
       "  Warning  SystemOOM  5m12s  kubelet  System OOM encountered, victim process: x"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims[0].tid, 11415u);
  EXPECT_EQ(found[0].dump.victims[0].comm, "ld-musl");
}

TEST(Wrapping, a_reaper_that_took_seconds_and_who_cites_the_line_tell_of_no_other_kill) {
  auto found = read_all(
      {"[  961.097301] Out of memory: Kill process 7485 (Web Content) score 887 or sacrifice child",
       "[  961.097433] Killed process 7485 (Web Content) total-vm:86003536kB, anon-rss:29704708kB, "
       "file-rss:0kB, shmem-rss:0kB",
       "[  968.779412] oom_reaper: reaped process 7485 (Web Content), now anon-rss:0kB, file-rss:0kB, "
       "shmem-rss:0kB",
       "What it says is `Memory cgroup out of memory: Killed process 7485 (Web Content)`, at once."});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims[0].anon_rss, KiB(29704708));
}

// What a mail program makes of a line: "=" as "=3D", broken before the 76th column.
std::string quoted_printable(const std::string& line) {
  constexpr std::size_t kWidth = 75;
  std::string out;
  std::size_t column = 0;
  for (char c : line) {
    std::string piece = c == '=' ? "=3D" : std::string(1, c);
    if (column + piece.size() > kWidth) {
      out += "=\n";
      column = 0;
    }
    out += piece;
    column += piece.size();
  }
  return out;
}

TEST(Wrapping, in_quoted_printable_costs_no_line) {
  expect_whole("a mail", [](std::size_t, const std::string& text) {
    return quoted_printable("[ 3007.160123] " + text);
  });
}

TEST(Wrapping, that_looks_like_quoted_printable_but_is_none_is_left_as_it_is) {
  auto lines = report();
  for (std::string& line : lines) line = "[ 3007.160123] " + line;
  lines.insert(lines.begin(), "[ 3007.160123] app-killer: mask=3D0x1 mode=hot=");
  auto found = read_all(lines);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims[0].anon_rss, KiB(50688));
}

TEST(Wrapping, of_an_event_of_kubernetes_leaves_the_sentence) {
  auto found =
      read_all({"LAST SEEN   TYPE      REASON       OBJECT        MESSAGE",
                "3m          Warning   OOMKilling   node/node-7   Memory cgroup out of memory: Kill process "
                "4515 (python3) score 1987 or sacrifice child",
                "Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, file-rss:512kB, "
                "shmem-rss:0kB"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.scope(), OomScope::memcg);
  EXPECT_EQ(found[0].dump.victims.at(0).anon_rss, KiB(50688));
}

TEST(Wrapping, kills_of_two_hosts_in_one_log_are_kept_apart) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < report().size(); ++i)
    for (const char* host : {"a1", "b2"})
      lines.push_back(fmt::format("Aug 12 03:54:03 {} kernel: {}", host, report()[i]));
  auto found = read_all(lines);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].host, "a1");
  EXPECT_EQ(found[1].host, "b2");
  for (const LoggedOom& oom : found) {
    EXPECT_EQ(oom.dump.victims.size(), 1u);
    EXPECT_EQ(oom.dump.tasks.size(), 1u);
    EXPECT_FALSE(oom.dump.interleaved);
  }
}

TEST(Wrapping, a_report_of_a_slow_console_or_with_a_damaged_stamp_is_one) {
  expect_whole("14 s", [](auto n, auto& l) { return fmt::format("[{}.500000] {}", 100 + n * 3 / 2, l); });
  expect_whole("a damaged stamp",
               [](auto n, auto& l) { return (n == 4 ? std::string("[13579.00~84]") : stamp(n)) + " " + l; });
}

TEST(Wrapping, lines_that_speak_of_a_kill_and_are_not_read_are_counted) {
  LogCounts counts;
  EXPECT_TRUE(
      read_all({"Aug 12 03:54:03 host7 kernel: text", "Aug 12 03:54:03 host7 kernel: x: OOM killed process 5",
                "Aug 12 03:54:03 host7 kernel: oomkill of y"},
               &counts)
          .empty());
  EXPECT_EQ(counts.unread, 2u);
  EXPECT_EQ(counts.first_unread, "Aug 12 03:54:03 host7 kernel: x: OOM killed process 5");
  EXPECT_FALSE(speaks_of_kill("the kill switch of memory"));
}

TEST(Wrapping, the_first_line_counts_where_it_is_not_read) {
  LogCounts counts;
  EXPECT_TRUE(read_all({"[Notes] Out of memory: Killed process 7", "and the text goes on"}, &counts).empty());
  EXPECT_EQ(counts.unread, 1u);
}

TEST(Wrapping, a_process_with_a_hosts_name_hides_no_kill) {
  auto found =
      read_all({"[    1.000000] Linux version 6.1.0",
                "[   13.000000] Out kernel: x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
                "oom_score_adj=0",
                "[   14.000000] Out of memory: Killed process 7 (a) total-vm:40kB, anon-rss:30kB, "
                "file-rss:20kB, shmem-rss:10kB"});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().dump.victims.size(), 1u);
}

TEST(Wrapping, the_kernels_word_of_a_suspend_speaks_of_no_kill) {
  EXPECT_FALSE(speaks_of_kill("PM: suspend: OOM killer disabled."));
  EXPECT_TRUE(speaks_of_kill("x: OOM killed process 5"));
}

// Each victim as "pid name anon", "?" for what is not told.
std::vector<std::string> victims_in(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const LoggedOom& oom : read_all(lines))
    for (const OomVictimLine& v : oom.dump.victims)
      out.push_back(fmt::format("{} {} {}", v.tid ? std::to_string(v.tid) : "?", v.comm.value_or("?"),
                                v.anon_rss ? fmt::format("{}", v.anon_rss->count / 1024) : "?"));
  return out;
}
using Victims = std::vector<std::string>;

TEST(Wrapping, by_a_mail_program_may_break_a_sentence_at_any_of_its_spaces) {
  const std::string stamp = "Aug 26 13:07:22 ice kernel: ";
  EXPECT_EQ(victims_in({stamp + "Out of Memory: Killed process 432 ", "(moz-bin).",
                        stamp + "Out of Memory: Killed process 433 ", "(moz-bin)."}),
            (Victims{"432 moz-bin ?", "433 moz-bin ?"}));
  const std::string line =
      "Memory cgroup out of memory: Killed process 4515 (python3) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB oom_score_adj:0";
  for (const std::string& front : {stamp, std::string()})
    for (std::size_t at = line.find(' '); at != std::string::npos; at = line.find(' ', at + 1)) {
      auto found = read_all({"x", front + line.substr(0, at), line.substr(at + 1)});
      ASSERT_EQ(found.size(), 1u) << front << line.substr(0, at);
      EXPECT_EQ(found[0].dump.scope(), OomScope::memcg) << front << line.substr(0, at);
      ASSERT_EQ(found[0].dump.victims.size(), 1u) << front << line.substr(0, at);
      EXPECT_EQ(found[0].dump.victims[0].comm, "python3") << front << line.substr(0, at);
      EXPECT_EQ(found[0].dump.victims[0].anon_rss, KiB(50688)) << front << line.substr(0, at);
    }
}

TEST(Wrapping, by_a_hanging_indent_leaves_what_is_whole) {
  for (const char* stamp : {"sep 03 10:26:07 host7 kernel: ", "Sep 03 10:26:07 host7 kernel: ", ""})
    EXPECT_EQ(victims_in({stamp + std::string("Out of memory: Killed process 432 (qemu) total-vm:5082kB,"),
                          "                      anon-rss:589kB, ... oom_score_adj:200"}),
              (Victims{"432 qemu 589"}))
        << stamp;
}

TEST(Wrapping, a_whole_sentence_counts_wherever_a_line_has_it) {
  const std::string sentence = "Out of memory: Killed process 4481 (stress) total-vm:9kB, anon-rss:8kB";
  for (const char* before : {"# mongodb: ", "Subject: Re: [Bug 12] ", "| node-7 | ", "cvebackend - "})
    EXPECT_EQ(victims_in({"notes", before + sentence}), Victims{"4481 stress 8"}) << before;
  EXPECT_EQ(victims_in({"[   12.000000] text", "[   13.000000] [x] [y]: " + sentence}),
            Victims{"4481 stress 8"});
  for (const char* before : {"[   13.000000] usb 1-1: Product: ", "/srv/", "ls: cannot access '/srv/x ",
                             "Aug 12 03:54:03 host7 app[12]: x "})
    EXPECT_TRUE(victims_in({"[   12.000000] text", before + sentence}).empty()) << before;
}

TEST(Wrapping, a_line_cut_in_its_name_tells_the_number) {
  EXPECT_EQ(victims_in({"[   12.000000] text", "[   13.000000] Out of memory: Killed process 2737 (dhc"}),
            Victims{"2737 ? ?"});
  EXPECT_TRUE(victims_in({"text", "Killed process 2737 (who was"}).empty());
  EXPECT_TRUE(victims_in({"// e.g.,", "// Out of memory: Killed process 123, UID 48, (httpd)."}).empty());
}

TEST(Wrapping, a_kill_of_openvz_is_read) {
  for (const char* scope : {"Out of memory in UB 101: ", ""})
    EXPECT_EQ(victims_in({"[   12.000000] text",
                          std::string("[   13.000000] ") + scope +
                              "OOM killed process 659 (java) score 0 vm:9280kB, rss:5110kB, swap:7kB"}),
              Victims{"659 java ?"})
        << scope;
}

TEST(Wrapping, a_pattern_of_source_code_is_no_oom) {
  EXPECT_TRUE(read_all({"if b\"out of memory\" in dmesg \\",
                        "    or b\"oom-kill:constraint=CONSTRAINT_MEMCG\" in dmesg:",
                        "grep 'oom-kill:constraint=CONSTRAINT_MEMCG' /var/log/messages"})
                  .empty());
}

TEST(Wrapping, by_a_persons_spaces_and_quotation_marks_costs_nothing) {
  auto found =
      read_all({"text", "\"python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                "oom-kill:constraint=CONSTRAINT_NONE, nodemask=(null), cpuset=/, mems_allowed=0, global_oom, "
                "task_memcg=/a, task=x y, pid=45, uid=0"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.invoked.value().trigger_comm, "python3");
  EXPECT_EQ(found[0].dump.constraint.value().pid, 45u);
  EXPECT_EQ(found[0].dump.constraint->task_comm, "x y");
  EXPECT_EQ(found[0].dump.scope(), OomScope::global);
}

TEST(Wrapping, a_line_whose_rest_never_comes_is_counted) {
  LogCounts counts;
  EXPECT_TRUE(
      read_all({"[   12.000000] text", "[   13.000000] Out of memory: Kill process 45 (x) sco"}, &counts)
          .empty());
  EXPECT_EQ(counts.unread, 1u);
  EXPECT_TRUE(speaks_of_kill("VM: killing process X"));
}

TEST(Wrapping, what_stands_below_a_shortened_line_is_not_its_rest) {
  EXPECT_EQ(victims_in({"[ 2685.752000] Killed process 579 (py)", "", "---", "### by (a) 2009"}),
            Victims{"579 py ?"});
}

TEST(Wrapping, several_sentences_in_one_line_are_as_many) {
  const std::string tag = "Nov  2 06:07:33 host7 kernel: ";
  EXPECT_EQ(victims_in({tag + "Out of Memory: Killed process 148 (perl).<3>Out of Memory: Killed process 198 "
                              "(sh).kernel BUG at swap_state.c:60!"}),
            (Victims{"148 perl ?", "198 sh ?"}));
  EXPECT_EQ(victims_in({"Killed process 192 (trash)Out of memory: kill process 124 (qemu) score 7899 or a "
                        "childKilled process 124 (qemu)Killed process 124 (qemu)"}),
            (Victims{"192 trash ?", "124 qemu ?"}));
  EXPECT_EQ(victims_in({"node3.164b58  OOMKilling   Out of memory: Kill process 167 (stress) score 205 or "
                        "sacrifice child Killed process 167 (stress), UID 0, total-vm:826kB, anon-rss:819kB, "
                        "file-rss:0kB"}),
            (Victims{"167 stress 819"}));
  EXPECT_EQ(victims_in({"<3>Out of Memory: Killed process 106 (portmap), saved process 2165 (mke2fs)."}),
            (Victims{"106 portmap ?"}));
}

TEST(Wrapping, a_name_like_a_sentence_divides_no_line) {
  EXPECT_EQ(victims_in({"[   14.000000] Out of memory: Killed process 7 (Killed process ) total-vm:40kB, "
                        "anon-rss:30kB, file-rss:20kB, shmem-rss:10kB"}),
            (Victims{"7 Killed process  30"}));
}

TEST(Wrapping, in_a_persons_line_is_told_by_what_stands_before) {
  const std::string sentence =
      "Memory cgroup out of memory: Killed process 4481 (stress) total-vm:9kB, anon-rss:8kB";
  for (const char* before :
       {"Warning OOMKilling ", "The log: `oom-kill: ... ", "`global_oom` and `x ", "fs).<3>"})
    EXPECT_EQ(victims_in({"# notes", before + sentence}), Victims{"4481 stress 8"}) << before;
  for (const char* before : {"One may read ", "Of `code` behind: "})
    EXPECT_EQ(victims_in({"# notes", before + sentence}), Victims{}) << before;
}

TEST(Wrapping, in_a_time_of_day_alone_leaves_the_sentence) {
  for (const char* front : {"12:00:52 ", "> > [12:00:52.123] "})
    EXPECT_EQ(victims_in({"# notes", front + std::string("Out of memory: Killed process 7 (a) total-vm:9kB, "
                                                         "anon-rss:8kB, file-rss:7kB")}),
              Victims{"7 a 8"});
}

TEST(Wrapping, a_path_with_a_sentence_in_it_is_no_kill) {
  const std::string sentence = "\"Out of memory: Killed process 1 (init) total-vm:9kB, anon-rss:8kB";
  for (const char* before : {"Task in /a", "process '/tmp/a", "Memory cgroup stats for /a",
                             "sh cpuset=", "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a"})
    EXPECT_EQ(victims_in({"Mem-Info:", before + sentence}), Victims{}) << before;
}

TEST(Wrapping, a_number_that_a_person_took_out_is_not_told_and_its_kill_is) {
  EXPECT_EQ(
      victims_in({"Memory cgroup out of memory: Killed process (vi_plan)", "  total-vm:76kB  anon-rss:27kB"}),
      Victims{"? vi_plan 27"});
  EXPECT_EQ(victims_in({"#   Memory cgroup out of memory: Killed process (llama-server)",
                        "#   anon-rss:488kB  oom_memcg=/lxc/7", "# it went down"}),
            Victims{"? llama-server 488"});
  EXPECT_EQ(victims_in(
                {"[   39.283140] Out of memory: Kill process xxx (beam.smp) score 727 or sacrifice child",
                 "[   39.284751] Killed process xxx (beam.smp) total-vm:100kB, anon-rss:59kB, file-rss:0kB"}),
            Victims{"? beam.smp 59"});
  EXPECT_EQ(victims_in({"[   39.283140] Out of memory: Killed process (a)",
                        "[   39.383140] Out of memory: Killed process (b)"}),
            (Victims{"? a ?", "? b ?"}));
  for (const char* hearsay :
       {"repeated `Out of memory: Killed process (python)` of ~15 GB",
        "Out of memory: Killed process N (COMM) total-vm:9kB, anon-rss:8kB, file-rss:7kB",
        "Killed process <pid> (name) total-vm:9kB, anon-rss:8kB, file-rss:7kB"})
    EXPECT_EQ(victims_in({"# notes", hearsay}), Victims{}) << hearsay;
}

TEST(Wrapping, one_line_alone_makes_no_mail_in_quoted_printable) {
  for (const char* name : {"a=3D0x", "mask=3D0x1"})
    EXPECT_EQ(victims_in({fmt::format("[   14.000000] Out of memory: Killed process 7 ({}) total-vm:40kB, "
                                      "anon-rss:30kB, file-rss:20kB, shmem-rss:10kB",
                                      name)}),
              Victims{fmt::format("7 {} 30", name)});
  EXPECT_FALSE(is_quoted_printable("Task in /oom-kill:constraint=3D killed as a result of limit of /a"));
}

TEST(Wrapping, what_is_shortened_still_tells_of_the_trigger_and_the_scope) {
  auto found = read_all({"[ 2786.519080] mem_on_node0 invoked oom-killer", "[ 2786.885738] x",
                         "[ 2787.216534] oom-kill:constraint=CONSTRAINT_CPUSET",
                         "[ 2787.229991] Out of memory: Killed process 134 (mem_on_node1)"});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.invoked->trigger_comm, "mem_on_node0");
  EXPECT_EQ(found[0].dump.scope(), OomScope::cpuset);
  found = read_all({"The kernel invoked oom-killer", "Out of memory: Killed process 134 (mem)"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].dump.invoked);
}

TEST(Wrapping, a_reaper_alone_belongs_to_the_report_that_lists_the_process) {
  auto lines = report();
  lines.resize(lines.size() - 2);
  lines.insert(lines.begin() + 2, "Task in /train/job7 killed as a result of limit of /train");
  lines.push_back("oom_reaper: reaped process 4515 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB");
  for (std::string& line : lines) line = "[ 3007.160123] " + line;
  auto found = read_all(lines);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.limit_cgroup(), "/train");
  EXPECT_EQ(found[0].dump.reaped.size(), 1u);
}

TEST(Wrapping, a_reaper_of_another_thread_of_the_killed_tells_of_no_other_kill) {
  auto found =
      read_all({"[  365.255581] Killed process 4578 (oom02) total-vm:151kB, anon-rss:131kB, file-rss:1kB, "
                "shmem-rss:0kB",
                "[  365.266829] out_of_memory: Current (4583) has a pending SIGKILL",
                "[  365.282658] oom_reaper: reaped process 4583 (oom02), now anon-rss:1kB, file-rss:0kB, "
                "shmem-rss:0kB",
                "[  365.382658] oom_reaper: reaped process 4590 (other), now anon-rss:1kB, file-rss:0kB, "
                "shmem-rss:0kB"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].dump.reaped.at(0).comm, "other");
}

TEST(Wrapping, by_a_string_of_source_code_leaves_the_report_whole) {
  expect_whole("a sum of strings",
               [](auto n, auto& l) { return "        \"" + stamp(n) + " " + l + "\\n\" +"; });
  expect_whole("a call", [](auto n, auto& l) { return "  send(fd, '" + stamp(n) + " " + l + "\\n', 7);"; });
  expect_whole(
      "an array", [](auto, auto& l) { return "  \"Aug 12 03:54:03 host7 kernel: " + l + "\","; }, {},
      "host7");
  expect_whole("/dev/kmsg",
               [](auto n, auto& l) { return fmt::format("kmsg := `3,{},{},-;{}`", 500 + n, 9000 + n, l); });
  std::string all;
  for (const std::string& line : report()) all += line + "\\n";
  for (const std::string& text :
       {"const log = \"" + all + "\";", "  ('a', '" + stamp(0) + " " + all + "'),"}) {
    auto found = read_all({"def test():", text});
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_EQ(found[0].dump.limit_cgroup(), "/train/job7") << text;
    EXPECT_EQ(found[0].dump.victims.at(0).oom_score_adj, 0) << text;
  }
}

TEST(Wrapping, by_a_string_is_believed_no_more_than_the_line_in_it) {
  const std::string kill = "Out of memory: Killed process 1 (init) total-vm:9kB, anon-rss:8kB, file-rss:7kB";
  for (const std::string& line :
       {"x = \"Aug 12 03:54:03 host7 app[12]: " + kill + "\"",
        "x = \"<30>Aug 12 03:54:03 host7 kernel: " + kill + "\"", "x = 'one\\nwho says " + kill + "'",
        "open '/tmp/a\"[   14.000000] " + kill})
    EXPECT_EQ(victims_in({"# notes", line}), Victims{}) << line;
}

TEST(Wrapping, by_an_array_of_records_costs_no_record) {
  const std::string sizes = " total-vm:9kB, anon-rss:8kB, file-rss:7kB\"";
  EXPECT_EQ(
      victims_in(
          {"[",
           R"(  { "_TRANSPORT": "kernel", "MESSAGE": "Out of memory: Killed process 7 (a))" + sizes + " },",
           R"(  { "_TRANSPORT": "stdout", "MESSAGE": "Out of memory: Killed process 9 (b))" + sizes + " }]"}),
      Victims{"7 a 8"});
}

TEST(Wrapping, with_dots_for_host_and_tag_leaves_the_sentence) {
  EXPECT_EQ(victims_in({"2026-04-24T00:37:45 ... Out of memory: Killed process 317 (cicc)",
                        "2026-04-24T00:38:45 app ... Out of memory: Killed process 318 (cicc)"}),
            Victims{"317 cicc ?"});
}

TEST(Wrapping, a_path_with_a_tag_or_a_prompt_in_it_is_no_kill) {
  const std::string kill = "Out of memory: Killed process 1 (init) total-vm:9kB, anon-rss:8kB, file-rss:7kB";
  for (const char* front : {"Task in /a kernel: ", "Task in /a login: [   14.000000] ",
                            "process '/tmp/a] [   14.000000] ", "Task in /a \"[   14.000000] "})
    EXPECT_EQ(victims_in({"Mem-Info:", front + kill}), Victims{}) << front;
  EXPECT_EQ(victims_in({"/var/log/kern.log kernel: " + kill}), Victims{"1 init 8"});
}

TEST(Wrapping, by_hand_leaves_the_sizes_and_the_name) {
  EXPECT_EQ(victims_in({"record: `Out of memory: Killed process 356 (python) total-vm:36kB, ",
                        "anon-rss:35kB`. It"}),
            Victims{"356 python 35"});
  EXPECT_EQ(victims_in(
                {"| 3 | `Killed process 391 (VLLM::Worker_TP) total-vm:97kB, **anon-rss:59kB (56 GiB)**` |"}),
            Victims{"391 VLLM::Worker_TP 59"});
  EXPECT_EQ(victims_in({"Out of memory: Killed process 273 (abuse), ",
                        "total-vm:13kB, anon-rss:12kB, file-rss:0kB"}),
            Victims{"273 abuse 12"});
  EXPECT_EQ(
      victims_in({"[   14.244552] Memory cgroup out of memory: Killed process 337 (vm) ....", "  ...."}),
      Victims{"337 vm ?"});
  EXPECT_EQ(victims_in({"Out of memory: Killed process 104 total-vm:94kB anon-rss:59kB"}),
            Victims{"104 ? 59"});
  EXPECT_EQ(victims_in({"[   14.244552] Out of memory: Killed process 10"}), Victims{}) << "it may go on";
}

TEST(Wrapping, by_hand_leaves_the_trigger_and_the_scope) {
  auto found = read_all({"| 1 | `cc1 invoked oom-killer: gfp_mask=0x140cca(...)` | the compiler |",
                         "| 2 | `oom-kill: constraint=CONSTRAINT_CPUSET, mems_allowed=0, task=worker` | x |",
                         "| 3 | `Killed process 391 (worker) total-vm:97kB, anon-rss:59kB` | x |"});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.invoked->trigger_comm, "cc1");
  EXPECT_EQ(found[0].dump.scope(), OomScope::cpuset);
  found = read_all({".NET Tiered Com invoked oom-killer: ... oom_score_adj=200",
                    "Out of memory: Killed process 737 (SwarmUI) total-vm:46kB, anon-rss:49kB, ..."});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.invoked->trigger_comm, ".NET Tiered Com");
}

TEST(Wrapping, each_choice_that_stands_alone_is_a_kill) {
  std::vector<std::uint32_t> chosen;
  for (const LoggedOom& oom :
       read_all({"> Out of memory: Kill process 1303 (rpcbind) score 1 or sacrifice", "> child",
                 "> Out of memory: Kill process 1321 (mdadm) score 1 or sacrifice child",
                 "> Out of memory: Kill process 1333 (hald) score 1"}))
    chosen.push_back(oom.dump.chosen.value_or(OomChosen{}).tid);
  EXPECT_EQ(chosen, (std::vector<std::uint32_t>{1303, 1321, 1333}));
}

TEST(Wrapping, who_cites_the_kill_first_and_its_report_below_tells_of_one) {
  auto lines = report();
  std::vector<std::string> cited;
  for (std::size_t i = 0; i < lines.size(); ++i) cited.push_back(stamp(i) + " " + lines[i]);
  std::rotate(cited.begin(), cited.end() - 1, cited.end());
  auto found = read_all(cited);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.invoked->trigger_comm, "python3");
  EXPECT_EQ(found[0].dump.limit_cgroup(), "/train/job7");
  LogCounts counts;
  found = read_all({cited[0], "[13579.000300] sh " + lines[0].substr(8)}, &counts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].dump.invoked) << "what comes later is another's";
  EXPECT_TRUE(counts.ends_in_report);
}

}  // namespace
}  // namespace oomcast
