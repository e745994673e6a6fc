#include "forecast/near_limit.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "forecast/numbers.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMinReadings = 5;
constexpr double kNearShare = 0.05, kNearLeast = 10, kNearMost = 1800;  // of the life; s
constexpr double kNearStays = 0.5, kNearMore = 3;
constexpr double kLoadedBy = 0.1, kLoadedFrom = 0.5;  // of its life; of where it is now
constexpr double kBegun = 0.25;                       // of its rise
constexpr double kKeptFor = 0.5;                      // of as long

// Whether it goes on to its limit if the second half of its rise, in time, is followed by one that is as much
// smaller, or larger, as that was than the first: what jumped up and settles below its limit has arrived.
// Steps that shrink by q each are d q / (1 - q) in sum, a damped trend (Gardner and McKenzie, Why the damped
// trend works, J. Oper. Res. Soc. 62, 2011). `recent` has all of the rise.
bool goes_on(const History& history, std::span<const Bucket> recent, double lowest, double left) {
  auto finest = history.level(0);
  if (finest.size() < 2) return false;
  double now = history.newest_time(), value = history.newest_value(),
         apart = now - finest[finest.size() - 2].time;
  double began = recent.front().time;
  for (const Bucket& b : recent)
    if (b.low <= lowest + kBegun * (value - lowest)) began = b.time;
  double half = (now - began) / 2;
  if (half < 0.9 * apart) return false;  // it has only just jumped
  auto distance = [&](const Bucket& b) { return std::abs(b.time - (now - half)); };
  double middle = std::ranges::min_element(recent, {}, distance)->mean;
  double q = (value - middle) / std::max(middle - lowest, 1.0);
  return q >= 1 || (q > 0 && (value - middle) * q / (1 - q) >= left);
}

}  // namespace

std::optional<NearLimit> near_limit(const History& history, Bytes limit, const Lives& lives, bool was_near) {
  if (history.samples() < kMinReadings) return std::nullopt;
  double now = history.newest_time(), value = history.newest_value(), top = limit.as_double();
  if (value < (was_near ? kTight : kNear) * top) return std::nullopt;
  double within = std::clamp(kNearShare * (now - lives.began), kNearLeast, kNearMost), from = now - within;
  double lowest = value, highest = 0, before = 0;  // before: the greatest rise within as long
  std::size_t level = 0;
  while (level + 1 < history.levels() && history.level(level).front().time > from) ++level;
  for (const Bucket& b : history.level(level)) {
    if (b.time < lives.died) continue;
    b.time < from ? highest = std::max<double>(highest, b.high) : lowest = std::min<double>(lowest, b.low);
  }
  double moved = value - lowest, left = std::max(0.0, top - value);
  if (moved < (was_near ? kNearStays : 1) * left) return std::nullopt;
  auto all = history.all();
  double loaded = lives.began + kLoadedBy * (now - lives.began);
  for (std::size_t i = 0, j = 0, after = 0; !was_near && i < all.size() && all[i].time < from; ++i) {
    if (all[i].time < lives.died) {
      j = i + 1;
      continue;
    }
    highest = std::max<double>(highest, all[i].high);
    while (all[j].time < all[i].time - within) ++j;
    // Rises that were kept for a while: the tops of spikes are not rises.
    double kept = all[i].high;
    for (after = i + 1; after < all.size() && all[after].time <= all[i].time + kKeptFor * within; ++after)
      kept = std::min<double>(kept, all[after].low);
    // Loading at the start does not predict later behaviour.
    for (std::size_t k = j; k <= i; ++k)
      if (all[k].time > loaded || all[k].low > kLoadedFrom * value)
        before = std::max<double>(before, kept - all[k].low);
  }
  if (!was_near && (value <= highest || moved < kNearMore * before)) return std::nullopt;
  if (!was_near && !goes_on(history, history.level(level), lowest, left)) return std::nullopt;
  return NearLimit{whole_bytes(left), whole_bytes(moved), Seconds(std::min(within, now))};
}

}  // namespace oomcast
