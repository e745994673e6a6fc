// From where processes grew before a kill, as a database has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "model/facts.h"
#include "store/database.h"
#include "store/rows.h"

namespace oomcast {

/// Of an episode, into `out`. `note` is called behind each statement, with what it reads: it may have failed.
void read_growth(sqlite3* db, std::int64_t episode, Rows& rows, GrowthOrigins& out,
                 const std::function<void(const Statement&, std::string_view)>& note);

}  // namespace oomcast
