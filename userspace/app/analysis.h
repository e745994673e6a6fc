// The one order in which facts meet the forecasts, live and replayed.
#pragma once

#include <functional>

#include "forecast/registry.h"
#include "stream/facts.h"

namespace oomcast {

using Sink = std::function<void(const Fact&)>;

/// Tells `fact`, completed with what the forecasts knows, and then what the forecasts makes of it.
void analyse(ForecastRegistry& forecasts, Fact& fact, const Sink& sink);

}  // namespace oomcast
