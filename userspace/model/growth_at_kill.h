// What had grown when a limit was met.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "model/cgroup_tree.h"
#include "model/facts.h"
#include "model/task_table.h"

namespace oomcast {

class GrowthAtKill {
 public:
  GrowthAtKill(const TaskTable& tasks, const CgroupTree& cgroups) : tasks_(tasks), cgroups_(cgroups) {}

  /// The processes below the limit, or of the machine, that grew in the minute before `at` and lived then, at
  /// most 5, most first; none that grew by less than a twentieth of the first: beside one that grew by
  /// gigabytes, the start of a shell is not worth telling. Cost: one pass over the table for all limits of a
  /// moment of 50 ms (in a storm of kills it has thousands of processes), then over who grew, most first,
  /// until enough of them lie below the limit.
  std::vector<GrewProcess> grew_most(std::optional<std::uint64_t> limit_inode, MonoTime at);

 private:
  void collect(MonoTime at);

  const TaskTable& tasks_;
  const CgroupTree& cgroups_;
  std::optional<MonoTime> moment_;
  std::vector<TaskId> grown_;  // as of then, most first
};

}  // namespace oomcast
