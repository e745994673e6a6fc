#include "model/recurrence.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace oomcast {
namespace {

constexpr Nanos kOneTime = std::chrono::minutes(1);
constexpr double kWithin = 0.25, kTwoWithin = 0.10, kSteady = 0.10;
constexpr std::size_t kSizes = 5;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Student's t at 0.95, by degrees of freedom from 1.
double t95(std::size_t freedom) {
  constexpr std::array<double, 30> t = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                                        1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
                                        1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697};
  constexpr double normal = 1.645;
  return freedom <= t.size() ? t[freedom - 1] : normal;
}

std::vector<KillPoint> times_of(std::span<const KillPoint> kills) {
  std::vector<KillPoint> out;
  Nanos last{};
  for (const KillPoint& kill : kills) {
    bool same = !out.empty() && kill.time.time_since_epoch() - last < kOneTime;
    if (!same)
      out.push_back(kill);
    else if (kill.size && (!out.back().size || *out.back().size < *kill.size))
      out.back().size = kill.size;
    last = kill.time.time_since_epoch();
  }
  return out;
}

// The intervals that fit; empty: irregular.
std::vector<double> regular_part(const std::vector<double>& intervals, double middle) {
  if (intervals.size() == 2) {
    bool alike = std::abs(intervals[0] - intervals[1]) <= kTwoWithin * middle;
    return alike ? intervals : std::vector<double>();
  }
  if (intervals.size() < 3) return {};
  std::vector<double> fit;
  for (double interval : intervals)
    if (std::abs(interval - middle) <= kWithin * middle) fit.push_back(interval);
  return intervals.size() - fit.size() <= intervals.size() / 5 ? fit : std::vector<double>();
}

void foretell(Recurrence& out, const std::vector<double>& fit) {
  auto n = static_cast<double>(fit.size());
  double mean = 0, square = 0;
  for (double interval : fit) mean += interval / n;
  for (double interval : fit) square += (interval - mean) * (interval - mean);
  double deviation = std::sqrt(square / (n - 1));
  double half = std::min(mean, t95(fit.size() - 1) * deviation * std::sqrt(1 + 1 / n));
  auto after = [&](double seconds) { return out.last + std::chrono::duration_cast<Nanos>(Seconds(seconds)); };
  out.next = {after(mean - half), after(mean), after(mean + half)};
}

SizeTrend trend_of(const std::vector<double>& sizes) {
  if (sizes.size() < 3) return SizeTrend::unknown;
  double middle = median(sizes);
  auto is_near = [&](double size) { return std::abs(size - middle) <= kSteady * middle; };
  if (std::ranges::all_of(sizes, is_near)) return SizeTrend::steady;
  if (std::ranges::is_sorted(sizes)) return SizeTrend::rising;
  if (std::ranges::is_sorted(sizes, std::ranges::greater{})) return SizeTrend::falling;
  return SizeTrend::varied;
}

}  // namespace

std::string_view to_string(SizeTrend trend) {
  constexpr std::array<std::string_view, 5> names = {"unknown", "steady", "rising", "falling", "varied"};
  return names[static_cast<std::size_t>(trend)];
}

std::optional<Recurrence> recurrence_of(std::span<const KillPoint> kills) {
  if (kills.empty()) return std::nullopt;
  auto times = times_of(kills);
  Recurrence out;
  out.kills = kills.size();
  out.times = times.size();
  out.first = times.front().time;
  out.last = times.back().time;
  std::vector<double> intervals, sizes;
  for (std::size_t i = 1; i < times.size(); ++i)
    intervals.push_back(Seconds(times[i].time - times[i - 1].time).count());
  for (std::size_t i = times.size() - std::min(times.size(), kSizes); i < times.size(); ++i) {
    out.sizes.push_back(times[i].size);
    if (times[i].size) sizes.push_back(times[i].size->as_double());
  }
  out.trend = trend_of(sizes);
  if (intervals.empty()) return out;
  double middle = median(intervals);
  out.interval = Seconds(middle);
  auto fit = regular_part(intervals, middle);
  if (fit.empty()) return out;
  out.regular = true;
  double farthest = 0;
  for (double interval : fit) farthest = std::max(farthest, std::abs(interval - middle));
  out.spread = Seconds(farthest);
  foretell(out, fit);
  return out;
}

}  // namespace oomcast
