// Where a rising baseline is headed: many curves at once, weighted by how well each explains the data. Pure
// functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "leak/shape.h"

namespace oomcast {

/// f(u) of a curve, u going from 0 to 1 over its dots.
struct Form {
  enum class Kind { power, exponential };
  Kind kind = Kind::power;
  double parameter = 1;  // the exponent; or the rate, below 0 for what levels off
  double origin = 0;     // of a power: how long before the first dot it began, in u

  double at(double u) const;
  double slope(double u) const;
  bool levels_off() const { return kind == Kind::exponential && parameter < 0; }
  bool straight() const { return kind == Kind::power && parameter == 1; }
  bool slows_down() const { return kind == Kind::power ? parameter < 1 : parameter < 0; }
};

/// Bayesian model averaging (Hoeting et al. 1999, Statistical Science 14:382) over curves a + b f(u): a line,
/// powers from a square root to a cube, exponentials, and saturations that never arrive; of powers and of
/// exponentials, if they explain more than a line, also the best. Weights are exp(−BIC/2) with the number of
/// independent samples that the residuals' lag-1 correlation leaves.
class Trend {
 public:
  /// nullopt: fewer than 4 dots, or no time between them. Cost: about 20 passes over the dots, 70 where they
  /// bend.
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

  /// Weight of the curves that never meet `limit`.
  double never(double limit) const;

  /// A curve that was tried.
  struct Candidate {
    Form form;
    double prior = 0;  // weight before anything was seen
    double error = 0;  // sum of squares
  };
  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  class Fitting;
  struct Curve {
    Form form;
    double a = 0, b = 0, weight = 0, error = 0;
    double s2 = 0, mean_f = 0, var_f = 0;  // residual variance, and the spread of f for the error of a and b
  };
  double u(double time) const { return (time - begin_) / (end_ - begin_); }

  std::vector<Curve> curves_;
  std::vector<Candidate> candidates_;
  double begin_ = 0, end_ = 0, residual_sd_ = 0, error_ = 0, effective_ = 0, drift_ = 0;
  std::size_t dots_ = 0;
};

}  // namespace oomcast
