// What the store knows of OOM episodes: each by itself, and what led to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "forecast/registry.h"
#include "forecast/told.h"
#include "model/facts.h"
#include "store/run_info.h"

namespace oomcast {

/// Who saw an episode: a run of oomcast, or a log that was read later.
enum class EpisodeSource : std::uint8_t { live, kmsg, journal, file };
std::string_view to_string(EpisodeSource source);
/// How far apart two sources may date one kill: a log's stamps are rounded, its reader is late, and the
/// clocks drift while a machine is suspended.
inline constexpr Nanos kSameKill = std::chrono::seconds(10);

/// An episode with everything that is kept around it, each list oldest first. The lists are of the limit's
/// cgroup, those below and above it, and the processes in them (a limit of the host: all that is kept).
/// An imported episode has none of them. Times are MonoTime of the run; `run` turns them into wall time.
struct StoredEpisode {
  EpisodeSource source = EpisodeSource::live;
  bool complete = true;  // false: oomcast ended between the kill and the line that tells of it
  RunInfo run;
  OomEvent told;
  MonoTime from;  // the lists begin here, or where the run began
  std::vector<Sample> samples;
  std::vector<ProcessSampleFact> processes;
  std::vector<ExitFact> exits;
  std::vector<ForecastFact> forecasts;
  std::vector<ReclaimFact> reclaim;
  std::vector<PressureFact> pressure;
  std::vector<UserKillFact> kills;
  std::vector<AlertFact> alerts;
  std::vector<GpuSample> gpu;       // of the processes, and of all cards
  std::vector<GpuFact> gpu_events;  // of the processes: contexts, out of memory, copies, ends; xids
  /// Kills before it, oldest first.
  struct Before {
    std::vector<Episode> of_workload;  // of the same workload (model/workload.h)
    std::vector<Episode> at_limit;     // at the same limit, in the window
  } before;
  std::map<std::string, std::uint64_t> lost;  // in the run until the kill, by reason
  struct LeftOut {  // related cgroups, the smallest, whose samples are not in the list
    std::size_t cgroups = 0;
    bool more = false;  // the store kept none of others
  } left_out;
  std::vector<std::string> unread;  // parts that are not whole: "samples: disk I/O error: ..."
  /// When and where it was, as far as the logs say.
  struct Logged {
    std::string host;                 // as in EpisodeSummary
    std::vector<std::string> files;   // of EpisodeSource::file
    bool dated = true;                // false: the time of day is unknown; times count from the boot, or 0
    Nanos time_error{};               // of the time of day
    std::optional<Nanos> since_boot;  // on the clock of the kernel's log
    std::string doubt;                // why the log cannot be right; empty: nothing speaks against it
  } logged;
};

/// An episode in a list. Its times and identities are of `run`; victims come without their stacks, and the
/// parts that a list does not show (others, ancestors) are empty.
struct EpisodeSummary {
  EpisodeSource source = EpisodeSource::live;
  bool complete = true;
  WallTime time;
  std::string host;                    // that its log names, where that is another machine; empty: this one
  std::shared_ptr<const RunInfo> run;  // boot_id and what turns times into wall time
  Episode episode;
  std::optional<ForecastFact> forecast_before;  // as in OomEvent
  std::optional<MonoTime> first_forecast;
};
/// How much of each kill: who died by which limit, or all that was told of it (ten more queries a kill).
enum class EpisodeParts : std::uint8_t { victims, all };

/// A store or a recording, to read, as it is when it is opened. Works while others write it. The file is
/// treated as hostile.
class Store {
 public:
  /// `path`: the directory of a store, or a file. Error (exit 1): nothing is there; Error::usage: it is no
  /// store, or of another schema.
  static Result<Store> open(const std::string& path);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// All, oldest first; of more than 100,000 the newest.
  Result<std::vector<EpisodeSummary>> episodes(EpisodeParts parts = EpisodeParts::victims);
  /// What episodes() left out, and why: "victims: database disk image is malformed".
  std::vector<std::string> take_unread();
  /// By its id, or by the beginning of one that no other has; nullopt: the last. The lists go back by
  /// `window`. Error (exit 1): there is none, with near matches.
  Result<StoredEpisode> episode(const std::optional<std::string>& id,
                                Nanos window = std::chrono::minutes(30));

  /// By its row, which of a damaged file may read where a list does not: alone, without those before it
  /// (`before`), which may be what is damaged. Rows are 1 to last_row(). nullopt: there is none.
  Result<std::optional<StoredEpisode>> episode_at(std::int64_t row, Nanos window);
  std::int64_t last_row();

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oomcast
