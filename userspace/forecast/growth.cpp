#include "forecast/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace oomcast {
namespace {

constexpr std::size_t kMaxSamples = 64;
constexpr std::size_t kMinSamples = 5;
constexpr Seconds kMinSpan{2};
constexpr double kZ90 = 1.645;
// Windows are tried from the longest: a leak is judged on all it has, a change of pace on the newest part.
constexpr std::array kWindows = {Seconds(600), Seconds(120), Seconds(30)};
constexpr Seconds kAlertAhead{1200};

std::vector<Point> thin(std::span<const Point> points) {
  if (points.size() <= kMaxSamples) return {points.begin(), points.end()};
  std::vector<Point> out;
  out.reserve(kMaxSamples);
  for (std::size_t i = 0; i < kMaxSamples; ++i)
    out.push_back(points[i * (points.size() - 1) / (kMaxSamples - 1)]);
  return out;
}

// The least growth over the window that is not noise: 1 MiB, or 0.2 % of the level.
bool is_growth(const Growth& g, Bytes level) {
  double grown = g.low.value * g.span.count();
  return grown > std::max(MiB(1).as_double(), level.as_double() * 0.002);
}

}  // namespace

std::optional<Growth> growth_rate(std::span<const Point> series, Seconds window) {
  if (series.empty()) return std::nullopt;
  MonoTime from = series.back().time - std::chrono::duration_cast<Nanos>(window);
  auto first = std::find_if(series.begin(), series.end(), [&](const Point& p) { return p.time >= from; });
  std::vector<Point> points = thin({first, series.end()});
  if (points.size() < kMinSamples) return std::nullopt;
  Seconds span = seconds_between(points.front().time, points.back().time);
  if (span < kMinSpan) return std::nullopt;

  std::vector<double> slopes;
  slopes.reserve(points.size() * (points.size() - 1) / 2);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t j = i + 1; j < points.size(); ++j)
      slopes.push_back((points[j].value - points[i].value).as_double() /
                       seconds_between(points[i].time, points[j].time).count());
  std::sort(slopes.begin(), slopes.end());
  auto n = static_cast<double>(points.size());
  double margin = kZ90 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  auto count = static_cast<double>(slopes.size());
  auto at = [&](double rank) { return slopes[static_cast<std::size_t>(std::clamp(rank, 0.0, count - 1))]; };
  std::size_t mid = slopes.size() / 2;
  double median = slopes.size() % 2 ? slopes[mid] : (slopes[mid - 1] + slopes[mid]) / 2;
  return Growth{{median}, {at((count - margin) / 2)}, {at((count + margin) / 2)}, span, points.size()};
}

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 8> names = {"stable", "leak", "spikes", "step",
                                                     "ramp",   "cow",  "cache",  "unknown"};
  return names[static_cast<std::size_t>(verdict)];
}

Forecast forecast(std::span<const Point> series, std::optional<Bytes> limit) {
  Forecast out;
  out.limit = limit;
  for (Seconds window : kWindows) {
    auto growth = growth_rate(series, window);
    if (!growth) continue;
    out.growth = growth;
    if (is_growth(*growth, series.back().value)) break;
  }
  if (!out.growth) {
    out.why = series.empty() ? "nothing was sampled yet" : "too few samples yet";
    return out;
  }
  const Growth& g = *out.growth;
  std::string over = format_duration(g.span);
  if (!is_growth(g, series.back().value)) {
    out.verdict = Verdict::stable;
    out.why = fmt::format("no growth above noise over {}", over);
    return out;
  }
  out.verdict = Verdict::leak;
  out.why = fmt::format("grew {} over {}, between {} and {} with 90 % confidence", format_rate(g.rate), over,
                        format_rate(g.low), format_rate(g.high));
  if (!limit) return out;
  double left = std::max(0.0, (*limit - series.back().value).as_double());
  out.eta = Seconds(left / g.rate.value);
  out.eta_low = Seconds(left / g.high.value);
  if (g.low.value > 0) out.eta_high = Seconds(left / g.low.value);
  out.alert = *out.eta < kAlertAhead;
  return out;
}

}  // namespace oomcast
