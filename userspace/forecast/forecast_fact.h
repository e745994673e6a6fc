// A forecast and its subject, as published and stored.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "forecast/forecast.h"
#include "model/facts.h"

namespace oomcast {

/// For a cgroup, a process, a card, or a process's memory on a card; none of these: a series of another tool.
struct ForecastFact {
  MonoTime time;
  CgroupPtr cgroup;
  std::optional<ProcessRef> process;
  CgroupPtr limit_cgroup;
  Forecast forecast;
  std::optional<double> time_s = std::nullopt;  // of a series of another tool, instead of `time`
  std::optional<GpuUuid> device = std::nullopt;
  std::string series = {};  // of a series of another tool, if there are several in the file
};

/// What was forecast before a cgroup hit its limit.
struct ForecastBefore {
  ForecastFact forecast;  // the last one before the kill
  MonoTime first;         // when a deadline was first published
};

}  // namespace oomcast
