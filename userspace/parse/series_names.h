// What the name of a column says of what is in it.
#pragma once

#include <optional>
#include <string_view>

#include "parse/series_cells.h"

namespace oomcast {

/// How surely a column of this name is the memory that cannot be taken back, 1 to 5; 0: it is not, or not
/// known to be.
int memory_rank(std::string_view name);
bool is_limit(std::string_view name);
/// What separates one series from another.
bool is_key(std::string_view name);
bool is_time(std::string_view name);
/// Anything but used memory: a limit, a key, a share, a step, what is free.
bool is_no_memory(std::string_view name);
/// "rss_mb", "rssMB", "memory (MiB)", "memory.used [MiB]", "used_bytes"; nullopt: the name has none.
std::optional<MemoryUnit> unit_of_name(std::string_view name);
/// Seconds in one of a number of this column: "time_ms" 0.001.
double scale_of_time(std::string_view name);

}  // namespace oomcast
