#include "store/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/gpu_tables.h"
#include "store/legacy.h"

namespace oomcast {
namespace {

constexpr const char* kTables = R"sql(
CREATE TABLE runs(id INTEGER PRIMARY KEY, version TEXT, kernel TEXT, boot_id TEXT, scope TEXT, hierarchy TEXT,
  interval_ns INTEGER, wall_of_mono_zero_ns INTEGER, wall_of_boot_zero_ns INTEGER, clock_tick_ns INTEGER,
  tree_pid INTEGER, tree_start_ticks INTEGER, began_ns INTEGER, ended_ns INTEGER, lost INTEGER);
CREATE TABLE cgroups(id INTEGER PRIMARY KEY, run INTEGER, inode INTEGER, path TEXT, name TEXT, kind TEXT,
  container TEXT, pod TEXT, unit TEXT, slurm_job TEXT, slurm_step TEXT);
CREATE TABLE processes(id INTEGER PRIMARY KEY, run INTEGER, pid INTEGER, start_ticks INTEGER, comm TEXT, cmdline BLOB,
  cmdline_source INTEGER, cmdline_truncated INTEGER, uid INTEGER, ppid INTEGER, ns_pid INTEGER, cgroup INTEGER);
CREATE TABLE samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, usage INTEGER, usage_limit INTEGER,
  limit_cgroup INTEGER, anon INTEGER, file INTEGER, shmem INTEGER, kernel INTEGER, swap INTEGER, pinned INTEGER,
  headroom_limit INTEGER, peak INTEGER, step_s INTEGER);
CREATE TABLE process_samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, rss INTEGER, anon INTEGER,
  file INTEGER, shmem INTEGER, swap INTEGER, private INTEGER, rss_error INTEGER, step_s INTEGER);
CREATE TABLE exits(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER);
CREATE TABLE removals(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER);
CREATE TABLE ticks(seq INTEGER PRIMARY KEY, time_ns INTEGER, killed INTEGER);
CREATE TABLE forecasts(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, process INTEGER, verdict TEXT,
  growth REAL, growth_low REAL, growth_high REAL, growth_span_s REAL, growth_samples INTEGER, usage_limit INTEGER,
  limit_cgroup INTEGER, eta_s REAL, eta_low_s REAL, eta_high_s REAL, alert INTEGER, why TEXT, floor INTEGER,
  peak_above INTEGER, period_s REAL, peaks INTEGER, regime_s REAL, stepped INTEGER, step_ago_s REAL, shared INTEGER,
  told INTEGER);
CREATE TABLE reclaim(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, stalls INTEGER, stalled_s REAL,
  reclaimed INTEGER);
CREATE TABLE pressure(seq INTEGER PRIMARY KEY, time_ns INTEGER, run INTEGER, cgroup INTEGER, some_avg10 REAL,
  some_avg60 REAL, some_avg300 REAL, some_total_us INTEGER, full_avg10 REAL, full_avg60 REAL, full_avg300 REAL,
  full_total_us INTEGER);
CREATE TABLE kills(seq INTEGER PRIMARY KEY, time_ns INTEGER, victim INTEGER, sender INTEGER, cause TEXT);
CREATE TABLE alerts(seq INTEGER PRIMARY KEY, time_ns INTEGER, run INTEGER, rule TEXT, cgroup INTEGER, message TEXT,
  forecast INTEGER);
CREATE TABLE alert_actions(alert INTEGER, nr INTEGER, kind TEXT, what TEXT, result TEXT, exit_code INTEGER,
  signal INTEGER, error TEXT, process INTEGER, took_s REAL, PRIMARY KEY(alert, nr)) WITHOUT ROWID;
CREATE TABLE losses(seq INTEGER PRIMARY KEY, time_ns INTEGER, run INTEGER, reason TEXT, count INTEGER);
CREATE TABLE events(seq INTEGER PRIMARY KEY, time_ns INTEGER, type TEXT, json TEXT, text TEXT);
CREATE TABLE episodes(id INTEGER PRIMARY KEY, run INTEGER, time_ns INTEGER, name TEXT, source TEXT, complete INTEGER,
  scope TEXT, limit_cgroup INTEGER, usage INTEGER, usage_limit INTEGER, trigger INTEGER, page_order INTEGER, gfp TEXT,
  group_kill INTEGER, marked INTEGER, logged INTEGER, vmstat INTEGER, forecast INTEGER, first_forecast_ns INTEGER);
CREATE TABLE victims(episode INTEGER, nr INTEGER, process INTEGER, tid INTEGER, anon INTEGER, file INTEGER,
  shmem INTEGER, swap INTEGER, pgtables INTEGER, total_vm INTEGER, oom_score_adj INTEGER, killed INTEGER,
  freed_after_s REAL, stack TEXT, marked INTEGER, logged INTEGER, PRIMARY KEY(episode, nr)) WITHOUT ROWID;
CREATE TABLE others(episode INTEGER, nr INTEGER, role TEXT, process INTEGER, grew INTEGER, over_s REAL,
  PRIMARY KEY(episode, nr)) WITHOUT ROWID;
CREATE TABLE ancestors(episode INTEGER, nr INTEGER, cgroup INTEGER, usage INTEGER, usage_limit INTEGER,
  PRIMARY KEY(episode, nr)) WITHOUT ROWID;
CREATE TABLE memory_at_kill(episode INTEGER PRIMARY KEY, anon INTEGER, file INTEGER, shmem INTEGER, kernel INTEGER,
  slab INTEGER, swap INTEGER, tasks INTEGER);
CREATE TABLE tasks(episode INTEGER, nr INTEGER, process INTEGER, rss INTEGER, anon INTEGER, file INTEGER,
  shmem INTEGER, swap INTEGER, pgtables INTEGER, oom_score_adj INTEGER, PRIMARY KEY(episode, nr)) WITHOUT ROWID;
CREATE TABLE kept(episode INTEGER, nr INTEGER, cgroup INTEGER, PRIMARY KEY(episode, nr)) WITHOUT ROWID;
CREATE TABLE thinned(source TEXT, step_s INTEGER, seq INTEGER, PRIMARY KEY(source, step_s)) WITHOUT ROWID;
CREATE INDEX episodes_by_time ON episodes(time_ns);
CREATE INDEX victims_by_tid ON victims(tid);
CREATE INDEX kept_by_cgroup ON kept(cgroup);
)sql";

// What files of earlier versions lack: all of schema 2, and those of schema 3 the tables of growth.
constexpr std::array kOfKills = {
    TableText{"machine_at_kill",
              "episode INTEGER PRIMARY KEY, cpuset TEXT, mems_allowed TEXT, nodemask TEXT, ram INTEGER, free "
              "INTEGER,"
              " swap_total INTEGER, swap_free INTEGER"},
    TableText{"zones_at_kill",
              "episode INTEGER, nr INTEGER, node INTEGER, zone TEXT, free INTEGER, min INTEGER, low INTEGER, "
              "high INTEGER,"
              " present INTEGER, managed INTEGER, PRIMARY KEY(episode, nr)"},
    TableText{
        "slabs_at_kill",
        "episode INTEGER, nr INTEGER, name TEXT, used INTEGER, total INTEGER, PRIMARY KEY(episode, nr)"},
    TableText{"parts_at_kill",
              "episode INTEGER, nr INTEGER, name TEXT, size INTEGER, PRIMARY KEY(episode, nr)"},
    TableText{"task_sums", "episode INTEGER PRIMARY KEY, rss INTEGER, swap INTEGER"},
    TableText{"victim_code",
              "episode INTEGER, victim INTEGER, nr INTEGER, function TEXT, file TEXT, line INTEGER,"
              " PRIMARY KEY(episode, victim, nr)"},
    TableText{"victim_times", "episode INTEGER, nr INTEGER, time_ns INTEGER, PRIMARY KEY(episode, nr)"},
    TableText{"kill_hosts", "episode INTEGER PRIMARY KEY, host TEXT"},
    TableText{"kill_series", "episode INTEGER PRIMARY KEY, kills INTEGER, since_ns INTEGER"},
    TableText{"growth_sites",
              "episode INTEGER, nr INTEGER, process INTEGER, grown INTEGER, of INTEGER, watched_s REAL, "
              "from_ns INTEGER,"
              " to_ns INTEGER, PRIMARY KEY(episode, nr)"},
    TableText{"growth_holders", "episode INTEGER, site INTEGER, path TEXT, PRIMARY KEY(episode, site)"},
    TableText{
        "growth_evidence",
        "episode INTEGER, site INTEGER, sure INTEGER, kept INTEGER, kept_error INTEGER, kept_unknown TEXT,"
        " touched INTEGER, adds INTEGER, samples INTEGER, lost INTEGER, faults_watched REAL,"
        " PRIMARY KEY(episode, site)"},
    TableText{"growth_containers",
              "episode INTEGER, nr INTEGER, process INTEGER, path TEXT, type TEXT, added_type TEXT,"
              " containers INTEGER, length INTEGER, added INTEGER, least INTEGER, of INTEGER, watched_s REAL,"
              " from_ns INTEGER, to_ns INTEGER, adder_seen INTEGER, adds_seen INTEGER,"
              " PRIMARY KEY(episode, nr)"},
    TableText{"growth_adders",
              "episode INTEGER, container INTEGER, nr INTEGER, function TEXT, file TEXT, line INTEGER,"
              " PRIMARY KEY(episode, container, nr)"},
    TableText{"forecast_evidence",
              "forecast INTEGER PRIMARY KEY, limit_left INTEGER, limit_moved INTEGER, limit_within_s REAL,"
              " thrashes_s REAL, thrashes_waiting REAL, thrashes_reclaimed REAL"},
    TableText{"throttles", "sample INTEGER PRIMARY KEY, size INTEGER, cgroup INTEGER"},
    TableText{"throttled_forecasts", "forecast INTEGER PRIMARY KEY"},
    TableText{"headroom_cgroups", "sample INTEGER PRIMARY KEY, cgroup INTEGER"},
    TableText{"growth_code",
              "episode INTEGER, site INTEGER, nr INTEGER, function TEXT, file TEXT, line INTEGER,"
              " PRIMARY KEY(episode, site, nr)"},
};

// What grows at its end only costs little; what is older is found by whose it is.
constexpr const char* kIndexes = R"sql(
CREATE INDEX samples_by_cgroup ON samples(cgroup, time_ns) WHERE step_s IS NOT NULL;
CREATE INDEX process_samples_by_process ON process_samples(process, time_ns) WHERE step_s IS NOT NULL;
CREATE INDEX processes_by_cgroup ON processes(cgroup);
CREATE INDEX cgroups_by_path ON cgroups(path);
CREATE INDEX exits_by_time ON exits(time_ns);
CREATE INDEX forecasts_by_time ON forecasts(time_ns);
CREATE INDEX reclaim_by_time ON reclaim(time_ns);
CREATE INDEX pressure_by_time ON pressure(time_ns);
CREATE INDEX kills_by_time ON kills(time_ns);
CREATE INDEX alerts_by_time ON alerts(time_ns);
CREATE INDEX losses_by_time ON losses(time_ns);
)sql";

}  // namespace

bool make_tables(sqlite3* db) {
  return execute(db, kTables) && execute(db, kIndexes) && complete_tables(db) &&
         execute(db, fmt::format("PRAGMA application_id={}", kApplicationId));
}

bool complete_tables(sqlite3* db) {
  return make_missing(db, kOfKills) && make_gpu_tables(db) &&
         (ask(db, "PRAGMA user_version") == kSchema ||
          execute(db, fmt::format("PRAGMA user_version={}", kSchema)));
}

bool add_run(sqlite3* db, const RunInfo& info, std::int64_t began_ns, std::int64_t& id) {
  Statement run(db, "INSERT INTO runs VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,NULL,0)");
  std::optional<std::string> boot_id;
  if (!info.boot_id.empty()) boot_id = info.boot_id;
  std::optional<std::uint32_t> pid;
  std::optional<std::uint64_t> start;
  if (info.tree) {
    pid = info.tree->tgid;
    start = info.tree->start_ticks;
  }
  run << info.version << info.kernel << boot_id << info.scope
      << std::string_view(info.hierarchy == Hierarchy::v1 ? "v1" : "v2")
      << std::int64_t{info.interval.count()} << std::int64_t{info.wall_of_mono_zero.count()}
      << std::int64_t{info.wall_of_boot_zero.count()} << std::int64_t{info.tick.count()} << pid << start
      << began_ns;
  bool ok = run.run();
  id = sqlite3_last_insert_rowid(db);
  return ok;
}

std::optional<RunInfo> read_run(sqlite3* db, std::int64_t id) {
  Statement run(
      db,
      "SELECT version, kernel, boot_id, scope, hierarchy, interval_ns, wall_of_mono_zero_ns,"
      " wall_of_boot_zero_ns, clock_tick_ns, tree_pid, tree_start_ticks, lost FROM runs WHERE id=?");
  if (!(run << id).row()) return std::nullopt;
  RunInfo info;
  info.version = run.text(0);
  info.kernel = run.text(1);
  info.boot_id = run.text(2);
  info.scope = run.text(3);
  info.hierarchy = run.text(4) == "v1" ? Hierarchy::v1 : Hierarchy::v2;
  info.interval = std::min<Nanos>(run.nanos(5), std::chrono::hours(24));
  info.wall_of_mono_zero = run.nanos(6);
  info.wall_of_boot_zero = run.nanos(7);
  info.tick = std::clamp<Nanos>(run.nanos(8), Nanos{}, std::chrono::seconds(1));
  if (auto pid = run.number(9); pid && *pid)
    info.tree = TaskId{*pid, static_cast<std::uint64_t>(run.integer(10))};
  info.lost = static_cast<std::uint64_t>(run.integer(11));
  if (info.interval <= Nanos{}) return std::nullopt;
  return info;
}

Status prepare_to_read(sqlite3* db, const std::string& shown) {
  auto wrong = [&](std::string_view what) { return Error::usage(fmt::format("{}: {}", shown, what)); };
  auto application = ask(db, "PRAGMA application_id");
  if (!application) return wrong(why_failed(db));
  if (*application != kApplicationId) return wrong("this database is no recording of oomcast");
  auto schema = ask(db, "PRAGMA user_version");
  if (!schema || *schema < 1 || *schema > kSchema)
    return wrong(
        fmt::format("it has schema {}, this oomcast reads schema 1 to {}: use the version that wrote it",
                    schema ? *schema : -1, kSchema));
  if (ask(db, "SELECT count(*) FROM sqlite_schema") == 0)
    return wrong(
        fmt::format("nothing is in it: oomcast was killed while it wrote, and {}-wal, which has the rest, "
                    "is not beside it",
                    shown));
  if (!view_missing(db, kOfKills) || (schema == 1 && !view_schema_1(db)) || !view_gpu_tables(db))
    return wrong(fmt::format("its tables cannot be read: {}", why_failed(db)));
  return Ok{};
}

}  // namespace oomcast
