#include "forecast/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "leak/levels.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kLeastSamples = 5;
constexpr double kLeastSpan = 2;        // s
constexpr double kAnalyseEvery = 0.01;  // of the age
constexpr double kLimitMoved = 0.005;   // of the limit
// What makes a rise a leak.
constexpr double kRiseNoise = 5;        // times the residuals' standard deviation, …
constexpr double kRiseCertain = 6;      // … or its own standard error, and
constexpr double kRiseLevel = 0.006;    // of the level, and
constexpr double kRiseReversed = 1.3;   // times the greatest rise that was taken back
constexpr double kRestartLeaves = 0.3;  // of the level
constexpr double kKink = 4;             // times the squares that straight pieces leave
// What makes peaks that climb a leak.
constexpr std::size_t kLeastTops = 6;
constexpr double kTopsNoise = 8;        // times what they are off their line, …
constexpr double kTopsCertain = 4;      // … times the slope's own standard error, and
constexpr double kTopsSmall = 0.25;     // of the typical height
constexpr double kTopsBetter = 2;       // times as certain as what the floor shows
constexpr double kTopsFloor = 0.3;      // of it the floor must have done, too
constexpr double kSameRss = 0.1;        // of it
constexpr double kStartUp = 2;          // times the spikes
constexpr double kLoading = 0.03;       // of the history: before it is under way
constexpr double kSpikeWander = 4.8;    // times the floor's own spread
constexpr double kPeakNoise = 1.5;      // times the highest of what is none
constexpr double kFineHeadroom = 0.10;  // of what was left, for what only the newest part shows
// Split conformal calibration (Lei et al. 2018, J. Am. Stat. Assoc. 113:1094): what the mixture's 90 %
// interval must be multiplied by to hold the truth in 91 % of the judgements on series with known ends.
constexpr double kConformalLow = 0.8;
constexpr double kConformalHigh = 0.86;
// What makes an alert.
constexpr double kAlertReversed = 2.3;
constexpr std::size_t kAlertDots = 12;
constexpr double kAlertAtOnce = 60;  // s: too late to wait for so many, of what has just begun
constexpr double kAlertYoung = 600;  // s
// A wander of hours looks like a leak until it turns: what is young must stand further out of its noise.
constexpr double kAlertOld = 8 * 3600;  // s
constexpr double kAlertNoise = 22, kAlertNoiseOld = 8;
constexpr double kAlertCertain = 3.5, kAlertCertainOld = 8;
// A smooth curve's slope is never certain, however plain its rise.
constexpr double kAlertNoiseCurved = 50, kAlertCertainCurved = 2.5;
constexpr double kAlertLevelsOff = 0.1;   // probability
constexpr double kAlertBelow = 0.1;       // of the rise: a level that far under the trend has left it
constexpr double kAlertAge = 2;           // times as long as the growth lasts already
constexpr double kAlertMost = 3 * 86400;  // s
constexpr double kAlertClear = 1.5;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double highest_of(std::span<const Bucket> buckets, double from, double before) {
  double most = 0;
  for (const Bucket& b : buckets)
    if (b.time >= from && b.time < before) most = std::max<double>(most, b.high);
  return most;
}

Bytes bytes(double v) {
  return {static_cast<std::int64_t>(std::llround(v))};
}

std::pair<double, double> moments(const std::vector<double>& v) {  // mean and standard deviation
  double mean = 0, var = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) var += (x - mean) * (x - mean) / std::max<double>(1, static_cast<double>(v.size()) - 1);
  return {mean, std::sqrt(var)};
}

// Standard deviation around one straight line.
double wander_of(std::span<const Dot> dots) {
  if (dots.size() < 3) return 0;
  return std::sqrt(fit_line(dots, 0, dots.size()).error / static_cast<double>(dots.size()));
}

// Where the present life of the series began: after a fall to a small part of what it was, as when the job is
// started anew. Falls that come again and again are its way of life.
struct Restarts {
  float since = 0;  // s; 0: there was none
  int count = 0;
  double highest = 0;  // before the last, bytes
};
Restarts find_restarts(std::span<const Bucket> buckets) {
  Restarts out;
  double highest = 0;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    highest = std::max<double>(highest, buckets[i].high);
    std::size_t next = std::min(i + 2, buckets.size() - 1);
    double low = std::min(buckets[i + 1].low, buckets[next].low);
    if (low > kRestartLeaves * buckets[i].high || low > kRestartLeaves * highest) continue;
    out.since = buckets[i + 1].low <= buckets[next].low ? buckets[i + 1].time : buckets[next].time;
    out.highest = std::max(out.highest, highest);
    ++out.count;
    highest = 0;
    ++i;
  }
  return out;
}

// Whether what rose before stands still in the newest segment.
bool stalled(std::span<const Dot> dots, std::size_t first, const Segment& last, double noise) {
  if (last.begin < first + 4 || last.size() < 4) return false;
  Segment before = fit_line(dots, first, last.begin);
  double sd = std::sqrt(before.error / static_cast<double>(before.size() - 1));
  double expected = before.at_end + before.slope * (dots[last.end - 1].time - dots[before.end - 1].time);
  return last.slope < 0.4 * before.slope && expected - last.at_end > 4 * std::max(sd, noise);
}

// Whether the segments from `first` on are a kink rather than a curve: two of them, and no curve explains
// them nearly as well. A curve is cut into more.
bool bends(const std::vector<Segment>& segments, std::size_t first, std::span<const Dot> dots) {
  if (segments.size() - first != 2) return false;
  auto trend = Trend::fit(dots.subspan(segments[first].begin));
  double error = 0;
  for (std::size_t k = first; k < segments.size(); ++k) error += segments[k].error;
  return trend && segments.back().size() >= 6 && trend->error() > kKink * error;
}

// Whether the rise is a few jumps between flat stretches.
bool by_jumps(const std::vector<Segment>& segments, std::size_t first, double noise, double rise) {
  double within = 0;
  int jumps = 0;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    if (segments[k].begin < first) continue;
    // A jump may take a few buckets: then it is a short segment of its own.
    bool short_one = segments[k].size() <= 4 && segments[k].rise() > 0.15 * rise;
    if (!short_one) within += std::max(0.0, segments[k].rise());
    bool jumped = k > 0 && segments[k - 1].begin >= first &&
                  segments[k].at_begin - segments[k - 1].at_end > std::max(4 * noise, 0.02 * rise);
    jumps += short_one || jumped;
  }
  return within < 0.5 * rise && jumps < 4;
}

// Whether dots [first, middle) swing around the line through all from `first` on as far as those from
// `middle` on: at least one and a half times to and fro, or the newest swing begins with a fall, as a
// collector's does.
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

// A rise over what noise and earlier reversed rises give.
double strength(double rise, const Shape& shape, const Trend& trend) {
  return std::min(share(rise, shape.reversed_rise + 1), share(rise, 2 * trend.residual_sd() + 1));
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
  // Where one was not seen, the gap is that of two.
  for (double& gap : gaps) gap /= std::max(1.0, std::round(share(gap, out.period)));
  auto [mean, sd] = moments(gaps);
  out.jitter = gaps.size() > 1 ? share(sd, mean) : 0.3;
  out.last = times.back();
  return out;
}

}  // namespace

void Forecaster::add(const Reading& reading) {
  history_.add(reading.time, reading.value);
  if (reading.total) total_.add(reading.time, *reading.total);
  limit_ = reading.limit;
  double now = history_.newest_time();
  double off = std::abs(history_.newest_value() - expected_ - slope_ * (now - analysed_at_));
  bool due = now - analysed_at_ >= std::max(kAnalyseEvery * now, 0.05);
  bool surprise = off > band_ && now - analysed_at_ >= 0.0005 * now;
  if (history_.samples() <= 12 || due || surprise || limit_moved()) analyse();
}

// A limit that moves with what others hold moves a little all the time.
bool Forecaster::limit_moved() const {
  if (limit_.has_value() != limit_then_.has_value()) return true;
  return limit_ && std::abs((*limit_ - *limit_then_).as_double()) > kLimitMoved * limit_then_->as_double();
}

const Forecast& Forecaster::forecast() {
  double now = history_.empty() ? 0 : history_.newest_time();
  latest_.limit = limit_;
  auto left = [&](std::optional<double> at) -> std::optional<Seconds> {
    if (!at) return std::nullopt;
    return Seconds(std::max(0.0, *at - now));
  };
  latest_.eta = left(meets_);
  latest_.eta_low = left(meets_low_);
  latest_.eta_high = left(meets_high_);
  latest_.alert = alert_;
  return latest_;
}

// The largest part of the window up to now that one trend explains, if that trend is a leak.
std::optional<Forecaster::Leak> Forecaster::find_leak(const Window& window, bool whole,
                                                      double explained) const {
  const std::optional<Shape> level = without_shifts(window.shape);
  const Shape& shape = level ? *level : window.shape;
  const auto& segments = shape.segments;
  const auto& dots = shape.floor;
  if (segments.empty() || dots.size() < 4) return std::nullopt;
  double now = history_.newest_time();

  auto judge = [&](std::size_t first) -> std::optional<Leak> {
    std::span<const Dot> part(dots.data() + first, dots.size() - first);
    if (part.size() < (whole ? 4u : 8u)) return std::nullopt;
    auto trend = Trend::fit(part);
    if (!trend) return std::nullopt;
    Leak leak{*trend, {}};
    double from = trend->value(trend->begin()), to = trend->value(now);
    leak.rise = to - from;
    leak.floor = to;
    double certain = share(trend->slope(now), trend->slope_sd());
    if (leak.rise <= 0) return std::nullopt;
    bool clear = leak.rise >= kRiseNoise * trend->residual_sd() ||
                 (certain >= kRiseCertain && leak.rise >= 2.5 * trend->residual_sd());
    if (!clear || certain < 2 || leak.rise < std::max(kRiseLevel * to, least_change())) return std::nullopt;
    if (leak.rise < 4 * shape.noise) return std::nullopt;
    if (trend->levels_off() > 0.5) return std::nullopt;
    if (leak.rise < kRiseReversed * shape.reversed_rise) return std::nullopt;
    // Under a peak of earlier it may be the same thing once more.
    double before = highest_of(history_.all(), life_began_, trend->begin());
    double seen = 0;
    for (std::size_t i = 0; i < first; ++i) seen = std::max(seen, dots[i].value);
    leak.new_ground = to > before;
    if (to < seen + 0.2 * leak.rise) return std::nullopt;
    if (!whole) {
      double room = limit_ ? limit_->as_double() - from : 0;
      if (!limit_ || leak.rise < kFineHeadroom * room || to < explained) return std::nullopt;
    }
    if (stalled(dots, first, segments.back(), shape.noise)) return std::nullopt;
    if (by_jumps(segments, first, shape.noise, leak.rise)) return std::nullopt;
    leak.strength = strength(leak.rise, shape, *trend);
    double level_since = std::max(trend->begin(), shape.level_since);
    leak.peaks = peaks_above(*trend, window, level_since);
    if (leak.peaks.recurring) leak.noise = noise_above(*trend, window, level_since, false);
    return leak;
  };

  // Where the newest behaviour began: further back as long as it is one rise without a jump.
  std::size_t at = segments.size() - 1;
  auto extends = [&](std::size_t k) {
    const Segment &older = segments[k - 1], &newer = segments[k];
    double jump = std::abs(newer.at_begin - older.at_end -
                           older.slope * (dots[newer.begin].time - dots[older.end - 1].time));
    return older.slope > 0.2 * newer.slope && older.slope < 5 * newer.slope && older.slope > 0 &&
           jump < std::max(4 * shape.noise, 0.15 * std::abs(newer.rise() + older.rise()));
  };
  std::size_t joined = at;
  while (joined > 0 && extends(joined)) --joined;
  std::array<std::size_t, 24> tried{};
  std::size_t tries = 0;
  if (joined != at && !bends(segments, joined, dots)) tried[tries++] = joined;
  if (tries == 0) joined = at;
  for (std::size_t k = at + 1; k-- > 0 && tries < tried.size();)
    if (k != joined || joined == at) tried[tries++] = k;
  std::optional<Leak> chosen;
  std::size_t chosen_first = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    std::size_t first = segments[tried[i]].begin;
    if (chosen && first >= chosen_first) continue;
    auto leak = judge(first);
    if (!leak) continue;
    // A part that rises faster is only believed if the whole did not swing like that before.
    if (chosen && !swings(dots, first, chosen_first)) continue;
    chosen = std::move(leak);
    chosen_first = first;
  }
  return chosen;
}

// A floor that goes up by steps, as an allocator's heap does, under peaks that climb along one line: nobody
// can tell the next step, but the line goes on. The trend is the peaks', as far below them as the floor is on
// average.
std::optional<Forecaster::Leak> Forecaster::find_leak_of_peaks(const Window& window) const {
  const auto& floor = window.shape.floor;
  std::vector<Excursion> peaks = window.shape.excursions;
  if (peaks.empty() || floor.size() < 4) return std::nullopt;
  // Something small between them is none of them.
  std::vector<double> all;
  for (const Excursion& e : peaks) all.push_back(e.height);
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  std::erase_if(peaks, [&](const Excursion& e) { return e.height < kTopsSmall * *middle; });
  if (peaks.size() < kLeastTops) return std::nullopt;
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
  Leak leak{*trend, {}};
  leak.of_peaks = true;
  leak.floor = floor.back().value;
  leak.rise = trend->value(now) - trend->value(trend->begin());
  double risen = trend->value(trend->end()) - trend->value(trend->begin());
  if (risen < kTopsNoise * trend->residual_sd() || share(trend->slope(now), trend->slope_sd()) < kTopsCertain)
    return std::nullopt;
  if (below.rise() < kTopsFloor * risen || trend->levels_off() > 0.5) return std::nullopt;
  if (risen < std::max({kRiseLevel * trend->value(now), least_change(), 4 * window.shape.noise}))
    return std::nullopt;
  if (risen < kRiseReversed * window.shape.reversed_rise) return std::nullopt;
  leak.strength = strength(risen, window.shape, *trend);
  leak.new_ground = dots.back().value + height >= highest_of(history_.all(), life_began_, dots.back().time);
  std::vector<double> heights, times;
  for (const Dot& d : dots) {
    heights.push_back(d.value + height - trend->value(d.time));
    times.push_back(d.time);
  }
  leak.peaks = leak.noise = recurring(heights, times);
  return leak;
}

Peaks Forecaster::noise_above(const Trend& trend, const Window& window, double since,
                              bool with_excursions) const {
  std::vector<double> heights;
  for (const Bucket& b : window.buckets) {
    if (b.time < since || &b == &window.buckets.back()) continue;
    bool inside = !with_excursions &&
                  std::any_of(window.shape.excursions.begin(), window.shape.excursions.end(),
                              [&](const Excursion& e) { return b.time >= e.from && b.time <= e.to; });
    if (!inside) heights.push_back(b.high - trend.value(b.peak_time));
  }
  Peaks out;
  if (heights.size() < 3) return out;
  std::tie(out.mean, out.sd) = moments(heights);
  out.most = *std::max_element(heights.begin(), heights.end());
  out.period = (trend.end() - since) / static_cast<double>(heights.size());
  return out;
}

Peaks Forecaster::peaks_above(const Trend& trend, const Window& window, double since) const {
  std::vector<double> heights, times;
  for (const Excursion& e : window.shape.excursions) {
    if (e.from < since) continue;
    // Above the trend, not above the opened floor: they differ by the trend's own rise.
    heights.push_back(e.top - trend.value(e.peak_time));
    times.push_back(e.peak_time);
  }
  if (heights.size() < 2) return noise_above(trend, window, since, true);
  // What stands little above the rest is the highest of the noise, and need not be waited for.
  if (moments(heights).first < kPeakNoise * noise_above(trend, window, since, false).most)
    return noise_above(trend, window, since, true);
  return recurring(heights, times);
}

void Forecaster::tell_leak(const Leak& leak) {
  double now = history_.newest_time();
  const Trend& t = leak.trend;
  double slope = t.slope(now), sd = t.slope_sd();
  latest_.verdict = Verdict::leak;
  latest_.growth =
      Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(t.end() - t.begin()), t.dots()};
  latest_.evidence.floor = bytes(leak.floor);
  latest_.evidence.regime = Seconds(t.end() - t.begin());
  if (leak.peaks.recurring) {
    latest_.evidence.peak_above = bytes(leak.peaks.mean);
    latest_.evidence.period = Seconds(leak.peaks.period);
  }
  std::string rate = format_rate({slope}), since = format_duration(Seconds(t.end() - t.begin()));
  std::string period = format_duration(Seconds(leak.peaks.period));
  std::string height = format_size(bytes(leak.peaks.mean));
  if (leak.of_peaks)
    latest_.why =
        fmt::format("its peaks rise {} for {} now, every {} one of {} above a floor that goes up by steps",
                    rate, since, period, height);
  else if (leak.peaks.recurring)
    latest_.why = fmt::format("its floor rises {} for {} now, with peaks of {} every {} above it", rate,
                              since, height, period);
  else
    latest_.why = fmt::format("its floor rises {} for {} now", rate, since);
  if (!limit_) return;
  auto c = t.crossing(limit_->as_double(), leak.peaks, now);
  if (leak.peaks.recurring) {
    // No later than without a peak.
    auto floor = t.crossing(limit_->as_double(), leak.noise, now);
    c = {std::min(c.low, floor.low), std::min(c.median, floor.median), std::min(c.high, floor.high),
         std::min(c.never, floor.never)};
  }
  if (!std::isfinite(c.median)) return;
  meets_ = c.median;
  meets_low_ = c.median - kConformalLow * std::max(0.0, c.median - c.low);
  if (std::isfinite(c.high)) meets_high_ = c.median + kConformalHigh * std::max(0.0, c.high - c.median);
}

// Of a process, what is little beside its RSS is no news however fast it grows.
double Forecaster::least_change() const {
  return surplus_ == Surplus::shared && !total_.empty() ? 0.03 * total_.newest_value() : 0;
}

bool Forecaster::tell_surplus() {
  if (total_.empty()) return false;
  auto total = total_.all();
  auto value = history_.all();
  if (value.size() < 4 || total.size() < 4) return false;
  double v0 = value.front().mean, v1 = value.back().mean;
  double t0 = total.front().mean, t1 = total.back().mean;
  if (surplus_ == Surplus::shared) {
    // Since the RSS last changed: a fork adds all of the child's at once.
    std::size_t from = total.size() - 1;
    while (from > 0 && std::abs(total[from - 1].mean - t1) < kSameRss * t1) --from;
    if (total.size() - from < 4) return false;
    for (const Bucket& b : value)
      if (b.time <= total[from].time) v0 = b.mean;
    t0 = total[from].mean;
    double rise = v1 - v0, noise = describe(value).noise;
    if (rise < std::max({5 * noise, least_change(), 1048576.0})) return false;
    if (std::abs(t1 - t0) > 0.4 * rise) return false;
    latest_.verdict = Verdict::cow;
    latest_.evidence.shared = bytes(std::max(0.0, t1 - v1));
    latest_.why = fmt::format(
        "{} became private while the RSS stayed at {}: pages shared since the fork are written to; at most "
        "{} more",
        format_size(bytes(rise)), format_size(bytes(t1)), format_size(*latest_.evidence.shared));
    return true;
  }
  double most = 0;
  for (const Bucket& b : total) most = std::max<double>(most, b.mean);
  double surplus_rise = (t1 - v1) - (t0 - v0), value_rise = v1 - v0;
  if (surplus_rise < 0.05 * most || value_rise > 0.35 * surplus_rise) return false;
  latest_.verdict = Verdict::cache;
  latest_.why = fmt::format("{} of what grew can be dropped (page cache); what cannot stands at {}",
                            format_size(bytes(surplus_rise)), format_size(bytes(v1)));
  return true;
}

void Forecaster::tell_rest(const std::vector<Window>& windows) {
  const Window& whole = windows.front();
  const Shape& shape = whole.shape;
  double now = history_.newest_time();
  latest_.verdict = Verdict::stable;
  if (shape.floor.empty()) return;
  double least = shape.floor.front().value, most = least;
  for (const Dot& d : shape.floor) least = std::min(least, d.value), most = std::max(most, d.value);
  latest_.evidence.floor = bytes(shape.floor.back().value);
  // The newer half says how it stands now, start-ups and earlier levels left behind.
  std::size_t middle = shape.floor.size() / 2, n = shape.floor.size() - middle;
  if (n >= kLeastSamples) {
    Segment line = fit_line(shape.floor, middle, shape.floor.size());
    double from = shape.floor[middle].time, length = shape.floor.back().time - from;
    // Of n dots at even distances, the sum of squared distances from their middle is about n length² / 12.
    double sd = std::sqrt(line.error / static_cast<double>(n - 2) * 12 / static_cast<double>(n)) /
                std::max(length, 1e-9);
    latest_.growth =
        Growth{{line.slope}, {line.slope - 1.645 * sd}, {line.slope + 1.645 * sd}, Seconds(length), n};
  }
  double level = std::max(most, 1.0);

  // Start-up: below the later level at first.
  std::size_t half = shape.floor.size() / 2;
  double later = 0, begin = shape.floor.front().value;
  for (std::size_t i = half; i < shape.floor.size(); ++i)
    later += shape.floor[i].value / static_cast<double>(shape.floor.size() - half);

  // Spikes: in the window that shows most of them.
  const Window* spiky = nullptr;
  for (const Window& w : windows)
    if (w.shape.excursions.size() >= 2 &&
        (!spiky || w.shape.excursions.size() > spiky->shape.excursions.size()))
      spiky = &w;
  if (spiky) {
    const auto& e = spiky->shape.excursions;
    double mean = 0;
    for (const Excursion& x : e) mean += x.height / static_cast<double>(e.size());
    double period = (e.back().peak_time - e.front().peak_time) / static_cast<double>(e.size() - 1);
    bool dwarfed = later - begin > kStartUp * mean;  // by the start-up
    if (!dwarfed && mean > std::max(0.05 * level, least_change()) &&
        mean > kSpikeWander * wander_of(spiky->shape.floor)) {
      latest_.verdict = Verdict::spikes;
      latest_.evidence.peak_above = bytes(mean);
      latest_.evidence.period = Seconds(period);
      latest_.evidence.peaks = e.size();
      latest_.why = fmt::format("{} peaks of {} every {} came back, the floor between them does not rise",
                                e.size(), format_size(bytes(mean)), format_duration(Seconds(period)));
      return;
    }
  }
  double least_shift = std::max({5 * shape.noise, 0.04 * level, least_change()});
  double first = shape.floor.front().time, span = std::max(1e-9, shape.floor.back().time - first);
  // What a program loads in its first moments is neither a ramp nor a shift.
  std::span<const Dot> loaded = shape.floor;
  while (loaded.size() > 12 && loaded.front().time < first + kLoading * span) loaded = loaded.subspan(1);
  Levels levels = find_levels(loaded, least_shift);
  double up = 0;
  for (const auto& s : levels.shifts) up += s.by;
  bool early = false;
  if (!levels.shifts.empty()) {
    double at = levels.shifts.front().time, before = loaded.front().value;
    for (const Dot& d : loaded)
      if (d.time < first + 0.7 * (at - first)) before = d.value;
    early = at - first < 0.1 * span || before - loaded.front().value > 0.2 * levels.shifts.front().by;
  }
  Segment line = fit_line(loaded, 0, loaded.size());
  bool slanted = line.error < 2 * levels.error;
  if (!levels.shifts.empty() && levels.explained > 0.85 && !early && !slanted) {
    latest_.verdict = Verdict::step;
    latest_.evidence.stepped = bytes(up);
    latest_.evidence.step_ago = Seconds(now - levels.shifts.back().time);
    latest_.why = fmt::format("the level shifted by {}, {} ago, and is flat since", format_size(bytes(up)),
                              format_duration(*latest_.evidence.step_ago));
    return;
  }
  if (later - begin > std::max({6 * shape.noise, 0.08 * level, least_change()})) {
    latest_.verdict = Verdict::ramp;
    latest_.why =
        fmt::format("it rose by {} at the start and levelled off", format_size(bytes(later - begin)));
    return;
  }
  latest_.why = fmt::format("no rise above noise in {}", format_duration(Seconds(now)));
}

void Forecaster::decide_alert(const Leak* leak) {
  if (!leak || !meets_) {
    alert_ = false;
    return;
  }
  double now = history_.newest_time();
  double age = leak->trend.end() - leak->trend.begin(), left = *meets_ - now;
  double horizon = std::min(kAlertAge * age, kAlertMost);
  const Trend& t = leak->trend;
  bool old = age >= kAlertOld;
  bool under_way = leak->of_peaks || t.value(now) - history_.newest_value() <=
                                         std::max(4 * t.residual_sd(), kAlertBelow * leak->rise);
  bool enough = t.dots() >= (left < kAlertAtOnce && age < kAlertYoung ? kLeastSamples : kAlertDots);
  double certain = share(t.slope(now), t.slope_sd());
  double risen = leak->rise / t.residual_sd();
  bool clear = (risen >= kAlertNoise && certain >= kAlertCertain) ||
               (risen >= kAlertNoiseCurved && certain >= kAlertCertainCurved);
  bool clear_by_now = old && risen >= kAlertNoiseOld && certain >= kAlertCertainOld;
  bool goes_on = old || t.levels_off() <= kAlertLevelsOff;
  bool strong = leak->strength >= kAlertReversed && leak->new_ground && under_way && enough && goes_on &&
                (clear || clear_by_now);
  alert_ = alert_ ? left < kAlertClear * horizon : strong && left < horizon;
}

void Forecaster::analyse() {
  double now = history_.newest_time();
  analysed_at_ = now;
  limit_then_ = limit_;
  latest_ = Forecast{};
  meets_ = meets_low_ = meets_high_ = std::nullopt;
  expected_ = history_.newest_value();
  slope_ = 0;
  band_ = 0;
  if (history_.samples() < kLeastSamples || now < kLeastSpan) {
    latest_.why =
        fmt::format("too early: {} samples in {}", history_.samples(), format_duration(Seconds(now)));
    return;
  }
  std::vector<Window> windows;
  for (std::size_t k = history_.levels(); k-- > 0;) {
    auto buckets = history_.level(k);
    // A finer level that begins at the same time says the same with more dots: it takes the place.
    if (!windows.empty() && windows.back().buckets.front().time >= buckets.front().time * 0.98 - 1)
      windows.pop_back();
    windows.push_back({buckets, {}});
  }
  Restarts restarts = find_restarts(history_.all());
  life_began_ = restarts.count > 0 && restarts.count <= 2 ? restarts.since : 0;
  for (Window& w : windows) {
    auto first = std::find_if(w.buckets.begin(), w.buckets.end(),
                              [&](const Bucket& b) { return b.time >= life_began_; });
    if (w.buckets.end() - first >= static_cast<std::ptrdiff_t>(kLeastSamples))
      w.buckets = {first, w.buckets.end()};
    w.shape = describe(w.buckets);
  }
  band_ = 6 * windows.front().shape.noise;

  std::optional<Leak> leak;
  for (std::size_t k = 0; k < windows.size(); ++k) {
    // What only the newest part shows must be more than the peaks that are known.
    double explained = 0;
    if (k > 0) {
      double from = windows[k].buckets.front().time;
      explained = 1.05 * highest_of(history_.all(), life_began_, from);
      if (leak)
        explained = std::max(explained, leak->trend.value(now) + leak->peaks.mean + 3 * leak->peaks.sd);
      for (std::size_t j = 0; j < k; ++j)
        for (const Excursion& e : windows[j].shape.excursions)
          if (!windows[j].shape.floor.empty())
            explained = std::max(explained, windows[j].shape.floor.back().value + 1.3 * e.height);
    }
    auto found = find_leak(windows[k], k == 0, explained);
    if (k == 0) {
      auto certain = [&](const Leak& l) { return share(l.trend.slope(now), l.trend.slope_sd()); };
      auto of_peaks = find_leak_of_peaks(windows[k]);
      if (of_peaks && (!found || certain(*of_peaks) > kTopsBetter * certain(*found))) found = of_peaks;
    }
    if (!found) continue;
    // The newest part may rise faster than all of it did.
    if (leak && (!limit_ || found->trend.slope(now) < 2 * leak->trend.slope(now))) continue;
    leak = std::move(found);
  }
  if (tell_surplus()) {
    leak.reset();
  } else if (leak) {
    tell_leak(*leak);
    slope_ = leak->trend.slope(now);
    expected_ = leak->trend.value(now);
    band_ = std::max(6 * leak->trend.residual_sd(), 2 * leak->peaks.mean);
  } else {
    tell_rest(windows);
  }
  decide_alert(leak ? &*leak : nullptr);
}

}  // namespace oomcast
