#include "app/kernel_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/clock.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// A log whose records are written here: packets, one for each read, as of /dev/kmsg.
struct Log {
  UniqueFd ours;
  std::optional<KernelLog> log;
  std::uint64_t seq = 0;
  std::vector<std::uint32_t> victims;

  Log() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) != 0) ADD_FAILURE();
    ours.reset(ends[0]);
    log.emplace(KmsgReader(UniqueFd(ends[1])));
  }
  void say(const std::string& text, int facility = 0) {
    std::string record =
        std::to_string(facility * 8 + 3) + "," + std::to_string(seq++) + ",1000000,-;" + text;
    ASSERT_EQ(write(ours.get(), record.data(), record.size()), static_cast<ssize_t>(record.size()));
  }
  KernelLog::Read read() {
    return log->read([this](std::uint32_t tid) { victims.push_back(tid); });
  }
};

std::string killed(std::uint32_t tid) {
  return "Memory cgroup out of memory: Killed process " + std::to_string(tid) +
         " (grow) total-vm:66000kB, anon-rss:60000kB, file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:160kB "
         "oom_score_adj:0\n";
}

TEST(KernelLog, tells_of_a_victim_as_it_is_read_and_of_its_report_when_that_has_settled) {
  Log l;
  l.say(killed(4312));
  l.say(killed(4313), 1);  // a user's
  EXPECT_TRUE(l.read().any);
  EXPECT_EQ(l.victims, std::vector<std::uint32_t>{4312});
  EXPECT_TRUE(l.log->take(mono_now(), {}).empty()) << "more may come of it";
  auto reports = l.log->take(mono_now() + 1s, {});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].victims[0].tid, 4312u);
  EXPECT_TRUE(l.log->take(mono_now() + 2s, {}).empty()) << "each report once";
}

TEST(KernelLog, hands_over_a_report_early_if_its_victim_cannot_wait) {
  Log l;
  l.say(killed(4312));
  l.say(killed(4313));
  l.read();
  auto reports = l.log->take(mono_now(), {4313});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].victims[0].tid, 4313u);
  EXPECT_EQ(l.log->take_all().size(), 1u) << "the other is there at the end";
}

TEST(KernelLog, counts_the_records_that_are_missing_between_two) {
  Log l;
  l.say("one\n");
  l.seq += 3;
  l.say("two\n");
  EXPECT_EQ(l.read().overwritten, 3u);
}

TEST(KernelLog, says_once_until_when_all_was_read) {
  Log l;
  MonoTime before = mono_now();
  EXPECT_FALSE(l.read().any);
  auto until = l.log->take_read_until();
  ASSERT_TRUE(until);
  EXPECT_GE(*until, before);
  EXPECT_FALSE(l.log->take_read_until());
}

}  // namespace
}  // namespace oomcast
