#include "forecast/peaks.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "forecast/numbers.h"

namespace oomcast {
namespace {

constexpr double kWaveWander = 12, kWaveAlike = 0.45, kWaveShare = 0.6, kWaveJitter = 0.4, kWaveLow = 0.25;
constexpr double kWaveMost = 0.8, kWaveSame = 0.3;
constexpr double kNoiseGrows = 4;  // log-likelihood ratio: it is the level's, not the machine's

}  // namespace

bool grows_with(const std::vector<double>& levels, const std::vector<double>& heights) {
  std::vector<double> relative;
  double logs = 0, n = static_cast<double>(levels.size());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!(levels[i] > 0)) return false;
    relative.push_back(heights[i] / levels[i]);
    logs += std::log(levels[i]);
  }
  double alike = moments(heights).second, scaled = moments(relative).second;
  return scaled > 0 && n * std::log(alike / scaled) - logs > kNoiseGrows;
}

double part_of_time(const std::vector<Excursion>& excursions) {
  double inside = 0;
  for (const Excursion& e : excursions) inside += e.to - e.from;
  return excursions.empty() ? 0 : share(inside, excursions.back().to - excursions.front().from);
}

bool waves(const std::vector<Excursion>& excursions, double wander, double level) {
  std::vector<double> heights, gaps;
  for (std::size_t i = 0; i < excursions.size(); ++i) {
    heights.push_back(excursions[i].height);
    if (i > 0) gaps.push_back(excursions[i].peak_time - excursions[i - 1].peak_time);
  }
  auto [height, height_sd] = moments(heights);
  auto [gap, gap_sd] = moments(gaps);
  double part = part_of_time(excursions);
  bool often = part > kWaveShare;
  bool irregular = gaps.size() > 1 && gap_sd > kWaveJitter * gap;
  bool low = height < kWaveLow * level;
  if (low && part > kWaveMost && height_sd < kWaveSame * height) return true;
  return height < kWaveWander * wander && height_sd < kWaveAlike * height && (often || (low && irregular));
}

Peaks recurring(const std::vector<double>& heights, const std::vector<double>& times) {
  Peaks out;
  std::tie(out.mean, out.sd) = moments(heights);
  out.recurring = true;
  out.most = *std::max_element(heights.begin(), heights.end());
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  std::sort(gaps.begin(), gaps.end());
  out.period = gaps[gaps.size() / 2];
  // A gap with a missed peak counts as two.
  for (double& gap : gaps) gap /= std::max(1.0, std::round(share(gap, out.period)));
  auto [mean, sd] = moments(gaps);
  out.jitter = gaps.size() > 1 ? share(sd, mean) : 0.3;
  out.last = times.back();
  return out;
}

}  // namespace oomcast
