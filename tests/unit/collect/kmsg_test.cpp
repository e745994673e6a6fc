#include "collect/kmsg.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace oomcast {
namespace {

using std::chrono::microseconds;

TEST(KmsgRecord, splits_prefix_and_text) {
  auto record = parse_kmsg_record("3,424,802125296,-;Memory cgroup out of memory\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->level, 3);
  EXPECT_TRUE(record->from_kernel());
  EXPECT_EQ(record->seq, 424u);
  EXPECT_EQ(record->since_boot, microseconds(802125296));
  EXPECT_FALSE(record->continuation);
  EXPECT_FALSE(record->caller);
  EXPECT_EQ(record->text, "Memory cgroup out of memory");
  EXPECT_FALSE(record->cut);
}

TEST(KmsgRecord, names_the_caller_and_ignores_fields_it_does_not_know) {
  auto record = parse_kmsg_record("6,1,2,c,caller=T9185,new=1;text\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->caller, "T9185");
  EXPECT_TRUE(record->continuation);
  EXPECT_EQ(record->text, "text");
}

TEST(KmsgRecord, leaves_the_dictionary_out_of_the_text) {
  auto record =
      parse_kmsg_record("6,339,5140900,-;NET: Registered\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->text, "NET: Registered");
}

TEST(KmsgRecord, decodes_escaped_bytes_and_keeps_broken_escapes) {
  auto record = parse_kmsg_record("6,1,2,-;a\\x0ab\\x5c\\xff;\\xg1\\x1\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->text, "a\nb\\\xff;\\xg1\\x1");
}

TEST(KmsgRecord, knows_what_user_space_wrote) {
  auto record = parse_kmsg_record("12,1,2,-;Out of memory: Killed process 1 (init)\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->level, 4);
  EXPECT_EQ(record->facility, 1);
  EXPECT_FALSE(record->from_kernel());
  EXPECT_FALSE(parse_kmsg_record("2048,1,2,-;x\n")->from_kernel());  // facility 256 does not wrap to 0
}

TEST(KmsgRecord, is_not_read_from_a_cut_prefix) {
  std::string raw = "6,385,802125134,-,caller=T1;text\n";
  for (std::size_t n = 0; n <= raw.find(';'); ++n) EXPECT_FALSE(parse_kmsg_record(raw.substr(0, n))) << n;
  EXPECT_TRUE(parse_kmsg_record(raw.substr(0, raw.size() - 1))->cut);
}

TEST(KmsgRecord, is_not_read_from_numbers_that_do_not_fit) {
  EXPECT_FALSE(parse_kmsg_record("6,1,99999999999999999999,-;x\n"));
  EXPECT_FALSE(parse_kmsg_record("6,1,18446744073709551615,-;x\n"));
  EXPECT_FALSE(parse_kmsg_record("-6,1,1,-;x\n"));
}

// What the pretended device answers next: a record, or an errno value.
struct Answer {
  int error = 0;
  std::string text;
};
std::deque<Answer>* answers = nullptr;

ssize_t pretended_read(int, void* buffer, std::size_t size) {
  Answer next = answers->empty() ? Answer{EAGAIN, ""} : answers->front();
  if (!answers->empty()) answers->pop_front();
  if (next.error) return errno = next.error, -1;
  EXPECT_LE(next.text.size(), size);
  std::memcpy(buffer, next.text.data(), next.text.size());
  return static_cast<ssize_t>(next.text.size());
}

struct Reading {
  KmsgDrain drain;
  std::vector<std::string> texts;
};
Reading read_all(KmsgReader& reader, std::size_t max_records = 4096) {
  Reading out;
  auto drain = reader.drain([&](const KmsgRecord& record) { out.texts.push_back(record.text); }, max_records);
  EXPECT_TRUE(drain.ok());
  if (drain) out.drain = *drain;
  return out;
}

TEST(KmsgReader, hands_over_what_waits_and_does_not_wait_for_more) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
  UniqueFd kernel(ends[0]);
  KmsgReader reader{UniqueFd(ends[1])};
  for (std::string text : {"6,1,1,-;a\n", "6,2,1,-;b\n"})
    ASSERT_EQ(write(kernel.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  Reading reading = read_all(reader);
  EXPECT_EQ(reading.texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(reading.drain.more);
  EXPECT_EQ(read_all(reader).drain.records, 0u);
}

TEST(KmsgReader, counts_what_the_ring_overwrote_and_goes_on) {
  std::deque<Answer> script = {{0, "6,10,1,-;a\n"}, {EPIPE, ""}, {0, "6,25,1,-;b\n"}};
  answers = &script;
  KmsgReader reader(UniqueFd(), pretended_read);
  Reading reading = read_all(reader);
  EXPECT_EQ(reading.texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reading.drain.overruns, 1u);
  EXPECT_EQ(reading.drain.lost, 14u);
}

TEST(KmsgReader, counts_losses_between_two_drains) {
  std::deque<Answer> script = {{0, "6,10,1,-;a\n"}, {EAGAIN, ""}, {EPIPE, ""}, {0, "6,12,1,-;b\n"}};
  answers = &script;
  KmsgReader reader(UniqueFd(), pretended_read);
  EXPECT_EQ(read_all(reader).drain.lost, 0u);
  EXPECT_EQ(read_all(reader).drain.lost, 1u);
}

TEST(KmsgReader, passes_over_records_it_cannot_read) {
  std::deque<Answer> script = {{EINVAL, ""}, {0, "nonsense"}, {EINTR, ""}, {0, "6,12,1,-;b\n"}};
  answers = &script;
  KmsgReader reader(UniqueFd(), pretended_read);
  Reading reading = read_all(reader);
  EXPECT_EQ(reading.texts, (std::vector<std::string>{"b"}));
  EXPECT_EQ(reading.drain.unreadable, 2u);
}

TEST(KmsgReader, stops_at_its_bound_and_says_so) {
  std::deque<Answer> script(10, Answer{0, "6,1,1,-;a\n"});
  answers = &script;
  KmsgReader reader(UniqueFd(), pretended_read);
  Reading reading = read_all(reader, 3);
  EXPECT_EQ(reading.drain.records, 3u);
  EXPECT_TRUE(reading.drain.more);
}

TEST(KmsgReader, reports_a_descriptor_that_fails) {
  std::deque<Answer> script = {{EIO, ""}};
  answers = &script;
  KmsgReader reader(UniqueFd(), pretended_read);
  EXPECT_FALSE(reader.drain([](const KmsgRecord&) {}).ok());
}

TEST(KmsgReader, says_which_log_is_missing) {
  auto reader = KmsgReader::open("/nonexistent/dev/kmsg", KmsgFrom::end);
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().exit_code, 1);
  EXPECT_NE(reader.error().message.find("/nonexistent/dev/kmsg"), std::string::npos);
}

TEST(KmsgReader, says_what_to_do_when_it_is_not_allowed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  std::string path = testing::TempDir() + "oomcast_forbidden_kmsg";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  auto reader = KmsgReader::open(path, KmsgFrom::end);
  unlink(path.c_str());
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().exit_code, 3);
  EXPECT_NE(reader.error().message.find("CAP_SYSLOG"), std::string::npos);
}

}  // namespace
}  // namespace oomcast
