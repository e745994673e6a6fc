// What stands above and below the body of the live screen, and its help.
#pragma once

#include <cstddef>
#include <vector>

#include "present/cells.h"
#include "present/overview.h"
#include "present/table.h"

namespace oomcast {

/// The time, losses, cards as far as there is room, and the one sentence to read.
std::vector<Line> heading(const Overview& overview, const ClockMap& clock, const View& view, Size size);
/// `total`: rows that one can scroll through.
Line footer(const View& view, std::size_t total);
std::vector<Line> help_lines(std::size_t width);

}  // namespace oomcast
