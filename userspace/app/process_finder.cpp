#include "app/process_finder.h"

#include <utility>

namespace oomcast {

std::optional<TaskId> ProcessFinder::find(std::uint32_t pid, bool ask_again) {
  auto stat = procfs_.read_stat(pid);
  if (!stat || !*stat || (*stat)->kernel_thread()) return std::nullopt;
  SeenProcess seen;
  seen.id = {pid, (*stat)->start_ticks};
  seen.comm = (*stat)->comm;
  if ((*stat)->ppid)
    if (auto parent = procfs_.read_task_id((*stat)->ppid); parent && *parent) seen.parent = **parent;
  if (auto status = procfs_.read_status(pid); status && *status) {
    seen.uid = (*status)->uid;
    if (!(*status)->ns_pid.empty()) seen.ns_pid = (*status)->ns_pid.back();
  }
  if (auto cgroup = procfs_.read_cgroup_of(seen.id, mount_.hierarchy); cgroup && *cgroup)
    if (auto path = mount_.from_proc_path((*cgroup)->path))
      if (const CgroupState* state = model_.cgroups().by_path(*path)) seen.cgroup = state->ref->id.inode;
  // Without kernel programs, a changed name is the only sign of an exec since the last scan; the known
  // arguments are those of the old program.
  const TaskState* before = model_.tasks().find(seen.id);
  bool renamed = before && before->comm != seen.comm;
  model_.on_process(seen);
  const TaskState* known = model_.tasks().find(seen.id);
  if (!(*stat)->exiting() && (ask_again || renamed || !known || known->cmdline.empty()))
    ask_for_arguments(seen.id);
  return seen.id;
}

void ProcessFinder::find_all(bool ask_again) {
  auto pids = procfs_.list_pids();
  if (!pids) return;
  for (std::uint32_t pid : *pids) find(pid, ask_again);
}

void ProcessFinder::ask_for_arguments(const TaskId& id) {
  if (!ask_(id) && unasked_.size() < kMaxUnasked) unasked_.push_back(id);
}

void ProcessFinder::ask_again() {
  for (const TaskId& id : std::exchange(unasked_, {})) ask_for_arguments(id);
}

}  // namespace oomcast
