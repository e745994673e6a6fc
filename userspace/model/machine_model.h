// The state of the machine's memory, built from what the sources report, live or replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/task_id.h"
#include "base/units.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "model/cgroup_tree.h"
#include "model/episodes.h"
#include "model/facts.h"
#include "model/headroom.h"
#include "model/task_table.h"
#include "parse/memory_stat.h"
#include "wire/records.h"

namespace oomcast {

/// What to publish. Everything is followed regardless: an OOM kill in scope may be decided outside of it.
struct ScopeRoots {
  bool whole_machine = true;
  std::unordered_set<std::uint64_t> cgroups;  // and all below
  std::vector<TaskId> tasks;                  // and their descendants, with the cgroups they are in
};

struct MachineConfig {
  Hierarchy hierarchy = Hierarchy::v2;
  EpisodeSources sources;
  ScopeRoots scope;
  Bytes rss_error;        // how far a process's counters may lag
  bool sees_root = true;  // the top of the tree is the machine's root, and not a container's
};

/// A process as /proc shows it, except for its arguments: those are in its own memory.
struct SeenProcess {
  TaskId id;
  std::optional<TaskId> parent;
  std::string comm;
  std::optional<std::uint32_t> uid, ns_pid;
  std::optional<std::uint64_t> cgroup;
};

/// One reading of a cgroup's files. Unread parts are nullopt; in `limit` the inner nullopt is "no limit".
struct CgroupReading {
  MonoTime time;
  std::optional<Bytes> usage;
  std::optional<std::optional<Bytes>> limit;
  std::optional<MemoryStat> stat;
  std::optional<SwapUse> swap;
  std::optional<std::uint64_t> swappiness;  // v1
};

/// A kill that is not published yet, as far as known; repeated with each further victim.
struct KillOpened {
  Episode episode;
};
/// Completes a kill that was published while something about it was open.
struct KillCompleted {
  Episode episode;
};
/// The limit of a cgroup was hit: what grew below it is being freed.
struct LimitHit {
  CgroupPtr owner;
};
/// A cgroup was removed long enough ago: forget what is kept of it elsewhere.
struct CgroupDropped {
  std::uint64_t inode = 0;
};
/// Everything that the model emits.
using ModelEvent = std::variant<KillOpened, LimitHit, ModelFact, KillCompleted, CgroupDropped>;

/// Of the OOM killer: whose limit a process is killed for.
struct KillDecision {
  std::optional<std::uint64_t> owner;  // nullopt: the machine's, or that of nodes of memory
};

class MachineModel {
 public:
  /// Of the whole machine, smaller processes are not told, but for those of followed cgroups.
  static constexpr Bytes kSmallProcess = MiB(64);
  /// Of those at most so many between two calls of follow().
  static constexpr std::size_t kMaxSmall = 64;

  explicit MachineModel(MachineConfig config);

  /// Set for a mark of the OOM killer.
  std::optional<KillDecision> on_record(const wire::Record& record);
  void on_cgroup(const CgroupEntry& entry);
  /// A walk of the whole tree, taken after all earlier records: cgroups that it did not find are gone.
  void on_tree(const CgroupListing& tree, MonoTime when);
  void on_process(const SeenProcess& process);
  /// The task exited, and no record reported it.
  void on_gone(MonoTime time, TaskId id);
  /// The task's arguments as read at `when` or later.
  void on_arguments(const TaskId& id, wire::Args args, MonoTime when);
  /// Publishes a Sample if something changed since the last one, or if `show` is set.
  void on_reading(std::uint64_t inode, const CgroupReading& reading, bool show = false);
  void on_host(MonoTime time, const MemInfo& info);
  /// vm.swappiness, which applies to all v2 cgroups.
  void on_swappiness(std::optional<std::uint64_t> value) { host_.swappiness = value; }
  /// For a cgroup, or the host (nullopt); published if a task stalled since the last time.
  void on_pressure(MonoTime time, std::optional<std::uint64_t> inode, const Pressure& pressure);
  void on_dump(const OomDump& dump, MonoTime when) { episodes_.on_dump(dump, when); }
  void on_log_read(MonoTime until) { episodes_.on_log_read(until); }
  /// `code`: the Python lines that made the call, if they are known.
  void on_gpu(MonoTime time, const wire::Task& task, const GpuOp& op,
              const std::vector<CodePlace>& code = {});
  void on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code) {
    episodes_.on_code(id, tid, std::move(code));
  }
  /// Publishes changes of GPU memory since the last call: cards first, then the processes in scope.
  void sample_gpu(MonoTime time);
  void on_vmstat(const KillCount& count) { episodes_.on_vmstat(count); }
  void on_kill_usage(std::uint64_t inode, MonoTime when, Bytes usage) {
    episodes_.on_usage(inode, when, usage);
  }
  /// Running sums since load; only what is new since the last call is told.
  /// Whether something was told.
  bool on_stalls(MonoTime time, std::uint64_t inode, const wire::Stalls& sums);
  /// Minimum time between two samples of one cgroup or process; samples left out are counted.
  void set_pace(Nanos pace) { pace_ = pace; }
  std::uint64_t spared() const { return spared_; }
  /// Sets the fraction of its bounds that may be used from now on: oomcast itself is short of memory.
  void set_room(double part);
  void set_store_behind(bool behind) { episodes_.set_store_behind(behind); }
  /// All that was heard until `heard` is in: publishes the kills that are due; `all`: whatever is missing of
  /// them.
  void advance(MonoTime heard, bool all = false);

  /// What happened since the last call, in its order: the kills that are not published yet come first.
  std::vector<ModelEvent> take();
  std::size_t untaken() const { return events_.size(); }

  bool cgroup_in_scope(std::uint64_t inode) const;
  /// The cgroup is in scope, or has a descendant that is.
  bool is_above_scope(std::uint64_t inode) const;
  bool task_in_scope(TaskId id) const;
  /// From now on the processes of these are followed, not those of cgroups below: a few that have a deadline
  /// or grow fastest.
  void follow(std::unordered_set<std::uint64_t> cgroups);
  bool is_followed(const TaskState& task) const { return task.cgroup && followed_.contains(*task.cgroup); }
  bool follows_any() const { return !followed_.empty(); }
  /// This oomcast. SIGKILLs between it and its helpers (descendants with its comm) are not reported: they
  /// were most of the events of an idle machine.
  void set_own(TaskId id) { own_ = id; }
  void set_scope(ScopeRoots scope) { config_.scope = std::move(scope); }
  const ScopeRoots& scope() const { return config_.scope; }

  CgroupTree& cgroups() { return cgroups_; }
  const CgroupTree& cgroups() const { return cgroups_; }
  const TaskTable& tasks() const { return tasks_; }
  EpisodeBuilder& episodes() { return episodes_; }
  const EpisodeBuilder& episodes() const { return episodes_; }
  /// The newest samples of cards (task 0) and of what processes have on them.
  const std::map<std::pair<TaskId, std::optional<GpuUuid>>, GpuSample>& gpu_samples() const {
    return gpu_told_;
  }
  GpuMemory& gpu() { return gpu_; }
  const GpuMemory& gpu() const { return gpu_; }
  const std::optional<MemInfo>& host() const { return host_.info; }
  const CgroupPtr& host_ref() const { return host_.ref; }
  /// The present state, for a late subscriber. nullopt: not in scope, gone, or not sampled yet.
  std::optional<Sample> newest_sample(std::uint64_t inode) const;
  std::optional<Sample> newest_host_sample() const;
  /// Cgroups that a record named but whose path is not known: scan the tree for them.
  /// Of these, such as hold something, below a known one: number and parent. 16 at most since the last call.
  std::map<std::uint64_t, std::uint64_t> take_growing_unknown() {
    return std::exchange(unknown_.growing, {});
  }
  bool take_unknown_cgroups() { return std::exchange(unknown_.any, false); }
  bool unknown_cgroups() const { return unknown_.any; }
  /// The same for the cgroup of a victim or trigger: scan at once.
  bool take_urgent_scan() { return std::exchange(unknown_.urgent, false); }

 private:
  void apply(const wire::CgroupSample& r);
  void apply(const wire::ProcessSample& r);
  void apply(const wire::Fork& r) { tasks_.note(r.child); }
  void apply(const wire::Exec& r);
  void apply(const wire::Exit& r);
  void apply(const wire::CgroupEvent& r);
  void apply(const wire::CgroupAttach& r);
  KillDecision apply(const wire::OomMark& r);
  void apply(const wire::KernelKill& r);
  void apply(const wire::Dying& r);
  void apply(const wire::DyingCode& r) { tasks_.note(r.task); }
  void apply(const wire::UserKill& r);
  void apply(const wire::Reaper& r) { episodes_.on_reaper(r); }
  void apply(const wire::OomDecision& r) { episodes_.on_decision(r); }
  bool is_between_helpers(const wire::UserKill& kill) const;
  void forget(std::uint64_t inode);
  bool is_left_out(const TaskState& task, Bytes rss);
  bool too_soon(std::optional<MonoTime> told, MonoTime now);
  Sample sample_of(const CgroupState& state, MonoTime time, const CgroupTree::Tightest& tightest) const;
  HeadroomInput headroom_input(const CgroupState& state, const CgroupReading& reading,
                               std::optional<Bytes> limit) const;
  struct LimitAbove {
    std::uint64_t inode;  // 0: the machine's memory
    MonoTime read;
    Bytes pinned, limit;
    CgroupPtr whose;
  };
  std::optional<LimitAbove> limit_above(const CgroupState& state) const;
  void leave_to_others(CgroupState& state, Headroom& room, MonoTime when);
  void throttle(CgroupState& state, const CgroupReading& reading, Bytes pinned) const;
  void tell_limits(CgroupState& state, MonoTime when, const CgroupTree::Tightest& max,
                   std::optional<Bytes> host);
  bool episode_in_scope(const Episode& episode) const;
  std::optional<KillSeries> series_of(const Episode& episode);
  void tell_gpu();
  bool event_in_scope(const GpuEvent& event) const;
  void sample_gpu(MonoTime time, TaskId task, const GpuHeld& held, bool ended);
  void tell_gpu_sample(GpuSample sample);

  MachineConfig config_;
  CgroupTree cgroups_;
  TaskTable tasks_;
  EpisodeBuilder episodes_;
  GpuMemory gpu_;
  std::map<std::pair<TaskId, std::optional<GpuUuid>>, GpuSample> gpu_told_;  // task 0: a card
  struct Host {
    CgroupPtr ref;
    std::optional<MemInfo> info;
    MonoTime read{};  // that
    std::optional<std::uint64_t> swappiness, stalled_us;
  } host_;
  std::unordered_map<std::uint64_t, wire::Stalls> stalls_;
  std::vector<ModelEvent> events_;
  std::vector<CgroupPtr> hit_;  // whose LimitHit is in events_
  struct Repeats {
    KillSeries series;
    MonoTime last;
  };
  std::map<std::string, Repeats> series_;  // by what the kills have in common
  std::optional<MonoTime> swept_;
  Nanos pace_{};
  std::uint64_t spared_ = 0;
  struct UnknownCgroups {
    bool any = false;
    bool urgent = false;                             // a walk of the tree is
    std::map<std::uint64_t, std::uint64_t> growing;  // with their parents, which are known
  } unknown_;
  std::optional<TaskId> own_;
  std::unordered_set<std::uint64_t> followed_;
  std::set<TaskId> small_;  // that were told since follow()
};

}  // namespace oomcast
