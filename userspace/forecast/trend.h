// Where a rising floor is headed: many curves at once, each weighted by how well it explains what was seen.
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "leak/shape.h"

namespace oomcast {

/// What stands above the trend when the limit is met.
struct Peaks {
  double mean = 0, sd = 0;  // of the highest point of one period above the trend, bytes
  double most = 0;          // the highest that was seen
  double period = 0;        // s between two chances to be highest
  bool recurring = false;   // spikes that were told apart, not mere noise
  double last = 0;          // time of the newest, s
  double jitter = 0;        // standard deviation of the intervals over their mean
};

/// Bayesian model averaging (Hoeting et al. 1999, Statistical Science 14:382) over curves a + b f(u): a line,
/// powers from a square root to a cube, exponentials, and saturations that never arrive. Weights are
/// exp(−BIC/2) with the number of independent samples that the residuals' lag-1 correlation leaves.
class Trend {
 public:
  /// nullopt: fewer than 4 dots, or no time between them. Cost: about 20 passes over the dots.
  static std::optional<Trend> fit(std::span<const Dot> dots);

  double begin() const { return begin_; }
  double end() const { return end_; }
  std::size_t dots() const { return dots_; }
  /// Expected value and slope at `time` (s), bytes and bytes per second.
  double value(double time) const;
  double slope(double time) const;
  /// Standard deviation of the slope now, its own curvature included.
  double slope_sd() const;
  double residual_sd() const { return residual_sd_; }
  double error() const { return error_; }  // sum of squares of the best curve
  /// How many independent samples there were.
  double effective() const { return effective_; }
  /// Weight of the curves that level off.
  double levels_off() const;

  struct Crossing {
    double low = 0, median = 0, high = 0;  // times, s; infinity: not in sight
    double never = 0;                      // probability
  };
  /// When trend and peaks together meet `limit`; as of `now`, given that they have not yet.
  Crossing crossing(double limit, const Peaks& peaks, double now) const;

 private:
  struct Curve {
    int form = 0;  // of kForms
    double a = 0, b = 0, weight = 0;
    double s2 = 0, mean_f = 0, var_f = 0;  // residual variance, and the spread of f for the error of a and b
  };
  struct Stand {  // of the peaks above one curve
    double above, sd;
  };
  double probability(double limit, std::span<const Stand> stands, double time) const;
  double u(double time) const { return (time - begin_) / (end_ - begin_); }

  std::vector<Curve> curves_;
  double begin_ = 0, end_ = 0, residual_sd_ = 0, error_ = 0, effective_ = 0, drift_ = 0;
  std::size_t dots_ = 0;
};

}  // namespace oomcast
