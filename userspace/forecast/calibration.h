// Scales the interval of the newest deadline by how far the series' earlier deadlines were off.
#pragma once

#include <cstddef>
#include <vector>

#include "forecast/leak_alert.h"

namespace oomcast {

/// The model's interval covers the pace changes that the series has shown, and is too narrow when the pace
/// changes in a new way. This scales it by the record of the same growth: the newest deadline is taken for
/// the truth, and each earlier one is scored by how far out in its own interval that lies (conformal
/// prediction: Vovk, Gammerman and Shafer 2005; for series that drift: Gibbs and Candès 2021, NeurIPS 34). A
/// growth without a record uses the factor that other growths needed. Cost: 64 past deadlines at most, 2.5
/// KiB; 1.6 µs a call.
class Calibration {
 public:
  /// `meeting` as the model says, as of `now`, of a growth that has lasted for `age` (s); the same with its
  /// interval scaled. The median stays, and so does an end that is not in sight.
  Meeting scaled(const Meeting& meeting, double now, double age);
  /// After a restart or a limit change: earlier deadlines no longer apply.
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
