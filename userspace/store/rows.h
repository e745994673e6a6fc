// Turns rows of a database of schema 2 back into facts.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "forecast/told.h"
#include "model/facts.h"
#include "store/database.h"
#include "store/run_info.h"
#include "store/schema.h"

namespace oomcast {

/// What the methods of Rows want in a row, in this order, beginning at column 0.
namespace columns {
inline const std::string sample =
    "time_ns, cgroup, usage, usage_limit, limit_cgroup, anon, file, shmem, kernel, swap, pinned, "
    "headroom_limit, peak, (SELECT cgroup FROM headroom_cgroups h WHERE h.sample=samples.seq),"
    " (SELECT size FROM throttles t WHERE t.sample=samples.seq),"
    " (SELECT cgroup FROM throttles t WHERE t.sample=samples.seq)";
inline const std::string process_sample =
    "time_ns, process, rss, anon, file, shmem, swap, private, rss_error";
inline const std::string forecast =
    "time_ns, cgroup, process, verdict, growth, growth_low, growth_high, growth_span_s, growth_samples, "
    "usage_limit, "
    "limit_cgroup, eta_s, eta_low_s, eta_high_s, alert, why, floor, peak_above, period_s, peaks, regime_s, "
    "stepped, "
    "step_ago_s, shared, (SELECT device FROM forecast_devices d WHERE d.forecast=forecasts.seq),"
    " (SELECT limit_left FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT limit_moved FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT limit_within_s FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT thrashes_s FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT thrashes_waiting FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT thrashes_reclaimed FROM forecast_evidence e WHERE e.forecast=forecasts.seq),"
    " (SELECT forecast FROM throttled_forecasts t WHERE t.forecast=forecasts.seq)";
inline const std::string reclaim = "time_ns, cgroup, stalls, stalled_s, reclaimed";
inline const std::string pressure =
    "time_ns, cgroup, some_avg10, some_avg60, some_avg300, some_total_us, full_avg10, full_avg60, "
    "full_avg300, "
    "full_total_us";
inline const std::string kill = "time_ns, victim, sender, cause";
inline const std::string gpu_sample =
    "time_ns, process, device, held, overhead, managed, pinned, card_memory, card_free, moved_in, moved_out, "
    "faults, since_before, ended, (SELECT evicted FROM gpu_evictions g WHERE g.sample=gpu_samples.seq), "
    "(SELECT cpu_faults FROM gpu_evictions g WHERE g.sample=gpu_samples.seq)";
inline const std::string gpu_event =
    "time_ns, process, op, kind, device, bytes, status, first_ns, managed, pinned, "
    "(SELECT bus FROM gpu_errors g WHERE g.event=gpu_events.seq), "
    "(SELECT message FROM gpu_errors g WHERE g.event=gpu_events.seq), seq";
inline const std::string exit = "time_ns, process";
inline const std::string alert = "time_ns, rule, cgroup, message, forecast, seq";
inline const std::string growth_site = "process, grown, of, watched_s, from_ns, to_ns";
inline const std::string victim =
    "process, tid, anon, file, shmem, swap, pgtables, total_vm, oom_score_adj, killed, freed_after_s, stack, "
    "marked, logged, "
    "(SELECT time_ns FROM victim_times t WHERE t.episode=victims.episode AND t.nr=victims.nr)";
}  // namespace columns

/// Of one run. Bounded: a file cannot fill memory with names.
class Rows {
 public:
  static constexpr std::size_t kMaxNames = 100'000;  // cgroups or processes that are remembered

  Rows(sqlite3* db, const RunInfo& run);

  MonoTime time(const Statement& row, int c) const { return MonoTime(row.nanos(c) - offset_); }
  CgroupPtr cgroup(const Statement& row, int c);
  ProcessRef process(const Statement& row, int c);
  void forget_cgroup(std::int64_t id) { cgroups_.erase(id); }
  void forget_process(std::int64_t id) { processes_.erase(id); }

  Sample sample(const Statement& row, int from = 0);
  ProcessSampleFact process_sample(const Statement& row, int from = 0);
  ForecastFact forecast(const Statement& row, int from = 0);
  std::optional<ForecastFact> forecast_of(const Statement& row, int c);
  GpuSample gpu_sample(const Statement& row, int from = 0);
  GpuFact gpu_event(const Statement& row);
  ReclaimFact reclaim(const Statement& row, int first = 0);
  PressureFact pressure(const Statement& row);
  UserKillFact kill(const Statement& row);
  AlertFact alert(const Statement& row);
  /// Without its code and what holds it.
  GrewFrom growth_site(const Statement& row);
  Victim victim(const Statement& row);
  /// Why something that rows name could not be read since the last call; "": all could.
  std::string take_failure() { return std::exchange(failure_, {}); }

 private:
  void note(const Statement& looked_up) {
    if (looked_up.failed()) failure_ = why_failed(db_);
  }

  sqlite3* db_;
  Hierarchy hierarchy_;
  Nanos offset_;
  Statement cgroup_, process_, gpu_code_;
  std::string failure_;
  std::map<std::int64_t, CgroupPtr> cgroups_;
  std::map<std::int64_t, ProcessRef> processes_;
};

}  // namespace oomcast
