// Events as lines of the live screen.
#pragma once

#include <string>
#include <vector>

#include "stream/cells.h"
#include "stream/facts.h"

namespace oomcast {

std::string clock_time(WallTime t);

Style event_style(const Fact& fact);
/// The same text as `trace` prints.
std::vector<std::string> event_lines(const Fact& fact, const ClockMap& clock);
/// One line: the victim and the cause.
Line event_headline(const Fact& fact, const ClockMap& clock);

}  // namespace oomcast
