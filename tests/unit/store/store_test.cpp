#include "store/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "store/import.h"
#include "store/open.h"
#include "store/schema_1.h"
#include "store/writer.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// Wall time of the monotonic zero, so that the kill at 1000 s is now: a store thins and forgets what is old.
const Nanos kZero = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(1010);

MonoTime at_s(double s) {
  return MonoTime(Nanos(static_cast<std::int64_t>(s * 1e9)));
}

CgroupPtr group(const std::string& path, std::uint64_t inode) {
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, inode}, path, name_cgroup(path)});
}

Sample sample(const CgroupPtr& cgroup, double s, Bytes pinned, Bytes limit = MiB(512)) {
  Sample out;
  out.time = at_s(s);
  out.cgroup = cgroup;
  out.usage = pinned + MiB(1);
  out.limit = limit;
  out.limit_cgroup = cgroup;
  out.pinned = pinned;
  return out;
}

ProcessRef process(std::uint32_t pid, const std::string& comm, const CgroupPtr& cgroup) {
  ProcessRef p;
  p.id = {pid, pid * 10};
  p.comm = comm;
  p.cmdline = {"/usr/bin/" + comm, "--x"};
  p.cmdline_source = CmdlineSource::shown;
  p.cgroup = cgroup;
  return p;
}

OomFactLine kill(std::uint64_t serial, double s, std::uint32_t pid, const CgroupPtr& cgroup) {
  OomFactLine out;
  Episode& e = out.episode;
  e.serial = serial;
  e.id = "2020-" + std::to_string(pid);
  e.time = at_s(s);
  e.scope = OomScope::memcg;
  e.limit_cgroup = cgroup;
  e.usage = e.limit = MiB(512);
  e.trigger = process(pid, "asks", cgroup);
  e.order = 0;
  e.gfp = "0xcc0(GFP_KERNEL)";
  e.group_kill = false;
  Victim v;
  v.process = process(pid, "python3", cgroup);
  v.tid = pid;
  v.anon = MiB(500);
  v.oom_score_adj = -5;
  v.killed = true;
  v.freed_after = Seconds(0.25);
  v.stack = {0x7f05c05010ba, 0x958b20};
  v.marked = v.logged = true;
  e.victims.push_back(v);
  e.also_killed.push_back(process(pid + 1, "shares", cgroup));
  e.grew_most.push_back({process(pid, "python3", cgroup), MiB(400), Seconds(60)});
  e.grew_from.push_back({process(pid, "python3", cgroup),
                         {{"cache", "/job/train.py", 41}, {"step", "/job/train.py", 50}},
                         MiB(30),
                         MiB(40),
                         Seconds(4),
                         e.time - 20s,
                         e.time - 4s,
                         "cache in __main__"});
  e.grew_from.push_back({process(pid, "python3", cgroup),
                         {{"malloc", "/lib/libc.so.6", {}}},
                         MiB(10),
                         MiB(40),
                         Seconds(4),
                         e.time - 20s,
                         e.time - 4s});
  e.chain.push_back({cgroup, MiB(512), MiB(512)});
  e.chain.push_back({group("/", 1), GiB(2), std::nullopt});
  e.checks = {1, 1, std::nullopt};
  ForecastFact before;
  before.time = at_s(s - 3);
  before.cgroup = before.limit_cgroup = cgroup;
  before.forecast.verdict = Verdict::leak;
  before.forecast.growth = Growth{{100}, {90}, {110}, Seconds(30), 42};
  before.forecast.limit = MiB(512);
  before.forecast.eta = Seconds(3);
  before.forecast.why = "it grew";
  before.forecast.evidence.floor = MiB(7);
  before.forecast.evidence.peaks = 3;
  before.forecast.evidence.near_limit = NearLimit{MiB(2), MiB(9), 8s};
  before.forecast.evidence.thrashing = Thrashing{before.time - 12s, 12s, 1.5, {4096}};
  out.forecast_before = before;
  out.first_forecast = at_s(s - 30);
  return out;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char name[] = "/tmp/oomcast-store-XXXXXX";
    dir_ = mkdtemp(name);
  }
  ~StoreTest() override { std::filesystem::remove_all(dir_); }

  RunInfo info(const std::string& boot = "boot-1") const {
    return {"0.1.0", "6.1", "whole machine", Hierarchy::v2, 1s, kZero, kZero, 10ms, std::nullopt, 0, boot};
  }
  std::unique_ptr<StoreWriter> keep(const RunInfo& run, StoreLimits limits = {}) {
    auto made = StoreWriter::keep(dir_, run, limits);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::unique_ptr<StoreWriter> keep() { return keep(info()); }
  // As another process that writes to it does: until unlock() nobody else can.
  sqlite3* lock() {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open((dir_ + "/oomcast.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    return db;
  }
  void unlock(sqlite3* db) {
    EXPECT_EQ(sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }
  Store read() {
    auto store = Store::open(dir_);
    EXPECT_TRUE(store) << store.error().message;
    return *std::move(store);
  }
  std::vector<EpisodeSummary> episodes() {
    auto all = read().episodes();
    EXPECT_TRUE(all) << all.error().message;
    return *std::move(all);
  }
  StoredEpisode last(Nanos window = 30min) {
    auto episode = read().episode(std::nullopt, window);
    EXPECT_TRUE(episode) << episode.error().message;
    return *std::move(episode);
  }
  std::int64_t ask(const std::string& sql) {
    sqlite3* db = nullptr;
    sqlite3_stmt* rows = nullptr;
    EXPECT_EQ(sqlite3_open((dir_ + "/oomcast.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &rows, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    std::int64_t n = sqlite3_step(rows) == SQLITE_ROW ? sqlite3_column_int64(rows, 0) : -1;
    sqlite3_finalize(rows);
    sqlite3_close(db);
    return n;
  }

  std::string dir_;
  CgroupPtr job_ = group("/job", 7), worker_ = group("/job/worker", 8), other_ = group("/other", 9);
};

MachineAtKill two_zones() {
  MachineAtKill m;
  m.cpuset = "batch";
  m.mems_allowed = "1";
  m.ram = GiB(2);
  m.free = MiB(40);
  m.swap_total = Bytes{};
  m.zones = {{std::nullopt, "DMA", MiB(1), KiB(4), {}, {}, MiB(16), MiB(15)},
             {1, "Normal", MiB(39), MiB(40), MiB(50), MiB(60), GiB(2), {}}};
  m.slabs = {{"dentry", MiB(700), MiB(710)}};
  return m;
}

TEST_F(StoreTest, gives_back_what_the_kernels_report_says_of_the_machine) {
  auto writer = keep();
  OomFactLine told = kill(1, 1000, 77, job_);
  told.episode.machine = two_zones();
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  auto machine = last().told.episode.machine;
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->cpuset, "batch");
  EXPECT_EQ(machine->mems_allowed, "1");
  EXPECT_EQ(machine->nodemask, std::nullopt);
  EXPECT_EQ(machine->ram, GiB(2));
  EXPECT_EQ(machine->free, MiB(40));
  EXPECT_EQ(machine->swap_total, Bytes{});
  EXPECT_EQ(machine->swap_free, std::nullopt) << "unknown is not 0";
  ASSERT_EQ(machine->zones.size(), 2u);
  EXPECT_EQ(machine->zones[0].node, std::nullopt);
  EXPECT_EQ(machine->zones[0].present, MiB(16));
  EXPECT_EQ(machine->zones[1].node, 1u);
  EXPECT_EQ(machine->zones[1].zone, "Normal");
  EXPECT_EQ(machine->zones[1].high, MiB(60));
  EXPECT_EQ(machine->zones[1].managed, std::nullopt);
  ASSERT_EQ(machine->slabs.size(), 1u);
  EXPECT_EQ(machine->slabs[0].name, "dentry");
  EXPECT_EQ(machine->slabs[0].total, MiB(710));
}

TEST_F(StoreTest, gives_back_an_episode_as_it_was_told) {
  auto writer = keep();
  OomFactLine told = kill(1, 1000, 77, job_);
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  const Episode &a = told.episode, &b = stored.told.episode;
  EXPECT_TRUE(stored.complete);
  EXPECT_EQ(stored.source, EpisodeSource::live);
  EXPECT_EQ(stored.run.boot_id, "boot-1");
  EXPECT_EQ(b.id, a.id);
  EXPECT_EQ(b.time, a.time);
  EXPECT_EQ(b.scope, a.scope);
  EXPECT_EQ(b.limit_cgroup->path, "/job");
  EXPECT_EQ(b.limit, a.limit);
  EXPECT_EQ(b.trigger->comm, "asks");
  EXPECT_EQ(b.order, 0);
  EXPECT_EQ(b.gfp, a.gfp);
  EXPECT_EQ(b.group_kill, false);
  ASSERT_EQ(b.victims.size(), 1u);
  EXPECT_EQ(b.victims[0].process.id, a.victims[0].process.id);
  EXPECT_EQ(b.victims[0].process.cmdline, a.victims[0].process.cmdline);
  EXPECT_EQ(b.victims[0].process.cgroup->path, "/job");
  EXPECT_EQ(b.victims[0].anon, MiB(500));
  EXPECT_EQ(b.victims[0].file, std::nullopt) << "unknown is not 0";
  EXPECT_EQ(b.victims[0].oom_score_adj, -5);
  EXPECT_EQ(b.victims[0].killed, true);
  EXPECT_EQ(b.victims[0].freed_after, Seconds(0.25));
  EXPECT_EQ(b.victims[0].stack, a.victims[0].stack);
  ASSERT_EQ(b.also_killed.size(), 1u);
  EXPECT_EQ(b.also_killed[0].comm, "shares");
  ASSERT_EQ(b.grew_most.size(), 1u);
  EXPECT_EQ(b.grew_most[0].grew, MiB(400));
  ASSERT_EQ(b.grew_from.size(), 2u);
  EXPECT_EQ(b.grew_from[0].process.id, a.victims[0].process.id);
  EXPECT_EQ(b.grew_from[0].code, a.grew_from[0].code);
  EXPECT_EQ(b.grew_from[0].grown, MiB(30));
  EXPECT_EQ(b.grew_from[0].of, MiB(40));
  EXPECT_EQ(b.grew_from[0].watched, Seconds(4));
  EXPECT_EQ(b.grew_from[0].from, a.grew_from[0].from);
  EXPECT_EQ(b.grew_from[0].to, a.grew_from[0].to);
  EXPECT_EQ(b.grew_from[1].code, a.grew_from[1].code);
  EXPECT_EQ(b.grew_from[0].held_by, "cache in __main__");
  EXPECT_TRUE(b.grew_from[1].held_by.empty());
  ASSERT_EQ(b.chain.size(), 2u);
  EXPECT_EQ(b.chain[1].limit, std::nullopt);
  EXPECT_EQ(b.checks.mark_victim, 1u);
  EXPECT_EQ(b.checks.vmstat, std::nullopt);
  ASSERT_TRUE(stored.told.forecast_before);
  const Forecast& f = stored.told.forecast_before->forecast;
  EXPECT_EQ(stored.told.forecast_before->time, at_s(997));
  EXPECT_EQ(stored.told.forecast_before->limit_cgroup->path, "/job");
  EXPECT_EQ(f.verdict, Verdict::leak);
  EXPECT_EQ(f.growth->low.value, 90);
  EXPECT_EQ(f.growth->samples, 42u);
  EXPECT_EQ(f.eta, Seconds(3));
  EXPECT_EQ(f.eta_high, std::nullopt);
  EXPECT_EQ(f.why, "it grew");
  EXPECT_EQ(f.evidence.floor, MiB(7));
  EXPECT_EQ(f.evidence.peaks, 3u);
  ASSERT_TRUE(f.evidence.near_limit && f.evidence.thrashing);
  EXPECT_EQ(f.evidence.near_limit->left, MiB(2));
  EXPECT_EQ(f.evidence.near_limit->moved, MiB(9));
  EXPECT_EQ(f.evidence.near_limit->within, Seconds(8));
  EXPECT_EQ(f.evidence.thrashing->since, at_s(985));
  EXPECT_EQ(f.evidence.thrashing->waiting, 1.5);
  EXPECT_EQ(f.evidence.thrashing->reclaimed.value, 4096);
  EXPECT_EQ(stored.told.first_forecast, at_s(970));
}

TEST_F(StoreTest, gives_what_led_to_an_episode_and_nothing_of_others) {
  auto writer = keep();
  for (int s = 0; s < 100; ++s) {
    writer->add(sample(job_, 900 + s, MiB(100 + s)));
    writer->add(sample(worker_, 900 + s, MiB(50 + s)));
    writer->add(sample(other_, 900 + s, MiB(10 + s)));
    ProcessSampleFact p;
    p.time = at_s(900 + s);
    p.process = process(77, "python3", worker_);
    p.rss = p.anon = MiB(40 + s);
    writer->add(p);
    writer->add(TickFact{at_s(900 + s)});
  }
  writer->add(ReclaimFact{at_s(999), job_, 5, Seconds(0.5), MiB(3)});
  writer->add(PressureFact{at_s(999), nullptr, {PressureLine{1, 2, 3, 4}, std::nullopt}});
  writer->add(UserKillFact{at_s(999), process(5, "other", job_), process(6, "bash", other_), "earlyoom"});
  AlertFact alert;
  alert.time = at_s(998);
  alert.rule = "level>100M";
  alert.cgroup = job_;
  alert.message = "act";
  alert.actions.push_back({ActionRun::Kind::exec, "true", ActionRun::Result::running});
  writer->add(alert);
  alert.actions[0].result = ActionRun::Result::ok;
  alert.actions[0].exit_code = 0;
  writer->add(alert);
  writer->add(LostFact{at_s(500), "samples_ring_full", 3});
  writer->add(LostFact{at_s(600), "samples_ring_full", 4});
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  writer->add(ExitFact{at_s(1000.5), process(77, "python3", worker_)});
  ASSERT_TRUE(writer->finish());

  StoredEpisode e = last(60s);
  std::size_t of_job = 0, of_worker = 0;
  MonoTime before{};
  for (const Sample& s : e.samples) {
    EXPECT_GE(s.time, at_s(940));
    EXPECT_GE(s.time, before) << "oldest first";
    before = s.time;
    of_job += s.cgroup->path == "/job";
    of_worker += s.cgroup->path == "/job/worker";
  }
  EXPECT_EQ(of_job, 60u);
  EXPECT_EQ(of_worker, 60u);
  EXPECT_EQ(e.samples.size(), 120u);
  EXPECT_EQ(e.processes.size(), 60u);
  EXPECT_EQ(e.processes.back().process.comm, "python3");
  EXPECT_EQ(e.exits.size(), 1u);
  ASSERT_EQ(e.reclaim.size(), 1u);
  EXPECT_EQ(e.reclaim[0].stalls, 5u);
  ASSERT_EQ(e.pressure.size(), 1u);
  EXPECT_EQ(e.pressure[0].pressure.some->avg300, 3);
  EXPECT_FALSE(e.pressure[0].pressure.full);
  ASSERT_EQ(e.kills.size(), 1u);
  EXPECT_EQ(e.kills[0].sender.comm, "bash");
  EXPECT_EQ(e.kills[0].cause, "earlyoom");
  ASSERT_EQ(e.alerts.size(), 1u) << "told twice, it is one";
  ASSERT_EQ(e.alerts[0].actions.size(), 1u);
  EXPECT_EQ(e.alerts[0].actions[0].result, ActionRun::Result::ok);
  EXPECT_EQ(e.lost["samples_ring_full"], 7u);
}

TEST_F(StoreTest, says_how_many_cgroups_it_leaves_out_of_an_episode) {
  auto writer = keep();
  for (std::uint64_t i = 0; i < 100; ++i)
    writer->add(
        sample(group("/job/" + std::to_string(i), 1000 + i), 990, MiB(1 + static_cast<std::int64_t>(i))));
  writer->add(EpisodeFact{kill(1, 1000, 100, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode e = last();
  EXPECT_EQ(e.cgroups_left_out, 102u - 64u) << "100, the owner and the root, which had no samples";
  EXPECT_FALSE(e.more_left_out);
}

TEST_F(StoreTest, has_an_episode_at_once_and_completes_it) {
  auto writer = keep();
  OomFactLine begun = kill(1, 1000, 77, job_);
  begun.episode.victims[0].freed_after.reset();
  writer->add(EpisodeFact{begun, false});
  for (int i = 0; i < 200 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].complete);
  OomFactLine told = kill(1, 999.5, 77, job_);
  told.episode.id = "another, as it began earlier";
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].complete);
  EXPECT_EQ(all[0].episode.id, told.episode.id);
  EXPECT_EQ(all[0].time, WallTime(at_s(999.5).time_since_epoch() + kZero));
  EXPECT_EQ(ask("SELECT count(*) FROM victims"), 1);
}

TEST_F(StoreTest, lists_kills_with_all_that_was_told_of_them_where_that_is_asked_for) {
  auto writer = keep();
  OomFactLine told = kill(1, 1000, 77, job_);
  ASSERT_FALSE(told.episode.grew_from.empty() || told.episode.chain.empty());
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  auto store = read();
  auto names = store.episodes(), all = store.episodes(EpisodeParts::all);
  ASSERT_TRUE(names && all);
  EXPECT_FALSE(names->at(0).forecast_before);
  const EpisodeSummary& whole = all->at(0);
  ASSERT_TRUE(whole.forecast_before);
  EXPECT_EQ(whole.forecast_before->time, told.forecast_before->time);
  EXPECT_EQ(whole.first_forecast, told.first_forecast);
  EXPECT_EQ(whole.episode.grew_from.size(), told.episode.grew_from.size());
  EXPECT_EQ(whole.episode.grew_most.size(), told.episode.grew_most.size());
  EXPECT_EQ(whole.episode.chain.size(), told.episode.chain.size());
}

TEST(Database, what_the_system_refuses_is_told_in_its_words) {
  sqlite3* raw = nullptr;
  sqlite3_open_v2("/nowhere/oomcast.db", &raw, SQLITE_OPEN_READWRITE, nullptr);
  DatabaseHandle db(raw);
  EXPECT_EQ(why_failed(raw), "unable to open database file: No such file or directory");
  sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE, nullptr);
  db.reset(raw);
  EXPECT_FALSE(execute(raw, "nothing"));
  EXPECT_EQ(why_failed(raw), "near \"nothing\": syntax error");
}

TEST_F(StoreTest, waits_for_another_that_has_it_locked_and_loses_nothing) {
  auto writer = keep();
  sqlite3* db = lock();
  writer->add(sample(job_, 999, MiB(100)));
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  sleep(3);  // longer than SQLite itself waits
  writer->add(sample(job_, 1006, MiB(200)));
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(), 0u);
  EXPECT_TRUE(writer->take_notices().empty());
  EXPECT_EQ(last().samples.size(), 2u);
}

TEST_F(StoreTest, is_not_waited_for_where_its_disk_stands_still) {
  auto writer = keep();
  sqlite3* db = lock();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  usleep(50'000);  // it waits for the lock, as it would for a disk
  EXPECT_FALSE(writer->ends_within(Nanos{}));
  unlock(db);
  EXPECT_TRUE(writer->ends_within(std::chrono::minutes(1)));
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 1);
}

TEST_F(StoreTest, keeps_half_of_the_room_for_what_not_any_user_can_make_without_end) {
  auto writer = keep();
  sqlite3* db = lock();
  for (std::uint64_t i = 0; i < 2 * StoreWriter::kMostWaiting; ++i) {
    Sample idle = sample(group("/idle-" + std::to_string(i), 1000 + i), 999, {});
    idle.usage = KiB(4);
    writer->add(std::move(idle));
  }
  EXPECT_GT(writer->lost(), 0u);
  for (int i = 0; i < 1000; ++i) writer->add(sample(job_, 1000 + i, MiB(100 + i)));
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM samples JOIN cgroups ON cgroups.id=cgroup WHERE path='/job'"), 1000);
}

TEST_F(StoreTest, that_has_less_room_lets_the_oldest_samples_go_and_counts_them_but_no_kill) {
  auto writer = keep();
  sqlite3* db = lock();
  constexpr int kSamples = 4000;
  for (unsigned i = 0; i < kSamples; ++i) {
    writer->add(sample(job_, 1000 + i, MiB(100 + i)));
    if (i % 1000 == 0) writer->add(EpisodeFact{kill(1 + i / 1000, 1000. + i, 77 + i, job_)});
  }
  writer->set_room(1.0 / 8);
  EXPECT_GE(writer->lost(), kSamples - StoreWriter::kMostWaiting / 8 - 2 * StoreWriter::kBatch);
  EXPECT_LE(writer->lost(), static_cast<std::uint64_t>(kSamples));
  std::uint64_t lost = writer->lost();
  writer->set_room(1);
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(), lost);
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 4);
  EXPECT_EQ(ask("SELECT max(usage) FROM samples"), MiB(100 + kSamples).count) << "the newest stay";
}

TEST_F(StoreTest, lets_kills_wait_up_to_a_bound_in_bytes_and_counts_the_rest) {
  auto writer = keep();
  sqlite3* db = lock();
  constexpr unsigned kKills = 200;
  for (unsigned i = 1; i <= kKills; ++i) {
    OomFactLine line = kill(i, 1000 + 20. * i, 77 + i, job_);
    for (unsigned n = 0; n < Episode::kMostTasks; ++n) {
      TaskAtKill task;
      task.process = process(10'000 + n, "worker", job_);
      task.process.cmdline = {std::string(2000, 'x')};
      line.episode.tasks.push_back(task);
    }
    writer->add(EpisodeFact{line});
  }
  unlock(db);
  OomFactLine after = kill(kKills + 1, 9000, 7777, job_);
  for (int i = 0; i < 500 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  writer->add(EpisodeFact{after});
  ASSERT_TRUE(writer->finish());
  auto kept = static_cast<std::uint64_t>(ask("SELECT count(*) FROM episodes"));
  EXPECT_EQ(kept + writer->lost(), kKills + 1);
  EXPECT_GT(writer->lost(), kKills / 2) << "each is 150 KiB";
  EXPECT_GE(kept, StoreWriter::kMostOfEpisodes / (200 << 10));
  EXPECT_EQ(ask("SELECT count(*) FROM episodes WHERE name='2020-7777'"), 1) << "there is room again";
}

TEST_F(StoreTest, counts_a_kill_once_that_two_oomcasts_saw) {
  auto a = keep(), b = keep();
  a->add(EpisodeFact{kill(1, 1000, 77, job_), false});
  for (int i = 0; i < 200 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  b->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(b->finish());
  ASSERT_TRUE(a->finish());
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].complete) << "the first ended before it told of it";
  EXPECT_EQ(ask("SELECT count(*) FROM runs"), 2);
}

TEST_F(StoreTest, has_the_episode_of_the_oomcast_that_ran_longest) {
  auto until = [&](const std::string& sql, std::int64_t n) {
    for (int i = 0; i < 1000 && ask(sql) != n; ++i) usleep(10'000);
    ASSERT_EQ(ask(sql), n) << sql;
  };
  auto first = keep();
  until("SELECT count(*) FROM runs", 1);
  auto second = keep();
  until("SELECT count(*) FROM runs", 2);
  second->add(EpisodeFact{kill(1, 1000, 77, job_), false});
  until("SELECT count(*) FROM episodes", 1);
  first->add(EpisodeFact{kill(1, 1000, 77, job_)});
  until("SELECT count(*) FROM episodes WHERE complete AND run=1", 1);
  second->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(second->finish());
  EXPECT_EQ(ask("SELECT run FROM episodes"), 1) << "the second, which told of it first, came back to its row";
  auto third = keep();
  third->add(EpisodeFact{kill(1, 2000, 99, job_)});
  until("SELECT run FROM episodes WHERE time_ns>(SELECT min(time_ns) FROM episodes)", 3);
  first->add(EpisodeFact{kill(2, 2000, 99, job_)});
  ASSERT_TRUE(first->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes WHERE run=1"), 2);
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 2);
}

TEST_F(StoreTest, takes_an_episode_from_a_log_once_and_completes_the_live_one) {
  auto writer = keep();
  OomFactLine live = kill(1, 1000, 77, job_);
  live.episode.gfp.reset();
  writer->add(EpisodeFact{live});
  ASSERT_TRUE(writer->finish());
  auto wall = [](double s) { return WallTime(at_s(s).time_since_epoch() + kZero); };
  auto on_v1 = std::make_shared<CgroupRef>(*other_);
  on_v1->id.hierarchy = Hierarchy::v1;
  for (int again = 0; again < 2; ++again) {
    auto import = EpisodeImport::open(dir_, "0.1.0");
    ASSERT_TRUE(import) << import.error().message;
    Episode same = kill(0, 0, 77, job_).episode, older = kill(0, 0, 99, on_v1).episode;
    same.usage = MiB(1);
    same.machine = two_zones();
    same.memory = MemoryAtKill{MiB(1), {}, {}, {}, {}, {}};
    auto a = import->add(same, EpisodeSource::journal, wall(1003), "boot1");  // journald writes no dashes
    ASSERT_TRUE(a);
    EXPECT_FALSE(*a);
    auto b = import->add(older, EpisodeSource::journal, wall(10), "boot-0");
    ASSERT_TRUE(b);
    EXPECT_EQ(*b, again == 0);
    auto c = import->add(same, EpisodeSource::journal, wall(1003), "boot-2");
    ASSERT_TRUE(c);
    EXPECT_EQ(*c, again == 0) << "another boot: another kill";
    ASSERT_TRUE(import->finish());
  }
  auto all = episodes();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].source, EpisodeSource::journal);
  EXPECT_EQ(all[0].time, wall(10));
  EXPECT_EQ(all[0].run->boot_id, "boot-0");
  EXPECT_EQ(all[0].run->hierarchy, Hierarchy::v1) << "this store's own runs are on v2";
  EXPECT_EQ(all[1].source, EpisodeSource::live);
  EXPECT_EQ(all[1].episode.gfp, "0xcc0(GFP_KERNEL)") << "only the log knew";
  EXPECT_EQ(all[1].episode.usage, MiB(512)) << "what is known stays";
  auto completed = Store::open(dir_)->episode(all[1].episode.id);
  ASSERT_TRUE(completed);
  ASSERT_TRUE(completed->told.episode.machine);
  EXPECT_EQ(completed->told.episode.machine->zones.size(), 2u);
  EXPECT_EQ(completed->told.episode.memory->anon, MiB(1));
}

TEST_F(StoreTest, reads_a_time_that_nobody_can_have_written) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  ask("UPDATE episodes SET time_ns=-9223372036854734592 RETURNING 1");
  ASSERT_EQ(episodes().size(), 1u);
  EXPECT_EQ(episodes()[0].time, WallTime{});
}

TEST_F(StoreTest, has_one_run_for_all_that_is_read_from_the_log_of_a_boot) {
  for (int day = 0; day < 3; ++day) {
    auto import = EpisodeImport::open(dir_, "0.1.0");
    ASSERT_TRUE(import) << import.error().message;
    ASSERT_TRUE(import->add(kill(0, 0, 77 + day, job_).episode, EpisodeSource::journal,
                            WallTime(at_s(1000 + 100 * day).time_since_epoch() + kZero), "boot-1"));
    ASSERT_TRUE(import->finish());
  }
  EXPECT_EQ(episodes().size(), 3u);
  EXPECT_EQ(ask("SELECT count(*) FROM runs"), 1);
}

TEST_F(StoreTest, has_the_live_episode_in_place_of_the_one_of_the_log) {
  auto import = EpisodeImport::open(dir_, "0.1.0");
  ASSERT_TRUE(import);
  ASSERT_TRUE(import->add(kill(0, 0, 77, job_).episode, EpisodeSource::kmsg,
                          WallTime(at_s(1001).time_since_epoch() + kZero), "boot-1"));
  ASSERT_TRUE(import->finish());
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].source, EpisodeSource::live);
  EXPECT_EQ(all[0].episode.time, at_s(1000));
}

TEST_F(StoreTest, finds_an_episode_by_the_beginning_of_its_id_and_names_near_ones) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  writer->add(EpisodeFact{kill(2, 2000, 780, other_)});
  ASSERT_TRUE(writer->finish());
  Store store = read();
  EXPECT_EQ(store.episode("2020-780")->told.episode.id, "2020-780");
  EXPECT_EQ(store.episode("2020-78")->told.episode.id, "2020-780");
  EXPECT_EQ(store.episode(std::nullopt)->told.episode.id, "2020-780") << "the last";
  auto none = store.episode("2020");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit_code, 1);
  EXPECT_NE(none.error().message.find("2020-77"), std::string::npos) << none.error().message;
}

TEST_F(StoreTest, knows_earlier_kills_of_the_same_workload_and_those_before_it_at_the_same_limit) {
  auto writer = keep();
  auto script = [](OomFactLine of, const std::string& name) {
    of.episode.victims[0].process.cmdline = {"/usr/bin/python3", name, "--lr",
                                             std::to_string(of.episode.serial)};
    of.episode.victims[0].process.uid = 1000;
    return EpisodeFact{of};
  };
  writer->add(script(kill(1, 1000, 77, other_), "train.py"));
  writer->add(script(kill(2, 1100, 78, job_), "evaluate.py"));
  writer->add(script(kill(3, 1200, 79, job_), "train.py"));
  writer->add(script(kill(4, 1300, 80, job_), "train.py"));
  ASSERT_TRUE(writer->finish());
  StoredEpisode e = last();
  ASSERT_EQ(e.earlier.size(), 2u) << "another script has only the name python3 in common";
  EXPECT_EQ(e.earlier[0].time, at_s(1000)) << "at another limit";
  EXPECT_EQ(e.earlier[1].time, at_s(1200));
  ASSERT_EQ(e.at_limit.size(), 2u);
  EXPECT_EQ(e.at_limit[0].time, at_s(1100));
  EXPECT_EQ(e.at_limit[1].time, at_s(1200));
}

TEST_F(StoreTest, is_readable_by_its_group_only) {
  umask(0);
  std::filesystem::remove_all(dir_);
  auto writer = keep();
  struct stat what {};
  ASSERT_EQ(stat(dir_.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0750u);
  for (const char* part : {"", "-wal", "-shm"}) {
    ASSERT_EQ(stat((dir_ + "/oomcast.db" + part).c_str(), &what), 0) << part;
    EXPECT_EQ(what.st_mode & 0777, 0640u) << part;
  }
}

TEST_F(StoreTest, refuses_links_and_directories_that_anybody_may_write_to) {
  ASSERT_EQ(symlink("/tmp/oomcast-elsewhere", (dir_ + "/oomcast.db").c_str()), 0);
  auto refused = StoreWriter::keep(dir_, info());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("link"), std::string::npos);
  EXPECT_NE(access("/tmp/oomcast-elsewhere", F_OK), 0);
  std::filesystem::remove(dir_ + "/oomcast.db");
  std::ofstream(dir_ + "/precious") << "x";
  ASSERT_EQ(link((dir_ + "/precious").c_str(), (dir_ + "/oomcast.db").c_str()), 0);
  EXPECT_FALSE(StoreWriter::keep(dir_, info()));
  std::filesystem::remove(dir_ + "/oomcast.db");
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_FALSE(StoreWriter::keep(dir_, info()));
}

TEST_F(StoreTest, says_that_nothing_is_there) {
  auto store = Store::open(dir_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().exit_code, 1);
  ASSERT_TRUE(keep()->finish());
  auto none = read().episode(std::nullopt);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no OOM kill"), std::string::npos);
}

TEST_F(StoreTest, whose_making_was_cut_short_has_no_kills_and_can_be_written) {
  std::string file = dir_ + "/oomcast.db";
  std::ofstream(file).close();
  auto says = [&] {
    auto store = Store::open(dir_);
    return !store ? store.error().message : store->episode(std::nullopt).error().message;
  };
  EXPECT_NE(says().find("no OOM kill"), std::string::npos) << says();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_NE(says().find("no OOM kill"), std::string::npos) << says();
  ASSERT_TRUE(keep()->finish());
  EXPECT_TRUE(Store::open(dir_));
}

TEST_F(StoreTest, opens_a_recording_too) {
  std::string file = dir_ + "/run.db";
  auto made = StoreWriter::record(file, info(), false);
  ASSERT_TRUE(made);
  for (int s = 0; s < 10; ++s) (*made)->add(sample(job_, 990 + s, MiB(100)));
  (*made)->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE((*made)->finish());
  auto store = Store::open(file);
  ASSERT_TRUE(store) << store.error().message;
  auto e = store->episode(std::nullopt);
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_EQ(e->samples.size(), 10u) << "also those that did not change";
}

TEST_F(StoreTest, survives_damage_anywhere) {
  auto writer = keep();
  for (int s = 0; s < 200; ++s) {
    writer->add(sample(job_, 900 + s, MiB(100 + s)));
    if (s % 20 == 0)
      writer->add(EpisodeFact{kill(static_cast<std::uint64_t>(s + 1), 900 + s, 100 + s, job_)});
  }
  ASSERT_TRUE(writer->finish());
  std::string file = dir_ + "/oomcast.db";
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 1 + round % 40; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (round % 5 == 0) damaged.resize(random() % damaged.size());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    auto store = Store::open(dir_);
    if (!store) continue;
    (void)store->episodes();
    (void)store->episode(std::nullopt);
    for (std::int64_t row = 1; row < 12; ++row) (void)store->episode_at(row, 30min);
  }
}

struct Lack {
  std::string name, sql;
};
const std::string kGrowth =
    "DROP TABLE forecast_evidence; DROP TABLE growth_sites; DROP TABLE growth_code; DROP TABLE "
    "growth_holders;";
const std::string kMachine = kGrowth +
                             "DROP TABLE machine_at_kill; DROP TABLE zones_at_kill; DROP TABLE slabs_at_kill;"
                             "PRAGMA user_version=2;";
const std::string kCode = kMachine + "DROP TABLE victim_code;";
const std::string kGpu =
    kCode + "DROP TABLE gpu_samples; DROP TABLE gpu_events; DROP TABLE forecast_devices;";

// As earlier versions wrote it.
class OlderStore : public StoreTest, public testing::WithParamInterface<Lack> {};

TEST_P(OlderStore, is_read_and_gone_on_with) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 100, job_)});
  ASSERT_TRUE(writer->finish());
  writer.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((dir_ + "/oomcast.db").c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, GetParam().sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  {
    auto store = Store::open(dir_);
    ASSERT_TRUE(store) << store.error().message;
    auto e = store->episode(std::nullopt);
    ASSERT_TRUE(e) << e.error().message;
    EXPECT_FALSE(e->told.episode.machine);
    EXPECT_TRUE(e->told.episode.grew_from.empty());
  }
  auto next = keep();
  OomFactLine second = kill(1, 2000, 200, job_);
  second.episode.machine.emplace();
  second.episode.machine->mems_allowed = "0-1";
  next->add(EpisodeFact{second});
  ASSERT_TRUE(next->finish());
  auto store = Store::open(dir_);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->episodes()->size(), 2u);
  auto e = store->episode("2020-200");
  ASSERT_TRUE(e) << e.error().message;
  ASSERT_TRUE(e->told.episode.machine);
  EXPECT_EQ(e->told.episode.machine->mems_allowed, "0-1");
  ASSERT_EQ(e->told.episode.grew_from.size(), second.episode.grew_from.size());
  EXPECT_EQ(e->told.episode.grew_from.at(0).code, second.episode.grew_from[0].code);
}

INSTANTIATE_TEST_SUITE_P(Without, OlderStore,
                         testing::Values(Lack{"growth", kGrowth}, Lack{"the_machine", kMachine},
                                         Lack{"the_victims_code", kCode}, Lack{"gpus", kGpu}),
                         [](const auto& of) { return of.param.name; });

TEST_F(StoreTest, leaves_a_file_of_another_schema_as_it_is_and_says_what_to_do) {
  ASSERT_TRUE(keep()->finish());
  std::string file = dir_ + "/oomcast.db";
  for (auto [schema, what] :
       {std::pair("1", "move it away"), std::pair("99", "use the version that wrote it")}) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(db, (std::string("PRAGMA user_version=") + schema).c_str(), nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(db);
    auto opening = open_store(dir_);
    EXPECT_FALSE(opening.db);
    EXPECT_FALSE(opening.broken) << "it is not damaged";
    EXPECT_NE(opening.why.find(what), std::string::npos) << opening.why;
  }
}

TEST_F(StoreTest, opens_a_recording_of_schema_1) {
  std::string file = dir_ + "/old.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, kRecordingOfSchema1, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  ASSERT_EQ(chmod(file.c_str(), 0440), 0);
  auto store = Store::open(file);
  ASSERT_TRUE(store) << store.error().message;
  auto all = store->episodes();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  auto e = store->episode(std::nullopt);
  ASSERT_TRUE(e) << e.error().message;
  const Episode& told = e->told.episode;
  EXPECT_EQ(told.id, "old-1");
  EXPECT_EQ(told.time, at_s(1000));
  EXPECT_EQ(told.limit_cgroup->path, "/job");
  EXPECT_EQ(told.limit_cgroup->id, (CgroupId{Hierarchy::v1, 7}));
  EXPECT_FALSE(told.trigger);
  EXPECT_EQ(told.gfp, "0xcc0");
  ASSERT_EQ(told.victims.size(), 1u);
  const Victim& v = told.victims[0];
  EXPECT_EQ(v.process.id, (TaskId{55, 112})) << "1.12 s after boot, in ticks";
  EXPECT_EQ(v.process.cmdline, (std::vector<std::string>{"py", "a b"}));
  EXPECT_EQ(v.process.cgroup->path, "/job");
  EXPECT_EQ(v.tid, 56u);
  EXPECT_EQ(v.anon, Bytes{1500});
  EXPECT_EQ(v.file, std::nullopt);
  EXPECT_EQ(v.stack, (std::vector<std::uint64_t>{0x7f, 1}));
  ASSERT_EQ(told.grew_most.size(), 1u);
  EXPECT_EQ(told.grew_most[0].grew, Bytes{77});
  ASSERT_EQ(told.chain.size(), 2u);
  EXPECT_EQ(told.chain[1].cgroup->path, "/");
  EXPECT_EQ(told.checks.mark_victim, 1u);
  EXPECT_EQ(told.checks.vmstat, std::nullopt);
  EXPECT_EQ(e->told.first_forecast, at_s(990));
  ASSERT_TRUE(e->told.forecast_before);
  EXPECT_EQ(e->told.forecast_before->forecast.verdict, Verdict::leak);
  EXPECT_EQ(e->samples.size(), 1u);
  EXPECT_EQ(e->samples[0].time, at_s(999));
  EXPECT_EQ(e->forecasts.size(), 1u);
  EXPECT_EQ(e->lost["model_full"], 4u);
}

GpuSample on_card(double s, Bytes held, const std::optional<ProcessRef>& process) {
  GpuSample out;
  out.time = at_s(s);
  out.process = process;
  out.device.emplace().bytes.fill(7);
  out.held = held;
  if (process) out.pinned = GiB(4);
  out.limit = GiB(32);
  return out;
}

TEST_F(StoreTest, keeps_what_a_victim_held_on_its_card_and_how_it_came_to_it) {
  auto writer = keep();
  auto victim = process(77, "python3", job_);
  GpuFact again{at_s(990), victim, {}};
  again.event.op = GpuEvent::Op::again;
  again.event.bytes = GiB(6);
  again.event.first = at_s(900);
  GpuFact alloc = again;
  alloc.event.op = GpuEvent::Op::alloc;
  writer->add(again);
  writer->add(alloc);
  writer->add(on_card(995, GiB(20), victim));
  writer->add(on_card(995, GiB(24), std::nullopt));
  writer->add(on_card(995, GiB(4), process(99, "other", other_)));
  auto last_of_it = on_card(1000.1, GiB(23), victim);
  last_of_it.ended = true;
  writer->add(last_of_it);
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  ASSERT_EQ(stored.gpu_events.size(), 1u) << "allocations are not kept one by one";
  EXPECT_EQ(stored.gpu_events[0].event.op, GpuEvent::Op::again);
  EXPECT_EQ(stored.gpu_events[0].event.first, at_s(900));
  ASSERT_EQ(stored.gpu.size(), 3u) << "the victim's and the card's, not those of another cgroup";
  EXPECT_EQ(stored.gpu.back().held, GiB(23));
  EXPECT_EQ(stored.gpu.back().pinned, GiB(4));
  EXPECT_TRUE(stored.gpu.back().ended);
}

TEST_F(StoreTest, keeps_the_errors_of_cards_also_of_those_that_blame_nobody) {
  auto writer = keep();
  auto victim = process(77, "python3", job_);
  for (std::uint32_t code : {31u, 79u}) {
    GpuFact xid{at_s(990), std::nullopt, {}};
    if (code == 31) xid.process = victim;
    xid.event.op = GpuEvent::Op::xid;
    xid.event.status = code;
    xid.event.device.emplace().bytes.fill(7);
    xid.event.bus = "PCI:0000:01:00";
    xid.event.message = code == 31 ? "MMU Fault" : "";
    writer->add(xid);
  }
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  ASSERT_EQ(stored.gpu_events.size(), 2u);
  EXPECT_EQ(stored.gpu_events[0].event.op, GpuEvent::Op::xid);
  EXPECT_EQ(stored.gpu_events[0].event.status, 31u);
  ASSERT_TRUE(stored.gpu_events[0].process);
  EXPECT_EQ(stored.gpu_events[0].process->id, victim.id);
  EXPECT_EQ(stored.gpu_events[0].event.bus, "PCI:0000:01:00");
  EXPECT_EQ(stored.gpu_events[0].event.message, "MMU Fault");
  EXPECT_EQ(stored.gpu_events[1].event.status, 79u);
  EXPECT_FALSE(stored.gpu_events[1].process);
}

TEST_F(StoreTest, of_before_gpus_were_followed_is_read_and_gets_their_tables_when_it_is_written_again) {
  {
    auto writer = keep();
    writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
    ASSERT_TRUE(writer->finish());
  }
  for (const char* table : {"gpu_samples", "gpu_evictions", "gpu_events", "gpu_errors", "forecast_devices"})
    ask(std::string("DROP TABLE ") + table);
  EXPECT_TRUE(last().gpu.empty());
  {
    auto writer = keep();
    writer->add(on_card(2000, GiB(1), std::nullopt));
    ASSERT_TRUE(writer->finish());
  }
  EXPECT_EQ(ask("SELECT count(*) FROM gpu_samples"), 1);
  EXPECT_EQ(episodes().size(), 1u);
}

}  // namespace
}  // namespace oomcast
