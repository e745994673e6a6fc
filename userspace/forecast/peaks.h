// What stands out above a floor or a trend. Pure functions.
#pragma once

#include <vector>

#include "forecast/outlook.h"
#include "leak/shape.h"

namespace oomcast {

/// Whether heights are normal in proportion to the levels that they stand on, rather than all alike: by the
/// ratio of the likelihoods.
bool grows_with(const std::vector<double>& levels, const std::vector<double>& heights);

/// The part of the time that excursions last.
double part_of_time(const std::vector<Excursion>& excursions);

/// Whether they are a level that goes up and down rather than something that stands out of it: a collector's
/// teeth, day and night, a load that wanders. Low, all the same, and nearly always there; or all alike,
/// little beside what is left between them (`wander`), and there most of the time, or low and at no time in
/// particular.
bool waves(const std::vector<Excursion>& excursions, double wander, double level);

/// Two or more that were told apart; `times` ascend.
Peaks recurring(const std::vector<double>& heights, const std::vector<double>& times);

}  // namespace oomcast
