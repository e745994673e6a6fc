#include "present/curve_trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace oomcast {
namespace {

constexpr double kFlatPart = 0.05;     // of the maximum: less is no movement
constexpr double kSwing = 0.25;        // of the total movement: a turn
constexpr double kLongBefore = 0.3;    // of the time: a longer flat part is described by itself
constexpr double kSmallest = 1 << 20;  // bytes
constexpr double kUntilKill = 2;       // s: a curve that ends so close to the kill ends with it

struct TrendPoint {
  double at = 0, value = 0;
};

std::vector<TrendPoint> points_before_kill(const Curve& curve, const std::vector<double>& at) {
  std::vector<TrendPoint> out;
  for (std::size_t i = 0; i < at.size() && i < curve.total.size(); ++i)
    if (at[i] <= 0 && curve.total[i]) out.push_back({at[i], curve.total[i]->as_double()});
  return out;
}

// Points where the curve turned by more than a fraction of its total movement; including first and last.
std::vector<TrendPoint> turns_of(const std::vector<TrendPoint>& points, double moved) {
  enum class Way { unknown, up, down };
  std::vector<TrendPoint> out{points.front()};
  TrendPoint low = points.front(), high = points.front();
  Way way = Way::unknown;
  for (const TrendPoint& p : points) {
    if (p.value > high.value) high = p;
    if (p.value < low.value) low = p;
    if (way != Way::down && high.value - p.value > kSwing * moved) {
      if (way == Way::up) out.push_back(high);
      way = Way::down;
      low = p;
    } else if (way != Way::up && p.value - low.value > kSwing * moved) {
      if (way == Way::down) out.push_back(low);
      way = Way::up;
      high = p;
    }
  }
  out.push_back(points.back());
  return out;
}

std::string trend_size(double value) {
  return format_size(Bytes{std::llround(value)});
}

std::string before_kill(double at) {
  return format_duration(Seconds(-at)) + " before the kill";
}

// Monotonic: from where it began to move.
std::string one_way(const std::vector<TrendPoint>& points) {
  const TrendPoint &first = points.front(), &last = points.back();
  double moved = last.value - first.value;
  const char* went = moved > 0 ? "rose" : "fell";
  TrendPoint from = first;
  for (const TrendPoint& p : points)
    if (std::abs(p.value - first.value) <= 0.1 * std::abs(moved)) from = p;
  bool stood = from.at - first.at > kLongBefore * (last.at - first.at);
  if (!stood) from = first;
  double took = last.at - from.at;
  std::string rate = took > 0 ? ", " + format_rate({(last.value - from.value) / took}) : std::string();
  std::string there =
      fmt::format("to {} in {}{}", trend_size(last.value), format_duration(Seconds(took)), rate);
  if (stood)
    return fmt::format("stayed near {} for {}, then {} {}", trend_size(first.value),
                       format_duration(Seconds(from.at - first.at)), went, there);
  return fmt::format("{} from {} {}", went, trend_size(first.value), there);
}

std::string movement(const std::vector<TrendPoint>& points) {
  auto [low, high] = std::ranges::minmax_element(points, {}, &TrendPoint::value);
  double moved = high->value - low->value, span = points.back().at - points.front().at;
  std::string lasted = format_duration(Seconds(span));
  if (moved <= std::max(kFlatPart * high->value, kSmallest)) {
    std::string least = trend_size(low->value), most = trend_size(high->value);
    return least == most ? fmt::format("stayed at {} for {}", most, lasted)
                         : fmt::format("stayed between {} and {} for {}", least, most, lasted);
  }
  std::vector<TrendPoint> turns = turns_of(points, moved);
  if (turns.size() == 2) return one_way(points);
  std::string begin = trend_size(points.front().value), end = trend_size(points.back().value);
  if (turns.size() == 3 && turns[1].value > points.front().value)
    return fmt::format("rose from {} to {} {}, then fell to {}", begin, trend_size(turns[1].value),
                       before_kill(turns[1].at), end);
  if (turns.size() == 3)
    return fmt::format("fell from {} to {} {}, then rose to {}", begin, trend_size(turns[1].value),
                       before_kill(turns[1].at), end);
  return fmt::format("moved between {} and {} for {}, and ended at {}", trend_size(low->value),
                     trend_size(high->value), lasted, end);
}

}  // namespace

std::string describe_trend(const Curve& curve, const std::vector<double>& at) {
  std::vector<TrendPoint> points = points_before_kill(curve, at);
  if (points.size() < 2 || points.back().at <= points.front().at) return "";
  std::string out = movement(points);
  if (points.back().at < -kUntilKill)
    out += fmt::format("; the last value is of {}", before_kill(points.back().at));
  std::optional<Bytes> limit;
  for (std::size_t i = 0; i < at.size() && i < curve.limit.size() && at[i] <= 0; ++i)
    if (curve.limit[i]) limit = curve.limit[i];
  if (limit) out += fmt::format("; the limit is {}", format_size(*limit));
  return out;
}

}  // namespace oomcast
