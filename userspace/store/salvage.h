// Recovers what is readable in a damaged store.
#pragma once

#include <cstddef>
#include <string>

#include "store/database.h"

namespace oomcast {

struct Salvaged {
  std::size_t episodes = 0;
  std::size_t lost = 0;  // at most so many more were in it, as far as its rows can be counted
};
/// Copies the episodes that can be read in `from`, and the newest with their curves, into an open store.
/// Cost: some fifty statements an episode, of 10,000 at most.
Salvaged take_over(const std::string& from, sqlite3* to);

}  // namespace oomcast
