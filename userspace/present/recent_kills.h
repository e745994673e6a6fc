// OOM kills on the live screen: the line shown for a minute, and the kill that a key opens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "present/overview.h"
#include "present/table.h"
#include "stream/cells.h"

namespace oomcast {

/// How long the overview shows a line for a kill.
inline constexpr Seconds kKillStays{60};

/// Kills in the last kKillStays, newest first.
std::vector<const OomEvent*> recent_kills(const Overview& overview);
/// Of any age; null: none.
const OomEvent* newest_kill(const Overview& overview);

/// "!! python3[9054] slow.py was OOM-killed 3 s ago, 2 others within a minute: Enter". No cells: no recent
/// kill.
Line kill_line(const Overview& overview, const View& view, std::size_t width);

/// Identifies an event while it is in the list.
std::string key_of(const Fact& event);
/// The event that keys act on: the selected one, else the newest kill, else the newest event; null: none.
const Fact* chosen_event(const Overview& overview, const View& view);
/// The kill that Enter opens on the current page; null: Enter does something else there.
const OomEvent* kill_to_open(const Overview& overview, const View& view);

}  // namespace oomcast
