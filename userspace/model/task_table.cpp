#include "model/task_table.h"

#include <algorithm>

namespace oomcast {

TaskState& TaskTable::note(TaskId id) {
  auto [at, is_new] = tasks_.try_emplace(id);
  if (is_new) {
    at->second.id = id;
    by_pid_[id.tgid] = id;
    seen_.push_back(id);
    if (tasks_.size() > most_tasks_) {
      make_room();
      at = tasks_.try_emplace(id).first;  // it is the newest, so it was not evicted
    }
  }
  return at->second;
}

TaskState& TaskTable::note(const wire::Task& task) {
  TaskState& state = note(task.id);
  if (task.parent) state.set_parent(*task.parent);
  // A thread's name is not its process's.
  if (state.comm.empty() || task.tid == task.id.tgid) state.comm = task.comm;
  if (task.uid) state.uid = task.uid;
  if (task.ns_tgid) state.ns_pid = task.ns_tgid;
  if (task.cgroup) state.cgroup = task.cgroup;
  return state;
}

void TaskTable::set_cmdline(TaskState& task, const std::optional<wire::Args>& args, CmdlineSource source,
                            MonoTime when) {
  if (when < task.cmdline_at) return;
  task.cmdline_at = when;
  task.cmdline_source = args ? std::optional(source) : std::nullopt;
  argument_bytes_ -= task.cmdline.bytes().size();
  task.cmdline = args ? args->argv : Arguments();
  task.cmdline_truncated = args && args->truncated;
  argument_bytes_ += task.cmdline.bytes().size();
  if (argument_bytes_ > most_arguments_) cut_arguments(task);
}

void TaskTable::cut_arguments(TaskState& task) {
  argument_bytes_ -= task.cmdline.bytes().size();
  if (task.cmdline.cut(kCutOff)) task.cmdline_truncated = true;
  argument_bytes_ += task.cmdline.bytes().size();
}

void TaskTable::set_room(double part) {
  most_tasks_ = static_cast<std::size_t>(part * static_cast<double>(max_tasks_));
  most_arguments_ = static_cast<std::size_t>(part * static_cast<double>(kMaxArguments));
  while (tasks_.size() > most_tasks_ && !dead_.empty()) make_room();
  while (tasks_.size() > most_tasks_ && drop_small(tasks_.size() - most_tasks_) > 0) {
  }
  while (tasks_.size() > most_tasks_) make_room();
  for (auto at = tasks_.begin(); at != tasks_.end() && argument_bytes_ > most_arguments_; ++at)
    cut_arguments(at->second);
}

void TaskTable::forget(TaskId id) {
  if (auto pid = by_pid_.find(id.tgid); pid != by_pid_.end() && pid->second == id) by_pid_.erase(pid);
  auto at = tasks_.find(id);
  if (at == tasks_.end()) return;
  argument_bytes_ -= at->second.cmdline.bytes().size();
  tasks_.erase(at);
}

void TaskTable::mark_dead(TaskId id, MonoTime when) {
  auto at = tasks_.find(id);
  if (at == tasks_.end() || at->second.died) return;
  at->second.died = when;
  dead_.push_back(id);
  // Dead tasks are kept for late records, but not forever.
  while (dead_.size() > most_tasks_ / 8) {
    forget(dead_.front());
    dead_.pop_front();
  }
  // Ids of the erased stay in seen_; drop them before they outnumber the living.
  if (seen_.size() > 2 * tasks_.size() + 64)
    std::erase_if(seen_, [&](TaskId seen) { return !tasks_.contains(seen); });
}

void TaskTable::make_room() {
  auto drop = [&](std::deque<TaskId>& from) {
    while (!from.empty()) {
      TaskId oldest = from.front();
      from.pop_front();
      if (tasks_.contains(oldest)) {
        forget(oldest);
        return true;
      }
    }
    return false;
  };
  if (drop(dead_)) {
    ++forgotten_;
  } else if (drop_small(std::max<std::size_t>(1, most_tasks_ / 64)) == 0) {  // several, as it scans all
    drop(seen_);
    ++forgotten_;
  }
}

// A user who starts thousands of idle processes must evict only their own: users with most of them are cut
// down to one number, oldest first. Never the newest, which is being added.
std::size_t TaskTable::drop_small(std::size_t most) {
  auto user = [](const TaskState& task) { return task.uid ? std::int64_t{*task.uid} : -1; };
  std::unordered_map<std::int64_t, std::size_t> small;
  std::size_t level = 0;
  for (const auto& [id, task] : tasks_)
    if (task.rss.empty()) level = std::max(level, ++small[user(task)]);
  auto above = [&] {
    std::size_t sum = 0;
    for (const auto& [uid, count] : small) sum += count > level ? count - level : 0;
    return sum;
  };
  do level /= 2;
  while (level > 0 && above() < most);
  std::size_t dropped = 0;
  const TaskId newest = seen_.empty() ? TaskId{} : seen_.back();
  for (TaskId id : seen_) {
    if (dropped == most) break;
    auto task = tasks_.find(id);
    if (task == tasks_.end() || id == newest || !task->second.rss.empty()) continue;
    if (std::size_t& count = small[user(task->second)]; count > level) {
      --count;
      ++dropped;
      forget(id);
    }
  }
  if (dropped) std::erase_if(seen_, [&](TaskId seen) { return !tasks_.contains(seen); });
  forgotten_ += dropped;
  return dropped;
}

const TaskState* TaskTable::find(TaskId id) const {
  auto at = tasks_.find(id);
  return at == tasks_.end() ? nullptr : &at->second;
}

const TaskState* TaskTable::by_pid(std::uint32_t tgid) const {
  auto at = by_pid_.find(tgid);
  return at == by_pid_.end() ? nullptr : find(at->second);
}

bool TaskTable::descends_from(TaskId id, TaskId top) const {
  for (int depth = 0; depth < 64; ++depth) {
    if (id == top) return true;
    const TaskState* task = find(id);
    if (!task || !task->maker || *task->maker == id) return false;
    id = *task->maker;
  }
  return false;
}

std::vector<TaskId> TaskTable::ancestors(TaskId id, std::size_t max) const {
  std::vector<TaskId> out;
  for (const TaskState* task = find(id); task && task->maker && out.size() < max; task = find(out.back())) {
    if (*task->maker == task->id) break;
    out.push_back(*task->maker);
  }
  return out;
}

}  // namespace oomcast
