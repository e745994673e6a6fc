// One tracing run: waits, drains the sources into the model, publishes the result and acts on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/alerts.h"
#include "app/ceiling.h"
#include "app/cgroup_samples.h"
#include "app/event_loop.h"
#include "app/gpu.h"
#include "app/growth_looks.h"
#include "app/kill_pause.h"
#include "app/losses.h"
#include "app/options.h"
#include "app/pace.h"
#include "app/process_finder.h"
#include "app/process_samples.h"
#include "app/publisher.h"
#include "app/pythons.h"
#include "app/reader.h"
#include "app/rss_tracing.h"
#include "app/sources.h"
#include "app/tree_scanner.h"
#include "base/clock.h"
#include "model/machine_model.h"
#include "present/overview.h"
#include "stream/facts.h"

namespace oomcast {

class Session {
 public:
  /// Opens every source that the options ask for, and reads the current state. The scope is resolved later.
  /// Error: has the contract's exit code. `diagnostics` takes one line per degraded feature.
  static Result<std::unique_ptr<Session>> open(const Options& options,
                                               const std::function<void(const std::string&)>& diagnostics,
                                               const Sources::Load& load = BpfSource::load);
  ~Session();

  /// Resolves the scope: these cgroups and all below; empty for the whole machine or a process. Error (exit
  /// 1): nothing matches, with near matches.
  Result<std::vector<CgroupEntry>> resolve_scope(const ScopeOptions& scope);
  void set_scope(ScopeRoots roots) { model_.set_scope(std::move(roots)); }

  /// The process that the user named: --signal is for it, or for its descendants.
  void set_process(TaskId id);

  /// Replaces the alerts of the options; their running actions are abandoned.
  void set_alerts(const AlertOptions& alert);

  /// Publishes facts to `sink` from now on, beginning with a StartFact.
  void start(Sink sink);
  /// Waits for events until `deadline`, and handles them: reads, samples, forecasts, publishes.
  void step(MonoTime deadline);
  /// Waits briefly (at most 700 ms) for outstanding data of the kills that were seen, publishes all of them
  /// and the end, and closes the store.
  void finish();

  /// To add descriptors and timers that step() waits for.
  EventLoop& loop() { return loop_; }

  MonoTime now() const { return mono_now(); }
  const ClockMap& clock() const { return clock_; }
  /// What a recording or the store records about the run. After resolve_scope().
  RunInfo run_info() const;
  /// Before start(): every fact is stored, too, and kills as soon as they are seen. `tell_error` takes a line
  /// for each failure of the store.
  void keep_in(std::unique_ptr<StoreWriter> store, std::function<void(const std::string&)> tell_error) {
    publisher_.keep_in(std::move(store), std::move(tell_error));
  }
  bool has_store() const { return publisher_.has_store(); }
  void record_in(StoreWriter& recording) { publisher_.record_in(recording); }
  /// Everything published is in the store afterwards; part of finish().
  void close_store() { publisher_.close_store(); }
  /// Problems of the store are reported on stderr, but not while the screen is drawn.
  void hold_notices(bool hold) { publisher_.hold_notices(hold); }
  MachineModel& model() { return model_; }
  /// After start().
  const ForecastRegistry& forecasts() const { return publisher_.forecasts(); }
  const CgroupFs& cgroupfs() const { return sources_.cgroupfs; }
  const std::vector<std::string>& sources() const { return sources_.names; }
  const std::map<std::string, std::uint64_t>& lost() const { return losses_.totals(); }
  /// Counts losses from outside of the session.
  void count_lost(const std::string& reason, std::uint64_t count) { losses_.add(reason, count); }
  Overview overview() const;
  /// Makes a process known that was created while tracing; nullopt: there is no such process.
  std::optional<TaskId> note_process(std::uint32_t pid) { return finder_.find(pid); }
  /// Reads the tree again, for a scope that is awaited.
  void refresh();
  /// A user asks from which lines this cgroup grows; the answer is in the overview.
  void look_for_growth(CgroupId cgroup);

 private:
  Session(const Options& options, Sources sources);
  void read_what_exists();
  ForecastRegistry::Config forecast_config() const;
  void wait(MonoTime deadline);
  std::optional<Nanos> poll_timeout() const;

  void collect();
  bool drain();
  bool read_log();
  void on_record(const wire::Record& record);
  void on_cgroup_sample(const wire::CgroupSample& sample);
  void take_reports(bool all = false);
  void take_answers();
  void mark_hot(std::uint64_t inode, MonoTime moved);

  void each_interval();
  void poll_all();
  void poll_cgroups(MonoTime when);
  void poll_pressure(MonoTime when);
  void poll_processes(MonoTime when);
  std::optional<KillCount> count_kills();
  void look_for_gpu();
  void read_clock();
  bool is_short_of_memory() const;
  void count_losses();
  void check_levels(const Sample& sample);

  void publish_all(bool last = false);
  void publish_if_many();
  void publish_taken();
  void on(KillOpened kill);
  void on(KillCompleted kill);
  void on(LimitHit limit);
  void on(ModelFact fact);
  void on(CgroupDropped cgroup);
  void publish_process(ProcessSampleFact sample);
  void act();
  OomEvent with_forecast(Episode episode);

  /// Records that are not urgent may wait this long.
  static constexpr Nanos kLook = std::chrono::milliseconds(100);
  /// Records are read for at most this long before results are published.
  static constexpr Nanos kDrain = std::chrono::milliseconds(100);
  /// After a record: one more read, so that many records do not wake us one by one.
  static constexpr Nanos kMoreSoon = std::chrono::milliseconds(50);

  Options options_;
  Sources sources_;
  ClockMap clock_;
  EventLoop loop_;
  MachineModel model_;
  Publisher publisher_;
  Losses losses_;
  Reader reader_;
  KillPause pause_;
  TreeScanner tree_;
  ProcessFinder finder_;
  CgroupSamples cgroups_;
  ProcessSamples processes_;
  // Only with kernel programs; the profiler only if their pids are those of /proc.
  std::optional<RssTracing> rss_tracing_;
  std::optional<Pythons> pythons_;
  std::optional<GrowthLooks> looks_;
  std::optional<GpuFollower> gpu_;
  std::unique_ptr<Alerts> alerts_;                    // nullptr: no rule was given
  std::map<std::uint64_t, ForecastBefore> foreseen_;  // by an episode's serial
  Pace pace_;
  Ceiling ceiling_{memory_in_use};
  std::uint64_t records_ = 0;      // received
  bool more_records_ = false;      // than could be read in kDrain
  bool samples_lost_ = false;      // since the cgroups were last read
  MonoTime heard_until_{};         // log and kernel records before this time are all read
  MonoTime kills_counted_{};       // last read of the kernel's counters
  MonoTime lazy_records_until_{};  // until then non-urgent records may come
};

}  // namespace oomcast
