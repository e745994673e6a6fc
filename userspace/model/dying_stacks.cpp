#include "model/dying_stacks.h"

#include <algorithm>

#include "model/recent.h"

namespace oomcast {

void DyingStacks::on_stack(const TaskId& id, std::vector<std::uint64_t> stack) {
  if (!stack.empty()) remember(stacks_, {id, std::move(stack)}, 64);
}

void DyingStacks::on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code) {
  if (!code.empty()) remember(threads_, {id, tid, std::move(code)}, 256);
}

void DyingStacks::fill_in(Victim& victim, const TaskId& id, std::optional<std::uint32_t> trigger_tid) const {
  for (const Stack& stack : stacks_)
    if (stack.id == id) victim.stack = stack.frames;
  int best = 0;
  for (const Thread& thread : threads_) {
    if (thread.id != id) continue;
    int rank = thread.tid == trigger_tid ? 3 : thread.tid == thread.id.tgid ? 2 : 1;
    if (rank > best) victim.code = thread.code;
    best = std::max(best, rank);
  }
}

}  // namespace oomcast
