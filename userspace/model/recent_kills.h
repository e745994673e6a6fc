// Recent SIGKILLs by the kernel and exits caused by them: they decide whether a mark is a kill.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/task_id.h"
#include "base/units.h"
#include "wire/records.h"

namespace oomcast {

/// The newest 512 of each. Cost: a pass over them for each question.
class RecentKills {
 public:
  /// Whether the same thread sent the same one a moment before: the kernel may go through a group with the
  /// first victim in it once more, and counts that.
  bool add(const wire::KernelKill& kill);
  void add(const wire::Exit& exit);

  /// A kill is a SIGKILL followed by the mark, by the same thread, of the same thread. A mark without it is
  /// of a task that was exiting anyway; the kernel logs and counts no kill for it.
  bool precede(const wire::OomMark& mark) const;
  /// Whether its end, if it came before the mark, was by SIGKILL.
  std::optional<bool> ended_by_sigkill(const TaskId& id) const;
  /// Processes killed because they shared the victim's mm. Only kills by the same thread at that moment count: the
  /// address of a freed mm is soon reused.
  std::vector<wire::Task> with_memory(std::uint64_t mm_key, std::uint32_t killer_tid, MonoTime when) const;

 private:
  std::deque<wire::KernelKill> kills_;  // newest last
  std::deque<wire::Exit> exits_;        // of processes that the kernel killed; one can precede its mark
};

}  // namespace oomcast
