// Fits a baseline as one level with a few sudden shifts. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "leak/shape.h"

namespace oomcast {

struct Levels {
  struct Shift {
    double time, by;  // s; bytes, negative downwards
  };
  std::vector<Shift> shifts;
  double explained = 0;  // share of the variance
  double error = 0;      // sum of squares that is left, bytes²
};

/// At most four shifts, of at least `least` bytes each, by binary segmentation (Scott & Knott 1974,
/// Biometrics 30:507). None of fewer than 12 dots. Linear in the dots.
Levels find_levels(std::span<const Dot> dots, double least);

}  // namespace oomcast
