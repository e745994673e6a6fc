// The lines above and below the body of the live screen, and its help.
#pragma once

#include <cstddef>
#include <vector>

#include "present/overview.h"
#include "present/table.h"
#include "stream/cells.h"

namespace oomcast {

/// The time, what runs out next and when, what to do, what was killed; then, if there is room, losses,
/// sources and cards.
std::vector<Line> heading(const Overview& overview, const ClockMap& clock, const View& view, Size size);
/// `total`: rows that can be scrolled through. Shows the keys that fit, most important first.
Line footer(const Overview& overview, const View& view, std::size_t total, std::size_t width);
std::vector<Line> help_lines(std::size_t width);

}  // namespace oomcast
