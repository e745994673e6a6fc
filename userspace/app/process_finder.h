// Finds the processes that no kernel program told of, and asks for the arguments that none saw.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/task_id.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"
#include "model/machine_model.h"

namespace oomcast {

/// Cost: about 40 µs for each process that is looked at.
class ProcessFinder {
 public:
  static constexpr std::size_t kMaxUnasked = 8192;
  /// Asks the reader for a process's arguments. false: not now.
  using Ask = std::function<bool(const TaskId& id)>;

  ProcessFinder(MachineModel& model, const ProcFs& procfs, const CgroupMount& mount, Ask ask)
      : model_(model), procfs_(procfs), mount_(mount), ask_(std::move(ask)) {}

  /// nullopt: there is no such process, or it is a kernel thread. `ask_again`: for its arguments, although
  /// they are known; those of one that exits are not asked for.
  std::optional<TaskId> find(std::uint32_t pid, bool ask_again = true);
  /// All that /proc lists.
  void find_all(bool ask_again);
  void ask_for_arguments(const TaskId& id);
  /// For those that it could not be asked for before.
  void ask_again();

 private:
  MachineModel& model_;
  const ProcFs& procfs_;
  const CgroupMount& mount_;
  Ask ask_;
  std::vector<TaskId> unasked_;
};

}  // namespace oomcast
