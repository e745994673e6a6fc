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
CREATE TEMP TABLE told_cgroups(id INTEGER PRIMARY KEY, inode INTEGER, path TEXT, UNIQUE(inode, path));
CREATE TEMP TABLE told_processes(id INTEGER PRIMARY KEY, line INTEGER, role TEXT, nr INTEGER, json TEXT,
  pid INTEGER, start_ticks INTEGER, comm TEXT, cmdline TEXT, uid INTEGER, ppid INTEGER, ns_pid INTEGER, cgroup INTEGER);
CREATE TEMP VIEW cgroups AS SELECT id, 1 AS run, inode, path FROM main.cgroups
  UNION ALL SELECT -id, 1, inode, path FROM temp.told_cgroups;
CREATE TEMP VIEW processes AS SELECT id, 1 AS run, pid, start_ticks, comm, cmdline, cmdline_source, cmdline_truncated,
  uid, ppid, ns_pid, cgroup FROM main.processes
  UNION ALL SELECT -id, 1, pid, start_ticks, comm, cmdline, json->>'$.cmdline_source'='exec',
  json->>'$.cmdline_truncated', uid, ppid, ns_pid, cgroup FROM temp.told_processes;
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

// Nothing of it is there before the lines are read.
constexpr const char* kOfLines = R"sql(
CREATE TEMP TABLE thinned(source, step_s, seq);
CREATE TEMP TABLE kept(episode, nr, cgroup);
CREATE TEMP TABLE alert_actions(alert, nr, kind, what, result, exit_code, signal, error, process, took_s);
CREATE TEMP TABLE reclaim(seq, time_ns, cgroup, stalls, stalled_s, reclaimed);
CREATE TEMP TABLE pressure(seq, time_ns, run, cgroup, some_avg10, some_avg60, some_avg300, some_total_us, full_avg10,
  full_avg60, full_avg300, full_total_us);
CREATE TEMP TABLE kills(seq, time_ns, victim, sender, cause);
CREATE TEMP TABLE alerts(seq, time_ns, run, rule, cgroup, message, forecast);
CREATE TEMP TABLE losses(seq, time_ns, run, reason, count);
CREATE TEMP TABLE episodes(id INTEGER PRIMARY KEY, run, time_ns, name, source, complete, scope, limit_cgroup, usage,
  usage_limit, trigger, page_order, gfp, group_kill, marked, logged, vmstat, forecast, first_forecast_ns);
CREATE TEMP TABLE victims(episode, nr, process, tid, anon, file, shmem, swap, pgtables, total_vm, oom_score_adj, killed,
  freed_after_s, stack, marked, logged);
CREATE TEMP TABLE others(episode, nr, role, process, grew, over_s);
CREATE TEMP TABLE ancestors(episode, nr, cgroup, usage, usage_limit);
CREATE TEMP TABLE memory_at_kill(episode, anon, file, shmem, kernel, slab, swap, tasks);
CREATE TEMP TABLE tasks(episode, nr, process, rss, anon, file, shmem, swap, pgtables, oom_score_adj);
)sql";

// At most this many lines of a type, and of processes in one: a file cannot fill memory.
constexpr const char* kFill = R"sql(
CREATE TEMP TABLE lines AS SELECT seq, time_ns, type, json FROM events
  WHERE type IN ('oom','kill','reclaim','pressure','alert','lost') AND json_valid(json) ORDER BY seq DESC LIMIT 100000;
CREATE TEMP TABLE people AS
  SELECT seq AS line, 'trigger' AS role, 0 AS nr, json->'$.trigger' AS json FROM lines WHERE type='oom'
  UNION ALL SELECT seq, 'victim', key, value FROM lines, json_each(lines.json, '$.victims') WHERE lines.type='oom'
  UNION ALL SELECT seq, 'also_killed', key, value FROM lines, json_each(lines.json, '$.also_killed')
    WHERE lines.type='oom'
  UNION ALL SELECT seq, 'grew', key, value->'$.process' FROM lines, json_each(lines.json, '$.grew_most')
    WHERE lines.type='oom'
  UNION ALL SELECT seq, 'killed', 0, json->'$.victim' FROM lines WHERE type='kill'
  UNION ALL SELECT seq, 'sender', 0, json->'$.sender' FROM lines WHERE type='kill'
  LIMIT 100000;
INSERT OR IGNORE INTO told_cgroups(inode, path)
  SELECT coalesce(c->>'$.id', 0), c->>'$.path' FROM (
    SELECT json->'$.cgroup' AS c FROM people
    UNION ALL SELECT json->'$.limit_cgroup' FROM lines WHERE type='oom'
    UNION ALL SELECT value->'$.cgroup' FROM lines, json_each(lines.json, '$.ancestors') WHERE lines.type='oom'
    UNION ALL SELECT json->'$.cgroup' FROM lines WHERE type<>'oom')
  WHERE c->>'$.path' IS NOT NULL LIMIT 100000;
CREATE TEMP TABLE names AS
  SELECT t.inode, t.path, coalesce((SELECT max(c.id) FROM main.cgroups c WHERE c.inode=t.inode AND c.path=t.path), -t.id)
    AS id FROM told_cgroups t;
CREATE INDEX temp.by_name ON names(inode, path);
INSERT INTO told_processes(line, role, nr, json, pid, start_ticks, comm, cmdline, uid, ppid, ns_pid, cgroup)
  SELECT line, role, nr, json, json->>'$.pid',
    (unixepoch(substr(json->>'$.start_time', 1, 19))*1000000000 + substr(json->>'$.start_time', 21, 9)
      - (SELECT wall_of_boot_zero_ns FROM temp.runs)) / (SELECT clock_tick_ns FROM temp.runs),
    json->>'$.comm', (SELECT group_concat(value || char(0), '') FROM json_each(p.json, '$.cmdline')),
    json->>'$.uid', json->>'$.ppid', json->>'$.ns_pid',
    (SELECT id FROM names n WHERE n.inode=coalesce(p.json->>'$.cgroup.id', 0) AND n.path=p.json->>'$.cgroup.path')
  FROM people p WHERE json->>'$.pid' IS NOT NULL;
CREATE INDEX temp.by_line ON told_processes(line, role, nr);
INSERT INTO episodes SELECT seq, 1, time_ns, json->>'$.id', 'live', 1, json->>'$.scope',
    (SELECT id FROM names n WHERE n.inode=coalesce(l.json->>'$.limit_cgroup.id', 0) AND
      n.path=l.json->>'$.limit_cgroup.path') AS owner,
    json->>'$.usage_bytes', json->>'$.limit_bytes',
    (SELECT -id FROM told_processes p WHERE p.line=l.seq AND p.role='trigger'), json->>'$.order', json->>'$.gfp',
    json->>'$.group_kill', json->>'$.checks.mark_victim', json->>'$.checks.kmsg', json->>'$.checks.vmstat', NULL,
    unixepoch(substr(json->>'$.forecast_before.first_time', 1, 19))*1000000000 +
      substr(json->>'$.forecast_before.first_time', 21, 9)
  FROM lines l WHERE type='oom';
UPDATE episodes SET forecast=(SELECT max(f.seq) FROM main.forecasts f WHERE f.cgroup=limit_cgroup AND f.seq<episodes.id
  AND f.eta_s IS NOT NULL) WHERE first_forecast_ns IS NOT NULL;
INSERT INTO victims SELECT line, nr, -id, json->>'$.tid', json->>'$.anon_bytes', json->>'$.file_bytes',
    json->>'$.shmem_bytes', json->>'$.swap_bytes', json->>'$.pgtables_bytes', json->>'$.total_vm_bytes',
    json->>'$.oom_score_adj', json->>'$.killed', json->>'$.freed_after_s',
    (SELECT group_concat(value, ' ') FROM json_each(told_processes.json, '$.stack')), 1, 1
  FROM told_processes WHERE role='victim';
INSERT INTO others SELECT p.line, p.nr + 1000*(p.role='grew'), p.role, -p.id,
    l.json->>('$.grew_most[' || p.nr || '].grew_bytes'), l.json->>('$.grew_most[' || p.nr || '].over_s')
  FROM told_processes p JOIN lines l ON l.seq=p.line WHERE p.role IN ('grew', 'also_killed');
INSERT INTO ancestors SELECT seq, key, (SELECT id FROM names n WHERE n.inode=coalesce(value->>'$.cgroup.id', 0) AND
    n.path=value->>'$.cgroup.path'), value->>'$.usage_bytes', value->>'$.limit_bytes'
  FROM lines, json_each(lines.json, '$.ancestors') WHERE lines.type='oom';
INSERT INTO kills SELECT seq, time_ns, (SELECT -id FROM told_processes p WHERE p.line=l.seq AND p.role='killed'),
    (SELECT -id FROM told_processes p WHERE p.line=l.seq AND p.role='sender'), json->>'$.cause'
  FROM lines l WHERE type='kill';
INSERT INTO reclaim SELECT seq, time_ns, (SELECT id FROM names n WHERE n.inode=l.json->>'$.cgroup.id' AND
    n.path=l.json->>'$.cgroup.path'), json->>'$.stalls', json->>'$.stall_s', json->>'$.reclaimed_bytes'
  FROM lines l WHERE type='reclaim';
INSERT INTO pressure SELECT seq, time_ns, 1, (SELECT id FROM names n WHERE n.inode=l.json->>'$.cgroup.id' AND
    n.path=l.json->>'$.cgroup.path'), json->>'$.some.avg10', json->>'$.some.avg60', json->>'$.some.avg300',
    CAST(1000000*(json->>'$.some.total_s') AS INTEGER), json->>'$.full.avg10', json->>'$.full.avg60',
    json->>'$.full.avg300', CAST(1000000*(json->>'$.full.total_s') AS INTEGER)
  FROM lines l WHERE type='pressure';
INSERT INTO alerts SELECT seq, time_ns, 1, json->>'$.rule', (SELECT id FROM names n WHERE
    n.inode=l.json->>'$.cgroup.id' AND n.path=l.json->>'$.cgroup.path'), json->>'$.message', NULL
  FROM lines l WHERE type='alert';
INSERT INTO losses SELECT seq, time_ns, 1, json->>'$.reason', json->>'$.count' FROM lines WHERE type='lost';
)sql";

}  // namespace

bool view_schema_1(sqlite3* db) {
  auto offset = ask(db, "SELECT value FROM main.meta WHERE key='wall_of_mono_zero_ns'");
  return offset && execute(db, fmt::format(fmt::runtime(kViews), *offset)) && execute(db, kOfLines);
}

bool read_lines_of_schema_1(sqlite3* db) {
  return execute(db, kFill);
}

}  // namespace oomcast
