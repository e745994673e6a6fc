#include "store/legacy.h"

#include <fmt/format.h>

namespace oomcast {
namespace {

// {0}: wall_of_mono_zero_ns.
constexpr const char* kViews = R"sql(
CREATE TEMP TABLE runs(id INTEGER PRIMARY KEY, version TEXT, kernel TEXT, boot_id TEXT, scope TEXT, hierarchy TEXT,
  interval_ns INTEGER, wall_of_mono_zero_ns INTEGER, wall_of_boot_zero_ns INTEGER, clock_tick_ns INTEGER,
  tree_pid INTEGER, tree_start_ticks INTEGER, began_ns INTEGER, ended_ns INTEGER, lost INTEGER);
INSERT INTO temp.runs SELECT 1, max(value) FILTER(WHERE key='version'), max(value) FILTER(WHERE key='kernel'), NULL,
  max(value) FILTER(WHERE key='scope'), max(value) FILTER(WHERE key='hierarchy'),
  max(value) FILTER(WHERE key='interval_ns'), {0}, max(value) FILTER(WHERE key='wall_of_boot_zero_ns'),
  max(value) FILTER(WHERE key='clock_tick_ns'), max(value) FILTER(WHERE key='tree_pid'),
  max(value) FILTER(WHERE key='tree_start_ticks'), NULL, NULL, coalesce(max(value) FILTER(WHERE key='lost'), 0)
  FROM main.meta;
CREATE TEMP VIEW cgroups AS SELECT id, 1 AS run, inode, path, name, kind, container, pod, unit, slurm_job, slurm_step
  FROM main.cgroups;
CREATE TEMP VIEW processes AS SELECT id, 1 AS run, pid, start_ticks, comm, cmdline, cmdline_source, cmdline_truncated,
  uid, ppid, ns_pid, cgroup FROM main.processes;
CREATE TEMP VIEW samples AS SELECT seq, time_ns+{0} AS time_ns, cgroup, usage, usage_limit, limit_cgroup, anon, file,
  shmem, kernel, swap, pinned, headroom_limit, peak, NULL AS step_s FROM main.samples;
CREATE TEMP VIEW process_samples AS SELECT seq, time_ns+{0} AS time_ns, process, rss, anon, file, shmem, swap, private,
  rss_error, NULL AS step_s FROM main.process_samples;
CREATE TEMP VIEW exits AS SELECT seq, time_ns+{0} AS time_ns, process FROM main.exits;
CREATE TEMP VIEW removals AS SELECT seq, time_ns+{0} AS time_ns, cgroup FROM main.removals;
CREATE TEMP VIEW ticks AS SELECT seq, time_ns+{0} AS time_ns, killed FROM main.ticks;
CREATE TEMP VIEW forecasts AS SELECT seq, time_ns+{0} AS time_ns, cgroup, process, verdict, growth, growth AS growth_low,
  growth AS growth_high, NULL AS growth_span_s, NULL AS growth_samples, NULL AS usage_limit, NULL AS limit_cgroup,
  eta_s, eta_low_s, eta_high_s, alert, why, NULL AS floor, NULL AS peak_above, NULL AS period_s, NULL AS peaks,
  NULL AS regime_s, NULL AS stepped, NULL AS step_ago_s, NULL AS shared, 1 AS told FROM main.forecasts;
CREATE TEMP VIEW events AS SELECT seq, time_ns+{0} AS time_ns, type, json, text FROM main.events;
)sql";

// Only told as lines then.
constexpr const char* kAbsent = R"sql(
CREATE TEMP TABLE reclaim(seq, time_ns, cgroup, stalls, stalled_s, reclaimed);
CREATE TEMP TABLE pressure(seq, time_ns, run, cgroup, some_avg10, some_avg60, some_avg300, some_total_us, full_avg10,
  full_avg60, full_avg300, full_total_us);
CREATE TEMP TABLE kills(seq, time_ns, victim, sender, cause);
CREATE TEMP TABLE alerts(seq, time_ns, run, rule, cgroup, message, forecast);
CREATE TEMP TABLE alert_actions(alert, nr, kind, what, result, exit_code, signal, error, process, took_s);
CREATE TEMP TABLE losses(seq, time_ns, run, reason, count);
CREATE TEMP TABLE episodes(id INTEGER PRIMARY KEY, run, time_ns, name, source, complete, scope, limit_cgroup, usage,
  usage_limit, trigger, page_order, gfp, group_kill, marked, logged, vmstat, forecast, first_forecast_ns);
CREATE TEMP TABLE victims(episode, nr, process, tid, anon, file, shmem, swap, pgtables, total_vm, oom_score_adj, killed,
  freed_after_s, stack, marked, logged);
CREATE TEMP TABLE others(episode, nr, role, process, grew, over_s);
CREATE TEMP TABLE ancestors(episode, nr, cgroup, usage, usage_limit);
CREATE TEMP TABLE kept(episode, nr, cgroup);
CREATE TEMP TABLE thinned(source, step_s, seq);
)sql";

}  // namespace

bool view_schema_1(sqlite3* db) {
  auto offset = ask(db, "SELECT value FROM main.meta WHERE key='wall_of_mono_zero_ns'");
  return offset && execute(db, fmt::format(fmt::runtime(kViews), *offset)) && execute(db, kAbsent);
}

}  // namespace oomcast
