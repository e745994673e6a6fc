// Where the memory was at a kill: every counter of the kernel's report against all there was, and the
// processes of its table together.
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
  std::string_view command;  // that shows who has it; empty: none is of use
  Bytes size;
};

struct MemoryTable {
  bool of_machine = false;
  Bytes whole;                  // the machine's RAM, or the cgroup's usage
  Bytes counted;                // the sum of all rows but "uncounted"
  std::vector<MemoryRow> rows;  // the largest first; with "uncounted", if any is
};

/// nullopt: the kernel's report has no counters, or does not tell of how much they are.
std::optional<MemoryTable> memory_table(const Episode& e);
/// "12.3 %"
std::string percent_of_whole(Bytes part, Bytes whole);

/// Rows of the kernel's table that belong together: of one cgroup where the cgroups of them are known (the
/// table itself does not tell), else of one command.
struct TaskGroup {
  std::string name;  // escaped
  bool cgroup = false;
  std::size_t count = 0;
  Bytes rss, swap;  // what several share is in each
};
/// The largest first.
std::vector<TaskGroup> task_groups(const Episode::Tasks& tasks);

}  // namespace oomcast
