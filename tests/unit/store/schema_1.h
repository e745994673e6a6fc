// A recording as oomcast 0.1.0 of November 2026 wrote it.
#pragma once

namespace oomcast {

constexpr const char* kRecordingOfSchema1 = R"sql(
PRAGMA application_id=0x6f6f6d63; PRAGMA user_version=1;
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE cgroups(id INTEGER PRIMARY KEY, inode INTEGER, path TEXT, name TEXT, kind TEXT, container TEXT, pod TEXT,
  unit TEXT, slurm_job TEXT, slurm_step TEXT);
CREATE TABLE processes(id INTEGER PRIMARY KEY, pid INTEGER, start_ticks INTEGER, comm TEXT, cmdline BLOB,
  cmdline_source INTEGER, cmdline_truncated INTEGER, uid INTEGER, ppid INTEGER, ns_pid INTEGER, cgroup INTEGER);
CREATE TABLE samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, usage INTEGER, usage_limit INTEGER,
  limit_cgroup INTEGER, anon INTEGER, file INTEGER, shmem INTEGER, kernel INTEGER, swap INTEGER, pinned INTEGER,
  headroom_limit INTEGER, peak INTEGER);
CREATE TABLE process_samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, rss INTEGER, anon INTEGER,
  file INTEGER, shmem INTEGER, swap INTEGER, private INTEGER, rss_error INTEGER);
CREATE TABLE exits(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER);
CREATE TABLE removals(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER);
CREATE TABLE ticks(seq INTEGER PRIMARY KEY, time_ns INTEGER, killed INTEGER);
CREATE TABLE forecasts(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, process INTEGER, verdict TEXT,
  growth REAL, eta_s REAL, eta_low_s REAL, eta_high_s REAL, alert INTEGER, why TEXT);
CREATE TABLE events(seq INTEGER PRIMARY KEY, time_ns INTEGER, type TEXT, json TEXT, text TEXT);
INSERT INTO meta VALUES('version','0.1.0'),('kernel','6.1'),('scope','whole machine'),('hierarchy','v1'),
  ('interval_ns',1000000000),('wall_of_mono_zero_ns',1700000000000000000),('wall_of_boot_zero_ns',1600000000000000000),
  ('clock_tick_ns',10000000);
INSERT INTO cgroups VALUES(1,7,'/job','job','plain',NULL,NULL,NULL,NULL,NULL);
INSERT INTO samples VALUES(1,999000000000,1,1000,2000,1,NULL,NULL,NULL,NULL,NULL,900,2000,NULL);
INSERT INTO forecasts VALUES(2,999500000000,1,NULL,'leak',5.0,1.0,0.5,NULL,1,'grew');
INSERT INTO events VALUES(3,998000000000,'lost','{"type":"lost","reason":"model_full","count":4}','');
INSERT INTO events VALUES(4,1000000000000,'oom','{"type":"oom","id":"old-1","scope":"memcg","limit_cgroup":{"id":7,
  "hierarchy":"v1","path":"/job"},"usage_bytes":2000,"limit_bytes":2000,"trigger":null,"order":0,"gfp":"0xcc0",
  "group_kill":false,"victims":[{"pid":55,"start_time":"2020-09-13T12:26:41.120000000Z","comm":"py","cmdline":["py",
  "a b"],"cmdline_source":"shown","cmdline_truncated":false,"uid":3,"ppid":null,"ns_pid":55,"cgroup":{"id":7,"path":
  "/job"},"tid":56,"anon_bytes":1500,"file_bytes":null,"oom_score_adj":0,"killed":true,"freed_after_s":0.5,
  "stack":["0x7f","0x1"]}],"also_killed":[],"grew_most":[{"process":{"pid":55,"comm":"py","cgroup":{"id":7,"path":
  "/job"}},"grew_bytes":77,"over_s":9.5}],"ancestors":[{"cgroup":{"id":7,"path":"/job"},"usage_bytes":2000,
  "limit_bytes":2000},{"cgroup":{"id":1,"path":"/"},"usage_bytes":9000,"limit_bytes":null}],"forecast_before":
  {"first_time":"2023-11-14T22:29:50.000000000Z"},"checks":{"mark_victim":1,"kmsg":1,"vmstat":null}}','');
INSERT INTO events VALUES(5,1000000000000,'oom','{no json','');
)sql";

}  // namespace oomcast
