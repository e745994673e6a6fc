// When a rise meets its limit: the curves that may describe it, each with the ways in which a program strays
// from its curve. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "forecast/trend.h"
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
  /// When the next one is due is known.
  bool periodic() const { return recurring && period > 0 && jitter < 0.35; }
};

/// Bayesian model averaging (Hoeting et al. 1999, Statistical Science 14:382) over pairs of a curve a + b
/// f(u) of a Trend and what may come on top of it: noise that is new with each dot; a level that swings and
/// comes back (an Ornstein-Uhlenbeck process: collectors); a pace that wanders around the curve's own (the
/// integral of one: a program's pace follows the load of its machine); day and night (a stochastic cycle,
/// Harvey 1989, Forecasting, Structural Time Series Models and the Kalman Filter, 2.3). Each pair is a state
/// space model whose likelihood and forecast the Kalman filter gives, its curve estimated along (augmented
/// filter, de Jong 1991, Annals of Statistics 19:1073). So a deadline goes on from where a series has got to,
/// as far as that lasts.
class Outlook {
 public:
  /// `dots` are those that `trend` was fitted to. Cost: about 60 filters, 0.4 ms for 128 dots.
  static Outlook of(std::span<const Dot> dots, const Trend& trend);

  struct Crossing {
    double low = 0, median = 0, high = 0;  // times, s; infinity: not in sight
  };
  /// When trend and peaks together meet `limit`; as of `now`, given that they have not yet. `low` and `high`
  /// hold 90 %: with equal tails, but the shortest such interval where those reach much further up than down.
  Crossing crossing(double limit, const Peaks& peaks, double now) const;

 private:
  struct Strays {  // how a program strays from its curve
    enum class Kind { not_at_all, swing, pace, cycle };
    Kind kind = Kind::not_at_all;
    double lasts = 0;  // time constant, in u
    // Standard deviation over that of the noise; of a pace: of what it adds in one u, if it lasted.
    double size = 0;
    double period = 0;  // of a cycle, in u
  };
  struct State {
    double level = 0, pace = 0;
  };
  class Weighing;
  struct Columns;
  struct Filtered;
  struct Course {
    Form form;
    Strays strays;
    double weight = 0, a = 0, b = 0;
    double s2 = 0;      // variance of the noise
    double unseen = 0;  // what the pace may change that was too slow to be seen, as a share of it
    double c00 = 0, c01 = 0, c11 = 0;  // covariance of a and b over s2
    State y, one, f;                   // where the strays of the series, of 1 and of f have got to
    double p00 = 0, p01 = 0, p11 = 0;  // their covariance over s2
  };
  struct Ahead {
    double mean = 0, sd = 0;
  };
  struct Stand {  // of the peaks above one course
    double above, sd;
  };
  struct Step;
  static Step step(const Strays& strays, double du);
  double u(double time) const { return (time - begin_) / (end_ - begin_); }
  static Filtered filter(const Columns& columns, const Strays& strays);
  Ahead ahead(const Course& course, double u) const;
  double probability(double limit, std::span<const Stand> stands, double time) const;

  std::vector<Course> courses_;
  double begin_ = 0, end_ = 0;
};

}  // namespace oomcast
