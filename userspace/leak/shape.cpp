#include "leak/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oomcast {
namespace {

constexpr double kMadToSigma = 1.4826;
constexpr double kMinNoise = 1e-4;        // of the level: finer is below what one looks at
constexpr double kExcursionNoise = 6;     // times the noise
constexpr double kExcursionLevel = 0.02;  // of the highest value
constexpr double kSegmentPenalty = 12;    // times noise² ln n
constexpr std::size_t kMinSegment = 3;
// Short dips below a level.
constexpr std::size_t kMinDips = 4;
constexpr double kAtLevel = 0.25;       // of a dip's depth: as near as that a value is at its level, …
constexpr double kLeastAtLevel = 0.7;   // … for so much of the time
constexpr double kMostInDips = 0.3;     // of the time
constexpr double kBesideSpikes = 0.66;  // of the dips
constexpr double kDipsRise = 0.5;       // of what the level rises
// A shift between two stretches of one rise.
constexpr std::size_t kMaxShifts = 2;
constexpr std::size_t kMinStretch = 6;  // dots
constexpr std::size_t kMaxBetween = 4;  // dots
constexpr double kSameRate = 2;         // times
constexpr double kShiftNoise = 6;       // times the noise
constexpr double kShiftRise = 0.15;     // of what both stretches rise

double median(std::vector<double>& v) {
  if (v.empty()) return 0;
  auto mid = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), mid, v.end());
  return *mid;
}

// Of what is left when each point is compared with the line through its neighbours.
double noise_of(std::span<const Dot> dots) {
  std::vector<double> rest;
  for (std::size_t i = 1; i + 1 < dots.size(); ++i) {
    double span = dots[i + 1].time - dots[i - 1].time;
    double w = span > 0 ? (dots[i].time - dots[i - 1].time) / span : 0.5;
    double expected = dots[i - 1].value * (1 - w) + dots[i + 1].value * w;
    rest.push_back(std::abs(dots[i].value - expected) / std::sqrt(1 + w * w + (1 - w) * (1 - w)));
  }
  return kMadToSigma * median(rest);
}

// How far to both sides: so many buckets, and all that are as near in time. What moves is sampled more often
// than what stands still, so that a peak of a second may have as many buckets as the ten seconds around it.
struct Reach {
  std::size_t buckets;
  double s;
};

// The higher of the lowest values that are reached before and after: what a rise comes from and goes back to.
// The newest bucket has no after: it counts as its own.
std::vector<double> base_of(const std::vector<double>& low, std::span<const Bucket> at, Reach reach,
                            bool both) {
  std::vector<double> out(low.size());
  for (std::size_t i = 0; i < low.size(); ++i) {
    double before = std::numeric_limits<double>::infinity(), after = before;
    for (std::size_t j = i; j-- > 0 && (i - j <= reach.buckets || at[i].time - at[j].time <= reach.s);)
      before = std::min(before, low[j]);
    for (std::size_t j = i + 1;
         j < low.size() && (j - i <= reach.buckets || at[j].time - at[i].time <= reach.s); ++j)
      after = std::min(after, low[j]);
    out[i] = both ? std::max(before, after) : before;
  }
  return out;
}

// For each bucket in a short dip: the level around the dip; nullopt elsewhere. Before a validation, training
// frees memory (the dip), then the validation takes its own (the spike beside it). Taken as the baseline,
// such dips hid a leak that raised the level, and the verdict was "spikes". Three kinds of dip stay in the
// baseline: dips to one height each time (all was given back), teeth of a collector (no level for most of the
// time), and full collections (no spike beside them).
std::vector<std::optional<double>> dips_of(std::span<const Bucket> window, const std::vector<double>& low,
                                           Reach reach, double threshold) {
  std::size_t n = window.size();
  std::vector<std::optional<double>> none(n), out(n);
  auto [least, most] = std::minmax_element(low.begin(), low.end());
  if (*most - *least <= threshold) return none;
  std::vector<double> level(n), near;
  for (std::size_t i = 0; i < n; ++i) {
    near.clear();
    for (std::size_t j = i - std::min(i, reach.buckets); j < std::min(n, i + reach.buckets + 1); ++j)
      near.push_back(low[j]);
    level[i] = median(near);
  }
  std::vector<Dot> bottoms, levels;
  std::vector<double> depths;
  int beside_spikes = 0;
  double inside = 0, deepest = 0, longest = 0,
         all = std::max<double>(1e-9, window.back().time - window.front().time);
  for (std::size_t i = 1; i < n; ++i) {
    if (level[i] - low[i] <= threshold) continue;
    std::size_t begin = i, bottom = i;
    for (; i < n && level[i] - low[i] > threshold; ++i)
      if (low[i] < low[bottom]) bottom = i;
    double depth = level[bottom] - low[bottom], lasts = window[std::min(i, n - 1)].time - window[begin].time;
    // The newest one is not back yet: it is no news if it is like those before it.
    if (i == n && (depth > 1.25 * deepest || lasts > 1.5 * longest)) break;
    for (std::size_t k = begin; k < i; ++k) out[k] = level[k];
    if (i == n) break;
    auto around = window.subspan(begin - std::min<std::size_t>(begin, 2),
                                 std::min<std::size_t>(begin, 2) + i - begin + 1);
    beside_spikes += std::any_of(around.begin(), around.end(),
                                 [&](const Bucket& b) { return b.high - level[bottom] > threshold; });
    bottoms.push_back({window[bottom].time, low[bottom]});
    levels.push_back({window[bottom].time, level[bottom]});
    depths.push_back(depth);
    inside += lasts;
    deepest = std::max(deepest, depth);
    longest = std::max(longest, lasts);
  }
  if (depths.size() < kMinDips || beside_spikes < kBesideSpikes * static_cast<double>(depths.size()) ||
      inside > kMostInDips * all)
    return none;
  double depth = median(depths), at_level = 0;
  for (std::size_t i = 0; i + 1 < n; ++i)
    if (std::abs(low[i] - level[i]) <= kAtLevel * depth) at_level += window[i + 1].time - window[i].time;
  bool rise =
      fit_line(bottoms, 0, bottoms.size()).rise() >= kDipsRise * fit_line(levels, 0, levels.size()).rise();
  return rise && at_level >= kLeastAtLevel * all ? out : none;
}

// Sums over prefixes, so that the line through any run of dots costs the same.
struct Sums {
  std::vector<double> t, y, tt, ty, yy;
  explicit Sums(std::span<const Dot> dots) {
    double t0 = dots.empty() ? 0 : dots.front().time, y0 = dots.empty() ? 0 : dots.front().value;
    for (auto* v : {&t, &y, &tt, &ty, &yy}) v->assign(dots.size() + 1, 0);
    for (std::size_t i = 0; i < dots.size(); ++i) {
      double a = dots[i].time - t0, b = dots[i].value - y0;
      t[i + 1] = t[i] + a;
      y[i + 1] = y[i] + b;
      tt[i + 1] = tt[i] + a * a;
      ty[i + 1] = ty[i] + a * b;
      yy[i + 1] = yy[i] + b * b;
    }
  }
  double error(std::size_t i, std::size_t j) const {
    double n = static_cast<double>(j - i);
    double st = t[j] - t[i], sy = y[j] - y[i];
    double vt = tt[j] - tt[i] - st * st / n, vy = yy[j] - yy[i] - sy * sy / n;
    double c = ty[j] - ty[i] - st * sy / n;
    double e = vt > 0 ? vy - c * c / vt : vy;
    return std::max(0.0, e);
  }
};

std::vector<Segment> split(std::span<const Dot> dots, double noise) {
  std::size_t n = dots.size();
  std::vector<Segment> out;
  if (n < kMinSegment) {
    if (n) out.push_back(fit_line(dots, 0, n));
    return out;
  }
  Sums sums(dots);
  double penalty = kSegmentPenalty * noise * noise * std::log(static_cast<double>(n));
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(n + 1, kNever);
  std::vector<std::size_t> from(n + 1, 0);
  best[0] = 0;
  for (std::size_t j = kMinSegment; j <= n; ++j)
    for (std::size_t i = 0; i + kMinSegment <= j; ++i) {
      if (best[i] == kNever) continue;
      double cost = best[i] + sums.error(i, j) + penalty;
      if (cost < best[j]) best[j] = cost, from[j] = i;
    }
  for (std::size_t j = n; j > 0; j = from[j]) out.push_back(fit_line(dots, from[j], j));
  std::reverse(out.begin(), out.end());
  return out;
}

double reversed_rise_of(std::span<const Dot> dots) {
  if (dots.empty()) return 0;
  std::vector<double> after(dots.size());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = dots.size(); i-- > 0;) after[i] = least = std::min(least, dots[i].value);
  double before = dots.front().value, most = 0;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    before = std::min(before, dots[i].value);
    most = std::max(most, std::min(dots[i].value - before, dots[i].value - after[i]));
  }
  return most;
}

// The base of a window, what rises above it by how much to be an excursion, and the dots to judge by.
struct Excursions {
  std::span<const Bucket> window;
  std::span<const Dot> dots;
  const std::vector<double>& low;
  bool dots_are_low;
  double threshold;

  Reach reach() const {
    return {std::max<std::size_t>(2, window.size() / 8), (window.back().time - window.front().time) / 8};
  }

  // Marks in `off` the dots that belong to one.
  std::vector<Excursion> find(std::vector<bool>& off) const {
    std::size_t n = window.size();
    auto base = base_of(low, window, reach(), true);
    auto above = [&](std::size_t k) { return window[k].high - base[k]; };
    std::vector<Excursion> out;
    for (std::size_t i = 0; i < n;) {
      if (above(i) <= threshold) {
        ++i;
        continue;
      }
      std::size_t begin = i, top = i;
      for (; i < n && above(i) > threshold; ++i)
        if (above(i) > above(top)) top = i;
      for (std::size_t k = begin; k < i; ++k)
        off[k] = !dots_are_low || dots[k].value - base[k] > threshold / 2;
      out.push_back({window[begin].time, window[top].peak_time, window[std::min(i, n - 1)].time,
                     window[top].high, above(top)});
    }
    return out;
  }

  // One that has not come back yet is no news if it is like those that did. Marks its dots, too.
  bool is_under_way(const std::vector<Excursion>& earlier, std::vector<bool>& off) const {
    if (earlier.size() < 2) return false;
    double highest = 0, longest = 0;
    for (const Excursion& e : earlier)
      highest = std::max(highest, e.height), longest = std::max(longest, e.to - e.from);
    auto base = base_of(low, window, reach(), false);
    std::size_t n = window.size(), begin = n;
    double height = 0;
    while (begin > 1 && !off[begin - 1] && window[begin - 1].high - base[begin - 1] > threshold)
      height = std::max(height, window[begin - 1].high - base[begin - 1]), --begin;
    bool alike =
        begin < n && height <= 1.25 * highest &&
        window[n - 1].time - window[begin].time <= 1.5 * longest + (window[n - 1].time - window[n - 2].time);
    if (alike) std::fill(off.begin() + static_cast<std::ptrdiff_t>(begin), off.end(), true);
    return alike;
  }
};

}  // namespace

Segment fit_line(std::span<const Dot> dots, std::size_t begin, std::size_t end) {
  Segment s{begin, end};
  double n = static_cast<double>(end - begin), mt = 0, my = 0;
  for (std::size_t i = begin; i < end; ++i) mt += dots[i].time / n, my += dots[i].value / n;
  double vt = 0, c = 0, vy = 0;
  for (std::size_t i = begin; i < end; ++i) {
    double a = dots[i].time - mt, b = dots[i].value - my;
    vt += a * a;
    c += a * b;
    vy += b * b;
  }
  s.slope = vt > 0 ? c / vt : 0;
  s.error = std::max(0.0, vt > 0 ? vy - c * c / vt : vy);
  s.at_begin = my + s.slope * (dots[begin].time - mt);
  s.at_end = my + s.slope * (dots[end - 1].time - mt);
  return s;
}

std::optional<Shape> without_shifts(const Shape& shape) {
  const auto& segments = shape.segments;
  std::optional<Shape> out;
  std::size_t shifts = 0;
  double lifted = 0;
  for (std::size_t k = segments.size(); k-- > 1;) {
    const Segment& newer = segments[k];
    std::size_t j = k - 1;  // the one before, over a few dots of the shift itself
    if (segments[j].size() <= kMaxBetween && j > 0) --j;
    const Segment& older = segments[j];
    if (newer.size() < kMinStretch || older.size() < kMinStretch) continue;
    bool same = newer.slope > 0 && older.slope > newer.slope / kSameRate &&
                older.slope < newer.slope * kSameRate && newer.rise() > kShiftNoise * shape.noise &&
                older.rise() > kShiftNoise * shape.noise;
    double rate = (newer.slope + older.slope) / 2;
    auto expected = [&](double time) {
      return older.at_end + rate * (time - shape.floor[older.end - 1].time);
    };
    double gap = newer.at_begin - expected(shape.floor[newer.begin].time);
    if (!same || gap < std::max(kShiftNoise * shape.noise, kShiftRise * (newer.rise() + older.rise())))
      continue;
    if (++shifts > kMaxShifts) return std::nullopt;
    if (!out) {
      out = shape;
      out->level_since = shape.floor[newer.begin].time;
    }
    for (std::size_t i = older.end; i < newer.begin; ++i)
      out->floor[i].value = expected(out->floor[i].time) + lifted;
    for (std::size_t i = 0; i < newer.begin; ++i) out->floor[i].value += gap;
    lifted += gap;
    k = j + 1;
  }
  if (!out) return std::nullopt;
  out->segments = split(out->floor, out->noise);
  out->reversed_rise = reversed_rise_of(out->floor);
  return out;
}

Shape describe(std::span<const Bucket> window) {
  Shape out;
  std::size_t n = window.size();
  if (n == 0) return out;
  std::vector<Dot> means, lows;
  std::vector<double> low(n), heights;
  double highest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Bucket& b = window[i];
    means.push_back({b.time, b.mean});
    lows.push_back({b.time, b.low});
    low[i] = b.low;
    heights.push_back(static_cast<double>(b.high) - b.low);
    highest = std::max<double>(highest, b.high);
  }
  out.spread = median(heights);
  // The mean of a bucket has less noise than its low end, but for spikes inside of buckets.
  double noise_mean = noise_of(means), noise_low = noise_of(lows);
  bool use_low = noise_low < 0.6 * noise_mean;
  const std::vector<Dot>& dots = use_low ? lows : means;
  out.noise = std::max(use_low ? noise_low : noise_mean, kMinNoise * highest);

  double threshold = std::max({kExcursionNoise * out.noise, 1.5 * out.spread, kExcursionLevel * highest});
  Excursions excursions{window, dots, low, use_low, threshold};
  auto dips = dips_of(window, low, excursions.reach(), threshold);
  for (std::size_t i = 0; i < n; ++i)
    if (dips[i]) low[i] = *dips[i];
  std::vector<bool> off(n, false);
  out.excursions = excursions.find(off);
  out.under_way = excursions.is_under_way(out.excursions, off);
  for (std::size_t i = 0; i < n; ++i)
    if (!off[i] && !dips[i]) out.floor.push_back(dots[i]);
  out.segments = split(out.floor, out.noise);
  out.reversed_rise = reversed_rise_of(out.floor);
  return out;
}

}  // namespace oomcast
