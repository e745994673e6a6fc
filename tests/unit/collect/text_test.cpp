#include "collect/text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "fixture_tree.h"

namespace oomcast {
namespace {

TEST(Text, a_number_is_digits_only_and_must_fit) {
  EXPECT_EQ(parse_u64("18446744073709551615"), 18446744073709551615u);
  for (auto bad : {"", " 1", "1 ", "+1", "-1", "0x10", "1.5", "18446744073709551616"})
    EXPECT_FALSE(parse_u64(bad)) << bad;
  EXPECT_EQ(parse_bytes("9223372036854775807"), Bytes{9223372036854775807});
  EXPECT_FALSE(parse_bytes("9223372036854775808"));
  EXPECT_FALSE(parse_u32("4294967296"));
}

TEST(Text, kilobytes_need_their_unit_and_must_fit_as_bytes) {
  EXPECT_EQ(parse_kib("1708 kB"), KiB(1708));
  EXPECT_EQ(parse_kib("9007199254740991 kB"), KiB(9007199254740991));
  for (auto bad : {"1708", "1708 MB", "1708 kB x", "9007199254740992 kB", "kB"})
    EXPECT_FALSE(parse_kib(bad)) << bad;
}

TEST(Text, a_key_is_matched_whole) {
  constexpr std::string_view text = "oom_kill_disable 1\nunder_oom 0\noom_kill 3\nVmRSS:\t  12 kB\n";
  EXPECT_EQ(find_value(text, "oom_kill"), "3");
  EXPECT_EQ(find_value(text, "VmRSS"), "12 kB");
  EXPECT_EQ(find_value(text, "oom"), std::nullopt);
}

TEST(Text, a_read_stops_at_its_bound) {
  FixtureTree tree;
  tree.write("big", std::string(10000, 'x'));
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), 5000)->size(), 5000u);
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), 20000)->size(), 10000u);
  std::array<char, 8> buffer;
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), buffer), "xxxxxxxx");
}

TEST(Text, a_read_follows_no_symlink_and_does_not_hang_on_a_fifo) {
  FixtureTree tree;
  tree.write("secret", "x");
  tree.link("alias", "secret");
  EXPECT_FALSE(read_file_at(AT_FDCWD, tree.path("alias").c_str(), 10));
  ASSERT_EQ(::mkfifo(tree.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("fifo").c_str(), 10), "");
}

}  // namespace
}  // namespace oomcast
