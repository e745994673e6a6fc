// A store in a directory of its own with what is written to it, for tests of what becomes of that.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "moment.h"
#include "store/store.h"
#include "store/writer.h"

namespace oomcast::test {

using namespace std::chrono_literals;

// Wall time of the monotonic zero, so that the kill at 1000 s is now: a store thins and forgets what is old.
inline const Nanos kZero = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(1010);

inline CgroupPtr group(const std::string& path, std::uint64_t inode) {
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, inode}, path, name_cgroup(path)});
}

inline Sample sample(const CgroupPtr& cgroup, double s, Bytes pinned, Bytes limit = MiB(512)) {
  Sample out;
  out.time = at_s(s);
  out.cgroup = cgroup;
  out.usage = pinned + MiB(1);
  out.limit = limit;
  out.limit_cgroup = cgroup;
  out.pinned = pinned;
  return out;
}

inline ProcessRef process(std::uint32_t pid, const std::string& comm, const CgroupPtr& cgroup) {
  ProcessRef p;
  p.id = {pid, pid * 10};
  p.comm = comm;
  p.cmdline = {"/usr/bin/" + comm, "--x"};
  p.cmdline_source = CmdlineSource::shown;
  p.cgroup = cgroup;
  return p;
}

inline OomEvent kill(std::uint64_t serial, double s, std::uint32_t pid, const CgroupPtr& cgroup) {
  OomEvent out;
  Episode& e = out.episode;
  e.serial = serial;
  e.id = "2020-" + std::to_string(pid);
  e.time = at_s(s);
  e.scope = OomScope::memcg;
  e.limit_cgroup = cgroup;
  e.usage = e.limit = MiB(512);
  e.trigger = process(pid, "asks", cgroup);
  e.request.order = 0;
  e.request.gfp = "0xcc0(GFP_KERNEL)";
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
  e.grew_from.sites.push_back({process(pid, "python3", cgroup),
                               {{"cache", "/job/train.py", 41}, {"step", "/job/train.py", 50}},
                               MiB(30),
                               MiB(40),
                               Seconds(4),
                               e.time - 20s,
                               e.time - 4s,
                               {.sure = MiB(29),
                                .kept = MiB(29),
                                .kept_error = MiB(1),
                                .touched = MiB(70),
                                .adds = true,
                                .held_by = "cache in __main__"},
                               200,
                               3,
                               0.75});
  e.grew_from.sites.push_back({process(pid, "python3", cgroup),
                               {{"malloc", "/lib/libc.so.6", {}}},
                               MiB(10),
                               MiB(40),
                               Seconds(4),
                               e.time - 20s,
                               e.time - 4s,
                               {.kept_unknown = "no breakpoints"}});
  e.grew_from.holders.push_back({process(pid, "python3", cgroup),
                                 "cache in __main__",
                                 "dict",
                                 "Row",
                                 3,
                                 400,
                                 120,
                                 MiB(28),
                                 MiB(40),
                                 Seconds(4),
                                 e.time - 20s,
                                 e.time - 4s,
                                 {{"cache", "/job/train.py", 41}},
                                 5,
                                 6});
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

inline GpuSample on_card(double s, Bytes held, const std::optional<ProcessRef>& process) {
  GpuSample out;
  out.time = at_s(s);
  out.process = process;
  out.device.emplace().bytes.fill(7);
  out.held = held;
  if (process) out.pinned = GiB(4);
  out.limit = GiB(32);
  return out;
}

inline MachineAtKill two_zones() {
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
  // Of a table or an index: nothing below its root can be read then. Nobody may have it open.
  void damage(const std::string& name) {
    std::int64_t page = ask("SELECT rootpage FROM sqlite_schema WHERE name='" + name + "'");
    std::int64_t size = ask("PRAGMA page_size");
    ASSERT_GT(page, 0) << name;
    std::fstream file(dir_ + "/oomcast.db", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp((page - 1) * size);
    file << std::string(static_cast<std::size_t>(size), '\xff');
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

}  // namespace oomcast::test
