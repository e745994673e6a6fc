// A bounded time series of one quantity.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"

namespace oomcast {

struct Point {
  MonoTime time;
  Bytes value;
};

/// At most `capacity` points, 16 bytes each, allocated as they come. When full, every other point of the
/// older half goes, so that the newest stay dense and the first is kept. add() is amortised constant time.
class Series {
 public:
  explicit Series(std::size_t capacity = 256) : capacity_(capacity < 8 ? 8 : capacity) {}

  /// Points older than the newest are dropped; one at the same time replaces it.
  void add(Point p);
  std::span<const Point> points() const { return points_; }
  /// The newest points, from `from` on.
  std::span<const Point> since(MonoTime from) const;
  bool empty() const { return points_.empty(); }
  void clear() { points_.clear(); }

 private:
  std::size_t capacity_;
  std::vector<Point> points_;
};

}  // namespace oomcast
