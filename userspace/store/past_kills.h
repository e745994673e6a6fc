// Merges reports of the same kill: seen live, in the kernel log, in the journal and in a rotated file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "parse/oom_reports.h"
#include "store/store.h"

namespace oomcast {

/// A kill with all of its sources.
struct PastKill {
  Episode episode;                              // times and identities of `run`
  std::optional<ForecastFact> forecast_before;  // as in OomEvent
  std::optional<MonoTime> first_forecast;
  std::shared_ptr<const RunInfo> run;  // null: only logs saw it; then episode.time counts from the epoch
  std::vector<EpisodeSource> sources;  // each once, in the order of the enumeration
  std::vector<std::string> files;      // of EpisodeSource::file, in the order they were read
  bool kept = false;                   // is in the store
  bool confirmed = false;              // by what shows that the kernel told of it: see is_confirmed()
  bool kept_confirmed = false;         // is in the store as one that is
  std::optional<WallTime> time;        // nullopt: its log only counts from a boot whose time is unknown
  Nanos error{};                       // of `time`
  std::optional<Nanos> since_boot;     // on the clock of the kernel's log
  std::optional<Nanos> mono;           // CLOCK_MONOTONIC, of who saw it live
  std::optional<std::string> boot_id;
  std::string host;        // as a log names it; empty: this machine's, or it does not say
  bool no_victim = false;  // there was no task to kill: an OOM without a kill
};

/// Whether this source shows that the kernel told of the kill: a run of oomcast, the kernel's ring and the
/// journal do. A text file does not: whoever may write to the log wrote its lines.
inline bool is_confirmed(EpisodeSource source) {
  return source != EpisodeSource::file;
}

/// A kill that a log tells of. nullopt: its report is of none. Without a time while the year is open;
/// set_time() when it is known.
std::optional<PastKill> past_kill(const LoggedOom& oom, EpisodeSource source);
void set_time(PastKill& kill, const WallStamp& stamp);
/// The id for `report`, or, without a time of day, what tells it apart.
std::string name_of(const PastKill& kill);

/// Each kill once, newest first; those without a time of day last. Two are the same if they have a victim
/// (or, of two without victims, the trigger) in common, by thread and name, and: were printed in the same
/// millisecond of the same boot; or, where one has no such stamp, were seen live and printed within 10 s (and
/// the drift of the log's clock) in the same boot, or within 10 s and both errors of each other by the time
/// of day; or, where one has no time at all, with the same sizes. Never two of different hosts. Of the live
/// one all is kept, and what it lacks is taken from the others; but a confirmed one takes nothing from one
/// that is not. Cost: n log n.
std::vector<PastKill> each_once(std::vector<PastKill> kills);

/// Fills in what `to` lacks from another source of the same kill.
void complete(Episode& to, const Episode& from);

/// "web1" and "web1.example.com" are one host; a name that is empty is that of any.
bool are_different_hosts(const std::string& a, const std::string& b);
/// Of two kills that are known on this machine: without a name it is `own` (by gethostname(2)).
bool are_of_one_host(const PastKill& a, const PastKill& b, const std::string& own);
/// Whether its log says that another machine than the one of this name (by gethostname(2)) told of it.
/// Either name may be without its domain.
bool is_of_another_host(const PastKill& kill, const std::string& own);

/// What the victim had of its own in memory, anonymous and shared: its limit's cgroup was charged for that,
/// but often not for the files it had mapped. nullopt: not told.
std::optional<Bytes> own_memory(const Victim& victim);
/// The largest victim; nullptr: none is known.
const Victim* largest_victim(const Episode& episode);

}  // namespace oomcast
