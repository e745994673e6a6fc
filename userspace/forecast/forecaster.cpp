#include "forecast/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "leak/levels.h"
#include "model/thrashing.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kLeastSamples = 5;
constexpr double kLeastSpan = 2;                                 // s
constexpr double kAtOnce = 1e-6;                                 // s
constexpr double kAnalyseEvery = 0.01, kSurpriseEvery = 0.0005;  // of the age
// s: what fills the memory of a machine moves with every tick, and each is a surprise.
constexpr double kLeastApart = 0.1;
constexpr std::uint64_t kFirst = 12;   // samples, each looked at
constexpr double kLimitMoved = 0.005;  // of the limit
// What makes a rise a leak.
constexpr double kRiseNoise = 5;        // times the residuals' standard deviation, …
constexpr double kRiseCertain = 6;      // … or its own standard error, and
constexpr double kRiseLevel = 0.012;    // of the level, and
constexpr double kRiseTooth = 0.25;     // of a collector's tooth, and
constexpr double kRiseReversed = 1.3;   // times the greatest rise that was taken back
constexpr double kRestartLeaves = 0.3;  // of the level
// … or of the way to the limit that a life went, steadily: it fell back by and to so much of that.
constexpr double kRestartGrew = 0.25, kRestartFrom = 0.7, kRestartFalls = 0.7, kRestartBack = 0.2;
constexpr std::size_t kLeastLife = 8;  // buckets
constexpr double kSteady = 0.2;
constexpr double kKink = 4;  // times the squares that straight pieces leave
// What makes peaks that climb a leak.
constexpr std::size_t kLeastTops = 6;
constexpr double kTopsNoise = 8;      // times what they are off their line, …
constexpr double kTopsCertain = 4;    // … times the slope's own standard error, and
constexpr double kTopsSmall = 0.25;   // of the typical height
constexpr double kTopsBetter = 2;     // times as certain as what the floor shows
constexpr double kTopsFloor = 0.3;    // of it the floor must have done, too
constexpr double kSameRss = 0.1;      // of it
constexpr double kStartUp = 2;        // times the spikes
constexpr double kStillRises = 0.5;   // of a start-up's rise, in its newer half, of so few
constexpr std::uint64_t kYoung = 24;  // samples, …
constexpr double kYoungFor = 60;      // … or s
constexpr double kStalls = 0.4;       // of its pace before
constexpr double kRests = 0.15;       // of its pace before, certainly, …
constexpr double kRestsFor = 0.05;    // … for so much of the rise
constexpr double kRestsAlike = 0.5, kRestsLonger = 1.5;
constexpr double kAsWell = 1.1;                       // times the residuals' standard deviation
constexpr std::size_t kFewDots = 4, kFewDotsOf = 32;  // too few of so many to tell that it stands still
constexpr double kSteep = 1.5;                        // times the pace of the whole rise
constexpr double kLevelsBelow = 0.5;                  // probability: it levels off below its limit
constexpr double kOneCurve = 2;                       // times the squares that straight pieces leave
constexpr double kLoading = 0.03;                     // of the history: before it is under way
constexpr double kSpikeWander = 4.8;                  // times the floor's own spread
constexpr double kWaveWander = 12, kWaveAlike = 0.45, kWaveShare = 0.6, kWaveJitter = 0.4, kWaveLow = 0.25;
constexpr double kWaveMost = 0.8, kWaveSame = 0.3;
constexpr double kSamePeaks = 0.8;      // of the mean height of what looks like noise
constexpr double kNoiseGrows = 4;       // log-likelihood ratio: it is the level's, not the machine's
constexpr double kPeakNoise = 1.5;      // times the highest of what is none
constexpr double kFineHeadroom = 0.10;  // of what was left, for what only the newest part shows
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
constexpr double kAlertSure = 3;          // times the time left: within that the limit is met
constexpr double kAlertBelow = 0.1;       // of the rise: a level that far under the trend has left it
constexpr double kAlertAge = 2;           // times as long as the growth lasts already
constexpr double kAlertMost = 3 * 86400;  // s
constexpr double kAlertRisen = 0.2;       // of its way to the limit, of what has just begun
// A level near its limit, which no trend need show: it is as high as never before, and has risen by more
// than is left, within a twentieth of its life, and by more than ever within as long. Full servers wander.
constexpr double kNear = 0.90, kTight = 0.85;  // of the limit: from there on, and as long as it is above
constexpr double kNearShare = 0.05, kNearLeast = 10, kNearMost = 1800;  // of the life; s
constexpr double kNearStays = 0.5, kNearMore = 3;
constexpr double kAlertClear = 1.5;
constexpr double kAtLimit = ThrashingFinder::kFull;
constexpr double kStands = 10;  // s at its limit, if not as long as it rose: by then it is known to thrash
constexpr double kAlertLast = 0.1;  // of its rise is left up to the limit: it got there, however unsteadily

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

// Where the present life of the series began: after a fall to a small part of what it was, or, of what had
// grown far towards its limit, to where it had begun, as when the job is started anew. Falls that come again
// and again are its way of life.
struct Restarts {
  float since = 0;  // s; 0: there was none
  int count = 0;
};

// Whether these went up all the time, and not at once.
bool grew_steadily(std::span<const Bucket> life, double base, double highest) {
  if (life.size() < kLeastLife) return false;
  double rise = highest - base, quarter = life[life.size() / 4].mean, middle = life[life.size() / 2].mean;
  double late = life[life.size() * 3 / 4].mean;
  return late - quarter > kSteady * rise && middle - base > kSteady * rise &&
         highest - middle > kSteady * rise;
}

Restarts find_restarts(std::span<const Bucket> buckets, std::optional<Bytes> limit) {
  Restarts out;
  double highest = 0, base = 0;
  std::size_t began = 0;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    base = i == began ? buckets[i].low : std::min<double>(base, buckets[i].low);
    highest = std::max<double>(highest, buckets[i].high);
    std::size_t next = std::min(i + 2, buckets.size() - 1);
    double low = std::min(buckets[i + 1].low, buckets[next].low);
    bool small = low <= kRestartLeaves * buckets[i].high && low <= kRestartLeaves * highest;
    bool back = limit && highest - base > kRestartGrew * (limit->as_double() - base) &&
                base < kRestartFrom * highest && low - base < kRestartBack * (highest - base) &&
                buckets[i].high - low > kRestartFalls * (highest - base) &&
                grew_steadily(buckets.subspan(began, i - began + 1), base, highest);
    if (!small && !back) continue;
    began = buckets[i + 1].low <= buckets[next].low ? i + 1 : next;
    // A bucket in which it fell tells of both lives.
    if (began + 1 < buckets.size() && buckets[began].high > (highest + low) / 2) ++began;
    out.since = buckets[began].time;
    ++out.count;
    highest = 0;
    i = began - 1;
  }
  return out;
}

// Whether something was taken back at once, as a collector does.
bool fell(std::span<const Dot> dots, std::size_t first, double noise) {
  for (std::size_t i = std::max<std::size_t>(first, 1); i < dots.size(); ++i)
    if (dots[i].value < dots[i - 1].value - 4 * noise) return true;
  return false;
}

// Whether what rose before stands still in the newest segment.
bool stalled(std::span<const Dot> dots, std::size_t first, const Segment& last, double noise) {
  if (last.begin < first + 4) return false;
  // A few dots behind a fall do not tell whether it rises on.
  if (last.size() <= kFewDots && dots.size() <= kFewDotsOf && fell(dots, last.begin, noise)) return false;
  Segment before = fit_line(dots, first, last.begin);
  double sd = std::sqrt(before.error / static_cast<double>(before.size() - 1));
  double expected = before.at_end + before.slope * (dots[last.end - 1].time - dots[before.end - 1].time);
  return last.slope < kStalls * before.slope && expected - last.at_end > 4 * std::max(sd, noise);
}

// Whether it stands still now, for longer than it ever did while it rose: what comes in steps is a staircase
// only when it has rested like that more than once.
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

// Whether heights are normal in proportion to the levels that they stand on, rather than all alike: by the
// ratio of the likelihoods.
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

// A rise over what noise and earlier reversed rises give.
double strength(double rise, const Shape& shape, const Trend& trend) {
  return std::min(share(rise, shape.reversed_rise + 1), share(rise, 2 * trend.residual_sd() + 1));
}

// The part of the time that excursions last.
double part_of_time(const std::vector<Excursion>& excursions) {
  double inside = 0;
  for (const Excursion& e : excursions) inside += e.to - e.from;
  return excursions.empty() ? 0 : share(inside, excursions.back().to - excursions.front().from);
}

// Whether they are a level that goes up and down rather than something that stands out of it: a collector's
// teeth, day and night, a load that wanders. Low, all the same, and nearly always there; or all alike,
// little beside what is left between them, and there most of the time, or low and at no time in particular.
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
  bool soon = now - analysed_at_ >= std::max(kSurpriseEvery * now, kLeastApart);
  bool due = now - looked_at_ >= std::max(kAnalyseEvery * now, kLeastApart);
  bool surprise = off > band_ && soon;
  if (history_.samples() <= kFirst || due || surprise || limit_moved()) {
    looked_at_ = now;
    analyse(true);
  } else if (soon && limit_ && history_.newest_value() > kTight * limit_->as_double()) {
    // Near its limit seconds count. Most that stand there do nothing else for days.
    bool changed = near_limit().has_value() != near_limit_;
    if (changed || latest_.verdict == Verdict::leak) analyse(false);
  }
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
    return Seconds(*at - now < kAtOnce ? 0 : *at - now);
  };
  latest_.eta = left(meets_);
  latest_.eta_low = left(meets_low_);
  latest_.eta_high = left(meets_high_);
  latest_.alert = alert_ || near_limit_;
  return latest_;
}

// The largest part of the window up to now that one trend explains, if that trend is a leak.
std::optional<Forecaster::Leak> Forecaster::find_leak(const Window& window, bool whole, double explained,
                                                      double now) const {
  const std::optional<Shape> level = without_shifts(window.shape);
  const Shape& shape = level ? *level : window.shape;
  const auto& segments = shape.segments;
  const auto& dots = shape.floor;
  if (segments.empty() || dots.size() < 4) return std::nullopt;

  // Where it levels off only matters if that is below the limit.
  auto levels_off_below = [&](const Trend& trend) {
    return trend.levels_off() > 0.5 && (!limit_ || trend.never(limit_->as_double()) > kLevelsBelow);
  };
  auto judge = [&](std::size_t first) -> std::optional<Leak> {
    std::span<const Dot> part(dots.data() + first, dots.size() - first);
    if (part.size() < (whole ? kLeastSamples : 8u)) return std::nullopt;
    auto trend = Trend::fit(part);
    if (!trend) return std::nullopt;
    Leak leak{*trend, {part.begin(), part.end()}, {}};
    double from = trend->value(trend->begin()), to = trend->value(now);
    leak.rise = to - from;
    leak.floor = to;
    double certain = share(trend->slope(now), trend->slope_sd());
    if (leak.rise <= 0) return std::nullopt;
    bool clear = leak.rise >= kRiseNoise * trend->residual_sd() ||
                 (certain >= kRiseCertain && leak.rise >= 2.5 * trend->residual_sd());
    if (!clear || certain < 2 || leak.rise < std::max(kRiseLevel * to, least_change())) return std::nullopt;
    if (leak.rise < 4 * shape.noise) return std::nullopt;
    if (levels_off_below(*trend)) return std::nullopt;
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
    bool slows = segments.back().slope < kStalls * trend->slope(now);
    if (slows && stalled(dots, first, segments.back(), shape.noise)) return std::nullopt;
    if (rests(segments, dots, first, shape.noise)) return std::nullopt;
    if (by_jumps(segments, dots, first, shape.noise, leak.rise)) return std::nullopt;
    leak.strength = strength(leak.rise, shape, *trend);
    double level_since = std::max(trend->begin(), shape.level_since);
    leak.peaks = peaks_above(*trend, window, level_since);
    if (leak.peaks.recurring) leak.noise = noise_above(*trend, window, level_since, false);
    // Of a floor that is seen between teeth alone, little is known.
    if (leak.peaks.recurring && part_of_time(window.shape.excursions) > kWaveShare &&
        leak.rise < kRiseTooth * leak.peaks.mean)
      return std::nullopt;
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
    // A part that rises faster is only believed if the whole did not swing like that before, and, under a
    // collector, if one trend does not explain the whole as well.
    bool as_well = chosen && leak->trend.residual_sd() <= kAsWell * chosen->trend.residual_sd() &&
                   fell(dots, chosen_first, shape.noise);
    if (chosen && !as_well && !swings(dots, first, chosen_first)) continue;
    chosen = std::move(leak);
    chosen_first = first;
  }
  if (!chosen) return chosen;
  // The end of one curve that levels off below the limit looks like a slow rise of its own.
  double pieces = 0;
  for (const Segment& s : segments)
    if (s.begin >= chosen_first) pieces += s.error;
  for (std::size_t k = segments.size(); k-- > 0;) {
    if (segments[k].begin >= chosen_first) continue;
    pieces += segments[k].error;
    auto all = Trend::fit(std::span(dots).subspan(segments[k].begin));
    if (all && levels_off_below(*all) && all->error() < kOneCurve * pieces) return std::nullopt;
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
  Leak leak{*trend, dots, {}};
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
  // At the window's ends one more of them is seen in part, and not as one.
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
  Outlook outlook = Outlook::of(leak.dots, t);
  auto c = outlook.crossing(limit_->as_double(), leak.peaks, now);
  if (leak.peaks.recurring) {
    // No later than without a peak.
    auto floor = outlook.crossing(limit_->as_double(), leak.noise, now);
    c = {std::min(c.low, floor.low), std::min(c.median, floor.median), std::min(c.high, floor.high),
         std::min(c.never, floor.never)};
  }
  if (!std::isfinite(c.median)) return;
  meets_ = c.median;
  meets_low_ = c.low;
  if (std::isfinite(c.high)) meets_high_ = c.high;
}

// Whether it is killed now or thrashes for long: nothing that was seen tells. It has stood there for so long.
void Forecaster::tell_arrived(const Leak& leak) {
  double now = history_.newest_time();
  const Trend& t = leak.trend;
  double slope = t.slope(t.end()), sd = t.slope_sd(), stood = now - *leak.arrived;
  latest_.verdict = Verdict::leak;
  latest_.growth =
      Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(t.end() - t.begin()), t.dots()};
  latest_.evidence.floor = bytes(history_.newest_value());
  latest_.evidence.regime = Seconds(now - t.begin());
  latest_.why =
      fmt::format("its floor rose {} for {} up to its limit, where it has stood for {}", format_rate({slope}),
                  format_duration(Seconds(t.end() - t.begin())), format_duration(Seconds(stood)));
  meets_ = meets_low_ = now;
  meets_high_ = now + stood;
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
  Segment newer = fit_line(shape.floor, middle, shape.floor.size());
  if (n >= kLeastSamples) {
    double from = shape.floor[middle].time, length = shape.floor.back().time - from;
    // Of n dots at even distances, the sum of squared distances from their middle is about n length² / 12.
    double sd = std::sqrt(newer.error / static_cast<double>(n - 2) * 12 / static_cast<double>(n)) /
                std::max(length, 1e-9);
    // Less than a byte in all that time is arithmetic.
    double slope = std::abs(newer.slope * length) < 1 ? 0 : newer.slope;
    latest_.growth = Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(length), n};
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
    double wander = wander_of(spiky->shape.floor);
    if (!dwarfed && mean > std::max(0.05 * level, least_change()) && mean > kSpikeWander * wander &&
        !waves(e, wander, level)) {
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
    double risen = shape.floor.back().value - begin;
    bool young = history_.samples() < kYoung || now < kYoungFor;
    if (young && newer.rise() > kStillRises * (later - begin) && risen > 0) {
      latest_.verdict = Verdict::unknown;
      latest_.why = fmt::format("too early to tell a start-up from a leak: {} in {}, and it still rises",
                                format_size(bytes(risen)), format_duration(Seconds(now)));
      return;
    }
    latest_.verdict = Verdict::ramp;
    latest_.why =
        fmt::format("it rose by {} at the start and levelled off", format_size(bytes(later - begin)));
    return;
  }
  latest_.why = fmt::format("no rise above noise in {}", format_duration(Seconds(now)));
}

// Who looks more often finds more that is none: only looks of their own pace may raise an alert of a trend.
void Forecaster::decide_alert(const Leak* leak, bool may_alert) {
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
  double missing = limit_->as_double() - history_.newest_value();
  bool at_once =
      left < kAlertAtOnce && age < kAlertYoung && leak->rise > kAlertRisen * (leak->rise + missing);
  bool enough = t.dots() >= (at_once ? kLeastSamples : kAlertDots);
  double certain = share(t.slope(now), t.slope_sd());
  double risen = leak->rise / t.residual_sd();
  bool clear = (risen >= kAlertNoise && certain >= kAlertCertain) ||
               (risen >= kAlertNoiseCurved && certain >= kAlertCertainCurved);
  bool clear_by_now = old && risen >= kAlertNoiseOld && certain >= kAlertCertainOld;
  bool goes_on = old || t.levels_off() <= kAlertLevelsOff;
  bool in_sight = meets_high_ && *meets_high_ - now < kAlertSure * left;
  bool strong = leak->strength >= kAlertReversed && leak->new_ground && under_way && enough && goes_on &&
                in_sight && (clear || clear_by_now);
  bool arrives = leak->new_ground && (leak->arrived || missing < kAlertLast * leak->rise);
  alert_ = arrives || (alert_ ? left < kAlertClear * horizon : may_alert && strong && left < horizon);
}

std::optional<NearLimit> Forecaster::near_limit() const {
  if (!limit_ || history_.samples() < kLeastSamples) return std::nullopt;
  double now = history_.newest_time(), value = history_.newest_value(), limit = limit_->as_double();
  if (value < (near_limit_ ? kTight : kNear) * limit) return std::nullopt;
  double within = std::clamp(kNearShare * (now - life_began_), kNearLeast, kNearMost), from = now - within;
  double lowest = value, highest = 0, before = 0;  // before: the greatest rise within as long
  std::size_t level = 0;
  while (level + 1 < history_.levels() && history_.level(level).front().time > from) ++level;
  for (const Bucket& b : history_.level(level))
    b.time < from ? highest = std::max<double>(highest, b.high) : lowest = std::min<double>(lowest, b.low);
  double moved = value - lowest, left = std::max(0.0, limit - value);
  if (moved < (near_limit_ ? kNearStays : 1) * left) return std::nullopt;
  auto all = history_.all();
  for (std::size_t i = 0, j = 0; !near_limit_ && i < all.size() && all[i].time < from; ++i) {
    highest = std::max<double>(highest, all[i].high);
    while (all[j].time < all[i].time - within) ++j;
    for (std::size_t k = j; k <= i; ++k) before = std::max<double>(before, all[i].high - all[k].low);
  }
  if (!near_limit_ && (value <= highest || moved < kNearMore * before)) return std::nullopt;
  return NearLimit{bytes(left), bytes(moved), Seconds(std::min(within, now))};
}

std::vector<Forecaster::Window> Forecaster::windows_until(double until) const {
  std::vector<Window> windows;
  for (std::size_t k = history_.levels(); k-- > 0;) {
    auto buckets = history_.level(k);
    while (!buckets.empty() && buckets.back().time > static_cast<float>(until))
      buckets = buckets.first(buckets.size() - 1);
    if (buckets.empty()) break;  // finer ones are newer still
    // A finer level that begins at the same time says the same with more dots: it takes the place.
    if (!windows.empty() && windows.back().buckets.front().time >= buckets.front().time * 0.98 - 1)
      windows.pop_back();
    windows.push_back({buckets, {}});
  }
  for (Window& w : windows) {
    auto first = std::find_if(w.buckets.begin(), w.buckets.end(),
                              [&](const Bucket& b) { return b.time >= life_began_; });
    if (w.buckets.end() - first >= static_cast<std::ptrdiff_t>(kLeastSamples))
      w.buckets = {first, w.buckets.end()};
    w.shape = describe(w.buckets);
  }
  return windows;
}

std::optional<Forecaster::Leak> Forecaster::find_leak(const std::vector<Window>& windows,
                                                      double until) const {
  std::optional<Leak> leak;
  std::size_t at = 0;  // its window
  for (std::size_t k = 0; k < windows.size(); ++k) {
    // What only the newest part shows must be more than the peaks that are known.
    double explained = 0;
    if (k > 0) {
      double from = windows[k].buckets.front().time;
      explained = 1.05 * highest_of(history_.all(), life_began_, from);
      if (leak)
        explained = std::max(explained, leak->trend.value(until) + leak->peaks.mean + 3 * leak->peaks.sd);
      for (std::size_t j = 0; j < k; ++j)
        for (const Excursion& e : windows[j].shape.excursions)
          if (!windows[j].shape.floor.empty())
            explained = std::max(explained, windows[j].shape.floor.back().value + 1.3 * e.height);
    }
    auto found = find_leak(windows[k], k == 0, explained, until);
    if (k == 0) {
      auto certain = [&](const Leak& l) { return share(l.trend.slope(until), l.trend.slope_sd()); };
      auto of_peaks = find_leak_of_peaks(windows[k]);
      if (of_peaks && (!found || certain(*of_peaks) > kTopsBetter * certain(*found))) found = of_peaks;
    }
    if (!found) continue;
    // The newest part may rise faster than all of it did.
    if (leak && (!limit_ || found->trend.slope(until) < 2 * leak->trend.slope(until))) continue;
    leak = std::move(found);
    at = k;
  }
  // Peaks that come in every bucket of a coarse window look like its noise.
  for (std::size_t k = at + 1; leak && !leak->peaks.recurring && k < windows.size(); ++k) {
    Peaks finer = peaks_above(leak->trend, windows[k], leak->trend.begin());
    if (!finer.periodic() || finer.mean < kSamePeaks * leak->peaks.mean) continue;
    leak->peaks = finer;
    leak->noise = noise_above(leak->trend, windows[k], leak->trend.begin(), false);
  }
  return leak;
}

// What stands still at its limit has arrived there: a leak may thrash for long before it is killed.
std::optional<Forecaster::Leak> Forecaster::find_arrived() const {
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
  auto leak = find_leak(windows_until(since), since);
  if (!leak || limit_->as_double() - highest > kAlertLast * leak->rise ||
      now - since > std::max(kStands, leak->trend.end() - leak->trend.begin()))
    return std::nullopt;
  leak->arrived = since;
  return leak;
}

void Forecaster::analyse(bool may_alert) {
  double now = history_.newest_time();
  analysed_at_ = now;
  limit_then_ = limit_;
  latest_ = Forecast{};
  meets_ = meets_low_ = meets_high_ = std::nullopt;
  expected_ = history_.newest_value();
  slope_ = 0;
  band_ = 0;
  if (history_.samples() < kLeastSamples || now < kLeastSpan) {
    latest_.why = history_.samples() <= 1 ? "too early: one sample"
                                          : fmt::format("too early: {} samples in {}", history_.samples(),
                                                        format_duration(Seconds(now)));
    return;
  }
  Restarts restarts = find_restarts(history_.all(), limit_);
  life_began_ = restarts.count > 0 && restarts.count <= 2 ? restarts.since : 0;
  std::vector<Window> windows = windows_until(now);
  band_ = 6 * windows.front().shape.noise;
  std::optional<Leak> leak = find_leak(windows, now);
  if (!leak) leak = find_arrived();
  if (tell_surplus()) {
    const auto& shared = latest_.evidence.shared;
    bool bounded = !shared || !limit_ || history_.newest_value() + shared->as_double() <= limit_->as_double();
    if (bounded || !leak) {
      leak.reset();
    } else {  // the limit comes before all is copied
      Forecast copies = latest_;
      leak->arrived ? tell_arrived(*leak) : tell_leak(*leak);
      latest_.verdict = copies.verdict;
      latest_.why = copies.why;
      latest_.evidence.shared = copies.evidence.shared;
    }
  } else if (leak && leak->arrived) {
    tell_arrived(*leak);
  } else if (leak) {
    tell_leak(*leak);
    slope_ = leak->trend.slope(now);
    expected_ = leak->trend.value(now);
    band_ = std::max(6 * leak->trend.residual_sd(), 2 * leak->peaks.mean);
  } else {
    tell_rest(windows);
  }
  decide_alert(leak ? &*leak : nullptr, may_alert);
  latest_.evidence.near_limit = near_limit();
  near_limit_ = latest_.evidence.near_limit.has_value();
  if (!near_limit_ || meets_) return;
  const NearLimit& near = *latest_.evidence.near_limit;
  latest_.why = fmt::format("it stands at {:.0f} % of its limit, and rose by {} in {}: only {} are left",
                            100 * share(history_.newest_value(), limit_->as_double()),
                            format_size(near.moved), format_duration(near.within), format_size(near.left));
}

}  // namespace oomcast
