#include "leak/levels.h"

#include <algorithm>
#include <cmath>

namespace oomcast {
namespace {

struct LevelSums {
  std::vector<double> y, yy;
  explicit LevelSums(std::span<const Dot> dots) : y(dots.size() + 1), yy(dots.size() + 1) {
    for (std::size_t i = 0; i < dots.size(); ++i) {
      double v = dots[i].value - dots[0].value;
      y[i + 1] = y[i] + v;
      yy[i + 1] = yy[i] + v * v;
    }
  }
  double mean(std::size_t i, std::size_t j) const { return (y[j] - y[i]) / static_cast<double>(j - i); }
  double error(std::size_t i, std::size_t j) const {
    double s = y[j] - y[i];
    return std::max(0.0, yy[j] - yy[i] - s * s / static_cast<double>(j - i));
  }
};

}  // namespace

Levels find_levels(std::span<const Dot> dots, double least) {
  Levels out;
  std::size_t n = dots.size();
  if (n < 12) return out;
  LevelSums sums(dots);
  double total = sums.error(0, n);
  if (total <= 0) return out;
  std::size_t edge = std::max<std::size_t>(3, n / 14);
  std::vector<std::size_t> cuts = {0, n};
  for (int round = 0; round < 4; ++round) {
    double best = 0;
    std::size_t at = 0;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      std::size_t i = cuts[k], j = cuts[k + 1];
      for (std::size_t m = i + edge; m + edge <= j; ++m) {
        double gain = sums.error(i, j) - sums.error(i, m) - sums.error(m, j);
        if (gain > best) best = gain, at = m;
      }
    }
    if (best < 0.05 * total) break;
    cuts.push_back(at);
    std::sort(cuts.begin(), cuts.end());
  }
  double error = 0;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) error += sums.error(cuts[k], cuts[k + 1]);
  out.explained = 1 - error / total;
  out.error = error;
  for (std::size_t k = 1; k + 1 < cuts.size(); ++k) {
    double by = sums.mean(cuts[k], cuts[k + 1]) - sums.mean(cuts[k - 1], cuts[k]);
    if (std::abs(by) >= least) out.shifts.push_back({dots[cuts[k]].time, by});
  }
  return out;
}

}  // namespace oomcast
