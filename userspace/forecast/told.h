// Kills and alerts as published and stored: the model's facts with the forecast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "forecast/forecast_fact.h"
#include "model/facts.h"

namespace oomcast {

/// An episode with its forecast.
struct OomEvent {
  Episode episode;
  std::optional<ForecastFact> forecast_before;
  std::optional<MonoTime> first_forecast;  // when a deadline was first published for the limit's cgroup
};

/// An action run for an alert.
struct ActionRun {
  enum class Kind : std::uint8_t { exec, touch, signal };
  enum class Result : std::uint8_t {
    running,    // not ended yet; another fact reports its end
    ok,         // exit code 0, touched, sent
    failed,     // `exit_code`, `signal` or `error` says how
    timed_out,  // and was killed
    left,       // oomcast ended first; it runs on
    lost,       // never started: too many were running
  };
  Kind kind = Kind::exec;
  std::string what;  // the command, the file, "SIGUSR1"
  Result result = Result::running;
  std::optional<int> exit_code = {}, signal = {};
  std::optional<std::string> error = {};
  std::optional<ProcessRef> process = {};  // target of the signal
  std::optional<Seconds> took = {};
};
std::string_view to_string(ActionRun::Kind kind);
std::string_view to_string(ActionRun::Result result);

/// A rule fired. Published when its actions have ended or after a second; again at their end if that is later.
struct AlertFact {
  MonoTime time;  // when the rule fired
  std::string rule;
  CgroupPtr cgroup;
  std::string message;                   // safe to show
  std::optional<ForecastFact> forecast;  // as it was then
  std::vector<ActionRun> actions;
};

struct LostFact {
  MonoTime time;
  std::string reason;
  std::uint64_t count = 0;
};

/// Once per interval, so that a replay knows what did not change; and when a limit was hit. Not shown.
struct TickFact {
  MonoTime time;
  CgroupPtr killed = nullptr;  // whose limit: what grew below it is being freed
};

}  // namespace oomcast
