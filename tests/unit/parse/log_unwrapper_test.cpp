// What keeps a log's lines in records of its own: the text, and the time beside it.
#include "parse/log_unwrapper.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "parse/oom_reports.h"
#include "parse/utf16.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using Strings = std::vector<std::string>;

const std::string kInvoked = "pulse invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
const std::string kKill =
    "Memory cgroup out of memory: Killed process 4515 (pulse) total-vm:60768kB, anon-rss:50688kB, "
    "file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB oom_score_adj:0";
constexpr Nanos kTime = 1763702681s;  // 2025-11-21 05:24:41 UTC

std::vector<LoggedOom> found_in(const std::string& text, LogCounts* counts = nullptr) {
  setenv("TZ", "UTC", 1);
  tzset();
  OomReports reports;
  std::string_view rest = text;
  constexpr std::size_t kPiece = 64 * 1024;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    while (line.size() > kPiece) {
      reports.line(line.substr(0, kPiece), true);
      line.remove_prefix(kPiece);
    }
    reports.line(line, end == std::string_view::npos);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  auto out = reports.finish();
  if (counts) *counts = reports.counts();
  return out;
}

// The kill and the line that announced it, at the time that stands beside them.
void expect_report(const std::string& form, const std::string& text, bool with_trigger = true) {
  auto found = found_in(text);
  ASSERT_EQ(found.size(), 1u) << form << "\n" << text;
  const OomDump& dump = found[0].dump;
  ASSERT_EQ(dump.victims.size(), 1u) << form;
  EXPECT_EQ(dump.victims[0].tid, 4515u) << form;
  EXPECT_EQ(dump.victims[0].comm, "pulse") << form;
  EXPECT_EQ(dump.victims[0].anon_rss, KiB(50688)) << form;
  EXPECT_EQ(dump.victims[0].oom_score_adj, 0) << form;
  if (with_trigger) {
    ASSERT_TRUE(dump.invoked) << form;
    EXPECT_EQ(dump.invoked->trigger_comm, "pulse") << form;
  }
  ASSERT_TRUE(found[0].wall) << form;
  EXPECT_FALSE(found[0].wall->yearless) << form;
  EXPECT_LE(std::chrono::abs(found[0].wall->since_epoch - kTime), 2s) << form;
}

std::string each(const std::function<std::string(const std::string& text)>& wrap) {
  return wrap(kInvoked) + wrap(kKill);
}

TEST(Unwrapping, json_of_any_collector_has_its_text_and_its_time) {
  const std::string iso = R"("2025-11-21T05:24:41.000Z")";
  expect_report("Elasticsearch", R"({"took":5,"hits":{"hits":[)" + each([&](auto& t) {
                                   return R"({"_index":"a","_source":{"@timestamp":)" + iso +
                                          R"(,"message":")" + t + R"("}},)";
                                 }) + "]}}");
  expect_report("Loki", R"({"status":"success","data":{"result":[{"stream":{"job":"journal"},"values":[)" +
                            each([](auto& t) { return R"(["1763702681000000000",")" + t + R"("],)"; }) +
                            "]}]}}");
  expect_report("logcli", each([&](auto& t) {
                  return R"({"labels":{"host":"a1"},"line":")" + t + R"(","timestamp":)" + iso + "}\n";
                }));
  expect_report(
      "OTLP",
      R"({"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"a1"}}]},)"
      R"("scopeLogs":[{"logRecords":[)" +
          each([](auto& t) {
            return R"({"timeUnixNano":"1763702681000000000","observedTimeUnixNano":"1763702999000000000",)"
                   R"("body":{"stringValue":")" +
                   t + R"("}},)";
          }) +
          "]}]}]}");
  expect_report("Splunk", each([&](auto& t) {
                  return R"({"preview":false,"result":{"_time":)" + iso +
                         R"(,"_raw":"Nov 21 05:24:41 pve kernel: )" + t + "\"}}\n";
                }));
  expect_report("Azure", each([&](auto& t) {
                  return R"({"TimeGenerated":)" + iso + R"(,"ProcessName":"kernel","SyslogMessage":")" + t +
                         "\"}\n";
                }));
  expect_report("Azure's columns and rows",
                R"({"tables":[{"columns":[{"name":"TimeGenerated","type":"datetime"}],"rows":[)" +
                    each([&](auto& t) { return "[" + iso + ",\"a1\",\"" + t + "\"],"; }) + "]}]}");
  expect_report("CloudWatch", "{\n  \"events\": [\n" + each([](auto& t) {
                                return "  {\n    \"timestamp\": 1763702681000,\n    \"message\": \"" + t +
                                       "\"\n  },\n";
                              }) + "  ]\n}\n");
  expect_report("docker in docker", each([](auto& t) {
                  return R"({"log":"{\"ts\":\"2025-11-21T05:24:41Z\",\"msg\":\")" + t +
                         R"(\"}\n","time":"2025-11-22T00:00:00Z"})" + "\n";
                }));
  expect_report("unknown names",
                each([&](auto& t) { return R"({"a":{"b":{"c":{"d":")" + t + R"("}}},"x":)" + iso + "}\n"; }));
  expect_report("Python", each([](auto& t) {
                  return "{'time': '2025-11-21 05:24:41', 'message': '" + t + "', 'ok': True}\n";
                }));
}

TEST(Unwrapping, a_json_that_is_cut_at_its_end_or_its_beginning_loses_no_more) {
  const std::string front = "[\n  {\n    \"timestamp\": \"2025-11-21T05:24:41Z\",\n",
                    at = "    \"message\": \"";
  expect_report("in the next member", front + at + kKill + "\",\n    \"reason\": \"OOMK", false);
  expect_report("in the text", front + at + kKill + " and", false);
  expect_report("no beginning",
                "    \"timestamp\": \"2025-11-21T05:24:41Z\",\n" + at + kKill + "\",\n    \"x\": 1\n  }\n]\n",
                false);
  expect_report("text below", front + at + kKill + "\",\n\n$ kubectl get pods\n", false);
  auto found = found_in("    \"message\": \"" + kInvoked + "\",\n    \"message\": \"" + kKill + "\",\n");
  ASSERT_EQ(found.size(), 1u) << "grep message";
  EXPECT_TRUE(found[0].dump.invoked);
}

TEST(Unwrapping, a_text_under_two_names_is_one) {
  expect_report(
      "ECS", each([](auto& t) {
        return R"({"@timestamp":"2025-11-21T05:24:41Z","event":{"original":"<4>Nov 21 05:24:41 pve kernel: )" +
               t + R"("},"message":")" + t + "\"}\n";
      }));
}

TEST(Unwrapping, a_json_longer_than_a_line_may_be_is_read_to_its_end) {
  std::string noise;
  for (int i = 0; i < 4000; ++i)
    noise += R"({"timestamp":"2025-11-21T05:24:40Z","message":"some other line of the same log"},)";
  ASSERT_GT(noise.size(), 4u * 64 * 1024);
  expect_report("one line", "[" + noise + each([](auto& t) {
                              return R"({"timestamp":"2025-11-21T05:24:41Z","message":")" + t + "\"},";
                            }) + "]");
}

TEST(Unwrapping, a_journal_record_is_as_late_as_its_reader_was) {
  auto record = [](const std::string& more) {
    return R"({"_TRANSPORT":"kernel","MESSAGE":")" + kKill + R"(","_BOOT_ID":"b1",)" + more + "}";
  };
  auto found = found_in(record(
      R"("__REALTIME_TIMESTAMP":"1000000000","__MONOTONIC_TIMESTAMP":"7003000","_SOURCE_MONOTONIC_TIMESTAMP":"7000000")"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].wall->since_epoch, 1000s);
  EXPECT_EQ(found[0].wall->error, 3ms);
  EXPECT_EQ(found[0].since_boot, 7s);
  EXPECT_EQ(found[0].boot_id, "b1");
  found = found_in(record(
      R"("__REALTIME_TIMESTAMP":"1000000000","__MONOTONIC_TIMESTAMP":"90000000","_SOURCE_MONOTONIC_TIMESTAMP":"7000000")"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].wall->since_epoch, 917s) << "printed before journald ran";
}

TEST(Unwrapping, bytes_of_a_record_are_its_text) {
  std::string bytes;
  for (char c : kKill) bytes += std::to_string(static_cast<unsigned char>(c)) + ",";
  bytes.pop_back();
  auto found = found_in(R"({"_TRANSPORT":"kernel","MESSAGE":[)" + bytes + "]}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims.at(0).tid, 4515u);
}

TEST(Unwrapping, of_what_user_space_wrote_is_not_believed) {
  for (const char* fields :
       {R"("_TRANSPORT":"syslog","MESSAGE")", R"("_TRANSPORT":"kernel","SYSLOG_FACILITY":"1","MESSAGE")",
        R"("program":"app","message")"}) {
    LogCounts counts;
    EXPECT_TRUE(found_in(std::string("{") + fields + ":\"" + kKill + "\"}", &counts).empty()) << fields;
    EXPECT_EQ(counts.others, 1u) << fields;
  }
}

TEST(Unwrapping, the_year_of_a_bare_stamp_is_the_one_beside_it) {
  expect_report("CloudWatch and syslog", each([](auto& t) {
                  return R"({"timestamp":1763702685000,"message":"Nov 21 05:24:41 ip-10 kernel: )" + t +
                         "\"}\n";
                }));
  expect_report("another zone", each([](auto& t) {
                  return R"({"timestamp":1763702682000,"message":"Nov 21 00:24:41 ip-10 kernel: )" + t +
                         "\"}\n";
                }));
}

TEST(Unwrapping, the_first_line_of_a_report_that_is_cut_there_is_no_kill) {
  LogCounts counts;
  EXPECT_EQ(
      found_in("[ 1.5] " + kInvoked + "\n[ 1.6] " + kKill + "\n[ 9.5] " + kInvoked + "\n", &counts).size(),
      1u);
  EXPECT_TRUE(counts.ends_in_report);
  EXPECT_EQ(found_in("[ 1.5] " + kInvoked + "\n[ 9.5] " + kInvoked + "\n", &counts).size(), 2u)
      << "grep invoked";
  EXPECT_FALSE(counts.ends_in_report);
}

TEST(Unwrapping, dmesg_j_counts_from_boot) {
  auto found = found_in(
      "{\n   \"dmesg\": [\n      {\n         \"pri\": 3,\n         \"time\":   936.655573,\n"
      "         \"msg\": \"" +
      kKill + "\"\n      }\n   ]\n}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].since_boot, 936655573us);
  EXPECT_FALSE(found[0].wall);
}

TEST(Unwrapping, a_table_has_the_time_in_another_cell) {
  expect_report("CSV", "\"labels\",\"Time\",\"Line\"\n" + each([](auto& t) {
                         return R"("{""host"":""pve""}","2025-11-21 05:24:41.000",")" + t + "\"\n";
                       }));
  expect_report("CSV without a head",
                each([](auto& t) { return R"("2025-11-21T05:24:41Z","a1",")" + t + "\"\n"; }));
  expect_report("semicolons",
                "Date;Host;Message\n" + each([](auto& t) { return "21.11.2025 05:24:41;a1;" + t + "\n"; }));
  expect_report("TSV", "time\tmessage\n" + each([](auto& t) { return "1763702681\t" + t + "\n"; }));
  expect_report("commas that nobody quoted",
                "time,host,message\n" + each([](auto& t) { return "2025-11-21T05:24:41Z,a1," + t + "\n"; }));
  expect_report("Markdown", "| time | message |\n|---|---|\n" +
                                each([](auto& t) { return "| 2025-11-21 05:24:41 | `" + t + "` |\n"; }));
  expect_report("psql", "          time          | message\n------------------------+-----\n" +
                            each([](auto& t) { return " 2025-11-21 05:24:41+00 | " + t + "\n"; }));
  expect_report("a cell of several lines",
                "_time,_raw\n\"2025-11-21T05:24:41Z\",\"" + kInvoked + "\n" + kKill + "\"\n");
}

TEST(Unwrapping, yaml_folds_its_text) {
  const std::string item = "items:\n- kind: Event\n  lastTimestamp: \"2025-11-21T05:24:41Z\"\n";
  expect_report("quoted",
                item +
                    "  message: 'Memory cgroup out of memory: Killed process 4515 (pulse) total-vm:60768kB,\n"
                    "    anon-rss:50688kB, file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB\n"
                    "    oom_score_adj:0'\n  reason: OOMKilling\n",
                false);
  expect_report(
      "double",
      item +
          "  message: \"Memory cgroup out of memory: Killed process 4515 (pulse) total-vm:60768kB,\\\n"
          "    \\ anon-rss:50688kB, file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB\\\n"
          "    \\ oom_score_adj:0\"\n",
      false);
  expect_report("the time behind it", "- log: '" + kKill + "'\n  time: 2025-11-21T05:24:41Z\n- log: x y\n",
                false);
  expect_report("a block", "- ts: 2025-11-21T05:24:41Z\n  log: |\n    " + kInvoked + "\n    " + kKill + "\n");
}

TEST(Unwrapping, a_page_is_its_text) {
  auto spaces = [](std::string text) {
    for (std::size_t at; (at = text.find(' ')) != std::string::npos;) text.replace(at, 1, "&nbsp;");
    return text;
  };
  expect_report("spaces by name", "<p>Here:<br>\n" + each([&](auto& t) {
                                    return spaces("2025-11-21T05:24:41Z pve kernel: ") + spaces(t) + "<br>\n";
                                  }));
  expect_report("one line", "<pre>" + each([](auto& t) {
                              return "2025-11-21T05:24:41Z pve kernel: <span class=\"x\">" + t +
                                     "</span><br/>";
                            }) + "</pre>");
  expect_report("a table", "<table><tr><th>Time</th></tr>\n" + each([](auto& t) {
                             return "<tr><td>2025-11-21 05:24:41</td><td>" + t + "</td></tr>\n";
                           }) + "</table>");
}

TEST(Unwrapping, pairs_of_a_line_have_its_time) {
  expect_report("logfmt", each([](auto& t) {
                  return "time=\"2025-11-21T05:24:41Z\" level=warning msg=\"" + t + "\"\n";
                }));
}

TEST(Unwrapping, a_pair_of_several_lines_is_read_line_by_line) {
  auto found = found_in("time=\"2025-11-21T05:24:41Z\" level=warning msg=\"kernel: " + kInvoked +
                        "\\nkernel: " + kKill + "\"\n");
  ASSERT_EQ(found.size(), 1u);
}

TEST(Unwrapping, members_of_a_line_each_are_a_record) {
  expect_report("journalctl -o export", each([](auto& t) {
                  return "__REALTIME_TIMESTAMP=1763702681000000\n_TRANSPORT=kernel\nMESSAGE=" + t + "\n\n";
                }));
  expect_report(
      "journalctl -o verbose", each([](auto& t) {
        return "Fri 2025-11-21 05:24:41.000000 UTC [s=1;i=2]\n    _TRANSPORT=kernel\n    MESSAGE=" + t + "\n";
      }));
}

TEST(Unwrapping, a_collectors_stamp_before_the_logs_own_costs_nothing) {
  expect_report("aws logs tail", each([](auto& t) {
                  return "2025-11-21T05:24:41+00:00 ip-10 Nov 21 05:24:41 ip-10 kernel: " + t + "\n";
                }));
  expect_report("a stamp alone", each([](auto& t) { return "2025-11-21T05:24:41Z " + t + "\n"; }));
}

TEST(Unwrapping, written_newlines_divide_a_line) {
  auto found =
      found_in("output: Nov 21 05:24:41 pve kernel: " + kInvoked + "\\nNov 21 05:24:41 pve kernel: " + kKill);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].dump.invoked);
  EXPECT_EQ(found[0].dump.victims.at(0).anon_rss, KiB(50688));
}

TEST(Unwrapping, strings_that_follow_each_other_are_one) {
  auto found = found_in(
      "  log = (\n    \"May 26 13:17:56 pve4 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,\"\n"
      "    \"nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a b,task_memcg=/a b,\"\n"
      "    \"task=x,pid=7,uid=0\"\n  )\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.limit_cgroup(), "/a b");
}

TEST(Unwrapping, escaped_colours_are_none) {
  auto found = found_in("2025-11-21T05:24:41Z pve kernel: \\u001b[1;31m" + kKill + "\\u001b[0m\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].dump.victims.at(0).oom_score_adj, 0);
}

TEST(Unwrapping, a_name_like_a_record_hides_no_kill) {
  for (const std::string name :
       {"{\"m\":\"x", "[{", "<br>", "a=\"b", "\"a\": \"", "- a: b", "---", "a,time", "|x|"}) {
    std::string kill = kKill;
    kill.replace(kill.find("pulse"), 5, name);
    for (const char* front : {"", "[   12.000000] "}) {
      auto found = found_in(front + std::string("Linux version 6.1.0\n\nCommand line: quiet\n") + front +
                            name + kInvoked.substr(5) + "\n" + front + kill + "\n");
      ASSERT_EQ(found.size(), 1u) << front << name;
      EXPECT_EQ(found[0].dump.victims.at(0).tid, 4515u) << front << name;
      EXPECT_EQ(found[0].dump.victims.at(0).comm, name) << front << name;
    }
  }
}

TEST(Utf16, is_told_by_its_mark_or_its_zeros) {
  const std::string text = "[ 1.5] Out of memory\nJa\xc3\xa4 \xf0\x9f\x92\xa5\n";
  const char16_t* wide = u"[ 1.5] Out of memory\nJa\u00e4 \U0001f4a5\n";
  for (bool big : {false, true})
    for (bool mark : {false, true}) {
      std::string bytes;
      auto put = [&](char16_t unit) {
        char low = static_cast<char>(unit & 0xff), high = static_cast<char>(unit >> 8);
        bytes += big ? high : low;
        bytes += big ? low : high;
      };
      if (mark) put(0xfeff);
      for (const char16_t* at = wide; *at; ++at) put(*at);
      auto decoder = Utf16Decoder::of(bytes);
      ASSERT_TRUE(decoder) << big << mark;
      std::string out;
      for (char c : bytes) decoder->decode({&c, 1}, out);
      EXPECT_EQ(out, text) << big << mark;
    }
  EXPECT_FALSE(Utf16Decoder::of("[ 1.5] Out of memory"));
}

}  // namespace
}  // namespace oomcast
