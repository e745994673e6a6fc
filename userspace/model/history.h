// A long series in little memory: fine where it is new, coarse where it is old.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace oomcast {

/// What a series did during one bucket of time. Times are seconds since the series' first sample, values are
/// bytes; float keeps both to 1 part in 16 million.
struct Bucket {
  float time = 0;       // mean of the samples'
  float peak_time = 0;  // of the highest
  float low = 0, mean = 0, high = 0;
  std::uint32_t count = 0;  // samples
};

/// The same series at several resolutions: level k holds the newest 96 to 128 buckets of 4^k/4 seconds, so
/// the coarsest reaches back to the first sample. 24 bytes a bucket, about 3 KiB a level and 8 levels in 8
/// days. add() is amortised constant time.
class History {
 public:
  /// Samples older than the newest are ignored; one at the same time replaces nothing but widens its bucket.
  void add(MonoTime time, Bytes value);

  bool empty() const { return levels_.empty(); }
  std::size_t levels() const { return levels_.size(); }
  /// Oldest first; the newest bucket is still filling.
  std::span<const Bucket> level(std::size_t k) const { return levels_[k].buckets; }
  /// The coarsest level: the only one that begins with the first sample.
  std::span<const Bucket> all() const { return levels_.back().buckets; }
  std::uint64_t samples() const { return samples_; }
  double newest_time() const { return newest_; }  // s since the first sample
  double newest_value() const { return value_; }
  MonoTime begin() const { return begin_; }
  /// What it takes in memory.
  std::size_t footprint() const;

 private:
  struct Level {
    double width = 0.25;    // s
    std::int64_t slot = 0;  // of the newest bucket
    std::vector<Bucket> buckets;
  };
  void add(Level& level, double time, float value) const;
  void add_level();

  MonoTime begin_{};
  double newest_ = 0, value_ = 0;
  std::uint64_t samples_ = 0;
  std::vector<Level> levels_;
};

/// `b` as if its samples had been in `a` too.
void merge(Bucket& a, const Bucket& b);

}  // namespace oomcast
