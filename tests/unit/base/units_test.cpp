#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace oomcast {
namespace {

constexpr std::int64_t kDay = 86'400'000'000'000;

TEST(ParseSize, takes_every_way_to_write_a_binary_unit) {
  for (auto [text, bytes] : std::initializer_list<std::pair<const char*, std::int64_t>>{{"0", 0},
                                                                                        {"4096", 4096},
                                                                                        {"1B", 1},
                                                                                        {"7b", 7},
                                                                                        {"1k", 1 << 10},
                                                                                        {"1K", 1 << 10},
                                                                                        {"1KB", 1 << 10},
                                                                                        {"512M", 512 << 20},
                                                                                        {"512m", 512 << 20},
                                                                                        {"512MB", 512 << 20},
                                                                                        {"512MiB", 512 << 20},
                                                                                        {"512Mi", 512 << 20},
                                                                                        {"1.5G", 3ll << 29},
                                                                                        {"32GiB", 32ll << 30},
                                                                                        {"2T", 2ll << 40},
                                                                                        {"3P", 3ll << 50}}) {
    auto size = parse_size(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.error().message;
    EXPECT_EQ(size->count, bytes) << text;
  }
}

TEST(ParseSize, refuses_what_is_no_size_and_names_it) {
  for (const char* text :
       {"",     " ",    "M",   "-1",  "-1M", "+1M",      "1 M", " 1M", "1M ",  "1X",   "1MM", "1MiBs",
        "1.M.", "0x10", "1e3", "nan", "inf", "infinity", "max", ".5M", "1,5G", "1M1K", "1\n"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << "'" << text << "' was read as " << size->count;
    EXPECT_EQ(size.error().exit_code, 2);
    EXPECT_NE(size.error().message.find("'" + std::string(text) + "'"), std::string::npos)
        << size.error().message;
  }
}

TEST(ParseSize, ends_at_two_to_the_62) {
  ASSERT_TRUE(parse_size("4096P").ok());
  EXPECT_EQ(parse_size("4096P")->count, std::int64_t{1} << 62);
  for (const char* text : {"4097P", "8192P", "99999999999999999999",
                           "1"
                           "000000000000000000000000000000P"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.error().exit_code, 2);
  }
  EXPECT_FALSE(parse_size(std::string(400, '9')).ok()) << "more than a double holds";
}

TEST(ParseDuration, takes_units_and_sums_of_them) {
  for (auto [text, ns] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"500ms", 500'000'000},
                                                                   {"10", 10'000'000'000},
                                                                   {"10s", 10'000'000'000},
                                                                   {"0.5s", 500'000'000},
                                                                   {"5m", 300'000'000'000},
                                                                   {"5min", 300'000'000'000},
                                                                   {"2h", kDay / 12},
                                                                   {"3d", 3 * kDay},
                                                                   {"1m30s", 90'000'000'000},
                                                                   {"10000d", 10000 * kDay}}) {
    auto duration = parse_duration(text);
    ASSERT_TRUE(duration.ok()) << text << ": " << duration.error().message;
    EXPECT_EQ(duration->count(), ns) << text;
  }
}

TEST(ParseDuration, refuses_what_is_no_duration_and_names_it) {
  for (const char* text : {"",
                           "0",
                           "0s",
                           "-1s",
                           "+1s",
                           "s",
                           "1 s",
                           "1x",
                           "1S",
                           "ms",
                           "1m30x",
                           "1s30",
                           "1h30",
                           "1m-30s",
                           "soon",
                           "10001d",
                           "9999999999999999d",
                           "nan",
                           "inf",
                           "1e3s"}) {
    auto duration = parse_duration(text);
    ASSERT_FALSE(duration.ok()) << "'" << text << "' was read as " << duration->count();
    EXPECT_EQ(duration.error().exit_code, 2);
    EXPECT_NE(duration.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(ParseDuration, refuses_what_is_less_than_a_nanosecond) {
  EXPECT_EQ(parse_duration("0.000001ms")->count(), 1);
  for (const char* text : {"0.0000000001s", "0.0000001ms"}) EXPECT_FALSE(parse_duration(text).ok()) << text;
}

TEST(FormatSize, has_three_significant_figures) {
  EXPECT_EQ(format_size({0}), "0 B");
  EXPECT_EQ(format_size({1}), "1 B");
  EXPECT_EQ(format_size({1023}), "1023 B");
  EXPECT_EQ(format_size(KiB(1)), "1.00 KiB");
  EXPECT_EQ(format_size(MiB(512)), "512 MiB");
  EXPECT_EQ(format_size(MiB(1536)), "1.50 GiB");
  EXPECT_EQ(format_size(MiB(20) + KiB(103)), "20.1 MiB");
  EXPECT_EQ(format_size(GiB(1) - Bytes{1}), "1.00 GiB");
  EXPECT_EQ(format_size(-KiB(3)), "-3.00 KiB");
}

TEST(FormatSize, shows_the_ends_of_the_range) {
  EXPECT_EQ(format_size({std::numeric_limits<std::int64_t>::max()}), "8.00 EiB");
  EXPECT_EQ(format_size({std::numeric_limits<std::int64_t>::min()}), "-8.00 EiB");
}

TEST(FormatRate, always_has_its_sign) {
  EXPECT_EQ(format_rate({20.1 * (1 << 20)}), "+20.1 MiB/s");
  EXPECT_EQ(format_rate({-3.0 * 1024}), "-3.00 KiB/s");
  EXPECT_EQ(format_rate({0}), "+0 B/s");
  EXPECT_EQ(format_rate({-0.4}), "+0 B/s") << "what rounds to nothing does not shrink";
}

TEST(FormatDuration, has_the_two_units_that_matter) {
  for (auto [seconds, text] :
       std::initializer_list<std::pair<double, const char*>>{{0, "0 ms"},
                                                             {0.25, "250 ms"},
                                                             {0.9994, "999 ms"},
                                                             {0.9996, "1.0 s"},
                                                             {9.94, "9.9 s"},
                                                             {13, "13 s"},
                                                             {59.6, "1 min 00 s"},
                                                             {250, "4 min 10 s"},
                                                             {3599.6, "1 h 00 min"},
                                                             {7500, "2 h 05 min"},
                                                             {86399.9, "1 d 0 h"},
                                                             {8 * 86400 + 3 * 3600, "8 d 3 h"},
                                                             {-13, "-13 s"}})
    EXPECT_EQ(format_duration(Seconds(seconds)), text) << seconds;
}

TEST(FormatRfc3339, has_nanoseconds_and_is_utc) {
  EXPECT_EQ(format_rfc3339(WallTime(Nanos(0))), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(format_rfc3339(WallTime(Nanos(1'795'227'784'123'456'789))), "2026-11-21T02:23:04.123456789Z");
  EXPECT_EQ(format_rfc3339(WallTime(Nanos(-1))), "1969-12-31T23:59:59.999999999Z");
}

}  // namespace
}  // namespace oomcast
