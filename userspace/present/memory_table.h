// Where the memory was at a kill: every counter of the kernel's report against the whole, and the processes
// of its table in groups.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/facts.h"

namespace oomcast {

struct MemoryRow {
  std::string name;          // as in MemoryAtKill::Part; "uncounted": in no counter of the report
  std::string_view meaning;  // "page tables"
  std::string_view command;  // that shows what holds it; empty: none does
  Bytes size;
};

struct MemoryTable {
  bool of_machine = false;
  Bytes whole;                  // the machine's RAM, or the cgroup's usage
  Bytes counted;                // the sum of all rows but "uncounted"
  std::vector<MemoryRow> rows;  // the largest first; with "uncounted", if any is
};

/// nullopt: the kernel's report has no counters, or the whole that they are parts of is unknown.
std::optional<MemoryTable> memory_table(const Episode& e);
/// "12.3 %"; empty of a whole that is nothing.
std::string percent_of_whole(Bytes part, Bytes whole);

/// Rows of the kernel's table that belong together: of one cgroup where every row's cgroup is known (the
/// table itself has none), else of one command.
struct TaskGroup {
  std::string name;  // escaped
  bool cgroup = false;
  std::size_t count = 0;
  // Sums of the known ones, nullopt if none is; memory that several share counts for each.
  std::optional<Bytes> rss, swap;
};
/// The largest first.
std::vector<TaskGroup> task_groups(const Episode::Tasks& tasks);
/// What the groups are parts of: "of it", all of the kernel's table, or "of its 64 largest", the rows that
/// are kept.
std::string of_which(const Episode::Tasks& tasks);

}  // namespace oomcast
