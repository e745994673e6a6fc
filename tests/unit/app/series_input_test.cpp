#include "app/series_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace oomcast {
namespace {

// A line of a cgroup that holds anon, page cache, shared memory and kernel memory.
struct Kinds {
  Bytes anon, file, shmem, kernel;
};

CsvRow row(double time_s, Bytes used) {
  CsvRow out;
  out.time_s = time_s;
  out.used = used;
  return out;
}

CsvRow apart(double time_s, Kinds k) {
  CsvRow out = row(time_s, k.anon + k.file + k.shmem + k.kernel);
  out.anon = k.anon, out.file = k.file, out.shmem = k.shmem, out.kernel = k.kernel;
  return out;
}

CsvRow as_in_v2(double time_s, Kinds k) {
  CsvRow out = apart(time_s, k);
  out.file = k.file + k.shmem;
  return out;
}

TEST(CsvReadings, forecasts_all_that_is_used_where_nothing_more_is_told) {
  Reading r = CsvReadings().of(row(1.5, GiB(4)), GiB(8));
  EXPECT_EQ(r.value, GiB(4));
  EXPECT_EQ(r.limit, GiB(8));
  EXPECT_EQ(r.total, std::nullopt);
  EXPECT_EQ(r.time, MonoTime(std::chrono::milliseconds(1500)));
}

TEST(CsvReadings, leave_out_the_page_cache) {
  Reading r = CsvReadings().of(apart(0, {GiB(2), GiB(5), GiB(1), MiB(100)}), std::nullopt);
  EXPECT_EQ(r.value, GiB(3) + MiB(100));
  EXPECT_EQ(r.total, GiB(8) + MiB(100));
}

TEST(CsvReadings, keep_shared_memory_that_file_bytes_holds) {
  CsvReadings readings;
  for (int i = 0; i < 10; ++i) {
    Kinds k{GiB(2), GiB(5), MiB(50 * i), MiB(100)};
    EXPECT_EQ(readings.of(as_in_v2(i, k), std::nullopt).value, k.anon + k.shmem + k.kernel) << i;
  }
}

TEST(CsvReadings, take_an_empty_field_for_what_it_was) {
  CsvReadings readings;
  readings.of(apart(0, {GiB(4), GiB(8), {}, {}}), std::nullopt);
  CsvRow gap = row(1, GiB(12) + MiB(1));
  EXPECT_EQ(readings.of(gap, std::nullopt).value, GiB(4) + MiB(1));

  CsvReadings pinned;
  CsvRow first = row(0, GiB(12));
  first.pinned = GiB(4);
  EXPECT_EQ(pinned.of(first, std::nullopt).value, GiB(4));
  EXPECT_EQ(pinned.of(gap, std::nullopt).value, GiB(4) + MiB(1));
}

TEST(CsvReadings, do_not_take_cache_from_a_number_that_is_without_it) {
  CsvReadings readings;
  for (int i = 0; i < 50; ++i) {  // free: used leaves the cache out, which swings about it
    CsvRow r = row(i, GiB(4));
    r.anon = GiB(4) - MiB(100);
    r.file = GiB(4) + MiB(std::lround(1000 * std::sin(i)));
    EXPECT_EQ(readings.of(r, std::nullopt).value, GiB(4)) << i;
  }
}

TEST(CsvReadings, tell_when_a_line_changed_what_the_columns_mean) {
  CsvReadings readings;
  CsvRow r = row(0, GiB(4));
  r.file = GiB(3);
  EXPECT_EQ(readings.of(r, std::nullopt).value, GiB(1));
  EXPECT_FALSE(readings.turned());
  r.file = GiB(6);
  EXPECT_EQ(readings.of(r, std::nullopt).value, GiB(4)) << "it cannot be in used_bytes";
  EXPECT_TRUE(readings.turned());
  readings.of(r, std::nullopt);
  EXPECT_FALSE(readings.turned());
}

TEST(CsvReadings, keep_to_one_meaning_when_the_numbers_are_noisy) {
  CsvReadings readings;
  for (int i = 0; i < 200; ++i) {
    Kinds k{MiB(100), MiB(20 * i), MiB(400), {}};
    CsvRow r = apart(i, k);
    *r.used += MiB(std::lround(60 * std::sin(i * 1.7)));
    Bytes off = readings.of(r, std::nullopt).value - (k.anon + k.shmem);
    if (i >= 10) {
      EXPECT_LE(std::abs(off.count), MiB(61).count) << i;
      EXPECT_FALSE(readings.turned()) << i;
    }
  }
}

TEST(CsvReadings, take_pinned_bytes_as_it_stands_and_above_used_bytes_where_it_counts_swap) {
  CsvRow r = row(0, GiB(4));
  r.pinned = GiB(6);
  Reading reading = CsvReadings().of(r, std::nullopt);
  EXPECT_EQ(reading.value, GiB(6));
  EXPECT_EQ(reading.total, GiB(6));
}

TEST(CsvReadings, stay_whole_with_absurd_sizes) {
  CsvRow r = row(0, Bytes{1});
  r.anon = r.file = r.shmem = r.kernel = Bytes{std::int64_t{1} << 62};
  CsvReadings readings;
  EXPECT_GE(readings.of(r, std::nullopt).value, Bytes{});
  EXPECT_GE(readings.of(r, std::nullopt).value, Bytes{});
}

TEST(ProcessSum, is_of_one_moment_with_the_later_of_two_lines) {
  ProcessSum sum;
  CsvRow r;
  auto add = [&](std::uint32_t pid, Bytes uss, std::optional<Bytes> rss) {
    r.pid = pid, r.uss = uss, r.rss = rss;
    return sum.add(r);
  };
  EXPECT_TRUE(add(7, GiB(3), GiB(3)));
  EXPECT_TRUE(add(7, MiB(5), GiB(3)));
  EXPECT_TRUE(add(8, MiB(6), GiB(2)));
  EXPECT_EQ(sum.reading(5, GiB(9)).value, MiB(11));
  EXPECT_EQ(sum.reading(5, GiB(9)).total, GiB(5));
  EXPECT_EQ(sum.reading(5, GiB(9)).limit, GiB(9));
  EXPECT_TRUE(add(9, MiB(1), std::nullopt));
  EXPECT_EQ(sum.reading(5, std::nullopt).total, std::nullopt) << "one of them is not known";
  sum.clear();
  EXPECT_TRUE(sum.empty());
}

TEST(ReadSeries, gives_the_sum_of_a_file_with_a_line_per_process) {
  std::string path = ::testing::TempDir() + "oomcast-processes-" + std::to_string(getpid()) + ".csv";
  std::ofstream(path)
      << "time_s,pid,rss_bytes,uss_bytes\n0,1,100,10\n0,2,100,20\n5,1,100,30\n5,3,100,40\n9,3,100,1\n";
  std::vector<std::int64_t> values;
  auto facts = read_series(
      path, {},
      [&](const Reading& r, Surplus surplus) {
        EXPECT_EQ(surplus, Surplus::shared);
        values.push_back(r.value.count);
      },
      [] {});
  unlink(path.c_str());
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(values, (std::vector<std::int64_t>{30, 70, 1}));
}

class SeriesInputFile : public ::testing::Test {
 protected:
  SeriesInputFile() : path_("/tmp/oomcast-input-" + std::to_string(getpid()) + ".txt") {}
  ~SeriesInputFile() override { std::remove(path_.c_str()); }

  struct All {
    std::vector<SeriesInput::Point> points;
    std::vector<std::string> names;
    std::string error;
    bool whole = false;
  };
  All read(const std::string& text, const SeriesChoices& choices = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    All out;
    auto input = SeriesInput::open(path_, choices);
    if (!input) {
      out.error = input.error().message;
      return out;
    }
    out.whole = input->has_whole();
    for (;;) {
      auto point = input->next();
      if (!point) {
        out.error = point.error().message;
        return out;
      }
      if (!*point) return out;
      out.points.push_back(**point);
      out.names.push_back(input->name((*point)->series));
    }
  }

  std::string path_;
};

TEST_F(SeriesInputFile, gives_the_sum_behind_the_processes_of_a_moment) {
  auto all = read(
      "2024-03-01 10:00:00\n  PID   RSS COMMAND\n   10  1000 a\n   11  2000 b\n"
      "2024-03-01 10:00:05\n  PID   RSS COMMAND\n   10  1500 a\n");
  ASSERT_EQ(all.points.size(), 5u) << all.error;
  EXPECT_TRUE(all.whole);
  EXPECT_EQ(all.names[0], "a");
  EXPECT_EQ(all.points[2].series, SeriesInput::kWhole);
  EXPECT_EQ(all.points[2].reading.value, KiB(3000));
  EXPECT_EQ(all.points[2].time_s, all.points[0].time_s);
  EXPECT_EQ(all.points[4].reading.value, KiB(1500));
}

TEST_F(SeriesInputFile, lets_the_time_begin_again_for_the_next_series_alone) {
  auto all = read("Series;Time;Value\na;0;20000001\na;5;20000001\nb;0;20000001\nb;5;20000001\n");
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.points.size(), 4u);
  EXPECT_EQ(all.points[2].series, 2u);
  all = read("time,rss_mb\n0,1\n5,1\n4,1\n");
  EXPECT_NE(all.error.find(":4: time runs backwards, from 5 to 4"), std::string::npos) << all.error;
}

TEST_F(SeriesInputFile, reads_our_own_columns_as_ever_and_dates_in_them) {
  auto all = read("time_s,used_bytes,limit_bytes\n2024-03-01T10:00:00Z,5,9\n2024-03-01T10:00:07Z,6,9\n");
  ASSERT_EQ(all.points.size(), 2u) << all.error;
  EXPECT_EQ(all.points[1].time_s - all.points[0].time_s, 7);
  EXPECT_EQ(all.points[0].reading.limit, Bytes{9});
}

TEST_F(SeriesInputFile, compares_the_largest_of_several_or_that_of_the_other_file) {
  std::ofstream(path_) << "\"Time\",\"a\",\"b\"\n0,1 GiB,2 GiB\n5,1 GiB,2 GiB\n";
  std::vector<Bytes> values;
  auto take = [&](const Reading& r, Surplus) { values.push_back(r.value); };
  auto facts = read_series(path_, {std::nullopt, std::nullopt, {}, ""}, take, [] {});
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->name, "b");
  facts = read_series(path_, {std::nullopt, std::nullopt, {}, "a"}, take, [] {});
  ASSERT_TRUE(facts);
  EXPECT_EQ(values, (std::vector<Bytes>{GiB(2), GiB(2), GiB(1), GiB(1)}));
}

// Files of these forms that people sent in, where they are.
TEST(FoundCurves, are_read_each) {
  std::filesystem::path folder = std::filesystem::path(OOMCAST_TESTS) / "../../shared/found/raw_series";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto input = SeriesInput::open(entry.path(), {});
    ASSERT_TRUE(input) << entry.path() << ": " << input.error().message;
    std::size_t points = 0;
    for (;; ++points) {
      auto point = input->next();
      ASSERT_TRUE(point) << entry.path() << ": " << point.error().message;
      if (!*point) break;
    }
    EXPECT_GT(points, 20u) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0u);
}

}  // namespace
}  // namespace oomcast
