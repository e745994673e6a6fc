// Where the memory was at a kill, by the kernel's report of it. `page`: its page size; nullopt: not known, so
// that what the kernel counts in pages is not known either.
#pragma once

#include <optional>
#include <vector>

#include "model/facts.h"
#include "parse/oom_log.h"

namespace oomcast {

/// Of the limit's cgroup, or of the machine where no cgroup's limit was met; nullopt: the report has neither.
std::optional<MemoryAtKill> memory_at_kill(const OomDump& dump, std::optional<Bytes> page);
/// nullopt: it was a memory cgroup's limit, or the report does not tell.
std::optional<MachineAtKill> machine_at_kill(const OomDump& dump, std::optional<Bytes> page);
/// The `most` largest rows of the report's table, the largest first, each process named by its row alone; and
/// the sums over all rows.
Episode::Tasks tasks_at_kill(const OomDump& dump, Bytes page, std::size_t most = Episode::kMaxTasks);

}  // namespace oomcast
