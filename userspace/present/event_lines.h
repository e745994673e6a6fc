// What happened, as lines of the live screen.
#pragma once

#include <string>
#include <vector>

#include "stream/cells.h"
#include "stream/facts.h"

namespace oomcast {

std::string clock_time(WallTime t);

Style event_style(const Fact& fact);
/// All that `trace` says of it.
std::vector<std::string> event_lines(const Fact& fact, const ClockMap& clock);
/// One line: who died of what.
Line event_headline(const Fact& fact, const ClockMap& clock);

}  // namespace oomcast
