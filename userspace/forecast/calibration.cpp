#include "forecast/calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace oomcast {
namespace {

constexpr std::size_t kMaxPast = 64;
constexpr double kApart = 0.05;     // of what was left, between two that are kept
constexpr double kMinPassed = 0.1;  // of what was left then: before that the newest deadline knows no more
constexpr double kSide = 0.95;      // of the scores, each side of an interval of 90 %
// Of growths without a record of their own; as much as a record over which what is left falls to a seventh.
// It was measured from a quarter of their life on; before that what is not known yet is most of an interval,
// and the model knows that.
constexpr double kOthers = 1.6, kWeightOfOthers = 2, kMeasuredFrom = 0.25;
constexpr double kMinFactor = 0.5, kMaxFactor = 4;
constexpr double kMinReach = 0.02;  // of what is left: no interval is scored by a narrower one

// The value below which `part` of the weight lies.
double weighted_quantile(std::vector<std::pair<double, double>>& scores, double part) {
  std::ranges::sort(scores);
  double all = 0, sum = 0;
  for (const auto& [score, weight] : scores) all += weight;
  for (const auto& [score, weight] : scores)
    if ((sum += weight) >= part * all) return score;
  return scores.back().first;
}

}  // namespace

// A past deadline weighs by how long it stood, divided by the time then left to the newest deadline:
// otherwise an hour of early forecasts would outvote the last minute before the limit.
Calibration::Factors Calibration::factors(double median, double now, double age) const {
  std::vector<std::pair<double, double>> up, down;
  double record = 0;
  for (const Past& p : past_) {
    double left = median - p.time;
    if (!(left > 0) || now - p.time < kMinPassed * left) continue;
    double off = std::log(left / p.left), weight = (p.until - p.time) / left;
    up.emplace_back(std::max(0.0, off) / p.up, weight);
    down.emplace_back(std::max(0.0, -off) / p.down, weight);
    record += weight;
  }
  double lived = age / (age + median - now);
  double others = std::pow(kOthers, std::min(1.0, lived / kMeasuredFrom));
  if (!(record > 0)) return {others, others};
  double own = record / (record + kWeightOfOthers);
  auto blend = [&](auto& scores) {
    double factor = std::clamp(weighted_quantile(scores, kSide), kMinFactor, kMaxFactor);
    return std::pow(factor, own) * std::pow(others, 1 - own);
  };
  return {blend(up), blend(down)};
}

// When full, drops one of each two neighbours: the distant past is kept more coarsely.
void Calibration::thin_out() {
  for (std::size_t k = 0; k + 1 < past_.size(); k += 2) {
    past_[k].until = past_[k + 1].until;
    past_[k / 2] = past_[k];
  }
  past_.resize(past_.size() / 2);
}

void Calibration::keep(const Meeting& meeting, double now) {
  double left = meeting.median - now;
  // A time without a deadline does not count against the last one.
  if (!past_.empty() && now - past_.back().until < kApart * left) past_.back().until = now;
  if (!meeting.high || (!past_.empty() && now - past_.back().time < kApart * left)) return;
  if (past_.size() >= kMaxPast) thin_out();
  double up = std::log((*meeting.high - now) / left);
  double down = std::log(left / std::max(meeting.low - now, kMinReach * left));
  past_.push_back({now, now, left, std::max(up, kMinReach), std::max(down, kMinReach)});
}

Meeting Calibration::scaled(const Meeting& meeting, double now, double age) {
  double left = meeting.median - now;
  if (!(left > 0)) return meeting;
  Factors by = factors(meeting.median, now, age);
  keep(meeting, now);
  Meeting out = meeting;
  if (meeting.low > now) out.low = now + left * std::pow((meeting.low - now) / left, by.down);
  if (meeting.high) out.high = now + left * std::pow((*meeting.high - now) / left, by.up);
  return out;
}

}  // namespace oomcast
