// Process samples besides those that the kernel programs send: a sleeping process is on no CPU when a tick
// comes, and only a walk of its page tables shows how much of a worker's memory is shared.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "collect/procfs.h"
#include "model/facts.h"
#include "model/machine_model.h"

namespace oomcast {

/// The central count of a percpu_counter lags by up to batch times CPUs pages; batch is max(32, 2 × CPUs).
/// RSS is the sum of three such counters.
Bytes rss_error();

/// Keeps the newest sample of each process, and takes those that are due. Cost: about 20 µs per process, at
/// most 64 an interval (1,024 of a process tree), and a pass over the tasks.
class ProcessSamples {
 public:
  static constexpr Bytes kMaxTables = MiB(128);  // page tables of what is walked: ProcStatus::quick_to_walk()

  ProcessSamples(MachineModel& model, const ProcFs& procfs, Nanos interval)
      : model_(model), procfs_(procfs), interval_(interval) {}

  /// Records a published sample. Private memory is measured only now and then; the last value is kept.
  void on(const ProcessSampleFact& told);
  const std::unordered_map<TaskId, ProcessSampleFact>& newest() const { return newest_; }

  /// Processes that exited, each once.
  std::vector<ExitFact> ended(MonoTime now);
  /// Samples of processes that were sampled a moment ago and have moved since (they grew, and sleep now), and
  /// of those in a cgroup that grew, as given to look_in() or followed by the model. None near a kill. For a
  /// process tree all processes count, also those that hold memory and never ran.
  std::vector<ProcessSampleFact> moved(MonoTime now);
  /// Unreclaimable memory of a cgroup grew by `grown`, and no tick saw the process: one that grows within a
  /// few ticks and then sleeps may be on no CPU at any of them. moved() searches for processes that hold a
  /// quarter of that, at least 16 MiB.
  void look_in(std::uint64_t cgroup, Bytes grown);
  /// Exit records may have been lost: checks every task believed alive against /proc, at most 64 an interval,
  /// none near a kill.
  void ends_were_lost();
  /// Tasks found dead by that check. Empty if this machine's processes cannot be seen: a /proc of another pid
  /// namespace has none of them.
  std::vector<TaskId> gone();
  /// Processes whose private memory should be measured now: workers that copy what they share with their
  /// parent keep their RSS. Only processes with a steady RSS, without locked memory and without large page
  /// tables; none near a kill.
  std::vector<TaskId> to_measure(MonoTime now);
  /// A sample with the measured value; nullopt: the process is gone, or could not be measured. The CPU time
  /// `cost` decides how soon it is measured again.
  std::optional<ProcessSampleFact> measured(const TaskId& id, std::optional<Bytes> holds, Nanos cost,
                                            MonoTime now);
  /// The walk took too long: the process is not walked again unless its page tables shrink to half.
  void gave_up(const TaskId& id);

 private:
  struct Walk {
    std::optional<Bytes> bytes;                         // last measured
    Bytes rss;                                          // when last considered
    Bytes tables;                                       // when last requested
    Bytes most_tables = ProcessSamples::kMaxTables;     // reduced once its walk was given up
    Nanos wait{}, cost = std::chrono::milliseconds(1);  // between two; of the last
    MonoTime next{};
  };
  bool is_near_a_kill(const ProcessRef& process) const;
  std::optional<ProcessSampleFact> ask(const ProcessSampleFact& last, MonoTime now) const;
  std::vector<TaskId> sampled_lately(MonoTime now, std::size_t most);
  std::vector<TaskId> of_growing_cgroups(const std::unordered_map<std::uint64_t, Bytes>& grown, MonoTime now);

  MachineModel& model_;
  const ProcFs& procfs_;
  Nanos interval_;
  std::unordered_map<TaskId, ProcessSampleFact> newest_;
  std::unordered_map<std::uint64_t, Bytes> grown_in_;  // cgroups, by how much
  TaskId last_asked_, last_looked_at_;
  std::vector<TaskId> to_find_, near_a_kill_, not_found_;
  bool found_any_ = false;
  std::unordered_map<TaskId, Walk> walks_;
  MonoTime walks_from_{};
  Bytes most_tables_ = kMaxTables;  // reduced on a slow machine
};

}  // namespace oomcast
