// Recordings of schema 1: the same facts with times of CLOCK_MONOTONIC, one run, and kills, reclaim,
// pressure, alerts and losses as they were told only.
#pragma once

#include "store/database.h"

namespace oomcast {

/// Temporary views and tables, in memory, before the file's own: all of schema 2 that schema 1 has, episodes
/// with their victims included. False: the file lacks what schema 1 has.
bool view_schema_1(sqlite3* db);

}  // namespace oomcast
