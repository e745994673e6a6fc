// The processes seen so far, with their parents, by (tgid, start time).
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/arguments.h"
#include "base/task_id.h"
#include "base/units.h"
#include "model/facts.h"
#include "model/series.h"
#include "wire/records.h"

namespace oomcast {

struct TaskState {
  TaskId id;
  std::optional<TaskId> parent;  // now
  /// The task that forked it, if seen: it counts as a descendant of that one even after reparenting.
  std::optional<TaskId> maker;
  void set_parent(TaskId other) {
    parent = other;
    if (!maker) maker = other;
  }
  std::string comm;
  Arguments cmdline;
  std::optional<CmdlineSource> cmdline_source;
  bool cmdline_truncated = false;
  MonoTime cmdline_at{};  // when it was seen
  std::optional<std::uint32_t> uid, ns_pid;
  std::optional<std::uint64_t> cgroup;  // inode
  Series rss{24};                       // of the whole process; empty until it was sampled
  std::optional<MonoTime> died;
  std::optional<MonoTime> told;  // when its newest sample was published
};

/// Bounded: at most `max_tasks`, then the oldest dead go, after them some of those that never held enough to
/// be sampled, of the users who have most of them, and the oldest seen at last; those are counted. A dead
/// task stays until then, because its records arrive after its death. Command lines are bounded in sum:
/// beyond, one is cut off after its first words. A victim's is read once more as it dies.
class TaskTable {
 public:
  static constexpr std::size_t kMaxArguments = 6 << 20, kCutOff = 128;  // bytes

  explicit TaskTable(std::size_t max_tasks = 8192) : max_tasks_(max_tasks) {}

  /// Sets the fraction of the bounds that may be used from now on. Evicts the excess at once: the dead, then tasks
  /// never sampled, then the oldest.
  void set_room(double part);

  /// The task, made or refreshed from what a record says of it.
  TaskState& note(const wire::Task& task);
  TaskState& note(TaskId id);
  /// nullopt: it could not be read then. What is older than what is known is ignored: the two rings are read
  /// one after the other.
  void set_cmdline(TaskState& task, const std::optional<wire::Args>& args, CmdlineSource source,
                   MonoTime when);
  void mark_dead(TaskId id, MonoTime when);

  const TaskState* find(TaskId id) const;
  /// The newest process that had this pid.
  const TaskState* by_pid(std::uint32_t tgid) const;
  /// `id` or one of its ancestors is `top`. Cost: the depth of the tree, at most 64.
  bool descends_from(TaskId id, TaskId top) const;
  /// Known ancestors, the nearest first, at most `max`.
  std::vector<TaskId> ancestors(TaskId id, std::size_t max) const;

  std::size_t size() const { return tasks_.size(); }
  std::uint64_t forgotten() const { return forgotten_; }
  template <typename F>
  void for_each(F f) const {
    for (const auto& [id, task] : tasks_) f(task);
  }

 private:
  void make_room();
  std::size_t drop_small(std::size_t most);
  void forget(TaskId id);
  void cut_arguments(TaskState& task);

  std::size_t max_tasks_, most_tasks_ = max_tasks_;
  std::size_t most_arguments_ = kMaxArguments, argument_bytes_ = 0;
  std::unordered_map<TaskId, TaskState> tasks_;
  std::unordered_map<std::uint32_t, TaskId> by_pid_;
  std::deque<TaskId> dead_, seen_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace oomcast
