#include "model/series.h"

#include <algorithm>

namespace oomcast {

void Series::add(Point p) {
  if (!points_.empty() && p.time <= points_.back().time) {
    if (p.time == points_.back().time) points_.back() = p;
    return;
  }
  if (points_.size() >= capacity_) {
    std::size_t half = points_.size() / 2, kept = 0;
    for (std::size_t i = 0; i < half; i += 2) points_[kept++] = points_[i];
    points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(kept),
                  points_.begin() + static_cast<std::ptrdiff_t>(half));
  }
  points_.push_back(p);
}

std::span<const Point> Series::since(MonoTime from) const {
  auto first = std::lower_bound(points_.begin(), points_.end(), from,
                                [](const Point& p, MonoTime t) { return p.time < t; });
  return {points_.begin() + (first - points_.begin()), points_.end()};
}

}  // namespace oomcast
