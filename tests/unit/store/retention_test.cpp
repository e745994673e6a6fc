#include "store/retention.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "store/open.h"
#include "store/schema.h"
#include "store/writer.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr Nanos kBegan = std::chrono::hours(24 * 365 * 50);

CgroupPtr group(const std::string& path, std::uint64_t inode) {
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, inode}, path, name_cgroup(path)});
}

// A store whose clock the test turns.
class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() {
    char name[] = "/tmp/oomcast-retention-XXXXXX";
    dir_ = mkdtemp(name);
    StoreOpening opened = open_store(dir_);
    EXPECT_TRUE(opened.db) << opened.why;
    db_ = std::move(opened.db);
    RunInfo info{"0.1.0",      "6.1", "whole machine", Hierarchy::v2, 1s, kBegan, kBegan, 10ms,
                 std::nullopt, 0,     "boot"};
    std::int64_t run = 0;
    EXPECT_TRUE(add_run(db_.get(), info, kBegan.count(), run));
    tables_.emplace(db_.get(), run, info, false);
    limit(StoreLimits{});
  }
  ~RetentionTest() override {
    retention_.reset();
    tables_.reset();
    db_.reset();
    std::filesystem::remove_all(dir_);
  }
  void limit(StoreLimits limits) {
    retention_.emplace(db_.get(), dir_ + "/oomcast.db", limits, [this] { return tables_->list_in_use(); });
  }

  static MonoTime at(int s) { return MonoTime(std::chrono::seconds(s)); }
  static std::int64_t wall(int s) { return kBegan.count() + s * kSecond; }
  // Written together until the clock turns.
  void sample(const CgroupPtr& cgroup, int s, Bytes pinned) {
    if (sqlite3_get_autocommit(db_.get())) execute(db_.get(), "BEGIN");
    Sample out;
    out.time = at(s);
    out.cgroup = cgroup;
    out.pinned = out.usage = pinned;
    tables_->write(out);
  }
  void kill(std::uint64_t serial, int s, const CgroupPtr& cgroup) {
    OomEvent line;
    line.episode.serial = serial;
    line.episode.id = "kill-" + std::to_string(serial);
    line.episode.time = at(s);
    line.episode.limit_cgroup = cgroup;
    Victim v;
    v.tid = static_cast<std::uint32_t>(serial);
    v.process.cgroup = cgroup;
    line.episode.victims.push_back(v);
    tables_->write(EpisodeFact{line});
  }
  // Each minute of the clock, as it passes.
  void pass_until(int s) {
    for (; now_ < s; now_ += 60) look_at(now_);
  }
  void look_at(int s) {
    if (!sqlite3_get_autocommit(db_.get())) execute(db_.get(), "COMMIT");
    ASSERT_EQ(retention_->keep_within(wall(s)), std::nullopt);
  }
  std::int64_t count(const std::string& what) {
    return ask(db_.get(), "SELECT count(*) FROM " + what).value_or(-1);
  }
  std::int64_t of(const std::string& path, int from, int until) {
    return count("samples WHERE cgroup IN (SELECT id FROM cgroups WHERE path='" + path + "') AND time_ns>=" +
                 std::to_string(wall(from)) + " AND time_ns<" + std::to_string(wall(until)));
  }
  std::int64_t highest(const std::string& path, int from, int until) {
    return ask(db_.get(),
               "SELECT max(usage) FROM samples WHERE cgroup IN (SELECT id FROM cgroups WHERE path='" + path +
                   "') AND time_ns BETWEEN " + std::to_string(wall(from)) + " AND " +
                   std::to_string(wall(until)))
        .value_or(-1);
  }

  std::string dir_;
  DatabaseHandle db_;
  std::optional<Tables> tables_;
  std::optional<Retention> retention_;
  int now_ = 0;
  CgroupPtr job_ = group("/job", 7), other_ = group("/other", 9);
};

TEST_F(RetentionTest, keeps_the_last_minutes_whole_and_less_of_what_is_older) {
  for (int s = 0; s < 9 * 3600; ++s) {
    sample(job_, s, MiB(100 + s % 7));
    if (s % 600 == 0) pass_until(s);
  }
  pass_until(9 * 3600);
  EXPECT_EQ(of("/job", 9 * 3600 - 300, 9 * 3600), 300);
  EXPECT_LE(of("/job", 8 * 3600 + 600, 8 * 3600 + 1200), 3 * 60) << "of each 10 s the extremes";
  EXPECT_GE(of("/job", 8 * 3600 + 600, 8 * 3600 + 1200), 60);
  EXPECT_LE(of("/job", 5 * 3600, 5 * 3600 + 600), 3 * 10) << "of each minute";
  EXPECT_GE(of("/job", 5 * 3600, 5 * 3600 + 600), 10);
  EXPECT_LE(of("/job", 3600, 2 * 3600), 3 * 6) << "of each 10 minutes";
  EXPECT_GE(of("/job", 3600, 2 * 3600), 6);
}

TEST_F(RetentionTest, does_not_lose_a_spike_of_one_sample_nor_a_dip) {
  for (int s = 0; s < 8 * 3600; ++s) {
    Bytes level = MiB(100);
    if (s == 1234) level = GiB(3);
    if (s == 1300) level = MiB(1);
    sample(job_, s, level);
    if (s % 600 == 0) pass_until(s);
  }
  EXPECT_EQ(highest("/job", 600, 1800), GiB(3).count);
  EXPECT_EQ(ask(db_.get(), "SELECT min(pinned) FROM samples"), MiB(1).count);
}

TEST_F(RetentionTest, leaves_what_an_episode_keeps_as_it_was) {
  constexpr int kKill = 3000;
  for (int s = 0; s <= 8 * 3600; ++s) {
    sample(job_, s, MiB(100 + s % 100));
    sample(other_, s, MiB(100 + s % 100));
    if (s == kKill) kill(1, s, job_);
    if (s % 60 == 0) pass_until(s);
  }
  EXPECT_EQ(of("/job", kKill - 590, kKill), 590) << "whole at the kill";
  EXPECT_GE(of("/job", kKill - 1700, kKill - 700), 200) << "thinned at the kill, and not again";
  EXPECT_LE(of("/other", kKill - 590, kKill), 6);
  EXPECT_LE(of("/job", 3600, 3600 + 600), 3);
}

TEST_F(RetentionTest, drops_what_is_too_old_but_not_the_kills) {
  StoreLimits limits;
  limits.age = 2h;
  limit(limits);
  for (int s = 0; s <= 10 * 3600; s += 10) {
    sample(job_, s, MiB(100 + s % 100));
    if (s == 3600) {
      ForecastFact f;
      f.time = at(s);
      f.cgroup = job_;
      tables_->write(f);
      kill(1, s, job_);
    }
    if (s % 600 == 0) pass_until(s);
  }
  EXPECT_EQ(of("/job", 0, 7 * 3600 - 60), 0);
  EXPECT_GT(of("/job", 9 * 3600, 10 * 3600), 0);
  EXPECT_EQ(count("forecasts"), 0);
  EXPECT_EQ(count("kept"), 0);
  EXPECT_EQ(count("episodes"), 1);
  EXPECT_EQ(count("victims"), 1);
}

TEST_F(RetentionTest, stays_within_its_size_and_lets_the_kills_go_last) {
  StoreLimits limits;
  limits.size = MiB(8);
  limit(limits);
  std::vector<CgroupPtr> many;
  for (std::uint64_t i = 0; i < 100; ++i) many.push_back(group("/job/" + std::to_string(i), 100 + i));
  std::int64_t most = 0;
  for (int s = 0; s < 2 * 3600; s += 5) {
    for (const auto& cgroup : many) sample(cgroup, s, MiB(100 + (s * 37) % 100));
    if (s % 600 == 0)
      kill(static_cast<std::uint64_t>(s) / 600 + 1, s, many[static_cast<std::size_t>(s / 600)]);
    look_at(s);
    struct stat what {};
    std::int64_t size = 0;
    for (const char* part : {"", "-wal"})
      if (stat((dir_ + "/oomcast.db" + part).c_str(), &what) == 0) size += what.st_size;
    most = std::max(most, size);
  }
  EXPECT_LE(most, limits.size.count) << "with the log beside it";
  EXPECT_EQ(count("episodes"), 12);
  EXPECT_GT(of("/job/50", 2 * 3600 - 300, 2 * 3600), 50) << "the newest stays";
}

TEST_F(RetentionTest, what_an_episode_keeps_outlives_any_number_of_rows_about_reclaim) {
  StoreLimits limits;
  limits.size = MiB(40);
  limit(limits);
  for (int s = 0; s <= 60; ++s) sample(job_, s, MiB(100));
  kill(1, 60, job_);
  look_at(60);
  constexpr int kMinutes = 60, kRows = 20'000;
  for (int minute = 21; minute <= 20 + kMinutes; ++minute) {
    ASSERT_TRUE(execute(db_.get(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" +
                                       std::to_string(kRows) +
                                       ") INSERT INTO reclaim(time_ns,cgroup,stalls,stalled_s,reclaimed)"
                                       " SELECT " +
                                       std::to_string(wall(minute * 60)) + "+i,1,i,0.125,i*4096 FROM n"));
    look_at(minute * 60);
  }
  EXPECT_LT(count("reclaim"), kMinutes * kRows) << "else it was never full";
  EXPECT_EQ(count("kept"), 1);
  EXPECT_EQ(of("/job", 0, 61), 61);
}

TEST_F(RetentionTest, whoever_has_most_kills_lets_his_own_go_first) {
  StoreLimits limits;
  limits.size = KiB(640);  // an empty store has 320
  limit(limits);
  kill(1, 0, other_);
  kill(2, 1, nullptr);  // of the whole machine
  std::uint64_t serial = 100;
  CgroupPtr tenant = group("/pods/b", 5);
  for (int s = 10; s < 60; ++s) {
    // Two tenants, one of whom has another cgroup for each.
    for (int i = 0; i < 30; ++i, ++serial)
      kill(serial, s, group("/pods/a/" + std::to_string(serial), serial));
    kill(serial++, s, tenant);
    look_at(s);
  }
  EXPECT_LT(count("episodes"), 1500) << "of 1552";
  EXPECT_EQ(count("episodes WHERE name IN ('kill-1', 'kill-2')"), 2);
  for (std::uint64_t newest : {serial - 1, serial - 2})
    EXPECT_EQ(count("episodes WHERE name='kill-" + std::to_string(newest) + "'"), 1) << "of each tenant";
  EXPECT_EQ(count("victims WHERE episode NOT IN (SELECT id FROM episodes)"), 0);
}

TEST_F(RetentionTest, forgets_names_of_runs_that_ended_when_nothing_names_them) {
  sample(job_, 0, MiB(1));
  kill(1, 1, other_);
  ASSERT_TRUE(execute(db_.get(), "UPDATE runs SET ended_ns=1; DELETE FROM samples; DELETE FROM kept"));
  look_at(10);
  EXPECT_EQ(count("cgroups WHERE path='/job'"), 0);
  EXPECT_EQ(count("cgroups WHERE path='/other'"), 1);
  EXPECT_EQ(count("runs"), 1);
}

TEST_F(RetentionTest, lets_sigkills_of_users_go_before_any_kill_of_the_kernel) {
  StoreLimits limits;
  limits.size = MiB(8);
  limit(limits);
  kill(1, 0, job_);
  auto process = [](std::uint32_t pid) {
    ProcessRef p;
    p.id = {pid, pid};
    p.comm = "victim";
    p.cmdline = Arguments{std::string(2000, 'x')};
    return p;
  };
  for (std::uint32_t i = 0; i < 60'000; ++i) {
    int s = static_cast<int>(i / 500);
    tables_->write(UserKillFact{at(s), process(i + 10), process(5), {}});
    if (i % 500 == 0) look_at(s);
  }
  look_at(200);
  EXPECT_EQ(count("episodes"), 1);
  EXPECT_GT(count("kept"), 0) << "and its curves";
  EXPECT_LE(count("kills"), 40'000);
  EXPECT_LT(count("processes"), 10'000) << "names of a run that goes on";
  auto pages = ask(db_.get(), "PRAGMA page_count"), size = ask(db_.get(), "PRAGMA page_size");
  EXPECT_LE(*pages * *size, limits.size.count) << "SQLite itself holds the bound";
}

TEST_F(RetentionTest, makes_no_name_of_each_change_of_a_name) {
  for (int i = 0; i < 500; ++i) {
    ProcessSampleFact sample;
    sample.time = MonoTime(std::chrono::milliseconds(100 * i));
    sample.process.id = {7, 7};
    sample.process.comm = "name " + std::to_string(i % 2);
    sample.rss = MiB(100);
    tables_->write(sample);
  }
  EXPECT_EQ(count("processes"), 1);
  EXPECT_EQ(count("process_samples"), 500);
}

TEST_F(RetentionTest, leaves_off_for_a_kill_that_waits_and_goes_on_later) {
  limit({MiB(8), 1h});
  constexpr int kRows = 10'000;
  for (int s = 0; s < kRows; ++s) sample(job_, s, MiB(100));
  execute(db_.get(), "COMMIT");
  int now = kRows + 4000;
  EXPECT_EQ(retention_->keep_within(wall(now), [] { return true; }), std::nullopt);
  EXPECT_EQ(count("samples"), kRows);
  for (int patience = 1; patience < 16; ++patience) {
    int asked = 0;
    EXPECT_EQ(retention_->keep_within(wall(now += 60), [&] { return ++asked > patience; }), std::nullopt);
    EXPECT_EQ(sqlite3_get_autocommit(db_.get()), 1) << "nothing is left open";
  }
  look_at(now + 60);
  EXPECT_EQ(count("samples"), 0);
  EXPECT_EQ(ask(db_.get(), "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
}

TEST_F(RetentionTest, has_the_time_of_day_as_it_is_told_after_the_clock_was_set) {
  sample(job_, 10, MiB(1));
  tables_->set_clock(kBegan + 200 * 24h);
  sample(job_, 11, MiB(2));
  EXPECT_EQ(ask(db_.get(), "SELECT time_ns FROM samples WHERE usage=" + std::to_string(MiB(1).count)),
            wall(10));
  EXPECT_EQ(ask(db_.get(), "SELECT time_ns FROM samples WHERE usage=" + std::to_string(MiB(2).count)),
            wall(11) + 200 * 24 * 3600 * kSecond);
}

}  // namespace
}  // namespace oomcast
