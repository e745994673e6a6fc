// What the kernel's log tells of a kill, as an Episode.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/facts.h"
#include "parse/oom_reports.h"

namespace oomcast {

/// The process of a victim's line, which has the thread's number: the table of the same report, or the
/// constraint line, has the process's.
std::uint32_t tgid_of(const OomDump& dump, const OomVictimLine& victim);

/// The kernel's own line is the authority on the numbers it prints.
void take_line(Victim& victim, const OomVictimLine& line);

/// The page size by which a victim's line (kB) agrees with its row (pages), or else the zones (kB) with their
/// sum (pages); nullopt: unknown.
std::optional<Bytes> page_size_of(const OomDump& dump);

/// A name for `report`: when in UTC, and who.
std::string episode_id(WallTime time, const Episode& episode);

/// The episode of a report that nobody else saw: what the log does not tell stays nullopt, `time` and `id`
/// are unset. A victim whose line is missing, but whom the kernel's choice or its reaper names, is there, not
/// `logged`. A trigger whose number is not there has pid 0. nullopt: the report, or what is left of it, is of
/// no kill. Without victims: nobody is named, or (OomDump::no_victim) nobody could be killed.
std::optional<Episode> logged_kill(const OomDump& dump);

}  // namespace oomcast
