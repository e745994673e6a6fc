// The shape of a window of a series: its noise, the excursions that came back, and the baseline between them, cut
// where its behaviour changed. Pure functions; a window has at most a few hundred buckets.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/history.h"

namespace oomcast {

struct Dot {
  double time = 0, value = 0;  // s, bytes
};

/// A rise above the baseline that came back.
struct Excursion {
  double from = 0, peak_time = 0, to = 0;  // s
  double top = 0;                          // its highest value, bytes
  double height = 0;                       // of the top above the baseline, bytes
};

/// A stretch of the baseline along one straight line.
struct Segment {
  std::size_t begin = 0, end = 0;   // dots [begin, end)
  double slope = 0;                 // bytes per second
  double at_begin = 0, at_end = 0;  // of the line, bytes
  double error = 0;                 // sum of squared residuals
  std::size_t size() const { return end - begin; }
  double rise() const { return at_end - at_begin; }
};

struct Shape {
  double noise = 0;   // standard deviation of what changes from one bucket to the next, bytes
  double spread = 0;  // typical height of one bucket, bytes
  std::vector<Dot> floor;
  std::vector<Excursion> excursions;
  bool under_way = false;  // the newest buckets are one more excursion that has not come back yet
  std::vector<Segment> segments;
  double reversed_rise = 0;  // the greatest rise of the baseline that was reversed, bytes
  double level_since = 0;    // of without_shifts(): s, when the newest of them was over
};

/// Noise: median absolute second difference (Gasser, Sroka & Jennen-Steinmetz 1986, Biometrika 73:625).
/// Excursions: what stands above the lowest values on both sides within an eighth of the window
/// (morphological opening by a segment of free length, Serra 1982), once short dips below the running median
/// that stand beside spikes and rise with it are filled. Segments: optimal partitioning into lines with a
/// penalty per segment (Jackson et al. 2005, IEEE SPL 12:105). Quadratic in the buckets: about 0.1 ms for
/// 128.
Shape describe(std::span<const Bucket> window);

/// The floor with its earlier parts lifted to where it would be if one or two sudden shifts upwards (a data
/// set is loaded) had been there from the beginning: what rose at the same rate before and after is one rise.
/// nullopt: it has no such shift, or rises by them.
std::optional<Shape> without_shifts(const Shape& shape);

/// Straight line through dots by least squares.
Segment fit_line(std::span<const Dot> dots, std::size_t begin, std::size_t end);

}  // namespace oomcast
