#include "parse/log_dates.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace oomcast {
namespace {

class LogDates : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
  static std::string utc(std::string_view text) {
    auto date = read_date(text);
    auto stamp = date ? date->stamp() : std::nullopt;
    return stamp ? shown(*stamp) : "none";
  }
  static std::string of_epoch(std::string_view text) {
    auto stamp = read_epoch(text);
    return stamp ? shown(*stamp) : "none";
  }
  static std::string shown(const WallStamp& stamp) {
    std::time_t at = std::chrono::floor<std::chrono::seconds>(stamp.since_epoch).count();
    std::tm t{};
    gmtime_r(&at, &t);
    char out[32];
    return {out, std::strftime(out, sizeof out, "%FT%T", &t)};
  }
};

TEST_F(LogDates, are_told_by_their_order_in_every_form) {
  for (const char* text :
       {"2025-11-21T05:24:41Z", "2025-11-21 05:24:41.000", "2025-11-21T05:24:41.000+0000",
        "2025-11-21 06:24:41 +01:00", "2025/11/21 05:24:41", "11/21/2025, 5:24:41.003 AM",
        "11/21/2025 05:24:41", "21/11/2025 05:24:41", "21.11.2025 05:24:41", "21/Nov/2025:05:24:41 +0000",
        "Nov 21, 2025 @ 05:24:41.000", "Fri, 21 Nov 2025 05:24:41 GMT", "Fri Nov 21 05:24:41 UTC 2025",
        "21-Nov-2025 05:24:41", "2025年11月21日 05:24:41", "金 11月 21 05:24:41 2025",
        "ven. nov. 21 05:24:41 2025", "Пт ноя 21 05:24:41 2025", "2025-11-21T00:24:41-05:00"})
    EXPECT_EQ(utc(text), "2025-11-21T05:24:41") << text;
  EXPECT_EQ(utc("11/21/2025, 12:24:41 AM"), "2025-11-21T00:24:41");
  EXPECT_EQ(utc("11/21/2025, 12:24:41 PM"), "2025-11-21T12:24:41");
}

TEST_F(LogDates, are_nothing_else) {
  for (const char* text :
       {"", "05:24:41", "2025-11-21", "Nov 21", "00:1f.2 0000:00:1f.2", "2025-13-21 05:24:41",
        "2025-11-21 25:24:41", "cpu 11 21 05:24:41 of a lot of words", "10.0.0.1:6665",
        "2025-11-21 05:24:41 host kernel: text"})
    EXPECT_FALSE(read_date(text) && read_date(text)->year) << text;
  ASSERT_TRUE(read_date("Nov 21 05:24:41"));
  EXPECT_FALSE(read_date("Nov 21 05:24:41")->year);
}

TEST_F(LogDates, an_epoch_is_told_by_its_digits) {
  for (const char* text :
       {"1763702681", "1763702681.5", "1763702681000", "1763702681000000", "1763702681000000000"})
    EXPECT_EQ(of_epoch(text), "2025-11-21T05:24:41") << text;
  for (const char* text : {"", "12", "3783517", "99999999999999999999", "1763702681x"})
    EXPECT_EQ(of_epoch(text), "none") << text;
}

}  // namespace
}  // namespace oomcast
