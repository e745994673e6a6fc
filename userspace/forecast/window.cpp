#include "forecast/window.h"

#include <algorithm>

namespace oomcast {
namespace {

constexpr std::ptrdiff_t kMinOfLife = 5;  // buckets
constexpr double kSameSpan = 0.02;        // of it

}  // namespace

std::vector<Window> windows_until(const History& history, double life_began, double until, bool alone) {
  std::vector<Window> windows;
  for (std::size_t k = history.levels(); k-- > 0;) {
    auto buckets = history.level(k);
    while (!buckets.empty() && buckets.back().time > static_cast<float>(until))
      buckets = buckets.first(buckets.size() - 1);
    if (buckets.empty()) break;  // finer ones are newer still
    // A finer level that begins at the same time has the same data with more dots, and replaces it.
    double begins = buckets.front().time, about = kSameSpan * (until - begins) + 1;
    if (!windows.empty() && windows.back().buckets.front().time >= begins - about) windows.pop_back();
    windows.push_back({buckets, {}});
  }
  bool cut = false;
  for (Window& w : windows) {
    auto first = std::find_if(w.buckets.begin(), w.buckets.end(),
                              [&](const Bucket& b) { return b.time >= life_began; });
    if (w.buckets.end() - first < kMinOfLife) continue;
    cut = cut || first != w.buckets.begin();
    w.buckets = {first, w.buckets.end()};
  }
  // Too coarse to separate this life from earlier ones.
  if (cut && alone)
    std::erase_if(windows, [&](const Window& w) { return w.buckets.front().time < life_began; });
  for (Window& w : windows) w.shape = describe(w.buckets);
  return windows;
}

}  // namespace oomcast
