// Where threads of OOM victims were when they died.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/task_id.h"
#include "model/facts.h"

namespace oomcast {

/// The newest: user stacks of 64 processes, source lines of 256 threads.
class DyingStacks {
 public:
  void on_stack(const TaskId& id, std::vector<std::uint64_t> stack);
  void on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code);
  /// Gives the victim what is known. Of its threads that one's code which met the limit, or the first's, or
  /// any.
  void fill_in(Victim& victim, const TaskId& id, std::optional<std::uint32_t> trigger_tid) const;

 private:
  struct Stack {
    TaskId id;
    std::vector<std::uint64_t> frames;
  };
  struct Thread {
    TaskId id;
    std::uint32_t tid = 0;
    std::vector<CodePlace> code;
  };
  std::deque<Stack> stacks_;
  std::deque<Thread> threads_;
};

}  // namespace oomcast
