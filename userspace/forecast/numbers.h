// Small sums that several verdicts need.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"

namespace oomcast {

/// 0 of nothing.
inline double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

inline Bytes whole_bytes(double v) {
  return {static_cast<std::int64_t>(std::llround(v))};
}

/// Mean and standard deviation (of one: 0).
std::pair<double, double> moments(const std::vector<double>& values);

}  // namespace oomcast
