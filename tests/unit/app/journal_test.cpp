#include "app/journal.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/unix_address.h"
#include "fixture_tree.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace test;
using namespace std::chrono_literals;

constexpr ClockMap kClock{};

using Entry = std::multimap<std::string, std::string>;

// As journald reads it. Empty: it is no datagram of the protocol.
Entry parsed(std::string_view bytes) {
  Entry out;
  while (!bytes.empty()) {
    std::size_t end = bytes.find_first_of("=\n");
    if (end == std::string_view::npos) return {};
    std::string name(bytes.substr(0, end));
    std::string value;
    bool binary = bytes[end] == '\n';
    bytes.remove_prefix(end + 1);
    if (binary) {
      std::uint64_t size = 0;
      if (bytes.size() < sizeof(size)) return {};
      memcpy(&size, bytes.data(), sizeof(size));
      bytes.remove_prefix(sizeof(size));
      if (bytes.size() <= size || bytes[size] != '\n') return {};
      value = bytes.substr(0, size);
    } else {
      std::size_t line = bytes.find('\n');
      if (line == std::string_view::npos) return {};
      value = bytes.substr(0, line);
    }
    bytes.remove_prefix(value.size() + 1);
    out.emplace(std::move(name), std::move(value));
  }
  return out;
}

class JournalTest : public ::testing::Test {
 protected:
  void listen() {
    socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    auto at = unix_address(path_);
    ASSERT_TRUE(at);
    ASSERT_EQ(bind(socket_.get(), at->get(), at->length), 0) << strerror(errno);
  }
  std::optional<std::string> datagram() const {
    std::string out(1 << 20, '\0');
    ssize_t n = recv(socket_.get(), out.data(), out.size(), 0);
    if (n < 0) return std::nullopt;
    out.resize(static_cast<std::size_t>(n));
    return out;
  }
  /// Empty: there is none.
  Entry entry() const { return parsed(datagram().value_or("")); }
  static std::string field(const Entry& entry, const std::string& name) {
    auto at = entry.find(name);
    return at == entry.end() ? "" : at->second;
  }
  FixtureTree tree_;
  std::string path_ = tree_.path("socket");
  UniqueFd socket_;
};

OomEvent kill_of(std::string cmdline, std::string path = "/system.slice/train.service") {
  CgroupPtr in = cgroup(10, std::move(path));
  OomEvent kill = known_oom(process(4301, "python3", {"python3", cmdline, "-c", cmdline}, in), in);
  kill.episode.id = "20261201T030000Z-4301";
  return kill;
}

TEST_F(JournalTest, has_of_a_kill_the_text_and_fields_to_search_by) {
  listen();
  Journal journal(path_);
  journal.on(kill_of("train.py"), kClock);
  Entry e = entry();
  std::string message = field(e, "MESSAGE");
  EXPECT_TRUE(message.starts_with("OOM kill: ")) << message;
  EXPECT_NE(message.find("\n    killed    python3[4301]: anon 90.0 MiB"), std::string::npos) << message;
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(field(e, "MESSAGE_ID"), Journal::kKillId);
  EXPECT_EQ(field(e, "PRIORITY"), "3");
  EXPECT_EQ(field(e, "SYSLOG_IDENTIFIER"), "oomcast");
  EXPECT_EQ(field(e, "OOMCAST_EPISODE"), "20261201T030000Z-4301");
  EXPECT_EQ(field(e, "OOMCAST_SCOPE"), "memcg");
  EXPECT_EQ(field(e, "OOMCAST_CGROUP"), "/system.slice/train.service");
  EXPECT_EQ(field(e, "OOMCAST_UNIT"), "train.service");
  EXPECT_EQ(field(e, "OOMCAST_VICTIM"), "python3");
  EXPECT_EQ(field(e, "OOMCAST_VICTIM_PID"), "4301");
  EXPECT_EQ(field(e, "OOMCAST_LIMIT_BYTES"), "104857600");
  EXPECT_EQ(field(e, "OOMCAST_COUNT"), "1");
  EXPECT_EQ(e.count("OOMCAST_CONTAINER"), 0u) << "unknown is absent";
  EXPECT_TRUE(entry().empty()) << "one for each kill";
}

TEST_F(JournalTest, names_container_pod_and_job_of_what_was_killed) {
  listen();
  Journal journal(path_);
  std::string id(64, 'a');
  journal.on(kill_of("x", "/kubepods/burstable/pod12345678-1234-1234-1234-123456789012/" + id), kClock);
  Entry e = entry();
  EXPECT_EQ(field(e, "OOMCAST_CONTAINER"), id);
  EXPECT_EQ(field(e, "OOMCAST_POD"), "12345678-1234-1234-1234-123456789012");
  journal.on(kill_of("x", "/slurm/uid_1000/job_42/step_0"), kClock);
  EXPECT_EQ(field(entry(), "OOMCAST_SLURM_JOB"), "42");
}

TEST_F(JournalTest, has_each_victim_of_a_group_but_not_without_end) {
  listen();
  Journal journal(path_);
  OomEvent kill = kill_of("train.py");
  kill.episode.victims.resize(5000, kill.episode.victims.front());
  for (std::uint32_t pid = 1; Victim & v : kill.episode.victims) v.process.id.tgid = pid++;
  journal.on(kill, kClock);
  auto bytes = datagram();
  ASSERT_TRUE(bytes);
  EXPECT_LT(bytes->size(), 65536u);
  Entry e = parsed(*bytes);
  EXPECT_EQ(field(e, "OOMCAST_COUNT"), "5000");
  EXPECT_EQ(e.count("OOMCAST_VICTIM_PID"), Journal::kMostVictims);
  EXPECT_EQ(field(e, "MESSAGE").size(), Journal::kLongestMessage);
}

TEST_F(JournalTest, has_no_command_lines) {
  listen();
  Journal journal(path_);
  OomEvent kill = kill_of("hunter2");
  kill.episode.grew_from.holders.clear();
  journal.on(kill, kClock);
  AlertFact alert = known_alert(kill.episode.victims.front().process, kill.episode.limit_cgroup);
  for (ActionRun& run : alert.actions) run.what = "curl -H hunter2";
  journal.on(alert, kClock);
  for (int i = 0; i < 2; ++i) {
    auto bytes = datagram();
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->find("hunter2"), std::string::npos) << *bytes;
  }
}

TEST_F(JournalTest, has_an_alert_once_though_it_is_told_again_when_its_action_has_ended) {
  listen();
  Journal journal(path_);
  CgroupPtr job = cgroup(10, "/job");
  AlertFact alert = known_alert(process(1, "a", {}, job), job);
  alert.actions.back().result = ActionRun::Result::running;
  journal.on(alert, kClock);
  Entry e = entry();
  EXPECT_EQ(field(e, "MESSAGE"), "eta<20m: /job grows");
  EXPECT_EQ(field(e, "MESSAGE_ID"), Journal::kAlertId);
  EXPECT_EQ(field(e, "PRIORITY"), "4");
  EXPECT_EQ(field(e, "OOMCAST_RULE"), "eta<20m");
  EXPECT_EQ(field(e, "OOMCAST_CGROUP"), "/job");
  EXPECT_EQ(field(e, "OOMCAST_LIMIT_BYTES"), "104857600");
  alert.actions.back().result = ActionRun::Result::ok;
  journal.on(alert, kClock);
  EXPECT_TRUE(entry().empty());
  journal.on(alert, kClock);
  EXPECT_EQ(field(entry(), "OOMCAST_RULE"), "eta<20m") << "it came true again";
}

TEST_F(JournalTest, has_losses_of_a_reason_once_a_minute_with_their_sum) {
  listen();
  Journal journal(path_);
  MonoTime start = mono_from_ns(5'000'000'000);
  journal.on(LostFact{start, "samples_spared", 3}, kClock);
  Entry e = entry();
  EXPECT_EQ(field(e, "MESSAGE"), "3 samples skipped to spare a busy machine; kills are not affected");
  EXPECT_EQ(field(e, "MESSAGE_ID"), Journal::kLossId);
  EXPECT_EQ(field(e, "OOMCAST_REASON"), "samples_spared");
  EXPECT_EQ(field(e, "OOMCAST_COUNT"), "3");
  for (int i = 1; i <= 10; ++i) journal.on(LostFact{start + i * 1s, "samples_spared", 2}, kClock);
  EXPECT_TRUE(entry().empty());
  journal.on(LostFact{start + 11s, "model_full", 1}, kClock);
  EXPECT_EQ(field(entry(), "OOMCAST_REASON"), "model_full") << "another reason does not wait";
  journal.on(TickFact{start + 60s}, kClock);
  EXPECT_EQ(field(entry(), "OOMCAST_COUNT"), "20");
  journal.on(LostFact{start + 61s, "samples_spared", 7}, kClock);
  EXPECT_TRUE(entry().empty());
  journal.on(EndFact{start + 62s, 1, {}}, kClock);
  EXPECT_EQ(field(entry(), "OOMCAST_COUNT"), "7") << "nothing is left untold at the end";
}

TEST_F(JournalTest, has_hostile_names_as_values_and_never_as_fields) {
  listen();
  Journal journal(path_);
  for (std::string name : hostile_names()) {
    for (std::string hostile : {name, name + "\nPRIORITY=0\nOOMCAST_EPISODE=forged"})
      for (const Fact& fact : hostile_facts(hostile)) journal.on(fact, kClock);
    while (auto bytes = datagram()) {
      Entry e = parsed(*bytes);
      EXPECT_FALSE(e.empty()) << *bytes;
      EXPECT_EQ(e.count("PRIORITY"), 1u) << *bytes;
      EXPECT_NE(field(e, "OOMCAST_EPISODE"), "forged");
    }
  }
  EXPECT_EQ(journal.lost(), 0u);
}

TEST_F(JournalTest, has_ids_and_fields_that_the_manual_names) {
  listen();
  Journal journal(path_);
  std::ifstream file(OOMCAST_TESTS "/../packaging/oomcast.8");
  std::string manual(std::istreambuf_iterator<char>(file), {});
  OomEvent kill = kill_of("x", "/docker/" + std::string(64, 'a') + "/system.slice/a.service");
  journal.on(kill, kClock);
  journal.on(known_alert(kill.episode.victims.front().process, kill.episode.limit_cgroup), kClock);
  journal.on(LostFact{kill.episode.time, "samples_spared", 3}, kClock);
  std::size_t entries = 0;
  for (Entry e = entry(); !e.empty(); e = entry(), ++entries) {
    EXPECT_NE(manual.find(field(e, "MESSAGE_ID") + " of a"), std::string::npos) << field(e, "MESSAGE_ID");
    for (const auto& [name, value] : e) EXPECT_NE(manual.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(entries, 3u);
}

TEST_F(JournalTest, is_noted_once_where_there_is_none) {
  Journal journal(path_);
  for (int i = 0; i < 3; ++i) journal.on(kill_of("x"), kClock);
  auto notice = journal.take_notice();
  ASSERT_TRUE(notice);
  EXPECT_NE(notice->find("no journal at " + path_), std::string::npos) << *notice;
  journal.on(kill_of("x"), kClock);
  EXPECT_EQ(journal.take_notice(), std::nullopt);
  EXPECT_EQ(journal.lost(), 0u);
}

TEST_F(JournalTest, is_not_waited_for_and_counts_what_it_does_not_take) {
  listen();
  Journal journal(path_);
  std::uint64_t sent = 0;
  for (; journal.lost() < 5 && sent < 100'000; ++sent) journal.on(kill_of("x"), kClock);  // would wait
  EXPECT_EQ(journal.lost(), 5u);
  std::uint64_t came = 0;
  while (!entry().empty()) ++came;
  EXPECT_EQ(came + journal.lost(), sent);
}

TEST_F(JournalTest, gets_entries_again_after_it_was_started_again) {
  listen();
  Journal journal(path_);
  journal.on(kill_of("x"), kClock);
  EXPECT_FALSE(entry().empty());
  socket_.reset();
  journal.on(kill_of("x"), kClock);
  EXPECT_EQ(journal.lost(), 1u);
  EXPECT_EQ(journal.take_notice(), std::nullopt);
  std::filesystem::remove(path_);
  listen();
  journal.on(kill_of("x"), kClock);
  EXPECT_FALSE(entry().empty());
  EXPECT_EQ(journal.lost(), 1u);
}

}  // namespace
}  // namespace oomcast
