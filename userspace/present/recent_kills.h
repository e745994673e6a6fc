// OOM kills on the live screen: the line that stays for a minute, and which one a key opens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "present/overview.h"
#include "present/table.h"
#include "stream/cells.h"

namespace oomcast {

/// How long the overview has a line for a kill.
inline constexpr Seconds kKillStays{60};

/// Those of the last kKillStays, newest first.
std::vector<const OomEvent*> recent_kills(const Overview& overview);
/// Of any age; null: none is known.
const OomEvent* newest_kill(const Overview& overview);

/// "!! python3[9054] slow.py was OOM-killed 3 s ago, 2 others within a minute: Enter". Without cells: there
/// was no kill lately.
Line kill_line(const Overview& overview, const View& view, std::size_t width);

/// What tells one event from the others, as long as it is in the list.
std::string key_of(const Fact& event);
/// The event that the keys act on: the chosen one, else the newest kill, else the newest; null: there is
/// none.
const Fact* chosen_event(const Overview& overview, const View& view);
/// The kill that Enter opens on the page that is shown; null: Enter does something else there.
const OomEvent* kill_to_open(const Overview& overview, const View& view);

}  // namespace oomcast
