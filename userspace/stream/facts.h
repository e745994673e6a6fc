// All facts of a stream in one type: the model's, the forecasts, and those about the stream itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "forecast/forecast_fact.h"
#include "forecast/told.h"
#include "model/facts.h"

namespace oomcast {

struct StartFact {
  MonoTime time;
  std::string version, kernel;  // kernel empty: there is none, a series of another tool
  std::vector<std::string> sources;
  std::optional<double> time_s = std::nullopt;  // of such a series, instead of `time`
  std::string read_as = {};                     // how its columns were understood; empty: they are oomcast's
  std::string host = {}, boot_id = {};          // empty: unknown
};

struct EndFact {
  MonoTime time;
  std::uint64_t records = 0;
  std::map<std::string, std::uint64_t> lost;
  std::optional<double> time_s = std::nullopt;  // as in StartFact
};

/// Counts since the start. Sent to each client that connects to the daemon, and every 15 s after that.
struct TotalsFact {
  MonoTime time, since;
  std::map<std::string, std::uint64_t, std::less<>> kills, episodes;  // by scope; processes, decisions
  std::uint64_t group_kills = 0, user_kills = 0, alerts = 0;
  std::map<std::string, std::uint64_t> lost;  // by reason
};

using Fact = std::variant<StartFact, Sample, LimitChangedFact, ProcessSampleFact, ExitFact, ForecastFact,
                          OomEvent, UserKillFact, ReclaimFact, PressureFact, GpuFact, GpuSample, AlertFact,
                          LostFact, TotalsFact, TickFact, ForgottenFact, EndFact>;

enum class FactKind {
  stream,    // its start and its end
  state,     // how something is now, or that it is gone: the next such fact takes its place
  event,     // worth showing to a user
  internal,  // for forecasts alone, never written
};
FactKind kind_of(const Fact& fact);

/// The `type` of its line; empty for what is never written.
std::string_view type_of(const Fact& fact);
/// All that are written, as the manual has them.
const std::vector<std::string_view>& fact_types();
/// What lines of that type are; `state` of gpu, which has both. nullopt: no such type.
std::optional<FactKind> kind_of_type(std::string_view type);

/// Turns the model's clocks into wall time, once per process.
struct ClockMap {
  Nanos wall_of_mono_zero{};
  Nanos wall_of_boot_zero{};
  Nanos tick{10'000'000};
  WallTime wall(MonoTime t) const { return WallTime(t.time_since_epoch() + wall_of_mono_zero); }
  /// A file, or a process that reads strangers' memory, may have claimed any number of ticks.
  WallTime wall_of_start(TaskId id) const {
    constexpr std::int64_t kMax = std::int64_t{1} << 61;
    auto most = static_cast<std::uint64_t>(kMax / std::max<std::int64_t>(1, tick.count()));
    return WallTime(wall_of_boot_zero + tick * static_cast<std::int64_t>(std::min(id.start_ticks, most)));
  }
};

}  // namespace oomcast
