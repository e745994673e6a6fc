// What the store knows of one OOM episode: itself, and what led to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/book.h"
#include "forecast/told.h"
#include "model/facts.h"
#include "store/run_info.h"

namespace oomcast {

/// Who saw an episode: a run of oomcast, or a log that was read later.
enum class EpisodeSource : std::uint8_t { live, kmsg, journal, file };

/// An episode with everything that is kept around it, each list oldest first. The lists are of the limit's
/// cgroup, those below and above it, and the processes in them (a limit of the host: all that is kept).
/// An imported episode has none of them. Times are MonoTime of the run; `run` turns them into wall time.
struct StoredEpisode {
  EpisodeSource source = EpisodeSource::live;
  RunInfo run;
  OomFactLine told;
  MonoTime from;  // the lists begin here, or where the run began
  std::vector<Sample> samples;
  std::vector<ProcessSampleFact> processes;
  std::vector<ExitFact> exits;
  std::vector<ForecastFact> forecasts;
  std::vector<ReclaimFact> reclaim;
  std::vector<PressureFact> pressure;
  std::vector<UserKillFact> kills;
  std::vector<AlertFact> alerts;
  std::vector<Episode> earlier;               // of the same limit or the same command, oldest first
  std::map<std::string, std::uint64_t> lost;  // in the run until the kill, by reason
};

}  // namespace oomcast
