// Facts as rows of a database (schema.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "forecast/told.h"
#include "model/facts.h"
#include "store/database.h"
#include "store/run_info.h"
#include "store/schema.h"
#include "store/store.h"

namespace oomcast {

/// A fact that no forecast depends on, as it was told; for a replay.
struct RecordedEvent {
  MonoTime time;
  std::string type, json, text;
};
/// `complete`: it was told; otherwise what is known of it so far.
struct EpisodeFact {
  OomEvent line;
  bool complete = true;
  EpisodeSource source = EpisodeSource::live;
  std::string host = {};  // as in EpisodeSummary
};
/// What is large and rare, out of the way: a queue has room for the largest kind in every place.
template <typename T>
class Boxed {
 public:
  Boxed(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  operator const T&() const { return *value_; }

 private:
  std::shared_ptr<const T> value_;
};
using StoreItem = std::variant<Sample, ProcessSampleFact, ExitFact, ForgottenFact, Boxed<ForecastFact>,
                               TickFact, Boxed<EpisodeFact>, UserKillFact, ReclaimFact, PressureFact,
                               Boxed<GpuFact>, Boxed<GpuSample>, Boxed<AlertFact>, LostFact, RecordedEvent>;
inline bool is_episode(const StoreItem& item) {
  return std::holds_alternative<Boxed<EpisodeFact>>(item);
}

/// Writes what one run tells. The caller makes the transactions. Memory is bounded: names that were not met
/// for long get another row when they come back.
class Tables {
 public:
  /// `ordered`: seq counts the rows of all tables together, from 1; the database is this run's alone.
  Tables(sqlite3* db, std::int64_t run, const RunInfo& info, bool ordered);

  void write(const Sample& s);
  void write(const ProcessSampleFact& s);
  void write(const ExitFact& e);
  void write(const ForgottenFact& f);
  void write(const ForecastFact& f) { write_forecast(f, true); }
  void write(const TickFact& t);
  void write(const UserKillFact& k);
  void write(const ReclaimFact& r);
  void write(const PressureFact& p);
  /// Of an event only what a person reads of, as gpu_tables.h says.
  void write(const GpuFact& g);
  void write(const GpuSample& s);
  void write(const AlertFact& a);
  void write(const LostFact& l);
  void write(const RecordedEvent& e);
  /// One row per kill, whoever tells of it: what the log or another oomcast on the same store told before is
  /// completed. Returns whether it is new.
  bool write(const EpisodeFact& e);

  /// The first thing that went wrong since the last call: the transaction must be rolled back at once.
  bool failed() const { return failure_.has_value(); }
  struct Failure {
    int code = 0;
    std::string what;
  };
  std::optional<Failure> take_failure() { return std::exchange(failure_, std::nullopt); }
  /// What was written since the last commit is not there.
  void on_commit() { fresh_cgroups_.clear(), fresh_processes_.clear(), fresh_episodes_.clear(); }
  void on_rollback();
  /// For Retention: fills temp.cgroups_in_use and temp.processes_in_use, in the transaction that is open.
  std::optional<std::int64_t> list_in_use();
  /// The clock was set, or the machine slept: what comes now is told by this. Not of `ordered` ones: a replay
  /// takes the clock of the beginning off again, and CLOCK_MONOTONIC would jump, or go back.
  void set_clock(Nanos wall_of_mono_zero) {
    if (!ordered_) offset_ = wall_of_mono_zero;
  }

 private:
  struct KnownCgroup {
    std::int64_t id = 0;
    CgroupPtr ref;
    std::optional<Bytes> usage;
  };
  // Of all that is written of a process: 20,000 command lines would be 45 MiB.
  using ProcessRow = std::size_t;

  struct KnownProcess {
    std::int64_t id = 0;
    ProcessRow row = 0;
    MonoTime made{};
  };

  /// A process that is named once, or a few times in a row: not worth remembering.
  struct Passing {
    TaskId of;
    KnownProcess known;
  };

  std::int64_t add(const ProcessRef& p, std::optional<std::int64_t> group);
  static ProcessRow row_of(const ProcessRef& p, std::optional<std::int64_t> group);
  std::int64_t id_of_passing(const ProcessRef& p, Passing& last);
  std::optional<std::int64_t> id_of(const CgroupPtr& ref);
  std::int64_t id_of(const ProcessRef& p);
  /// Of one whose name may be a little old: who renames himself all the time makes no rows by it.
  std::int64_t id_of(const ProcessRef& p, MonoTime when);
  std::optional<std::int64_t> id_of(const std::optional<ProcessRef>& p) {
    return p ? std::optional(id_of(*p)) : std::nullopt;
  }
  std::int64_t write_forecast(const ForecastFact& f, bool told);
  std::int64_t wall(MonoTime t) const { return (t.time_since_epoch() + offset_).count(); }
  std::optional<std::int64_t> next_seq();
  void run(Statement& s) { check(s.run()); }
  void check(bool ok) {
    if (!ok && !failure_) failure_ = Failure{sqlite3_extended_errcode(db_), why_failed(db_)};
  }

  struct Twin {
    std::int64_t id = 0, run = 0;
    bool complete = false, live = false;
  };
  std::optional<Twin> find_twin(const EpisodeFact& e);
  std::optional<Twin> twin_at(std::int64_t id);
  void fill_in(std::int64_t id, const Episode& e);
  // All that an episode has besides its row, each into its tables.
  void write_parts(std::int64_t id, const EpisodeFact& e);
  void write_victims(std::int64_t id, const Episode& e);
  void write_others(std::int64_t id, const Episode& e);
  void write_growth(std::int64_t id, const Episode& e);
  void write_log_parts(std::int64_t id, const Episode& e);
  void write_code(Statement& row, std::int64_t episode, int nr, const std::vector<CodePlace>& code);
  void keep(std::int64_t id, const Episode& e);

  sqlite3* db_;
  std::int64_t run_;
  Nanos offset_;
  bool ordered_;
  std::int64_t seq_ = 0;
  struct Inserts {
    explicit Inserts(sqlite3* db);
    Statement cgroup, process, sample, headroom, throttle, process_sample, exit, removal, tick, forecast,
        reclaim, pressure, kill, loss, event, gpu_sample, gpu_event, gpu_eviction, gpu_error, gpu_code;
  } insert_;
  std::unordered_map<std::uint64_t, KnownCgroup> cgroups_;
  std::map<TaskId, KnownProcess> processes_;
  Passing killed_, killer_;
  std::map<std::uint64_t, std::int64_t> episodes_;  // by serial
  std::vector<std::uint64_t> fresh_cgroups_, fresh_episodes_;
  std::vector<TaskId> fresh_processes_;
  std::optional<Failure> failure_;
};

}  // namespace oomcast
