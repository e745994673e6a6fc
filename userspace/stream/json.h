// Facts as JSON Lines, by the contract: snake_case names with their unit, unknown is null.
#pragma once

#include <string>

#include "stream/facts.h"

namespace oomcast {

/// One line, without its newline; empty for a fact that is not shown. Valid UTF-8 whatever the names in it.
std::string to_json(const Fact& fact, const ClockMap& clock);

}  // namespace oomcast
