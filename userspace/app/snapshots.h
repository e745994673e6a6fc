// What is known now of everything in scope: for alert rules and for the screen.
#pragma once

#include <vector>

#include "forecast/alerts.h"
#include "forecast/registry.h"
#include "model/machine_model.h"
#include "present/overview.h"

namespace oomcast {

/// Cgroups whose level is known, the host, cards, and the process tree. The root cgroup is no subject of its
/// own: it stands for the host.
std::vector<AlertInput> alert_inputs(const MachineModel& model, const ForecastRegistry& forecasts,
                                     const std::vector<OverviewCard>& cards);

/// The host first, then cgroups in no order.
std::vector<OverviewRow> overview_rows(const MachineModel& model, const ForecastRegistry& forecasts);

}  // namespace oomcast
