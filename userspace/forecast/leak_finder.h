// Finds leaks: a baseline that keeps rising, or peaks that climb.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "forecast/leak.h"
#include "forecast/window.h"
#include "model/history.h"

namespace oomcast {

/// Analyses one series at one moment; stateless. Cost: a fit for each part of a window that may be the rise, about
/// a millisecond for a leak and some tenths of one for anything else.
class LeakFinder {
 public:
  /// `died`: the newest fall from so near the limit that it may have been a kill, s. The program has freed
  /// memory at every height since then and lived on, so these are not new ground even after a restart.
  /// `least_change`: bytes; smaller growth is not reported.
  LeakFinder(const History& history, std::optional<Bytes> limit, double life_began, double died,
             double least_change)
      : history_(history), limit_(limit), life_began_(life_began), died_(died), least_change_(least_change) {}

  /// What was known at `until`. The newest part may rise faster than all of it does.
  std::optional<Leak> find(const std::vector<Window>& windows, double until) const;
  /// A series that is flat at its limit has arrived there: a leak may thrash for a long time before it is killed.
  std::optional<Leak> find_arrived() const;

 private:
  class Search;
  std::optional<Leak> find_of_peaks(const Window& window) const;
  /// From before a window.
  struct Known {
    double level = 0;  // bytes: a little above the highest level since life_began
    double peak = 0;   // bytes: the highest peak that came back, from where it began
  };
  Known known_before(const std::vector<Window>& windows, std::size_t k) const;
  bool is_faster(const Leak& newest, const Leak& all, double now) const;
  bool is_straighter(const Leak& newest, const Leak& all) const;
  Peaks noise_above(const Trend& trend, const Window& window, double since, bool with_excursions) const;
  Peaks peaks_above(const Trend& trend, const Window& window, double since) const;

  const History& history_;
  std::optional<Bytes> limit_;
  double life_began_, died_, least_change_;
};

}  // namespace oomcast
