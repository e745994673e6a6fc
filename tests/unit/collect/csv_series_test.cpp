#include "collect/csv_series.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace oomcast {
namespace {

class CsvFile : public ::testing::Test {
 protected:
  CsvFile() : path_("/tmp/oomcast-csv-" + std::to_string(getpid()) + ".csv") {}
  ~CsvFile() override { std::remove(path_.c_str()); }

  // The rows, or the message of the first error.
  std::string read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    rows_.clear();
    auto series = CsvSeries::open(path_);
    if (!series) return check(series.error());
    for (;;) {
      auto row = series->next();
      if (!row) return check(row.error());
      if (!*row) return "";
      rows_.push_back(**row);
    }
  }
  std::string check(const Error& error) {
    EXPECT_EQ(error.exit_code, 2);
    EXPECT_EQ(error.message.find(path_), 0u) << error.message;
    return error.message.substr(path_.size());
  }

  std::string path_;
  std::vector<CsvRow> rows_;
};

TEST_F(CsvFile, finds_its_columns_by_name) {
  EXPECT_EQ(read("note,limit_bytes,used_bytes,time_s\nx,100,40,0.5\ny,,41,1\nz,max,42,2\n"), "");
  ASSERT_EQ(rows_.size(), 3u);
  EXPECT_EQ(rows_[0].time_s, 0.5);
  EXPECT_EQ(rows_[0].used, Bytes{40});
  EXPECT_EQ(rows_[0].limit, Bytes{100});
  EXPECT_EQ(rows_[1].limit, std::nullopt);
  EXPECT_EQ(rows_[2].limit, std::nullopt);
}

TEST_F(CsvFile, accepts_a_byte_order_mark_crlf_quotes_and_a_last_line_without_end) {
  EXPECT_EQ(read("\xef\xbb\xbftime_s,\"used_bytes\",\"a, b\"\r\n0,\"7\",\"say \"\"hi\"\"\"\r\n\r\n1,8,x"),
            "");
  ASSERT_EQ(rows_.size(), 2u);
  EXPECT_EQ(rows_[0].used, Bytes{7});
  EXPECT_EQ(rows_[1].used, Bytes{8});
}

TEST_F(CsvFile, tells_file_line_and_reason_of_everything_that_is_wrong) {
  EXPECT_EQ(read(""), ":1: the file is empty: a header line with time_s and used_bytes is expected");
  EXPECT_EQ(read("time_s,used_bytes\n"), ":1: there is no sample below the header");
  EXPECT_NE(read("time_s,bytes\n1,2\n").find(":1: column used_bytes is missing"), std::string::npos);
  EXPECT_NE(read("t,used_bytes\n1,2\n").find(":1: column time_s is missing"), std::string::npos);
  EXPECT_NE(read("time_s,pid,rss_bytes\n1,2,3\n").find("uss_bytes is missing"), std::string::npos);
  EXPECT_NE(read("time_s,time_s,used_bytes\n1,1,2\n").find("is there twice"), std::string::npos);
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,many\n"), ":3: used_bytes is 'many', which is no number");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,nan\n"), ":3: used_bytes is 'nan', which is no number");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,inf\n"), ":3: used_bytes is 'inf', which is no number");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\nsoon,2\n"), ":3: time_s is 'soon', which is no number");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,-5\n"), ":3: used_bytes is negative: -5");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,1e30\n"), ":3: used_bytes is more than 2 EiB: 1e30");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1,\n"), ":3: used_bytes is empty");
  EXPECT_EQ(read("time_s,used_bytes\n0,1\n1\n"), ":3: 1 fields, 2 are needed");
  EXPECT_EQ(read("time_s,used_bytes\n5,1\n4,1\n"), ":3: time runs backwards, from 5 to 4");
  EXPECT_EQ(read("time_s,used_bytes\n0,\"1\n"), ":2: a quote is not closed");
  EXPECT_EQ(read("time_s,used_bytes,limit_bytes\n0,1,0\n"), ":2: limit_bytes is 0");
  EXPECT_EQ(read("time_s,pid,uss_bytes\n0,x,1\n"), ":2: pid is 'x', which is no process number");
}

TEST_F(CsvFile, shows_hostile_fields_harmlessly) {
  std::string said = read(std::string("time_s,used_bytes\n0,\x1b[2J\x07") + std::string(1, '\0') + "\n");
  for (char c : said) EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
}

TEST_F(CsvFile, refuses_a_line_without_end) {
  EXPECT_NE(read("time_s,used_bytes\n" + std::string(3 << 20, '1')).find(":2: the line is longer than 1 MiB"),
            std::string::npos);
}

TEST_F(CsvFile, names_a_file_that_is_not_there) {
  auto none = CsvSeries::open("/nonexistent/x.csv");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit_code, 2);
  EXPECT_EQ(none.error().message, "/nonexistent/x.csv: /nonexistent: No such file or directory");
}

}  // namespace
}  // namespace oomcast
