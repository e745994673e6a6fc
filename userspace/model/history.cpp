#include "model/history.h"

#include <algorithm>
#include <cmath>

namespace oomcast {
namespace {

constexpr std::size_t kMax = 128;    // buckets of a level
constexpr std::size_t kForget = 32;  // dropped at once, so that moving the rest is cheap
constexpr double kFactor = 4;
constexpr std::size_t kMaxLevels = 14;  // 4^13 s × 96 is 200 years

}  // namespace

void merge(Bucket& a, const Bucket& b) {
  if (a.count == 0) {
    a = b;
    return;
  }
  double n = a.count, m = b.count, total = n + m;
  a.time = static_cast<float>((a.time * n + b.time * m) / total);
  a.mean = static_cast<float>((a.mean * n + b.mean * m) / total);
  if (b.high >= a.high) a.peak_time = b.peak_time;
  a.low = std::min(a.low, b.low);
  a.high = std::max(a.high, b.high);
  a.count += b.count;
}

void History::add(Level& level, double time, float value) const {
  auto t = static_cast<float>(time);
  Bucket one{t, t, value, value, value, 1};
  auto slot = static_cast<std::int64_t>(std::floor(time / level.width));
  if (!level.buckets.empty() && slot == level.slot) {
    merge(level.buckets.back(), one);
    return;
  }
  level.slot = slot;
  level.buckets.push_back(one);
}

// The coarsest level is about to drop the oldest data: add a coarser one.
void History::add_level() {
  Level next;
  next.width = levels_.back().width * kFactor;
  for (const Bucket& b : levels_.back().buckets) {
    auto slot = static_cast<std::int64_t>(std::floor(b.time / next.width));
    if (next.buckets.empty() || slot != next.slot) next.buckets.emplace_back();
    next.slot = slot;
    merge(next.buckets.back(), b);
  }
  levels_.push_back(std::move(next));
}

std::size_t History::footprint() const {
  std::size_t out = levels_.capacity() * sizeof(Level);
  for (const Level& level : levels_) out += level.buckets.capacity() * sizeof(Bucket);
  return out;
}

void History::add(MonoTime time, Bytes value) {
  if (levels_.empty()) {
    begin_ = time;
    levels_.emplace_back();
  }
  double t = seconds_between(begin_, time).count();
  if (t < newest_) return;
  newest_ = t;
  value_ = value.as_double();
  ++samples_;
  for (Level& level : levels_) add(level, t, static_cast<float>(value_));
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    if (levels_[k].buckets.size() < kMax) continue;
    // With few samples a coarser level has as many buckets: continue until one has fewer.
    if (k + 1 == levels_.size() && levels_.size() < kMaxLevels) add_level();
    auto& buckets = levels_[k].buckets;
    buckets.erase(buckets.begin(), buckets.begin() + kForget);
  }
}

}  // namespace oomcast
