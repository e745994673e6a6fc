// A process as it is told of, from what the model knows of it.
#pragma once

#include "model/cgroup_tree.h"
#include "model/facts.h"
#include "model/task_table.h"
#include "wire/records.h"

namespace oomcast {

/// What the table and the tree know of a task; its identity alone, if that is nothing.
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, TaskId id);
/// The same, with the record's own words where they are newer.
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, const wire::Task& task);

}  // namespace oomcast
