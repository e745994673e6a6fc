// Growth of what a series holds without growth of what it shows, and the reverse: copy-on-write and cache.
#pragma once

#include <cstdint>

#include "forecast/forecast.h"
#include "model/history.h"

namespace oomcast {

/// What separates a series' value from its total, so that growth of one without the other has a name.
enum class Surplus : std::uint8_t { droppable, shared };

/// Writes verdict, reason and evidence. False: neither can be told, and `out` is as it was. What grew by less
/// than `least_change` bytes is not worth telling.
bool tell_surplus(Surplus kind, const History& value, const History& total, double least_change,
                  Forecast& out);

}  // namespace oomcast
