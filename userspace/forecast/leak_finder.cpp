#include "forecast/leak_finder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "forecast/numbers.h"
#include "forecast/peaks.h"
#include "forecast/rise.h"
#include "model/thrashing.h"

namespace oomcast {
namespace {

constexpr std::size_t kMinDots = 5, kMinDotsOfPart = 8;
// What makes a rise a leak.
constexpr double kRiseNoise = 5;        // times the residuals' standard deviation, …
constexpr double kRiseCertain = 6;      // … or its own standard error, and
constexpr double kRiseLevel = 0.012;    // of the level, and
constexpr double kRiseTooth = 0.25;     // of a collector's tooth, and
constexpr double kRiseReversed = 1.3;   // times the greatest rise that was taken back
constexpr double kHigherPeak = 1.3;     // times the highest peak that came back
constexpr double kFineHeadroom = 0.10;  // of what was left, for what only the newest part shows
constexpr double kLevelsBelow = 0.5;    // probability: it levels off below its limit
constexpr double kMostOfRise = 0.66;    // of what was found in a longer window, …
constexpr double kStraighter = 5;       // … with so many times smaller residuals
constexpr double kAsWell = 1.1;         // times the residuals' standard deviation
constexpr double kOneCurve = 2;         // times the squares that straight pieces leave
constexpr double kToothed = 0.6;        // of the time: its floor is seen between teeth alone
// What makes peaks that climb a leak.
constexpr std::size_t kMinTops = 6;
constexpr double kTopsNoise = 8;     // times what they are off their line, …
constexpr double kTopsCertain = 4;   // … times the slope's own standard error, and
constexpr double kTopsSmall = 0.25;  // of the typical height
constexpr double kTopsBetter = 2;    // times as certain as what the floor shows
constexpr double kTopsFloor = 0.3;   // of it the floor must have done, too
constexpr double kSamePeaks = 0.8;   // of the mean height of what looks like noise
constexpr double kPeakNoise = 1.5;   // times the highest of what is none
// What stands at its limit.
constexpr double kAtLimit = ThrashingFinder::kFull;
constexpr double kStands = 10;       // s, if not as long as it rose: by then it is known to thrash
constexpr double kLastOfRise = 0.1;  // is left up to the limit: it got there, however unsteadily

double highest_of(std::span<const Bucket> buckets, double from, double before) {
  double most = 0;
  for (const Bucket& b : buckets)
    if (b.time >= from && b.time < before) most = std::max<double>(most, b.high);
  return most;
}

// The rise relative to noise and earlier reversed rises.
double strength(double rise, const Shape& shape, const Trend& trend) {
  return std::min(share(rise, shape.reversed_rise + 1), share(rise, 2 * trend.residual_sd() + 1));
}

double certainty_of(const Leak& leak, double at) {
  return share(leak.trend.slope(at), leak.trend.slope_sd());
}

}  // namespace

// ---- in one window

// The largest part of a window up to now that one trend explains, if that trend is a leak.
class LeakFinder::Search {
 public:
  Search(const LeakFinder& finder, const Window& window, bool whole, Known known, double now)
      : finder_(finder),
        window_(window),
        whole_(whole),
        known_(known),
        now_(now),
        level_(without_shifts(window.shape)),
        shape_(level_ ? *level_ : window.shape),
        segments_(shape_.segments),
        dots_(shape_.floor) {}

  std::optional<Leak> find() const;

 private:
  bool levels_off_below(const Trend& trend) const;
  bool stands_out(const Leak& leak) const;
  bool is_new(const Leak& leak, double level_before) const;
  bool goes_on(const Leak& leak, std::size_t first) const;
  std::optional<Leak> judge(std::size_t first) const;
  bool extends(std::size_t k) const;
  std::vector<std::size_t> beginnings() const;
  bool is_end_of_curve(std::size_t first) const;

  const LeakFinder& finder_;
  const Window& window_;
  bool whole_;
  Known known_;
  double now_;
  std::optional<Shape> level_;
  const Shape& shape_;
  const std::vector<Segment>& segments_;
  const std::vector<Dot>& dots_;
};

// Levelling off matters only below the limit.
bool LeakFinder::Search::levels_off_below(const Trend& trend) const {
  const auto& limit = finder_.limit_;
  return trend.levels_off() > 0.5 && (!limit || trend.never(limit->as_double()) > kLevelsBelow);
}

// Above its noise, and above earlier reversed rises.
bool LeakFinder::Search::stands_out(const Leak& leak) const {
  double certain = certainty_of(leak, now_), sd = leak.trend.residual_sd();
  if (leak.rise <= 0) return false;
  bool clear = leak.rise >= kRiseNoise * sd || (certain >= kRiseCertain && leak.rise >= 2.5 * sd);
  return clear && certain >= 2 && leak.rise >= std::max(kRiseLevel * leak.floor, finder_.least_change_) &&
         leak.rise >= 4 * shape_.noise && !levels_off_below(leak.trend) &&
         leak.rise >= kRiseReversed * shape_.reversed_rise;
}

// Below an earlier peak it may be the same behaviour again.
bool LeakFinder::Search::is_new(const Leak& leak, double level_before) const {
  if (leak.floor < level_before + 0.2 * leak.rise) return false;
  if (whole_) return true;
  if (!finder_.limit_) return false;
  double room = finder_.limit_->as_double() - leak.trend.value(leak.trend.begin());
  double peak = leak.trend.value(leak.trend.begin()) + kHigherPeak * known_.peak;
  return leak.rise >= kFineHeadroom * room && leak.floor >= std::max(known_.level, peak);
}

bool LeakFinder::Search::goes_on(const Leak& leak, std::size_t first) const {
  bool slows = segments_.back().slope < kStalls * leak.trend.slope(now_);
  return !(slows && stalled(dots_, first, segments_.back(), shape_.noise)) &&
         !rests(segments_, dots_, first, shape_.noise) &&
         !by_jumps(segments_, dots_, first, shape_.noise, leak.rise) && !by_shifts(leak.dots, leak.trend);
}

std::optional<Leak> LeakFinder::Search::judge(std::size_t first) const {
  std::span<const Dot> part(dots_.data() + first, dots_.size() - first);
  if (part.size() < (whole_ ? kMinDots : kMinDotsOfPart)) return std::nullopt;
  auto trend = Trend::fit(part);
  if (!trend) return std::nullopt;
  Leak leak{*trend, {part.begin(), part.end()}, {}};
  leak.floor = trend->value(now_);
  leak.rise = leak.floor - trend->value(trend->begin());
  if (!stands_out(leak)) return std::nullopt;
  double seen = 0;
  for (std::size_t i = 0; i < first; ++i) seen = std::max(seen, dots_[i].value);
  leak.new_ground = leak.floor > highest_of(finder_.history_.all(), finder_.died_, trend->begin());
  if (!is_new(leak, seen) || !goes_on(leak, first)) return std::nullopt;
  leak.strength = strength(leak.rise, shape_, *trend);
  double level_since = std::max(trend->begin(), shape_.level_since);
  leak.peaks = finder_.peaks_above(*trend, window_, level_since);
  if (leak.peaks.recurring) leak.noise = finder_.noise_above(*trend, window_, level_since, false);
  // A floor that is visible only between teeth is uncertain.
  bool toothed = leak.peaks.recurring && part_of_time(window_.shape.excursions) > kToothed;
  if (toothed && leak.rise < kRiseTooth * leak.peaks.mean) return std::nullopt;
  return leak;
}

// Whether segment k goes on from the one before it without a jump.
bool LeakFinder::Search::extends(std::size_t k) const {
  const Segment &older = segments_[k - 1], &newer = segments_[k];
  double jump = std::abs(newer.at_begin - older.at_end -
                         older.slope * (dots_[newer.begin].time - dots_[older.end - 1].time));
  return older.slope > 0.2 * newer.slope && older.slope < 5 * newer.slope && older.slope > 0 &&
         jump < std::max(4 * shape_.noise, 0.15 * std::abs(newer.rise() + older.rise()));
}

// Segments at which the newest behaviour may have begun: first the earliest one from which it is a single
// rise without a jump, then each from the newest back.
std::vector<std::size_t> LeakFinder::Search::beginnings() const {
  constexpr std::size_t kMax = 24;
  std::vector<std::size_t> out;
  std::size_t newest = segments_.size() - 1, joined = newest;
  while (joined > 0 && extends(joined)) --joined;
  if (joined != newest && !bends(segments_, joined, dots_)) out.push_back(joined);
  if (out.empty()) joined = newest;
  for (std::size_t k = newest + 1; k-- > 0 && out.size() < kMax;)
    if (k != joined || joined == newest) out.push_back(k);
  return out;
}

// The end of a curve that levels off below the limit looks like a slow rise of its own.
bool LeakFinder::Search::is_end_of_curve(std::size_t first) const {
  double pieces = 0;
  for (const Segment& s : segments_)
    if (s.begin >= first) pieces += s.error;
  for (std::size_t k = segments_.size(); k-- > 0;) {
    if (segments_[k].begin >= first) continue;
    pieces += segments_[k].error;
    auto all = Trend::fit(std::span(dots_).subspan(segments_[k].begin));
    if (all && levels_off_below(*all) && all->error() < kOneCurve * pieces) return true;
  }
  return false;
}

std::optional<Leak> LeakFinder::Search::find() const {
  if (segments_.empty() || dots_.size() < 4) return std::nullopt;
  std::optional<Leak> chosen;
  std::size_t chosen_first = 0;
  for (std::size_t k : beginnings()) {
    std::size_t first = segments_[k].begin;
    if (chosen && first >= chosen_first) continue;
    auto leak = judge(first);
    if (!leak) continue;
    // A part that rises faster is only believed if the whole did not swing like that before, and, under a
    // collector, if one trend does not explain the whole as well.
    bool as_well = chosen && leak->trend.residual_sd() <= kAsWell * chosen->trend.residual_sd() &&
                   fell(dots_, chosen_first, shape_.noise);
    if (chosen && !as_well && !swings(dots_, first, chosen_first)) continue;
    chosen = std::move(leak);
    chosen_first = first;
  }
  return chosen && !is_end_of_curve(chosen_first) ? chosen : std::nullopt;
}

// A floor that rises in steps, as an allocator's heap does, below peaks that rise along a line: the next step
// is unpredictable, but the line continues. Uses the trend of the peaks, shifted down by their average
// distance from the floor.
std::optional<Leak> LeakFinder::find_of_peaks(const Window& window) const {
  const auto& floor = window.shape.floor;
  std::vector<Excursion> peaks = window.shape.excursions;
  if (peaks.empty() || floor.size() < 4) return std::nullopt;
  // Skip small excursions in between.
  std::vector<double> all;
  for (const Excursion& e : peaks) all.push_back(e.height);
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  std::erase_if(peaks, [&](const Excursion& e) { return e.height < kTopsSmall * *middle; });
  if (peaks.size() < kMinTops) return std::nullopt;
  double now = history_.newest_time(), begin = window.buckets.front().time;
  double span = peaks.back().peak_time - peaks.front().peak_time;
  double period = span / static_cast<double>(peaks.size() - 1);
  if (peaks.front().peak_time - begin > 0.5 * (now - begin) || now - peaks.back().peak_time > 2 * period)
    return std::nullopt;
  std::size_t since = 0;
  while (since + 4 < floor.size() && floor[since].time < peaks.front().peak_time) ++since;
  Segment below = fit_line(floor, since, floor.size());
  double height = 0;
  std::vector<Dot> dots;
  for (const Excursion& e : peaks) {
    dots.push_back({e.peak_time, e.top});
    height += (e.top - below.at_begin - below.slope * (e.peak_time - floor[since].time)) /
              static_cast<double>(peaks.size());
  }
  for (Dot& d : dots) d.value -= height;
  auto trend = Trend::fit(dots);
  if (!trend) return std::nullopt;
  Leak leak{*trend, dots, {}};
  leak.of_peaks = true;
  leak.floor = floor.back().value;
  leak.rise = trend->value(now) - trend->value(trend->begin());
  double risen = trend->value(trend->end()) - trend->value(trend->begin());
  if (risen < kTopsNoise * trend->residual_sd() || share(trend->slope(now), trend->slope_sd()) < kTopsCertain)
    return std::nullopt;
  if (below.rise() < kTopsFloor * risen || trend->levels_off() > 0.5) return std::nullopt;
  if (risen < std::max({kRiseLevel * trend->value(now), least_change_, 4 * window.shape.noise}))
    return std::nullopt;
  if (risen < kRiseReversed * window.shape.reversed_rise) return std::nullopt;
  leak.strength = strength(risen, window.shape, *trend);
  leak.new_ground = dots.back().value + height >= highest_of(history_.all(), died_, dots.back().time);
  std::vector<double> heights, times;
  for (const Dot& d : dots) {
    heights.push_back(d.value + height - trend->value(d.time));
    times.push_back(d.time);
  }
  leak.peaks = leak.noise = recurring(heights, times);
  return leak;
}

// ---- what stands above it

Peaks LeakFinder::noise_above(const Trend& trend, const Window& window, double since,
                              bool with_excursions) const {
  const auto& excursions = window.shape.excursions;
  std::vector<double> heights, levels, tops;
  for (const Excursion& e : excursions) tops.push_back(e.top - trend.value(e.peak_time));
  for (const Bucket& b : window.buckets) {
    if (b.time < since || &b == &window.buckets.back()) continue;
    bool inside = !with_excursions &&
                  std::any_of(excursions.begin(), excursions.end(),
                              [&](const Excursion& e) { return b.time >= e.from && b.time <= e.to; });
    if (!inside)
      heights.push_back(b.high - trend.value(b.peak_time)), levels.push_back(trend.value(b.peak_time));
  }
  // At the window's ends one more of them is only partly visible, and not recognized.
  double half = with_excursions || tops.empty() ? 0 : moments(tops).first / 2;
  if (half > 0) {
    while (!heights.empty() && heights.back() > half) heights.pop_back();
    levels.resize(heights.size());
    auto n =
        std::find_if(heights.begin(), heights.end(), [&](double h) { return h <= half; }) - heights.begin();
    heights.erase(heights.begin(), heights.begin() + n);
    levels.erase(levels.begin(), levels.begin() + n);
  }
  Peaks out;
  if (heights.size() < 3) return out;
  if (limit_ && grows_with(levels, heights))
    for (std::size_t k = 0; k < heights.size(); ++k) heights[k] *= limit_->as_double() / levels[k];
  std::tie(out.mean, out.sd) = moments(heights);
  out.most = *std::max_element(heights.begin(), heights.end());
  out.period = (trend.end() - since) / static_cast<double>(heights.size());
  return out;
}

Peaks LeakFinder::peaks_above(const Trend& trend, const Window& window, double since) const {
  std::vector<double> heights, times;
  for (const Excursion& e : window.shape.excursions) {
    if (e.from < since) continue;
    // Above the trend, not above the opened floor: they differ by the trend's own rise.
    heights.push_back(e.top - trend.value(e.peak_time));
    times.push_back(e.peak_time);
  }
  if (heights.size() < 2) return noise_above(trend, window, since, true);
  // Peaks little above the rest are just the maximum of the noise, with no wait for the next one.
  if (moments(heights).first < kPeakNoise * noise_above(trend, window, since, false).most)
    return noise_above(trend, window, since, true);
  return recurring(heights, times);
}

// ---- in all windows

// A rise visible only in the newest part must exceed what is known from before it.
LeakFinder::Known LeakFinder::known_before(const std::vector<Window>& windows, std::size_t k) const {
  if (k == 0) return {};
  Known out{1.05 * highest_of(history_.all(), life_began_, windows[k].buckets.front().time)};
  for (std::size_t j = 0; j < k; ++j)
    for (const Excursion& e : windows[j].shape.excursions) out.peak = std::max(out.peak, e.height);
  return out;
}

// The newest part may rise faster than the whole, and out of its peaks.
bool LeakFinder::is_faster(const Leak& newest, const Leak& all, double now) const {
  return limit_ && newest.trend.slope(now) >= 2 * all.trend.slope(now) &&
         newest.floor >= all.trend.value(now) + all.peaks.mean + 3 * all.peaks.sd;
}

// Two minutes of spikes before a straight rise bent the curve through both: the deadline was a third too
// early, between -50 % and +120 %.
bool LeakFinder::is_straighter(const Leak& newest, const Leak& all) const {
  return newest.rise >= kMostOfRise * all.rise &&
         newest.trend.residual_sd() * kStraighter <= all.trend.residual_sd();
}

std::optional<Leak> LeakFinder::find(const std::vector<Window>& windows, double until) const {
  std::optional<Leak> leak;
  std::size_t at = 0;  // its window
  for (std::size_t k = 0; k < windows.size(); ++k) {
    auto found = Search(*this, windows[k], k == 0, known_before(windows, k), until).find();
    if (k == 0) {
      auto of_peaks = find_of_peaks(windows[k]);
      if (of_peaks && (!found || certainty_of(*of_peaks, until) > kTopsBetter * certainty_of(*found, until)))
        found = of_peaks;
    }
    if (!found) continue;
    if (leak && !is_faster(*found, *leak, until) && !is_straighter(*found, *leak)) continue;
    leak = std::move(found);
    at = k;
  }
  // Peaks in every bucket of a coarse window look like noise.
  for (std::size_t k = at + 1; leak && !leak->peaks.recurring && k < windows.size(); ++k) {
    Peaks finer = peaks_above(leak->trend, windows[k], leak->trend.begin());
    if (!finer.periodic() || finer.mean < kSamePeaks * leak->peaks.mean) continue;
    leak->peaks = finer;
    leak->noise = noise_above(leak->trend, windows[k], leak->trend.begin(), false);
  }
  return leak;
}

std::optional<Leak> LeakFinder::find_arrived() const {
  if (!limit_) return std::nullopt;
  double now = history_.newest_time(), since = now, highest = history_.newest_value();
  for (std::size_t k = 0; k < history_.levels(); ++k) {
    auto buckets = history_.level(k);
    auto below = std::find_if(buckets.rbegin(), buckets.rend(),
                              [&](const Bucket& b) { return b.low < kAtLimit * limit_->as_double(); });
    for (auto at = buckets.rbegin(); at != below; ++at) {
      since = std::min<double>(since, at->time);
      highest = std::max<double>(highest, at->high);
    }
    if (below != buckets.rend()) break;
  }
  if (since >= now || now - since > std::max(kStands, now / 2)) return std::nullopt;
  auto leak = find(windows_until(history_, life_began_, since), since);
  if (!leak || limit_->as_double() - highest > kLastOfRise * leak->rise ||
      now - since > std::max(kStands, leak->trend.end() - leak->trend.begin()))
    return std::nullopt;
  leak->arrived = since;
  return leak;
}

}  // namespace oomcast
