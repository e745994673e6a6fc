// What processes hold, beside the samples that the kernel sends: who sleeps is on no CPU, and what of its
// memory a worker shares only a walk of its page tables tells.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "collect/procfs.h"
#include "model/facts.h"
#include "model/machine_model.h"

namespace oomcast {

/// A percpu_counter's central count lags by at most batch times CPUs pages; batch is max(32, 2 × CPUs). Three
/// counters make up RSS.
Bytes rss_error();

/// The newest sample of each process that was sampled, and those that are due. Cost: about 20 µs for each
/// process that is asked for, at most 64 an interval (1,024 of a process tree), and a pass over the tasks.
class ProcessSamples {
 public:
  static constexpr Bytes kMaxTables = MiB(128);  // page tables of what is walked: ProcStatus::quick_to_walk()

  ProcessSamples(MachineModel& model, const ProcFs& procfs, Nanos interval)
      : model_(model), procfs_(procfs), interval_(interval) {}

  /// A sample that is told. Private memory is measured now and then: it stands until it is measured again.
  void on(const ProcessSampleFact& told);
  const std::unordered_map<TaskId, ProcessSampleFact>& newest() const { return newest_; }

  /// Of those that ended, once.
  std::vector<ExitFact> ended(MonoTime now);
  /// Of those that were sampled a moment ago and moved since: they grew and sleep now; and of those in a
  /// cgroup that grew, as look_in() says, or that the model follows. None near a kill. Of a process tree all
  /// counts, also what holds memory and never ran.
  std::vector<ProcessSampleFact> moved(MonoTime now);
  /// A cgroup holds so much more that cannot be dropped, and no tick met who took it: what grows within a few
  /// ticks and sleeps then may be on no CPU at any of them. moved() looks for it: for a quarter of that, of
  /// 16 MiB at least.
  void look_in(std::uint64_t cgroup, Bytes grown);
  /// Records were lost, of ends among them: who lives as far as is known is looked for in /proc, at most 64
  /// an interval, none near a kill.
  void ends_were_lost();
  /// Of those who is not there any more, as far as this machine's processes are seen at all: none of them is
  /// in a /proc of another pid namespace.
  std::vector<TaskId> gone();
  /// Whose private memory is to be measured now: workers that copy what they share with their parent keep
  /// their RSS. Only of those whose RSS stays, that have no locked memory and no large page tables; none near
  /// a kill.
  std::vector<TaskId> to_measure(MonoTime now);
  /// A sample with what was measured; nullopt: it is gone, or could not be measured. `cost` of CPU rules how
  /// soon it is measured again.
  std::optional<ProcessSampleFact> measured(const TaskId& id, std::optional<Bytes> holds, Nanos cost,
                                            MonoTime now);
  /// Its walk took too long: it is not walked again while its page tables are more than half as large.
  void gave_up(const TaskId& id);

 private:
  struct Walk {
    std::optional<Bytes> bytes;                         // as last measured
    Bytes rss;                                          // when it was last considered
    Bytes tables;                                       // when it was last asked
    Bytes most_tables = ProcessSamples::kMaxTables;     // less once a walk of it was given up
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
  Bytes most_tables_ = kMaxTables;  // less on a machine that needs longer for them
};

}  // namespace oomcast
