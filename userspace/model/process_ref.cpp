#include "model/process_ref.h"

namespace oomcast {

ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, TaskId id) {
  ProcessRef out;
  out.id = id;
  if (const TaskState* task = tasks.find(id)) {
    out.comm = task->comm;
    out.cmdline = task->cmdline;
    out.cmdline_source = task->cmdline_source;
    out.cmdline_truncated = task->cmdline_truncated;
    out.uid = task->uid;
    out.ns_pid = task->ns_pid;
    if (task->parent) out.ppid = task->parent->tgid;
    out.cgroup = cgroups.ref(task->cgroup);
  }
  return out;
}

ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, const wire::Task& task) {
  ProcessRef out = process_ref(tasks, cgroups, task.id);
  if (!task.comm.empty()) out.comm = task.comm;
  if (task.uid) out.uid = task.uid;
  if (task.parent) out.ppid = task.parent->tgid;
  if (task.ns_tgid) out.ns_pid = task.ns_tgid;
  if (auto cgroup = cgroups.ref(task.cgroup)) out.cgroup = cgroup;
  return out;
}

}  // namespace oomcast
