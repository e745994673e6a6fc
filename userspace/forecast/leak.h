// A leak found in a series.
#pragma once

#include <optional>
#include <vector>

#include "forecast/outlook.h"
#include "forecast/trend.h"
#include "leak/shape.h"

namespace oomcast {

/// Times are s since the first reading, the rest is in bytes.
struct Leak {
  Trend trend;
  std::vector<Dot> dots;               // the trend was fitted to these
  Peaks peaks, noise = {};             // noise: what stands above the trend where no peak does
  double rise = 0;                     // since the regime began
  double floor = 0;                    // now
  double strength = 0;                 // the rise over what noise and earlier reversed rises give
  bool new_ground = true;              // higher than the series has ever been
  bool of_peaks = false;               // the peaks show it, the floor rises by steps
  std::optional<double> arrived = {};  // when it hit its limit, where it has been since
};

}  // namespace oomcast
