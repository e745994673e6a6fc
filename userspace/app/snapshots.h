// The current state of everything in scope: for alert rules and for the screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "forecast/alerts.h"
#include "forecast/registry.h"
#include "model/machine_model.h"
#include "present/overview.h"
#include "stream/facts.h"

namespace oomcast {

/// Cgroups with a known level, the host, cards, and the process tree. The root cgroup is not a subject of its
/// own: it stands for the host.
std::vector<AlertInput> alert_inputs(const MachineModel& model, const ForecastRegistry& forecasts,
                                     const std::vector<OverviewCard>& cards);

/// The published state of one cgroup, or of the host for its root cgroup: its sample, then its forecast, as
/// far as they exist.
std::vector<Fact> newest_facts(const MachineModel& model, const ForecastRegistry& forecasts,
                               std::uint64_t inode);

/// The host first, then cgroups in no order.
std::vector<OverviewRow> overview_rows(const MachineModel& model, const ForecastRegistry& forecasts);

/// At most `most` cgroups in scope: those with a deadline, soonest first, then those that grow, fastest
/// first.
std::unordered_set<std::uint64_t> growing_cgroups(const MachineModel& model,
                                                  const ForecastRegistry& forecasts, std::size_t most);

}  // namespace oomcast
