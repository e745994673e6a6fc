#include "parse/text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace oomcast
