#include "forecast/restarts.h"

#include <algorithm>

namespace oomcast {
namespace {

constexpr double kRestartLeaves = 0.3;  // of the level
// … or of the way to the limit that a life went, steadily: it fell back by and to so much of that.
constexpr double kRestartGrew = 0.25, kRestartFrom = 0.7, kRestartFalls = 0.7, kRestartBack = 0.2;
constexpr std::size_t kMinLife = 8;  // buckets
constexpr double kSteady = 0.2;

// Whether these went up all the time, and not at once.
bool grew_steadily(std::span<const Bucket> life, double base, double highest) {
  if (life.size() < kMinLife) return false;
  double rise = highest - base, quarter = life[life.size() / 4].mean, middle = life[life.size() / 2].mean;
  double late = life[life.size() * 3 / 4].mean;
  return late - quarter > kSteady * rise && middle - base > kSteady * rise &&
         highest - middle > kSteady * rise;
}

}  // namespace

Restarts find_restarts(std::span<const Bucket> buckets, std::optional<Bytes> limit) {
  Restarts out;
  double highest = 0, base = 0;
  std::size_t began = 0;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    base = i == began ? buckets[i].low : std::min<double>(base, buckets[i].low);
    highest = std::max<double>(highest, buckets[i].high);
    std::size_t next = std::min(i + 2, buckets.size() - 1);
    double low = std::min(buckets[i + 1].low, buckets[next].low);
    bool small = low <= kRestartLeaves * buckets[i].high && low <= kRestartLeaves * highest;
    bool back = limit && highest - base > kRestartGrew * (limit->as_double() - base) &&
                base < kRestartFrom * highest && low - base < kRestartBack * (highest - base) &&
                buckets[i].high - low > kRestartFalls * (highest - base) &&
                grew_steadily(buckets.subspan(began, i - began + 1), base, highest);
    if (!small && !back) continue;
    began = buckets[i + 1].low <= buckets[next].low ? i + 1 : next;
    // A bucket in which it fell tells of both lives.
    if (began + 1 < buckets.size() && buckets[began].high > (highest + low) / 2) ++began;
    out.since = buckets[began].time;
    ++out.count;
    highest = 0;
    i = began - 1;
  }
  return out;
}

}  // namespace oomcast
