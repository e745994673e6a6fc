// Classifies a series that is neither leak nor copy-on-write: spikes, a step, a start-up, or stable.
#pragma once

#include <span>

#include "forecast/forecast.h"
#include "forecast/last_word.h"
#include "forecast/window.h"
#include "model/history.h"

namespace oomcast {

/// Writes verdict, evidence and the growth of the newer half, and returns the reason. What changed by less
/// than `least_change` bytes is not worth telling.
Sentence tell_rest(std::span<const Window> windows, const History& history, double least_change,
                   Forecast& out);

/// Of what rose by `risen` bytes in its first `now` s: nobody can tell how it goes on.
Sentence tell_early(double risen, double now, Forecast& out);

}  // namespace oomcast
