#include "parse/series_cells.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

TEST(SeriesCells, amounts_have_a_unit_or_none) {
  auto bytes = [](std::string_view text) {
    auto amount = parse_amount(text, true);
    return amount ? amount->number * (amount->unit ? amount->unit->bytes : 1) : -1;
  };
  EXPECT_EQ(bytes(" 123 MiB"), 123 << 20);
  EXPECT_EQ(bytes("\"1.5 GiB\""), 1536 << 20);
  EXPECT_EQ(bytes("5,5Ki"), 5632);
  EXPECT_EQ(bytes("7kB"), 7168);
  EXPECT_EQ(bytes("12"), 12);
  for (const char* text : {"", "nan", "inf", "12 apples", "1.2.3", "MiB", "0x10"})
    EXPECT_EQ(bytes(text), -1) << text;
}

TEST(SeriesCells, one_moment_in_every_spelling) {
  constexpr double kMoment = 1709287200;  // 2024-03-01 10:00:00 UTC
  for (const char* text :
       {"2024-03-01T10:00:00Z", "2024-03-01 10:00:00 UTC", "2024-03-01T11:00:00+01:00",
        "2024/03/01 10:00:00 UTC", "Fri Mar  1 10:00:00 UTC 2024", "Fri, 01 Mar 2024 10:00:00 +0000",
        "Fri 01 Mar 2024 10:00:00 AM UTC", "1709287200", "1709287200000", "1709287200000000000"}) {
    auto stamp = parse_stamp(text);
    ASSERT_TRUE(stamp) << text;
    EXPECT_EQ(stamp->seconds, kMoment) << text;
  }
  EXPECT_EQ(parse_stamp("01:02:03.5 PM")->seconds, 46923.5);
  EXPECT_EQ(parse_stamp("12.5")->kind, StampKind::number);
  for (const char* text : {"", "soon", "25:00", "2024-13-01 10:00:00", "1.2.3", "10:00:00 apples", "Mar 1"})
    EXPECT_FALSE(parse_stamp(text)) << text;
}

TEST(SeriesCells, a_stamp_is_taken_off_a_line) {
  auto rest_of = [](std::string_view line) { return take_stamp(line) ? std::string(line) : "none"; };
  EXPECT_EQ(rest_of("[2024-03-01 10:00:00,123] rss=1"), "rss=1");
  EXPECT_EQ(rest_of("Fri Mar  1 10:00:00 UTC 2024 web 1"), "web 1");
  EXPECT_EQ(rest_of("Mar  1 10:00:00 web 1"), "web 1");
  EXPECT_EQ(rest_of("1709287200.5 web"), "web");
  EXPECT_EQ(rest_of("12 web"), "none");
}

}  // namespace
}  // namespace oomcast
