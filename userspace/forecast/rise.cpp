#include "forecast/rise.h"

#include <algorithm>
#include <cmath>

#include "forecast/numbers.h"
#include "forecast/trend.h"
#include "leak/levels.h"

namespace oomcast {
namespace {

constexpr double kKink = 4;         // times the squares that straight pieces leave
constexpr double kRests = 0.15;     // of its pace before, certainly, …
constexpr double kRestsFor = 0.05;  // … for so much of the rise
constexpr double kRestsAlike = 0.5, kRestsLonger = 1.5;
constexpr std::size_t kFewDots = 4, kFewDotsOf = 32;  // too few of so many to tell that it stands still
constexpr double kSteep = 1.5;                        // times the pace of the whole rise
constexpr std::size_t kFewShifts = 3;
constexpr double kShiftsBetter = 0.25;  // of the squares that the trend leaves

}  // namespace

bool fell(std::span<const Dot> dots, std::size_t first, double noise) {
  for (std::size_t i = std::max<std::size_t>(first, 1); i < dots.size(); ++i)
    if (dots[i].value < dots[i - 1].value - 4 * noise) return true;
  return false;
}

bool stalled(std::span<const Dot> dots, std::size_t first, const Segment& last, double noise) {
  if (last.begin < first + 4) return false;
  // A few dots after a fall do not show whether the rise continues.
  if (last.size() <= kFewDots && dots.size() <= kFewDotsOf && fell(dots, last.begin, noise)) return false;
  Segment before = fit_line(dots, first, last.begin);
  double sd = std::sqrt(before.error / static_cast<double>(before.size() - 1));
  double expected = before.at_end + before.slope * (dots[last.end - 1].time - dots[before.end - 1].time);
  return last.slope < kStalls * before.slope && expected - last.at_end > 4 * std::max(sd, noise);
}

bool rests(const std::vector<Segment>& segments, std::span<const Dot> dots, std::size_t first, double noise) {
  auto lasts = [&](std::size_t from, std::size_t to) { return dots[to - 1].time - dots[from].time; };
  std::size_t k = segments.size(), begin = dots.size();
  double pace = 0;
  auto flat = [&](const Segment& s) {
    double length = lasts(s.begin, s.end);
    double sd = length > 0 ? noise * std::sqrt(12.0 / static_cast<double>(s.size())) / length : 0;
    return length > 0 && std::abs(s.slope) + 2 * sd < kRests * pace;
  };
  auto level_with = [&](const Segment& a, const Segment& b) {
    return std::abs(b.at_begin - a.at_end) < 4 * noise;
  };
  for (; k > 0 && segments[k - 1].begin > first; --k) {
    const Segment& s = segments[k - 1];
    pace = share(dots[s.begin].value - dots[first].value, dots[s.begin].time - dots[first].time);
    if (!flat(s) || (k < segments.size() && !level_with(s, segments[k]))) break;
    begin = s.begin;
  }
  if (begin == dots.size()) return false;
  double now = lasts(begin, dots.size()), longest = 0, length = 0;
  if (now < kRestsFor * lasts(first, dots.size())) return false;
  pace = share(dots[begin].value - dots[first].value, dots[begin].time - dots[first].time);
  int alike = 0;
  for (std::size_t i = 0; i < k; ++i) {
    if (segments[i].begin <= first) continue;  // before it rose at all
    length = flat(segments[i]) ? length + lasts(segments[i].begin, segments[i].end) : 0;
    longest = std::max(longest, length);
    bool last = i + 1 < k && !flat(segments[i + 1]);  // and then it rose on
    alike += last && length > kRestsAlike * now;
  }
  return alike < 2 || now > kRestsLonger * longest;
}

bool bends(const std::vector<Segment>& segments, std::size_t first, std::span<const Dot> dots) {
  if (segments.size() - first != 2) return false;
  auto trend = Trend::fit(dots.subspan(segments[first].begin));
  double error = 0;
  for (std::size_t k = first; k < segments.size(); ++k) error += segments[k].error;
  return trend && segments.back().size() >= 6 && trend->error() > kKink * error;
}

bool by_jumps(const std::vector<Segment>& segments, std::span<const Dot> dots, std::size_t first,
              double noise, double rise) {
  double within = 0, jumping = 0, span = dots.back().time - dots.front().time;
  double pace = (dots.back().value - dots.front().value) / span;
  int jumps = 0;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    if (segments[k].begin < first) continue;
    // A jump may take a few buckets: then it is a short and steep segment of its own.
    bool short_one =
        segments[k].size() <= 4 && segments[k].rise() > 0.15 * rise && segments[k].slope > kSteep * pace;
    if (!short_one) within += std::max(0.0, segments[k].rise());
    if (short_one) jumping += dots[segments[k].end - 1].time - dots[segments[k].begin].time;
    bool jumped = k > 0 && segments[k - 1].begin >= first &&
                  segments[k].at_begin - segments[k - 1].at_end > std::max(4 * noise, 0.02 * rise);
    jumps += short_one || jumped;
  }
  return within < 0.5 * rise && jumps < 4 && jumping < 0.5 * span;
}

bool by_shifts(std::span<const Dot> dots, const Trend& trend) {
  Levels levels = find_levels(dots, 0);
  if (levels.shifts.empty() || levels.shifts.size() > kFewShifts) return false;
  double error = 0;
  std::vector<double> values;
  auto at = dots.begin();
  for (std::size_t k = 0; k <= levels.shifts.size(); ++k) {
    auto end =
        k == levels.shifts.size() ? dots.end() : std::ranges::find(dots, levels.shifts[k].time, &Dot::time);
    // Dots next to a shift may be from the bucket of the shift.
    auto from = at + (k > 0 ? 1 : 0), to = end - (end == dots.end() ? 0 : 1);
    values.clear();
    for (auto dot = from; dot < to; ++dot) values.push_back(dot->value);
    at = end;
    if (values.empty()) return false;
    auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    for (double value : values) error += (value - *middle) * (value - *middle);
  }
  return error < kShiftsBetter * trend.error();
}

bool swings(std::span<const Dot> dots, std::size_t first, std::size_t middle) {
  Segment all = fit_line(dots, first, dots.size());
  double older = 0, newer = 0, sd = std::sqrt(all.error / static_cast<double>(all.size()));
  int side = 0, changes = 0;
  for (std::size_t i = first; i < dots.size(); ++i) {
    double off = dots[i].value - all.at_begin - all.slope * (dots[i].time - dots[first].time);
    double& most = i < middle ? older : newer;
    most = std::max(most, std::abs(off));
    if (i < middle && std::abs(off) > 0.5 * sd) {
      int now = off > 0 ? 1 : -1;
      changes += side != 0 && now != side;
      side = now;
    }
  }
  bool fell = middle > first && dots[middle].value < dots[middle - 1].value - sd;
  return (changes >= 3 || fell) && newer <= 1.5 * older;
}

}  // namespace oomcast
