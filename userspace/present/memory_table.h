// Where the memory was at a kill: every counter of the kernel's report as a share of the whole, and the
// processes of its table in groups.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/facts.h"

namespace oomcast {

struct MemoryRow {
  std::string name;          // as in MemoryAtKill::Part; "uncounted": in no counter
  std::string_view meaning;  // "page tables"
  std::string_view command;  // shows what holds it; empty: there is none
  Bytes size;
};

struct MemoryTable {
  bool of_machine = false;
  Bytes whole;                  // the machine's RAM, or the cgroup's usage
  Bytes counted;                // the sum of all rows except "uncounted"
  std::vector<MemoryRow> rows;  // largest first; includes "uncounted", if any
};

/// nullopt: the kernel's report has no counters, or the whole is unknown.
std::optional<MemoryTable> memory_table(const Episode& e);
/// "12.3 %"; empty if the whole is 0.
std::string percent_of_whole(Bytes part, Bytes whole);

/// Rows of the kernel's task table grouped by cgroup, if every row's cgroup is known (the table itself has
/// none), else by command.
struct TaskGroup {
  std::string name;  // escaped
  bool cgroup = false;
  std::size_t count = 0;
  // Sums of the known values, nullopt if none is known; shared memory counts in each process.
  std::optional<Bytes> rss, swap;
};
/// Largest first.
std::vector<TaskGroup> task_groups(const Episode::Tasks& tasks);
/// What the groups are a share of: "of it", all of the kernel's table, or "of its 64 largest", the rows that
/// were kept.
std::string of_which(const Episode::Tasks& tasks);

}  // namespace oomcast
