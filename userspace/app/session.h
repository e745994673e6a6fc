// One tracing run: the sources, the model, the forecasts, and the loop that moves data between them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/alerts.h"
#include "app/analysis.h"
#include "app/cgroup_samples.h"
#include "app/gpu.h"
#include "app/growth_looks.h"
#include "app/options.h"
#include "app/process_samples.h"
#include "app/pythons.h"
#include "app/reader.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "collect/bpf_source.h"
#include "collect/cgroupfs.h"
#include "collect/kmsg.h"
#include "collect/oom_log.h"
#include "collect/procfs.h"
#include "collect/roots.h"
#include "forecast/book.h"
#include "model/world.h"
#include "present/facts.h"
#include "present/overview.h"
#include "store/writer.h"

namespace oomcast {

class Session {
 public:
  /// Opens every source that the options ask for, and reads what exists now. The scope is resolved later.
  /// Error: the contract's exit code is in it. `diagnostics` takes one line per thing that is degraded.
  static Result<std::unique_ptr<Session>> open(const Options& options,
                                               const std::function<void(const std::string&)>& diagnostics);
  ~Session();

  /// What to tell about. Error (exit 1): nothing matches, with near matches.
  Status resolve_scope(const ScopeOptions& scope);
  void set_scope(ScopeRoots roots) { world_->set_scope(std::move(roots)); }

  /// The process that a person named: --signal is for it, or for its descendants.
  void set_process(TaskId id);

  /// Facts go to `sink` from now on, beginning with a StartFact.
  void start(Sink sink);
  /// Waits at most until `deadline` for something to do, and does it: reads, samples, forecasts, tells.
  void step(MonoTime deadline);
  /// Waits a little (700 ms at most) for what is still open of the kills that were seen, tells of all of them
  /// and the end, and closes the store.
  void finish();

  /// Another descriptor that ends step()'s waiting when it is readable.
  void also_wait_for(int fd);

  MonoTime now() const { return mono_now(); }
  const ClockMap& clock() const { return clock_; }
  /// What a recording or the store says of the whole run. After resolve_scope().
  RunInfo run_info() const;
  /// Before start(): every fact goes there too, and kills as soon as they are seen. `tell_error` takes a line
  /// for each failure of the store.
  void keep_in(std::unique_ptr<StoreWriter> store, std::function<void(const std::string&)> tell_error);
  bool has_store() const { return store_ != nullptr; }
  void record_in(StoreWriter& recording) { writers_.push_back(&recording); }
  /// All that was told is in the store then; part of finish().
  void close_store();
  /// What is wrong with the store is told on stderr, but not while a screen is drawn.
  void hold_notices(bool hold) { hold_notices_ = hold; }
  World& world() { return *world_; }
  const CgroupFs& cgroupfs() const { return *cgroupfs_; }
  const std::vector<std::string>& sources() const { return sources_; }
  const std::map<std::string, std::uint64_t>& lost() const { return lost_; }
  /// What was lost elsewhere.
  void count_lost(const std::string& reason, std::uint64_t count) {
    if (count) lose(reason, count);
  }
  Overview overview() const;
  /// The cgroup's and the process's own, for what is made while tracing.
  std::optional<TaskId> note_process(std::uint32_t pid, bool ask_again = true);
  /// Reads the tree again, for a scope that is awaited.
  void refresh();
  /// A person wants to know from which lines this cgroup grows; the overview will tell.
  void look_for_growth(CgroupId cgroup);

 private:
  Session() = default;
  Book::Config book_config() const;
  Status open_cgroups();
  Status open_kernel(const std::function<void(const std::string&)>& diagnostics);
  void open_log(const std::function<void(const std::string&)>& diagnostics);
  void scan_tree();
  void scan_processes();
  bool drain();
  bool read_log();
  void take_reports(bool all = false);
  std::optional<Nanos> time_to_look() const;
  void poll_all();
  void follow(std::uint64_t inode, MonoTime moved);
  std::optional<KillCount> count_kills();
  void look_for_gpu();
  void count_losses();
  void check_rules();
  void check_levels(const Sample& sample);
  void read_clock();
  void keep_pace();
  void choose_effort();
  void tell(ModelFact fact);
  void take_answers();
  void ask_for_arguments(const TaskId& id);
  bool is_short_of_memory() const;
  void tell_process(ProcessSampleFact sample);
  void tell_all(bool last = false);
  void tell_if_many();
  void emit(Fact fact);
  void store(const Fact& fact);
  void store_begun();
  void store_completed(bool last);
  OomFactLine with_forecast(Episode episode) const;
  void tell_notices();
  void lose(const std::string& reason, std::uint64_t count);

  Options options_;
  Roots roots_;
  std::optional<CgroupFs> cgroupfs_;
  std::optional<ProcFs> procfs_;
  std::unique_ptr<BpfSource> bpf_;
  std::optional<KmsgReader> kmsg_;
  OomLogParser log_parser_;
  std::vector<OomDump> reports_;  // of the log, not taken yet
  std::unique_ptr<World> world_;
  std::unique_ptr<Alerts> alerts_;
  std::optional<Reader> reader_;
  std::vector<TaskId> unasked_;       // whose arguments it could not be asked for yet
  std::optional<Pythons> pythons_;    // likewise
  std::optional<GrowthLooks> looks_;  // likewise
  std::optional<GpuFollower> gpu_;    // without kernel programs there is none
  ClockMap clock_;
  Sink sink_;
  std::function<void(const std::string&)> tell_error_;
  std::unique_ptr<StoreWriter> store_;
  std::vector<StoreWriter*> writers_;
  bool hold_notices_ = false;
  UniqueFd epoll_, timer_;
  std::vector<std::string> sources_;
  std::optional<Book> book_;                 // from start() on
  std::optional<CgroupSamples> cgroups_;     // from open() on
  std::optional<ProcessSamples> processes_;  // from open() on
  std::deque<Fact> events_;
  std::map<std::string, std::uint64_t> lost_;
  LostCounts kernel_lost_;
  std::uint64_t missed_ = 0, undecodable_ = 0, dropped_ = 0, gpu_lost_ = 0, gpu_pages_lost_ = 0,
                not_stored_ = 0, reads_given_up_ = 0, looks_given_up_ = 0, kills_dropped_ = 0,
                kills_unseen_ = 0, late_victims_ = 0;
  std::uint64_t records_ = 0;
  MonoTime paced_at_{};
  Nanos slept_{}, pace_{};
  std::uint64_t spared_ = 0;
  MonoTime counted_at_{}, next_poll_{}, exact_until_{}, next_scan_{}, look_until_{};
  MonoTime heard_{};  // all that the log and the kernel programs said until then was read
  std::optional<MonoTime> log_read_;
};

}  // namespace oomcast
