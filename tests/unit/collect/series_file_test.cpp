#include "collect/series_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace oomcast {
namespace {

class FoundSeries : public ::testing::Test {
 protected:
  FoundSeries() : path_("/tmp/oomcast-found-" + std::to_string(getpid()) + ".txt") {}
  ~FoundSeries() override { std::remove(path_.c_str()); }

  // The points, or the message of the first error behind the file's name.
  std::string read(const std::string& text, const SeriesChoices& choices = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    points_.clear();
    auto file = LineFile::open(path_);
    if (!file) return check(file.error());
    auto series = SeriesFile::open(*std::move(file), choices);
    if (!series) return check(series.error());
    for (;;) {
      auto more = series->next(points_);
      if (!more) return check(more.error());
      if (!*more) break;
    }
    read_as_ = series->read_as();
    return "";
  }
  std::string check(const Error& error) {
    EXPECT_EQ(error.exit_code, 2);
    EXPECT_EQ(error.message.find(path_), 0u) << error.message;
    return error.message.substr(path_.size());
  }

  std::string path_, read_as_;
  std::vector<SeriesPoint> points_;
};

TEST_F(FoundSeries, tells_the_command_that_would_read_it) {
  EXPECT_EQ(read("time,rss\n0,41\n1,43\n"),
            ":1: column used_bytes is missing, and no other is known as memory with its unit; the columns "
            "are: time, rss\n"
            "To read it: oomcast replay " +
                path_ + " --column rss --unit KiB");
}

TEST_F(FoundSeries, tells_file_and_line_of_a_bad_row) {
  EXPECT_EQ(read("time,rss_mb\n0,41\n1,x\n"), ":3: rss_mb is 'x', which is no number");
  EXPECT_EQ(read("time,rss_mb\n0,41\n\"1,2\n"), ":3: a quote is not closed");
}

TEST_F(FoundSeries, reads_a_table_below_many_lines_of_others) {
  std::string text = "Linux 6.1.0 (box)\n\n10:00:00        CPU     %user     %idle\n";
  for (int i = 0; i < 5000; ++i) text += "10:00:01        all      1.00     99.00\n";
  text +=
      "\n10:00:00    kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n"
      "10:00:01         1000      2000      3000     75.00       400       600\n";
  EXPECT_EQ(read(text), "");
  ASSERT_EQ(points_.size(), 1u);
  EXPECT_EQ(points_[0].used, KiB(2000));
}

TEST_F(FoundSeries, reads_what_prometheus_answers_by_time) {
  EXPECT_EQ(read(R"({"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"__name__":"container_memory_rss","pod":"a"},"values":[[1700000000,"50000000"],[1700000030,"NaN"],[1700000060.5,"52000000"]]},
    {"metric":{"pod":"b"},"values":[[1700000000,"60000000"]]}]}})"),
            "");
  ASSERT_EQ(points_.size(), 3u);
  EXPECT_EQ(points_[0].name, "pod=a");
  EXPECT_EQ(points_[1].name, "pod=b");
  EXPECT_EQ(points_[2].time_s, 1700000060.5);
  EXPECT_EQ(points_[2].used, Bytes{52000000});
  EXPECT_NE(read_as_.find("of 2 series"), std::string::npos) << read_as_;
}

TEST_F(FoundSeries, asks_for_the_unit_of_small_values) {
  EXPECT_NE(read(R"({"data":{"result":[{"metric":{},"values":[[1,"5"],[2,"6"]]}]}})").find("--unit B"),
            std::string::npos);
}

TEST_F(FoundSeries, reads_a_list_of_objects_and_lines_of_them) {
  EXPECT_EQ(read("[{\"time\": 1, \"rss_mb\": 5}, {\"time\": 2, \"rss_mb\": 6}]"), "");
  EXPECT_EQ(points_.size(), 2u);
  EXPECT_EQ(read("{\"time\": 1, \"rss_mb\": 5}\n{\"time\": 2, \"rss_mb\": 6}\n"), "");
  EXPECT_EQ(points_.size(), 2u);
  EXPECT_EQ(points_.back().used, MiB(6));
}

TEST_F(FoundSeries, names_what_makes_text_of_other_files) {
  EXPECT_NE(read(std::string("\xff\xfet\0i\0", 6)).find("iconv -f UTF-16"), std::string::npos);
  EXPECT_NE(read("\x1f\x8b\x08").find("zcat"), std::string::npos);
}

TEST_F(FoundSeries, shows_hostile_names_harmlessly) {
  std::string said = read("time,\x1b[2J\x07rss\n0,\x1b[1m\n1,3\n");
  EXPECT_FALSE(said.empty());
  for (char c : said) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20u || c == '\n');
}

TEST_F(FoundSeries, ends_with_deep_nesting_and_with_lines_of_slashes) {
  EXPECT_FALSE(read("{\"a\":" + std::string(200'000, '[')).empty());
  std::string deep = std::string(150'000, '[') + std::string(150'000, ']');
  EXPECT_FALSE(read("[{\"a\": " + deep + "}]").empty());
  EXPECT_FALSE(read("{\"hits\": {\"hits\": [{\"_source\": {\"a\": " + deep + "}}]}}").empty());
  EXPECT_FALSE(read(std::string(900'000, '/') + "\n" + std::string(900'000, '=')).empty());
}

TEST_F(FoundSeries, reads_sadf_as_json) {
  std::string text =
      "{\"sysstat\": {\n\t\"hosts\": [\n\t\t{\n\t\t\t\"nodename\": \"h\",\n\t\t\t\"statistics\": [\n";
  for (int at = 0; at < 3; ++at)
    text += (at ? ",\n" : "") +
            ("\t\t\t\t{\n\t\t\t\t\t\"timestamp\": {\"date\": \"2024-05-01\", \"time\": \"00:0" +
             std::to_string(at) +
             ":01\", \"utc\": 1, \"interval\": 60},\n\t\t\t\t\t\"memory\": {\"memfree\": 3000, \"avail\": " +
             std::to_string(2000 - at) +
             ", \"memused\": 3000, \"memused-percent\": 50.00, \"buffers\": 0, \"cached\": 7}\n\t\t\t\t}");
  ASSERT_EQ(read(text + "\n\t\t\t]\n\t\t}\n\t]\n}}\n"), "");
  ASSERT_EQ(points_.size(), 3u);
  EXPECT_EQ(points_[2].used, KiB(4002));
  EXPECT_EQ(points_[2].limit, KiB(6000));
  EXPECT_EQ(points_[2].time_s - points_[0].time_s, 120);
  EXPECT_NE(read_as_.find("sar -r"), std::string::npos);
}

TEST_F(FoundSeries, turns_a_list_that_has_the_newest_first) {
  ASSERT_EQ(read("[{\"@timestamp\": \"2024-05-01T10:00:05Z\", \"memory_mb\": 101},\n"
                 " {\"@timestamp\": \"2024-05-01T10:00:00Z\", \"memory_mb\": 100}]\n"),
            "");
  ASSERT_EQ(points_.size(), 2u);
  EXPECT_EQ(points_[0].used, MiB(100));
  EXPECT_EQ(points_[1].used, MiB(101));
}

TEST_F(FoundSeries, reads_the_hits_of_a_search) {
  ASSERT_EQ(read("{\"took\": 3, \"_shards\": {\"total\": 1, \"failed\": 0}, \"hits\": {\"hits\": [\n"
                 "{\"_source\": {\"@timestamp\": \"2024-05-01T10:00:00Z\", \"memory_mb\": 100}},\n"
                 "{\"_source\": {\"@timestamp\": \"2024-05-01T10:00:05Z\", \"memory_mb\": 101}}]}}\n"),
            "");
  ASSERT_EQ(points_.size(), 2u);
  EXPECT_EQ(points_[1].used, MiB(101));
}

TEST_F(FoundSeries, names_the_command_that_reads_a_table_with_its_newest_line_first) {
  ASSERT_EQ(read("time,rss_mb\n1,7\n"), "");
  auto file = LineFile::open(path_);
  auto series = SeriesFile::open(*std::move(file), {});
  ASSERT_TRUE(series);
  std::string told = series->runs_backwards(5, 4).message;
  EXPECT_NE(told.find("time runs backwards, from 5 to 4"), std::string::npos) << told;
  EXPECT_NE(told.find("(head -n 1 " + path_ + "; tail -n +2 " + path_ + " | tac) | oomcast replay -"),
            std::string::npos)
      << told;
}

}  // namespace
}  // namespace oomcast
