// Recordings of schema 1: the same facts with times of CLOCK_MONOTONIC, one run, and kills, reclaim,
// pressure, alerts and losses as they were told only.
#pragma once

#include "store/database.h"

namespace oomcast {

/// Temporary views, in memory, before the file's own tables: all of schema 2 that schema 1 has in rows.
/// False: the file lacks what schema 1 has.
bool view_schema_1(sqlite3* db);

/// The same of what it has as lines: kills, and what a report on one shows. Cost: a pass over the lines. A
/// line that is no JSON is left out.
bool read_lines_of_schema_1(sqlite3* db);

}  // namespace oomcast
