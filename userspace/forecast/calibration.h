// How far a series' own earlier deadlines were off, and what that makes of the interval of the newest.
#pragma once

#include <cstddef>
#include <vector>

#include "forecast/leak_alert.h"

namespace oomcast {

/// An interval is as wide as its model says, and a model knows nothing of a pace that changes in a way that
/// it has not seen yet. So each interval is scaled by what held before: the newest deadline stands for the
/// truth, and the earlier ones of the same growth are scored by how far out in their own intervals it lies
/// (conformal prediction: Vovk, Gammerman and Shafer 2005; for series that drift: Gibbs and Candès 2021,
/// NeurIPS 34). Until a series has a record of its own, what held 90 % of other growths stands in. Cost: 64
/// deadlines at most, some 5 µs a call.
class Calibration {
 public:
  /// `meeting` as the model says, as of `now`, of a growth that has lasted for `age` (s); the same with its
  /// interval scaled. The median stays, and so does an end that is not in sight.
  Meeting scaled(const Meeting& meeting, double now, double age);
  /// Another life or another limit: what came before says nothing of it.
  void clear() { past_.clear(); }
  std::size_t footprint() const { return past_.capacity() * sizeof(Past); }

 private:
  struct Past {
    double time, until;  // s: it was published over this while
    double left;         // s, as of `time`
    double up, down;     // logarithms of how far its interval reaches, as parts of `left`
  };
  struct Factors {
    double up, down;
  };
  Factors factors(double median, double now, double age) const;
  void keep(const Meeting& meeting, double now);
  void thin_out();

  std::vector<Past> past_;
};

}  // namespace oomcast
