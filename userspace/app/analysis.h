// The order in which facts and forecasts are processed, live and replayed.
#pragma once

#include <functional>

#include "forecast/registry.h"
#include "stream/facts.h"

namespace oomcast {

using Sink = std::function<void(const Fact&)>;

/// Publishes `fact`, completed from the forecasts, and then the forecasts that it causes.
void analyse(ForecastRegistry& forecasts, Fact& fact, const Sink& sink);

}  // namespace oomcast
