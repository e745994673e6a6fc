// A process as it is published, from what the model knows about it.
#pragma once

#include "model/cgroup_tree.h"
#include "model/facts.h"
#include "model/task_table.h"
#include "wire/records.h"

namespace oomcast {

/// What the table and the tree know about a task; if nothing, its identity alone.
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, TaskId id);
/// The same, with the record's values where they are newer.
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, const wire::Task& task);

}  // namespace oomcast
