#include "parse/series_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace oomcast {
namespace {

constexpr double kSeriesMiB = 1 << 20, kSeriesKiB = 1 << 10;

struct ReadSeries {
  std::vector<SeriesPoint> points;
  std::string read_as, problem, flags, columns, wrong;
  bool many = false;

  std::vector<double> times() const {
    std::vector<double> out;
    for (const SeriesPoint& p : points) out.push_back(p.time_s);
    return out;
  }
  std::vector<double> used(double unit) const {
    std::vector<double> out;
    for (const SeriesPoint& p : points) out.push_back(p.used.as_double() / unit);
    return out;
  }
  std::vector<double> used_of(const std::string& name, double unit) const {
    std::vector<double> out;
    for (const SeriesPoint& p : points)
      if (p.name == name) out.push_back(p.used.as_double() / unit);
    return out;
  }
};

ReadSeries read_text(const std::string& text, const SeriesChoices& choices = {}) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  ReadSeries out;
  auto guess = SeriesReader::guess(lines, choices, true);
  if (!guess.reader) {
    out.problem = guess.problem.what;
    out.flags = guess.problem.flags;
    for (const std::string& name : guess.problem.columns)
      out.columns += (out.columns.empty() ? "" : " ") + name;
    return out;
  }
  for (const std::string& line : lines) {
    auto wrong = guess.reader->line(line, out.points);
    if (!wrong) continue;
    out.wrong = *wrong;
    break;
  }
  out.read_as = guess.reader->read_as();
  out.many = guess.reader->many();
  return out;
}

bool says(const ReadSeries& read, std::string_view part) {
  return read.read_as.find(part) != std::string::npos;
}

using Values = std::vector<double>;

// ---- tables of known tools

TEST(SeriesReader, reads_sadf_of_old_sysstat_without_what_can_be_dropped) {
  auto read = read_text(
      "# hostname;interval;timestamp;kbmemfree;kbmemused;%memused;kbbuffers;kbcached;kbcommit;%commit\n"
      "box;5;2024-03-01 10:00:00 UTC;1000;3000;75.00;200;800;0;0.00\n"
      "box;5;2024-03-01 10:00:05 UTC;900;3100;77.50;200;850;0;0.00\n"
      "# hostname;interval;timestamp;kbswpfree;kbswpused\n"
      "box;5;2024-03-01 10:00:00 UTC;7;8\n");
  EXPECT_EQ(read.used(kSeriesKiB), (Values{2000, 2050}));
  EXPECT_EQ(read.points.at(1).time_s - read.points.at(0).time_s, 5);
  EXPECT_EQ(read.points.at(0).limit, KiB(4000));
  EXPECT_TRUE(says(read, "sar -r: time in 'timestamp' (date and time)")) << read.read_as;
}

TEST(SeriesReader, reads_sar_of_a_day_with_other_tables_a_restart_and_midnight) {
  auto read = read_text(
      "Linux 6.1.0 (box) \t11/29/2026 \t_x86_64_\t(8 CPU)\n\n"
      "11:58:00 PM     CPU     %user     %idle\n"
      "11:59:00 PM     all      1.00     99.00\n\n"
      "11:58:00 PM kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n"
      "11:59:00 PM      1000      2000      1600     40.00       400      1000\n"
      "12:00:00 AM       900      1900      1700     42.50       400      1000\n"
      "12:00:30 AM  LINUX RESTART\t(8 CPU)\n"
      "Average:          950      1950      1650     41.25       400      1000\n");
  EXPECT_EQ(read.used(kSeriesKiB), (Values{2000, 2100})) << "total 4000 - kbavail";
  EXPECT_EQ(read.times(), (Values{86340, 86400}));
  EXPECT_EQ(read.points.at(0).limit, KiB(4000));
}

TEST(SeriesReader, a_first_row_without_a_figure_makes_no_total_of_nothing) {
  auto read = read_text(
      "11:58:00 PM kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n"
      "11:58:30 PM         ?      2000      1600     40.00       400      1000\n"
      "11:59:00 PM      1000      2000      1600     40.00       400      1000\n"
      "11:59:30 PM       900      1900      1700     42.50       400      1000\n");
  EXPECT_EQ(read.used(kSeriesKiB), (Values{2000, 2100}));
  for (const SeriesPoint& point : read.points) EXPECT_EQ(point.limit, KiB(4000));
}

TEST(SeriesReader, a_date_without_a_year_is_of_no_year_and_goes_on_past_its_end) {
  auto read = read_text(
      "Dec 31 23:59:50 rss=100MiB\nDec 31 23:59:55 rss=101MiB\nJan 1 00:00:00 rss=102MiB\nJan 1 00:00:05 "
      "rss=103MiB\n");
  ASSERT_EQ(read.points.size(), 4u) << read.read_as;
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(read.points[i].time_s - read.points[i - 1].time_s, 5) << i;
  EXPECT_LT(read.points[0].time_s, 367 * 86400.0) << "not since 1970";
  EXPECT_TRUE(says(read, "dates without a year")) << read.read_as;
}

TEST(SeriesReader, reads_sar_in_a_language_that_spells_the_time_out) {
  auto read = read_text(
      "14时40分09秒 kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n"
      "14时40分10秒      1000      1500      3000     75.00       100       400\n"
      "14时40分12秒      1000      1400      3000     75.00       100       400\n"
      "平均时间:      1000      1450      3000     75.00       100       400\n");
  EXPECT_EQ(read.used(kSeriesKiB), (Values{2500, 2600}));
  EXPECT_EQ(read.times(), (Values{52810, 52812}));
}

TEST(SeriesReader, reads_vmstat_with_stamps_as_what_is_lost_since_the_first_row) {
  std::string text =
      "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
      " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
      " 1  0      0   5000    100    900    0    0     0     0  100  200  1  1 98  0  0 2024-03-01 10:00:00\n"
      " 1  0      0   4600    100    900    0    0     0     0  100  200  1  1 98  0  0 2024-03-01 10:00:02\n"
      "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
      " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
      " 1  0      0   4500    100    950    0    0     0     0  100  200  1  1 98  0  0 2024-03-01 "
      "10:00:04\n";
  auto read = read_text(text);
  EXPECT_EQ(read.used(kSeriesKiB), (Values{0, 400, 450}));
  EXPECT_EQ(read.points.at(2).limit, KiB(6000));
  EXPECT_EQ(read.points.at(2).time_s - read.points.at(0).time_s, 4);
  EXPECT_TRUE(says(read, "--limit SIZE does")) << read.read_as;
  SeriesChoices ram;
  ram.limit = KiB(8000);
  EXPECT_EQ(read_text(text, ram).used(kSeriesKiB), (Values{2000, 2400, 2450}))
      << "of the memory that was given";
}

TEST(SeriesReader, asks_how_far_apart_the_rows_of_vmstat_are) {
  std::string text =
      " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
      " 1  0      0   5000    100    900    0    0     0     0  100  200  1  1 98  0  0\n"
      " 1  0      0   4600    100    900    0    0     0     0  100  200  1  1 98  0  0\n";
  auto read = read_text(text);
  EXPECT_NE(read.problem.find("column time_s is missing"), std::string::npos) << read.problem;
  EXPECT_EQ(read.flags, "--time 1s");
  SeriesChoices apart;
  apart.interval = 3;
  EXPECT_EQ(read_text(text, apart).times(), (Values{0, 3}));
}

TEST(SeriesReader, reads_free_in_a_loop_whatever_its_unit) {
  auto loop = [](const char* a, const char* b) {
    return fmt::format(
        "Fri Mar  1 10:00:00 UTC 2024\n"
        "               total        used        free      shared  buff/cache   available\n"
        "Mem:  {}\nSwap:  1 0 1\n"
        "Fri Mar  1 10:00:10 UTC 2024\n"
        "               total        used        free      shared  buff/cache   available\n"
        "Mem:  {}\nSwap:  1 0 1\nFri Mar  1 10:00:20 UTC 2024\n",
        a, b);
  };
  auto mebi = read_text(loop("16001 3001 9001 10 4000 12001", "16001 3101 8901 10 4000 11901"));
  EXPECT_EQ(mebi.used(kSeriesMiB), (Values{4000, 4100}));
  EXPECT_EQ(mebi.points.at(0).limit, MiB(16001));
  EXPECT_EQ(mebi.points.at(1).time_s - mebi.points.at(0).time_s, 10);
  auto kibi = read_text(loop("16384000 3000 9000000 10 40 12288000", "16384000 3000 9000000 10 40 12287000"));
  EXPECT_EQ(kibi.used(kSeriesKiB), (Values{4096000, 4097000}));
  auto bytes = read_text(loop("8589934592 1024 1024 0 0 4294967296", "8589934592 1024 1024 0 0 4294966272"));
  EXPECT_EQ(bytes.used(1), (Values{4294967296, 4294968320}));
  auto human = read_text(loop("15Gi 3,0Gi 9Gi 10Mi 4Gi 12,5Gi", "15Gi 3,0Gi 9Gi 10Mi 4Gi 12Gi"));
  EXPECT_EQ(human.used(kSeriesMiB), (Values{2560, 3072})) << "with a comma, as some languages have it";
}

TEST(SeriesReader, reads_ps_in_a_loop_as_a_series_for_each_process) {
  auto read = read_text(
      "2024-03-01 10:00:00\n"
      "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
      "root           2  0.0  0.0      0     0 ?        S    Mar01   0:00 [kthreadd]\n"
      "ann          700  9.0  1.0 900000 40000 ?        Sl   10:00   0:01 python3 train.py --x 1\n"
      "2024-03-01 10:00:30\n"
      "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
      "ann          700  9.0  1.0 900000 48000 ?        Sl   10:00   0:02 python3 train.py --x 1\n"
      "ann          701  9.0  1.0 900000  8000 ?        Sl   10:00   0:02 sh\n");
  ASSERT_EQ(read.points.size(), 3u) << "kernel threads have no memory";
  EXPECT_EQ(read.points[0].pid, 700u);
  EXPECT_EQ(read.points[0].name, "python3 train.py --x 1");
  EXPECT_EQ(read.points[1].used, KiB(48000));
  EXPECT_EQ(read.points[1].time_s - read.points[0].time_s, 30);
  EXPECT_EQ(read.points[2].time_s, read.points[1].time_s);
}

TEST(SeriesReader, counts_a_moment_where_a_process_comes_again_if_only_the_interval_is_known) {
  SeriesChoices apart;
  apart.interval = 5;
  auto read = read_text(
      "  PID   RSS    VSZ COMMAND\n   10  1000   2000 a\n   11  2000   2000 b\n"
      "  PID   RSS    VSZ COMMAND\n   10  1100   2000 a\n   11  2000   2000 b\n",
      apart);
  EXPECT_EQ(read.times(), (Values{0, 0, 5, 5}));
}

TEST(SeriesReader, reads_docker_stats_as_lines_and_as_a_table) {
  auto lines = read_text(
      "2024-03-01T10:00:00Z web 12.30% 200.0MiB / 512MiB 39.06% 1.2MB / 3MB 0B / 0B 12\n"
      "2024-03-01T10:00:00Z db 1.00% 1GiB / 2GiB 50.00% 1.2MB / 3MB 0B / 0B 12\n"
      "2024-03-01T10:00:05Z web 12.30% 210.0MiB / 512MiB 41.2% 1.2MB / 3MB 0B / 0B 12\n");
  EXPECT_EQ(lines.used_of("web", kSeriesMiB), (Values{200, 210}));
  EXPECT_EQ(lines.used_of("db", kSeriesMiB), (Values{1024}));
  EXPECT_EQ(lines.points.at(0).limit, MiB(512));
  EXPECT_TRUE(lines.many);
  auto table = read_text(
      "Fri 01 Mar 2024 10:00:00 AM UTC\n"
      "\033[2J\033[HCONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O       PIDS\n"
      "88a37faa25b0   my-web    0.27%     1.5GiB / 2GiB         75.00%    1.63kB / 0B   43\n"
      "77a37faa25b0   gone      --        -- / --               --        --            --\n"
      "Fri 01 Mar 2024 10:00:20 AM UTC\n"
      "CONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O       PIDS\n"
      "88a37faa25b0   my-web    0.27%     1.75GiB / 2GiB        75.00%    1.63kB / 0B   43\n");
  EXPECT_EQ(table.used_of("my-web", kSeriesMiB), (Values{1536, 1792}));
  EXPECT_EQ(table.points.size(), 2u);
  EXPECT_EQ(table.points.at(1).time_s - table.points.at(0).time_s, 20);
}

TEST(SeriesReader, tells_the_cards_of_nvidia_smi_apart_by_index_or_by_their_place) {
  auto indexed = read_text(
      "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
      "2024/03/01 10:00:00.100, 0, 100 MiB, 16384 MiB\n2024/03/01 10:00:00.102, 1, [N/A], [N/A]\n"
      "2024/03/01 10:00:01.100, 0, 110 MiB, 16384 MiB\n2024/03/01 10:00:01.102, 1, 7 MiB, 16384 MiB\n");
  EXPECT_EQ(indexed.used_of("GPU 0", kSeriesMiB), (Values{100, 110}));
  EXPECT_EQ(indexed.used_of("GPU 1", kSeriesMiB), (Values{7}));
  EXPECT_EQ(indexed.points.at(0).limit, MiB(16384));
  auto placed = read_text(
      "timestamp, memory.used [MiB], memory.total [MiB]\n"
      "2024/03/01 10:00:00.100, 100 MiB, 16384 MiB\n2024/03/01 10:00:00.102, 900 MiB, 16384 MiB\n"
      "2024/03/01 10:00:01.100, 110 MiB, 16384 MiB\n2024/03/01 10:00:01.103, 901 MiB, 16384 MiB\n");
  EXPECT_EQ(placed.used_of("GPU 0", kSeriesMiB), (Values{100, 110}));
  EXPECT_EQ(placed.used_of("GPU 1", kSeriesMiB), (Values{900, 901}));
  auto one = read_text(
      "timestamp, memory.used [MiB], memory.total [MiB]\n"
      "2024/03/01 10:00:00.100, 100 MiB, 16384 MiB\n2024/03/01 10:00:01.102, 110 MiB, 16384 MiB\n");
  EXPECT_FALSE(one.many);
  auto without_units = read_text(
      "timestamp, memory.used [MiB], memory.total [MiB]\n"
      "2024/03/01 10:00:00.100, 100, 16384\n2024/03/01 10:00:01.102, 110, 16384\n");
  EXPECT_EQ(without_units.used(kSeriesMiB), (Values{100, 110}));
}

TEST(SeriesReader, reads_psrecord_and_takes_uss_where_it_is) {
  auto real = read_text(
      "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
      "       0.000       20.000      500.000     7570.000\n"
      "       5.018       21.000      508.500     7579.000\n");
  EXPECT_EQ(real.used(kSeriesMiB), (Values{500, 508.5}));
  EXPECT_EQ(real.times(), (Values{0, 5.018}));
  auto uss = read_text(
      "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)   USS (MB)  \n"
      "       0.000       20.000      500.000     7570.000      400.000\n");
  EXPECT_EQ(uss.used(kSeriesMiB), (Values{400}));
}

TEST(SeriesReader, reads_mprof_with_children) {
  auto read = read_text(
      "CMDLINE python3 train.py\nMEM 12.500000 1700000000.1000\nCHLD 1 3.000000 1700000000.1010\n"
      "FUNC __main__.f 12.5 1700000000.1 13.0 1700000000.2 0\nMEM 13.500000 1700000000.2000\n");
  EXPECT_EQ(read.used_of("the program", kSeriesMiB), (Values{12.5, 13.5}));
  EXPECT_EQ(read.used_of("child 1", kSeriesMiB), (Values{3}));
}

// ---- tables that say it by their names and figures

TEST(SeriesReader, finds_time_and_memory_of_a_table_by_their_names) {
  auto iso = read_text(
      "timestamp,cpu,rss_mb,vms_mb\n2024-03-01T10:00:00,5,100,900\n2024-03-01T10:00:01,6,101,900\n");
  EXPECT_EQ(iso.used(kSeriesMiB), (Values{100, 101}));
  EXPECT_TRUE(says(iso, "memory in 'rss_mb' (MB = MiB)")) << iso.read_as;
  auto narrow = read_text("timestamp,rss_mb\n2024-03-01T10:00:00,100\n2024-03-01T10:00:01,101\n");
  EXPECT_EQ(narrow.used(kSeriesMiB), (Values{100, 101})) << "100 is no fraction of a second";
  auto millis = read_text("time_ms;memory (GiB);limit (GiB)\n0;1,5;4\n500;1,75;4\n");
  EXPECT_EQ(millis.times(), (Values{0, 0.5}));
  EXPECT_EQ(millis.used(kSeriesMiB), (Values{1536, 1792})) << "a decimal comma between semicolons";
  EXPECT_EQ(millis.points.at(0).limit, MiB(4096));
  auto epoch = read_text("ts\tused_kb\n1700000000123\t2000\n1700000001123\t2001\n");
  EXPECT_EQ(epoch.used(kSeriesKiB), (Values{2000, 2001}));
  EXPECT_NEAR(epoch.points.at(0).time_s, 1700000000.123, 1e-6);
  auto nanos = read_text("time,heap_bytes\n1700000000000000000,7\n1700000002000000000,8\n");
  EXPECT_EQ(nanos.points.at(1).time_s - nanos.points.at(0).time_s, 2);
  auto two = read_text("Date,Time,Memory (MB)\n2024-03-01,10:00:00,7\n2024-03-01,10:01:00,8\n");
  EXPECT_EQ(two.points.at(1).time_s - two.points.at(0).time_s, 60);
}

TEST(SeriesReader, does_not_take_a_clock_that_runs_long_for_an_epoch) {
  auto read =
      read_text("elapsed_ms,used_bytes_\n99999999,7000000\n100000001,7000001\n200000000000,7000002\n", [] {
        SeriesChoices bytes;
        bytes.unit = MemoryUnit{};
        bytes.column = "used_bytes_";
        return bytes;
      }());
  EXPECT_EQ(read.times(), (Values{99999.999, 100000.001, 200000000}));
}

TEST(SeriesReader, reads_each_column_of_grafana_as_a_series) {
  auto read = read_text(
      "\"Time\",\"{pod=\"\"train-0\"\"}\",\"{pod=\"\"cpu-1\"\"}\"\n"
      "2024-03-01 10:00:00,1.50 GiB,200 MiB\n2024-03-01 10:00:15,1.75 GiB,\n");
  EXPECT_EQ(read.used_of("{pod=\"train-0\"}", kSeriesMiB), (Values{1536, 1792}));
  EXPECT_EQ(read.used_of("{pod=\"cpu-1\"}", kSeriesMiB), (Values{200}));
  auto rows = read_text(
      "\"Series\";\"Time\";\"Value\"\nweb;2024-03-01T10:00:00Z;200000001\nweb;2024-03-01T10:00:15Z;"
      "200000002\n"
      "db;2024-03-01T10:00:00Z;300000001\ndb;2024-03-01T10:00:15Z;300000002\n");
  EXPECT_EQ(rows.used_of("db", 1), (Values{300000001, 300000002}));
}

TEST(SeriesReader, takes_the_rss_of_weights_and_biases_and_leaves_shares_out) {
  auto read = read_text(
      "Step,Relative Time (Process),run-1 - system.memory,run-1 - system.proc.memory.rssMB,"
      "run-1 - system.proc.memory.rssMB__MIN,run-1 - system.proc.memory.availableMB\n"
      "0,0.0,30.00,1000.0,1000.0,9000\n1,15.0,30.10,1012.5,1012.5,8000\n");
  EXPECT_EQ(read.used(kSeriesMiB), (Values{1000, 1012.5}));
  EXPECT_EQ(read.times(), (Values{0, 15}));
}

TEST(SeriesReader, reads_lines_of_a_log) {
  auto read = read_text(
      "2024-03-01 10:00:00,123 INFO starting\n"
      "2024-03-01 10:00:01,123 INFO rss=512.5MB vms=900MB\n2024-03-01 10:00:02,123 WARNING rss=513.5MB "
      "vms=900MB\n");
  EXPECT_EQ(read.used(kSeriesMiB), (Values{512.5, 513.5}));
  EXPECT_EQ(read.points.at(1).time_s - read.points.at(0).time_s, 1);
  auto words = read_text("[10:00:00] Memory usage: 12.5 MiB\n[10:00:05] Memory usage: 13 MiB\n");
  EXPECT_EQ(words.used(kSeriesMiB), (Values{12.5, 13}));
  auto psutil = read_text(
      "1700000000.5 svmem(total=8589934592, available=4294967296, percent=50.0, used=1)\n"
      "1700000001.5 svmem(total=8589934592, available=4294963200, percent=50.0, used=1)\n");
  EXPECT_EQ(psutil.used(1), (Values{4294967296, 4294971392}));
  auto json = read_text(
      "{\"ts\": 1700000000, \"mem\": {\"rss_mb\": 7}}\n{\"ts\": 1700000001, \"mem\": {\"rss_mb\": 8.5}}\n");
  EXPECT_EQ(json.used(kSeriesMiB), (Values{7, 8.5}));
}

TEST(SeriesReader, takes_whole_pages_for_bytes_and_asks_for_the_unit_of_other_small_numbers) {
  auto pages = read_text("time,rss\n0,40960\n1,45056\n");
  EXPECT_EQ(pages.used(1), (Values{40960, 45056}));
  auto large = read_text("time,used\n0,100000000\n1,101000000\n");
  EXPECT_EQ(large.used(1), (Values{100000000, 101000000}));
  EXPECT_TRUE(says(large, "(B)")) << large.read_as;
  auto open = read_text("time,rss\n0,40961\n1,45057\n");
  EXPECT_NE(open.problem.find("column used_bytes is missing"), std::string::npos) << open.problem;
  EXPECT_EQ(open.flags, "--column rss --unit KiB");
  EXPECT_EQ(open.columns, "time rss");
  SeriesChoices unit;
  unit.unit = memory_unit("KiB");
  EXPECT_EQ(read_text("time,rss\n0,40961\n1,45057\n", unit).used(kSeriesKiB), (Values{40961, 45057}));
}

TEST(SeriesReader, reads_a_table_without_header_by_the_numbers_of_its_columns) {
  std::string text = "1700000000 40961\n1700000001 45057\n";
  auto open = read_text(text);
  EXPECT_EQ(open.flags, "--column 2 --unit KiB") << open.problem;
  SeriesChoices second;
  second.column = "2";
  second.unit = memory_unit("KiB");
  EXPECT_EQ(read_text(text, second).used(kSeriesKiB), (Values{40961, 45057}));
  auto unit = read_text("2024-03-01 10:00:00,12 MiB\n2024-03-01 10:00:01,13 MiB\n");
  EXPECT_EQ(unit.used(kSeriesMiB), (Values{12, 13}));
}

TEST(SeriesReader, does_not_take_a_table_whose_names_it_does_not_know_for_one_without) {
  auto read =
      read_text("ts,TotalThing,AvailableThing\n1700000000,32000000,20000000\n1700000001,32000000,19000000\n");
  EXPECT_NE(read.problem.find("column used_bytes is missing"), std::string::npos) << read.read_as;
  auto two =
      read_text("2024-03-01 10:00:00, 0, 100 MiB, 8192 MiB\n2024-03-01 10:00:01, 0, 101 MiB, 8192 MiB\n");
  EXPECT_EQ(two.flags, "--column 3") << two.read_as;
}

TEST(SeriesReader, reads_docker_stats_as_json_with_a_stamp_before_it) {
  auto read = read_text(
      "2024-03-01T10:00:00Z {\"CPUPerc\":\"1%\",\"MemUsage\":\"200MiB / "
      "2GiB\",\"Name\":\"web\",\"NetIO\":\"1kB / 0B\"}\n"
      "2024-03-01T10:00:05Z {\"CPUPerc\":\"1%\",\"MemUsage\":\"210MiB / "
      "2GiB\",\"Name\":\"web\",\"NetIO\":\"1kB / 0B\"}\n");
  EXPECT_EQ(read.used_of("web", kSeriesMiB), (Values{200, 210})) << read.read_as << read.problem;
  EXPECT_EQ(read.points.at(1).limit, MiB(2048));
}

TEST(SeriesReader, skips_a_rule_of_dashes_below_a_header) {
  auto read = read_text(
      "Time           RSS(MB)    VSZ(MB)\n--------------------\n10:00:01       7.00      900.00\n10:00:02    "
      "   8.00      900.00\n");
  EXPECT_EQ(read.used(kSeriesMiB), (Values{7, 8})) << read.problem << read.wrong;
}

TEST(SeriesReader, says_what_is_wrong_with_a_row) {
  std::string head = "time,rss_mb\n0,1\n1,2\n";
  EXPECT_EQ(read_text(head + "2,many\n").wrong, "rss_mb is 'many', which is no number");
  EXPECT_EQ(read_text(head + "2,nan\n").wrong, "rss_mb is 'nan', which is no number");
  EXPECT_EQ(read_text(head + "2,-5\n").wrong, "rss_mb is negative: -5");
  EXPECT_EQ(read_text(head + "2,1e30\n").wrong, "rss_mb is more than 2 EiB: 1e30");
  EXPECT_EQ(read_text(head + "soon,5\n").wrong, "time is 'soon', which is no time");
  EXPECT_EQ(read_text(head + "2\n").wrong, "1 fields, 2 are needed");
  EXPECT_EQ(read_text(head + "2,\n3,4\n").used(kSeriesMiB), (Values{1, 2, 4})) << "an empty one is none";
}

TEST(SeriesReader, refuses_what_has_no_memory_in_it) {
  EXPECT_NE(read_text("").problem.find("the file is empty"), std::string::npos);
  EXPECT_NE(read_text("time,cpu\n0,1\n").problem.find("column used_bytes is missing"), std::string::npos);
  EXPECT_FALSE(read_text("Dear all,\nthe job died again, sorry.\n").problem.empty());
  SeriesChoices none;
  none.column = "heap";
  EXPECT_EQ(read_text("time,rss_mb\n0,1\n", none).problem, "there is no column 'heap'");
}

// A line for each value, again and again.
std::string meminfo(int at, bool available, const std::string& date) {
  return date + fmt::format("MemTotal:       16000 kB\nMemFree:         {} kB\n", 3000 - at) +
         (available ? fmt::format("MemAvailable:    {} kB\n", 9000 - at) : "") +
         "Buffers:          100 kB\nCached:          2000 kB\nSwapCached:        17 kB\nActive(anon):  5 "
         "kB\n";
}

TEST(SeriesReader, reads_meminfo_in_a_loop_as_what_is_not_available) {
  std::string text, old, plain;
  for (int at = 0; at < 3; ++at) {
    std::string date = fmt::format("Wed May  1 10:00:0{} UTC 2024\n", at);
    text += meminfo(at, true, date);
    old += meminfo(at, false, date);
    plain += meminfo(at, true, "");
  }
  auto read = read_text(text);
  EXPECT_EQ(read.used(kSeriesKiB), (std::vector<double>{7000, 7001, 7002}));
  EXPECT_EQ(read.points.at(0).limit, KiB(16000));
  EXPECT_EQ(read.points.at(2).time_s - read.points.at(0).time_s, 2);
  EXPECT_EQ(read_text(old).used(kSeriesKiB), (std::vector<double>{10900, 10901, 10902}));
  EXPECT_EQ(read_text(plain).flags, "--time 1s");
  SeriesChoices each;
  each.interval = 2;
  EXPECT_EQ(read_text(plain, each).times(), (std::vector<double>{0, 2, 4}));
}

TEST(SeriesReader, takes_the_lines_of_available_memory_alone_for_what_is_left) {
  auto read = read_text(
      "Wed May  1 10:00:00 UTC 2024\nMemAvailable:    9000 kB\nWed May  1 10:00:01 UTC 2024\n"
      "MemAvailable:    8000 kB\n");
  EXPECT_EQ(read.used(kSeriesKiB), (std::vector<double>{0, 1000}));
  EXPECT_EQ(read.points.at(1).limit, KiB(9000));
}

TEST(SeriesReader, reads_a_process_status_in_a_loop) {
  auto read = read_text(
      "10:00:00\nName:\tpython3\nVmSize:\t  900 kB\nVmRSS:\t  500 kB\nVmSwap:\t 0 kB\n"
      "10:00:05\nName:\tpython3\nVmSize:\t  900 kB\nVmRSS:\t  600 kB\nVmSwap:\t 0 kB\n");
  EXPECT_EQ(read.used(kSeriesKiB), (std::vector<double>{500, 600}));
}

TEST(SeriesReader, has_no_value_of_a_block_that_lacks_it) {
  std::string begin = "Name:\tpython3\nVmSize:\t  900 kB\n", end = "Threads:\t1\n";
  auto read = read_text("10:00:00\n" + begin + "VmRSS:\t  500 kB\n" + end + "10:00:05\n" + begin +
                        "VmRSS:\t  600 kB\n" + end + "10:00:10\n" + begin + end + "10:00:15\n" + begin + end);
  EXPECT_EQ(read.used(kSeriesKiB), (std::vector<double>{500, 600}));
}

TEST(SeriesReader, takes_no_unit_for_granted_that_a_table_with_the_names_of_meminfo_does_not_say) {
  auto read = read_text("time,MemTotal,MemAvailable\n1,16000000000,9000000000\n2,16000000000,8000000000\n");
  for (const auto& point : read.points) EXPECT_LE(point.limit.value_or(Bytes{0}), Bytes{16'000'000'000});
}

TEST(SeriesReader, reads_sadf_as_xml) {
  std::string text = "<?xml version=\"1.0\"?>\n<sysstat>\n<sysdata-version>3.8</sysdata-version>\n";
  for (int at = 0; at < 2; ++at)
    text += fmt::format(
        "\t<timestamp date=\"2024-05-01\" time=\"00:0{}:01\" utc=\"1\" interval=\"60\">\n\t\t<memory "
        "unit=\"kB\">\n"
        "\t\t\t<memfree>{}</memfree>\n\t\t\t<avail>{}</avail>\n\t\t\t<memused>3000</memused>\n"
        "\t\t\t<memused-percent>50.00</memused-percent>\n\t\t\t<buffers>0</buffers>\n\t\t</memory>\n\t</"
        "timestamp>\n",
        at, 3000, 2000 - at);
  auto read = read_text(text);
  EXPECT_EQ(read.used(kSeriesKiB), (std::vector<double>{4000, 4001}));
  EXPECT_EQ(read.points.at(1).time_s - read.points.at(0).time_s, 60);
}

TEST(SeriesReader, takes_a_number_below_a_date_for_memory_however_large) {
  auto read =
      read_text("Wed May  1 10:00:00 UTC 2024\n1073741824\nWed May  1 10:00:01 UTC 2024\n1073750016\n");
  EXPECT_EQ(read.used(1), (std::vector<double>{1073741824, 1073750016}));
}

TEST(SeriesReader, takes_a_first_column_that_rises_for_the_time_of_a_table_without_header) {
  auto read = read_text("0,1073741824\n0.5,1073750016\n1,1073758208\n");
  EXPECT_EQ(read.times(), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(read.used(1), (std::vector<double>{1073741824, 1073750016, 1073758208}));
}

TEST(SeriesReader, reads_the_memory_of_nvidia_smi_dmon_and_pmon) {
  auto dmon = read_text(
      "#Time        gpu     fb   bar1   ccpm\n#HH:MM:SS    Idx     MB     MB     MB\n 10:00:00     0   1000  "
      "    3 "
      "     0\n 10:00:01     0   1010      3      0\n");
  EXPECT_EQ(dmon.used(kSeriesMiB), (std::vector<double>{1000, 1010}));
  SeriesChoices each;
  each.interval = 1;
  auto pmon = read_text(
      "# gpu         pid   type     fb   ccpm    command \n# Idx           #    C/G     MB     MB    name \n"
      "    0       1234     C   1000      0    python3        \n    0       1234     C   1010      0    "
      "python3\n",
      each);
  EXPECT_EQ(pmon.used(kSeriesMiB), (std::vector<double>{1000, 1010}));
  EXPECT_EQ(pmon.points.at(0).pid, 1234u);
}

TEST(SeriesReader, takes_values_with_names_in_a_line_for_no_table_of_free) {
  auto read = read_text(
      "10:00:00 svmem(total=16000000000, available=8000000000, percent=50.0, used=7000000000, free=1)\n"
      "10:00:01 svmem(total=16000000000, available=7000000000, percent=50.0, used=7000000000, free=1)\n");
  EXPECT_EQ(read.used(1), (std::vector<double>{8000000000, 9000000000}));
  EXPECT_EQ(read.points.at(0).limit, Bytes{16000000000});
}

TEST(SeriesReader, skips_the_annotations_of_influx) {
  auto read = read_text(
      "#group,false,false,true,false\n#datatype,string,long,dateTime:RFC3339,double\n#default,_result,,,\n"
      ",result,table,_time,_value\n,,0,2024-05-01T10:00:00Z,2000000000\n,,0,2024-05-01T10:00:05Z,"
      "2000004096\n");
  EXPECT_EQ(read.used(1), (std::vector<double>{2000000000, 2000004096})) << read.problem;
}

}  // namespace
}  // namespace oomcast
