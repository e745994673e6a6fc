#include "forecast/near_limit.h"

#include <algorithm>

#include "forecast/numbers.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMinReadings = 5;
constexpr double kNearShare = 0.05, kNearLeast = 10, kNearMost = 1800;  // of the life; s
constexpr double kNearStays = 0.5, kNearMore = 3;

}  // namespace

std::optional<NearLimit> near_limit(const History& history, Bytes limit, double life_began, bool was_near) {
  if (history.samples() < kMinReadings) return std::nullopt;
  double now = history.newest_time(), value = history.newest_value(), top = limit.as_double();
  if (value < (was_near ? kTight : kNear) * top) return std::nullopt;
  double within = std::clamp(kNearShare * (now - life_began), kNearLeast, kNearMost), from = now - within;
  double lowest = value, highest = 0, before = 0;  // before: the greatest rise within as long
  std::size_t level = 0;
  while (level + 1 < history.levels() && history.level(level).front().time > from) ++level;
  for (const Bucket& b : history.level(level))
    b.time < from ? highest = std::max<double>(highest, b.high) : lowest = std::min<double>(lowest, b.low);
  double moved = value - lowest, left = std::max(0.0, top - value);
  if (moved < (was_near ? kNearStays : 1) * left) return std::nullopt;
  auto all = history.all();
  for (std::size_t i = 0, j = 0; !was_near && i < all.size() && all[i].time < from; ++i) {
    highest = std::max<double>(highest, all[i].high);
    while (all[j].time < all[i].time - within) ++j;
    for (std::size_t k = j; k <= i; ++k) before = std::max<double>(before, all[i].high - all[k].low);
  }
  if (!was_near && (value <= highest || moved < kNearMore * before)) return std::nullopt;
  return NearLimit{whole_bytes(left), whole_bytes(moved), Seconds(std::min(within, now))};
}

}  // namespace oomcast
