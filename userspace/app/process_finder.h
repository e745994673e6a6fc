// Finds processes that no kernel program reported, and asks for arguments that none has read.
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

/// Cost: about 40 µs per process read.
class ProcessFinder {
 public:
  static constexpr std::size_t kMaxUnasked = 8192;
  /// Asks the reader for a process's arguments. false: not now.
  using Ask = std::function<bool(const TaskId& id)>;

  ProcessFinder(MachineModel& model, const ProcFs& procfs, const CgroupMount& mount, Ask ask)
      : model_(model), procfs_(procfs), mount_(mount), ask_(std::move(ask)) {}

  /// nullopt: no such process, or a kernel thread. `ask_again`: ask for its arguments even if they are known;
  /// never asked for a process that is exiting.
  std::optional<TaskId> find(std::uint32_t pid, bool ask_again = true);
  /// Every process in /proc.
  void find_all(bool ask_again);
  void ask_for_arguments(const TaskId& id);
  /// Retries requests that were refused before.
  void ask_again();

 private:
  MachineModel& model_;
  const ProcFs& procfs_;
  const CgroupMount& mount_;
  Ask ask_;
  std::vector<TaskId> unasked_;
};

}  // namespace oomcast
