#include "store/recording.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "moment.h"
#include "store/writer.h"

namespace oomcast {
namespace {

using test::at_s;

class Recording : public ::testing::Test {
 protected:
  Recording() : path_("/tmp/oomcast-recording-" + std::to_string(getpid()) + ".db") {}
  ~Recording() override {
    for (const char* of : {"", "-copy"})
      for (const char* part : {"", "-wal", "-shm"}) std::remove((path_ + of + part).c_str());
  }

  RunInfo info() const {
    return {"0.1.0",   "6.1",     "--cgroup /job",   Hierarchy::v1, std::chrono::seconds(1),
            Nanos(12), Nanos(34), Nanos(10'000'000), TaskId{7, 70}, 0,
            "boot"};
  }
  std::unique_ptr<StoreWriter> create(bool overwrite = false) {
    auto made = StoreWriter::record(path_, info(), overwrite);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::vector<RecordedItem> read() {
    std::vector<RecordedItem> out;
    auto reader = RecordingReader::open(path_);
    EXPECT_TRUE(reader) << reader.error().message;
    if (!reader) return out;
    for (;;) {
      auto item = reader->next();
      EXPECT_TRUE(item) << item.error().message;
      if (!item || !*item) return out;
      out.push_back(std::move(**item));
    }
  }
  void sql(const std::string& text) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  int count(const std::string& what) {
    sqlite3* db = nullptr;
    sqlite3_stmt* rows = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    std::string text = "SELECT count(*) " + what;
    EXPECT_EQ(sqlite3_prepare_v2(db, text.c_str(), -1, &rows, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    int n = sqlite3_step(rows) == SQLITE_ROW ? sqlite3_column_int(rows, 0) : -1;
    sqlite3_finalize(rows);
    sqlite3_close(db);
    return n;
  }

  std::string path_;
};

CgroupPtr job() {
  std::string path = "/job\n\x1b[2J/\xff";
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v1, 1ull << 40}, path, name_cgroup(path)});
}

ProcessSampleFact process_sample(const std::string& comm) {
  ProcessSampleFact p;
  p.time = at_s(2);
  p.process.id = {7, 70};
  p.process.comm = comm;
  p.process.cmdline = {"python3", "", "train.py\n"};
  p.process.cmdline_source = CmdlineSource::exec;
  p.process.uid = 1000;
  p.process.cgroup = job();
  p.rss = MiB(10);
  p.anon = MiB(9);
  p.file = MiB(1);
  p.rss_error = KiB(64);
  return p;
}

TEST_F(Recording, gives_back_what_was_written_in_the_same_order) {
  Sample s;
  s.time = at_s(1.5);
  s.cgroup = job();
  s.usage = MiB(100);
  s.stat.anon = MiB(80);
  s.pinned = MiB(90);
  s.headroom_limit = MiB(512);
  auto writer = create();
  writer->add(RecordedEvent{at_s(1), "start", "{\"type\":\"start\"}", "begin"});
  writer->add(s);
  writer->add(process_sample("a"));
  writer->add(TickFact{at_s(3)});
  writer->add(process_sample("b"));
  writer->add(ExitFact{at_s(4), process_sample("b").process});
  ASSERT_TRUE(writer->finish());

  auto items = read();
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(std::get<RecordedEvent>(items[0]).json, "{\"type\":\"start\"}");
  const auto& sample = std::get<Sample>(items[1]);
  EXPECT_EQ(sample.time, s.time);
  EXPECT_EQ(sample.cgroup->path, s.cgroup->path);
  EXPECT_EQ(sample.cgroup->id, s.cgroup->id);
  EXPECT_EQ(sample.usage, s.usage);
  EXPECT_EQ(sample.limit, std::nullopt);
  EXPECT_EQ(sample.limit_cgroup, nullptr);
  EXPECT_EQ(sample.stat.anon, s.stat.anon);
  EXPECT_EQ(sample.stat.file, std::nullopt);
  EXPECT_EQ(sample.pinned, s.pinned);
  EXPECT_EQ(sample.headroom_limit, s.headroom_limit);
  const auto& first = std::get<ProcessSampleFact>(items[2]);
  EXPECT_EQ(first.process.comm, "a");
  EXPECT_EQ(first.process.cmdline, (std::vector<std::string>{"python3", "", "train.py\n"}));
  EXPECT_EQ(first.process.cmdline_source, CmdlineSource::exec);
  EXPECT_EQ(first.process.uid, 1000u);
  EXPECT_EQ(first.process.ppid, std::nullopt);
  EXPECT_EQ(first.private_bytes, std::nullopt);
  EXPECT_EQ(first.rss_error, KiB(64));
  EXPECT_EQ(std::get<TickFact>(items[3]).time, at_s(3));
  EXPECT_EQ(std::get<ProcessSampleFact>(items[4]).process.comm, "b") << "as it was called then";
  EXPECT_EQ(std::get<ExitFact>(items[5]).process.id, (TaskId{7, 70}));
}

TEST_F(Recording, goes_on_by_its_own_clock_when_the_machines_is_set) {
  Sample s;
  s.cgroup = job();
  s.usage = s.pinned = MiB(100);
  auto writer = create();
  s.time = at_s(10);
  writer->add(s);
  writer->set_clock(info().wall_of_mono_zero + std::chrono::hours(1));
  s.time = at_s(11);
  writer->add(s);
  ASSERT_TRUE(writer->finish());
  auto items = read();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(std::get<Sample>(items[0]).time, at_s(10));
  EXPECT_EQ(std::get<Sample>(items[1]).time, at_s(11));
}

TEST_F(Recording, knows_whose_limit_a_sample_runs_into_also_where_that_is_not_the_smallest) {
  Sample own, of_pod, of_machine;
  own.cgroup = own.limit_cgroup = own.headroom_cgroup = job();
  own.pinned = MiB(90);
  of_pod = of_machine = own;
  auto pod = std::make_shared<CgroupRef>(*own.cgroup);
  pod->id.inode += 1;
  pod->path = "/pod";
  of_pod.headroom_cgroup = pod;
  of_machine.headroom_cgroup = nullptr;
  auto writer = create();
  Sample throttled = own;
  throttled.throttle = Throttle{MiB(80), pod};
  for (const Sample& s : {own, of_pod, of_machine, own, throttled}) writer->add(s);
  ASSERT_TRUE(writer->finish());
  auto items = read();
  ASSERT_EQ(items.size(), 5u);
  EXPECT_FALSE(std::get<Sample>(items[3]).throttle);
  const auto& high = std::get<Sample>(items[4]).throttle;
  ASSERT_TRUE(high);
  EXPECT_EQ(high->limit, MiB(80));
  EXPECT_EQ(high->owner->path, "/pod");
  auto whose = [&](std::size_t i) { return std::get<Sample>(items[i]).headroom_cgroup; };
  EXPECT_EQ(whose(0)->id, own.cgroup->id);
  EXPECT_EQ(whose(1)->path, "/pod");
  EXPECT_EQ(whose(2), nullptr);
  EXPECT_EQ(whose(3)->id, own.cgroup->id);
}

TEST_F(Recording, keeps_the_moment_at_which_a_cgroup_was_forgotten) {
  Sample s;
  s.time = at_s(1);
  s.cgroup = job();
  auto writer = create();
  writer->add(ForgottenFact{at_s(1), {Hierarchy::v1, 999}});  // never told of: nothing to forget
  writer->add(s);
  writer->add(ForgottenFact{at_s(2), s.cgroup->id});
  writer->add(s);  // its inode came back
  ASSERT_TRUE(writer->finish());
  auto items = read();
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(std::get<ForgottenFact>(items[1]).time, at_s(2));
  EXPECT_EQ(std::get<ForgottenFact>(items[1]).cgroup, s.cgroup->id);
  EXPECT_EQ(std::get<Sample>(items[2]).cgroup->path, s.cgroup->path);
}

TEST_F(Recording, says_how_much_is_missing_from_it) {
  constexpr std::uint64_t kMany = 3 * StoreWriter::kMaxWaitingRecorded;
  auto writer = create();
  for (std::uint64_t i = 0; i < kMany; ++i) writer->add(TickFact{at_s(1)});
  ASSERT_TRUE(writer->finish());
  auto reader = RecordingReader::open(path_);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->info().lost, writer->lost());
  EXPECT_EQ(read().size() + reader->info().lost, kMany);
}

TEST_F(Recording, can_be_asked_for_a_path_in_sql) {
  Sample s;
  s.time = at_s(1);
  s.cgroup = job();
  auto writer = create();
  writer->add(s);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(count("FROM cgroups WHERE path LIKE '/job%' AND typeof(path)='text'"), 1);
  auto items = read();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(std::get<Sample>(items[0]).cgroup->path, s.cgroup->path) << "bytes that are no UTF-8 included";
}

TEST_F(Recording, knows_what_was_true_of_the_whole_run) {
  ASSERT_TRUE(create()->finish());
  auto reader = RecordingReader::open(path_);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->info().version, "0.1.0");
  EXPECT_EQ(reader->info().scope, "--cgroup /job");
  EXPECT_EQ(reader->info().hierarchy, Hierarchy::v1);
  EXPECT_EQ(reader->info().wall_of_boot_zero, Nanos(34));
  EXPECT_EQ(reader->info().boot_id, "boot");
  EXPECT_EQ(reader->info().tree, (std::optional<TaskId>{{7, 70}}));
}

TEST_F(Recording, is_readable_by_its_group_only) {
  umask(0);
  auto writer = create();
  struct stat what {};
  ASSERT_EQ(stat(path_.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0640u);
}

TEST_F(Recording, does_not_replace_a_file_unless_it_is_told_to) {
  std::ofstream(path_) << "precious";
  auto refused = StoreWriter::record(path_, info(), false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--force"), std::string::npos);
  EXPECT_EQ(refused.error().exit_code, 1);
  ASSERT_TRUE(create(true)->finish());
}

TEST_F(Recording, does_not_write_through_a_link) {
  ASSERT_EQ(symlink("/tmp/oomcast-elsewhere", path_.c_str()), 0);
  EXPECT_FALSE(StoreWriter::record(path_, info(), false));
  auto forced = StoreWriter::record(path_, info(), true);
  ASSERT_FALSE(forced);
  EXPECT_EQ(forced.error().message.find("--force"), std::string::npos) << "it was given already";
  EXPECT_NE(access("/tmp/oomcast-elsewhere", F_OK), 0);
}

TEST_F(Recording, names_both_schemas_when_they_differ) {
  ASSERT_TRUE(create()->finish());
  sql("PRAGMA user_version=9");
  auto reader = RecordingReader::open(path_);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().exit_code, 2);
  EXPECT_NE(reader.error().message.find("schema 9"), std::string::npos) << reader.error().message;
  EXPECT_NE(reader.error().message.find("schema 1 to 3"), std::string::npos);
}

TEST_F(Recording, tells_another_database_from_a_recording) {
  sql("CREATE TABLE t(x)");
  EXPECT_TRUE(RecordingReader::is_recording(path_)) << "by its first bytes";
  auto reader = RecordingReader::open(path_);
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("no recording"), std::string::npos);
}

TEST_F(Recording, runs_no_sql_of_the_file) {
  ASSERT_TRUE(create()->finish());
  sql("DROP TABLE ticks; CREATE VIEW ticks AS WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq FROM "
      "n) "
      "SELECT seq, seq AS time_ns, NULL AS killed FROM n WHERE seq > 1");
  EXPECT_FALSE(RecordingReader::open(path_)) << "reading it would never end";
}

TEST_F(Recording, survives_torn_and_hostile_files) {
  auto writer = create();
  for (int i = 0; i < 2000; ++i) writer->add(process_sample("p" + std::to_string(i)));
  ASSERT_TRUE(writer->finish());
  struct stat what {};
  ASSERT_EQ(stat(path_.c_str(), &what), 0);
  for (off_t length : {what.st_size / 2, off_t{4096}, off_t{100}, off_t{20}}) {
    ASSERT_EQ(truncate(path_.c_str(), length), 0);
    auto reader = RecordingReader::open(path_);
    if (!reader) continue;
    for (;;) {
      auto item = reader->next();
      if (!item || !*item) break;
    }
  }
}

TEST_F(Recording, names_the_file_that_a_copy_of_a_killed_recorder_lacks) {
  auto writer = create();
  std::string copy = path_ + "-copy";
  std::ofstream(copy, std::ios::binary) << std::ifstream(path_, std::ios::binary).rdbuf();
  auto reader = RecordingReader::open(copy);
  unlink(copy.c_str());
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("-copy-wal"), std::string::npos) << reader.error().message;
}

TEST_F(Recording, is_complete_up_to_the_last_second_while_it_is_written) {
  auto writer = create();
  writer->add(TickFact{at_s(1)});
  for (int i = 0; i < 100 && read().empty(); ++i) usleep(50'000);
  EXPECT_EQ(read().size(), 1u);
}

GpuSample gpu_sample(double t) {
  GpuSample s;
  s.time = at_s(t);
  s.process.emplace();
  s.process->id = {5, 50};
  s.process->comm = "python3";
  s.device.emplace().bytes.fill(7);
  s.held = GiB(6);
  s.overhead = MiB(300);
  s.managed = Bytes{};
  s.pinned = MiB(64);
  s.limit = GiB(32);
  s.since_before = true;
  return s;
}

TEST_F(Recording, keeps_gpu_memory_and_what_is_forecast_of_a_card) {
  auto writer = create();
  writer->add(gpu_sample(1));
  GpuSample followed = gpu_sample(1.5);
  followed.moved_out = MiB(8);
  followed.evicted = MiB(6);
  followed.cpu_faults = 5;
  writer->add(followed);
  GpuSample card;
  card.time = at_s(2);
  card.device.emplace().bytes.fill(7);
  card.moved_out = MiB(2);
  card.faults = 3;
  writer->add(card);
  ForecastFact forecast;
  forecast.time = at_s(3);
  forecast.device = card.device;
  forecast.forecast.verdict = Verdict::leak;
  writer->add(forecast);
  ASSERT_TRUE(writer->finish());
  auto items = read();
  ASSERT_EQ(items.size(), 4u);
  const auto& process = std::get<GpuSample>(items[0]);
  EXPECT_EQ(process.time, at_s(1));
  EXPECT_EQ(process.process->id, (TaskId{5, 50}));
  EXPECT_EQ(process.device, card.device);
  EXPECT_EQ(process.held, GiB(6));
  EXPECT_EQ(process.overhead, MiB(300));
  EXPECT_EQ(process.managed, Bytes{});
  EXPECT_EQ(process.pinned, MiB(64));
  EXPECT_EQ(process.limit, GiB(32));
  EXPECT_FALSE(process.free || process.moved_in || process.moved_out || process.faults);
  EXPECT_FALSE(process.evicted || process.cpu_faults);
  EXPECT_TRUE(process.since_before);
  EXPECT_EQ(std::get<GpuSample>(items[1]).moved_out, MiB(8));
  EXPECT_EQ(std::get<GpuSample>(items[1]).evicted, MiB(6));
  EXPECT_EQ(std::get<GpuSample>(items[1]).cpu_faults, 5u);
  const auto& of_card = std::get<GpuSample>(items[2]);
  EXPECT_FALSE(of_card.process || of_card.pinned || of_card.limit);
  EXPECT_EQ(of_card.moved_out, MiB(2));
  EXPECT_EQ(of_card.faults, 3u);
  EXPECT_EQ(std::get<ForecastFact>(items[3]).device, card.device);
}

TEST_F(Recording, of_before_gpus_were_followed_reads_as_one_without_any) {
  auto writer = create();
  ForecastFact forecast;
  forecast.time = at_s(3);
  writer->add(forecast);
  ASSERT_TRUE(writer->finish());
  sql("DROP TABLE gpu_samples; DROP TABLE gpu_evictions; DROP TABLE gpu_events; "
      "DROP TABLE gpu_errors; DROP TABLE forecast_devices");
  auto items = read();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_FALSE(std::get<ForecastFact>(items[0]).device);
}

}  // namespace
}  // namespace oomcast
