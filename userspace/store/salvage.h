// What a damaged store still gives.
#pragma once

#include <cstddef>
#include <string>

#include "store/database.h"

namespace oomcast {

/// Copies the episodes that can be read in `from`, and the newest with their curves, into an open store; how
/// many.
std::size_t take_over(const std::string& from, sqlite3* to);

}  // namespace oomcast
