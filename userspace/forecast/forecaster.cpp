#include "forecast/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forecast/leak_finder.h"
#include "forecast/near_limit.h"
#include "forecast/numbers.h"
#include "forecast/outlook.h"
#include "forecast/rest.h"
#include "forecast/restarts.h"
#include "forecast/window.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMinSamples = 5;
constexpr double kMinSpan = 2;                                   // s
constexpr double kAtOnce = 1e-6;                                 // s
constexpr double kAnalyseEvery = 0.01, kSurpriseEvery = 0.0005;  // of the age
constexpr double kSinceSurprise = 0.1;                           // of the time since the first of several
constexpr double kUntilDeadline = 0.05;                          // of what was left until then
// s: a series that fills the machine's memory moves with every tick, and each is a surprise.
constexpr double kMinApart = 0.1;
constexpr std::uint64_t kFirst = 12;   // samples, each looked at
constexpr double kLimitMoved = 0.005;  // of the limit
// A curve that hits the limit in less than this fraction of the time at its fastest observed pace
// extrapolates to ten times what was seen of it.
constexpr double kAgrees = 0.25;
constexpr double kTeethDiffer = 1.05;  // a tooth is higher than another by so much
constexpr double kTakenBack = 0.5;     // of its rise
constexpr double kLittleOfRss = 0.03;  // of it
constexpr double kLoads = 30;          // s: what programs load, they load by then, …
constexpr double kFarAhead = 20;       // … unless so many times what they have goes on to fit
constexpr double kLoadsOfOne = 5;      // s: no load is longer along one line, …
constexpr double kOneLine = 0.03;      // … from which it strays by such a part of its rise, …
constexpr double kLoadsFor = 60;       // s: what is in it has no alert …
constexpr double kLoadsUpTo = 0.5;     // … below so much of its limit
constexpr double kLoaded = 0.5;        // s: … or comes behind it, …
constexpr double kSlowedTo = 0.5;      // … at less than so much of its pace

// "18.9 MiB/s": the verb gives the direction.
std::string speed_of(double slope) {
  std::string rate = format_rate({slope});
  return rate.starts_with('+') ? rate.substr(1) : rate;
}

std::string too_early(const History& history) {
  if (history.samples() <= 1) return "too early: one sample";
  return fmt::format("too early: {} samples in {}", history.samples(),
                     format_duration(Seconds(history.newest_time())));
}

std::string too_early(double since_restart) {
  return fmt::format("too early: it was started anew {} ago", format_duration(Seconds(since_restart)));
}

// A trend from before a fall continues after it, until the samples after the fall outweigh those before.
bool is_taken_back(const Leak& leak, const Restarts& restarts, const History& history) {
  return leak.trend.begin() < restarts.since &&
         leak.trend.value(history.newest_time()) - history.newest_value() > kTakenBack * leak.rise;
}

}  // namespace

void Forecaster::add(const Reading& reading) {
  history_.add(reading.time, reading.value);
  if (reading.total) total_.add(reading.time, *reading.total);
  limit_ = reading.limit;
  limit_kind_ = reading.limit ? reading.limit_kind : std::nullopt;
  double now = history_.newest_time();
  double off = std::abs(history_.newest_value() - expected_ - slope_ * (now - analysed_at_));
  // After days of calm a surprise may be the start of two minutes that end in a kill, and an hour's deadline
  // has passed before the series is a hundredth older.
  double rare = kSurpriseEvery * now, every = kAnalyseEvery * now;
  if (off <= noise_band_ && now - analysed_at_ > rare) surprised_at_.reset();
  if (off > noise_band_ && !surprised_at_) surprised_at_ = now;
  if (surprised_at_) rare = std::min(rare, kSinceSurprise * (now - *surprised_at_));
  if (meets_ && meets_->median > analysed_at_)
    every = std::min(every, kUntilDeadline * (meets_->median - analysed_at_));
  bool soon = now - analysed_at_ >= std::max(rare, kMinApart);
  bool due = now - looked_at_ >= std::max(every, kMinApart);
  bool surprise = off > band_ && soon;
  if (history_.samples() <= kFirst || due || surprise || limit_moved()) {
    looked_at_ = now;
    analyse(true);
  } else if (soon && limit_ && history_.newest_value() > kTight * limit_->as_double()) {
    // Near the limit seconds count. Most series that stay there do nothing else for days.
    bool changed = near().has_value() != alarms_.near_limit;
    if (changed || latest_.verdict == Verdict::leak) analyse(false);
  }
}

std::optional<NearLimit> Forecaster::near() const {
  return limit_ ? near_limit(history_, *limit_, {life_began_, lives_.ended}, alarms_.near_limit)
                : std::nullopt;
}

// A limit that depends on memory of others moves a little all the time.
bool Forecaster::limit_moved() const {
  if (limit_.has_value() != limit_then_.has_value()) return true;
  return limit_ && std::abs((*limit_ - *limit_then_).as_double()) > kLimitMoved * limit_then_->as_double();
}

const Forecast& Forecaster::forecast() {
  double now = history_.empty() ? 0 : history_.newest_time();
  latest_.limit = limit_;
  latest_.limit_kind = limit_kind_;
  auto left = [&](double at) { return Seconds(at - now < kAtOnce ? 0 : at - now); };
  if (meets_) {
    latest_.eta = left(meets_->median);
    latest_.eta_low = left(meets_->low);
    if (meets_->high) latest_.eta_high = left(*meets_->high);
  }
  latest_.alert = alarms_.leak || alarms_.near_limit || alarms_.ends_soon;
  latest_.why = last_word(told_, history_, limit_, lives_, name_of(limit_kind_));
  return latest_;
}

void Forecaster::tell_leak(const Leak& leak) {
  double now = history_.newest_time();
  const Trend& t = leak.trend;
  double slope = t.slope(now), sd = t.slope_sd();
  latest_.verdict = Verdict::leak;
  latest_.growth =
      Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(t.end() - t.begin()), t.dots()};
  latest_.evidence.floor = whole_bytes(leak.floor);
  latest_.evidence.regime = Seconds(t.end() - t.begin());
  if (leak.peaks.recurring) {
    latest_.evidence.peak_above = whole_bytes(leak.peaks.mean);
    latest_.evidence.period = Seconds(leak.peaks.period);
  }
  std::string rate = speed_of(slope), since = format_duration(Seconds(t.end() - t.begin()));
  std::string period = format_duration(Seconds(leak.peaks.period));
  std::string height = format_size(whole_bytes(leak.peaks.mean));
  told_ = {};
  told_.rises = true;
  if (leak.of_peaks)
    told_.said = fmt::format(
        "its peaks have risen {} for the last {}: one of {} every {}, on a baseline that goes up "
        "by steps",
        rate, since, height, period);
  else if (leak.peaks.recurring)
    told_.said = fmt::format("its baseline has risen {} for the last {}, with peaks of {} every {} above it",
                             rate, since, height, period);
  else
    told_.said = fmt::format("its baseline has risen {} for the last {}", rate, since);
  if (!limit_) return;
  // At memory.high it is throttled, and creeps on.
  if (limit_kind_ == LimitKind::high && leak.floor >= limit_->as_double()) {
    meets_ = Meeting{now, now, now};
    return;
  }
  Outlook outlook = Outlook::of(leak.dots, t);
  auto c = outlook.crossing(limit_->as_double(), leak.peaks, now);
  if (leak.peaks.recurring) {
    // Not later than without peaks.
    auto floor = outlook.crossing(limit_->as_double(), leak.noise, now);
    c = {std::min(c.low, floor.low), std::min(c.median, floor.median), std::min(c.high, floor.high)};
  }
  // A long extrapolation must agree with the growth rate published next to it.
  double fastest = latest_.growth->high.value;
  double room = limit_->as_double() - leak.floor - (leak.peaks.recurring ? leak.peaks.mean : 0);
  bool agrees = room < leak.rise || (c.median - now) * fastest >= kAgrees * room;
  if (!std::isfinite(c.median) || !agrees) return;
  meets_ = Meeting{c.median, c.low};
  told_.says_what_is_left = true;  // the deadline does
  if (std::isfinite(c.high)) meets_->high = c.high;
}

// At the limit: whether it is killed now or thrashes for long is unknown. Reports how long it has been there.
void Forecaster::tell_arrived(const Leak& leak) {
  double now = history_.newest_time();
  const Trend& t = leak.trend;
  double slope = t.slope(t.end()), sd = t.slope_sd(), stood = now - *leak.arrived;
  latest_.verdict = Verdict::leak;
  latest_.growth =
      Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(t.end() - t.begin()), t.dots()};
  latest_.evidence.floor = whole_bytes(history_.newest_value());
  latest_.evidence.regime = Seconds(now - t.begin());
  told_ = {fmt::format("its baseline rose {} for {} up to its {}", speed_of(slope),
                       format_duration(Seconds(t.end() - t.begin())), name_of(limit_kind_)),
           fmt::format(", where it has stood for {}", format_duration(Seconds(stood))), true};
  meets_ = Meeting{now, now, now + stood};
}

// Changes of a process that are small relative to its RSS are ignored, however fast.
double Forecaster::least_change() const {
  return surplus_ == Surplus::shared && !total_.empty() ? kLittleOfRss * total_.newest_value() : 0;
}

// A program loading its libraries would fill any machine if it went on: two seconds of that predict nothing
// about the next three minutes. Loading is irregular; a later rise, or one along a line, is not loading.
bool Forecaster::starts_up(const Leak& leak) const {
  double now = history_.newest_time();
  if (!limit_ || now - life_began_ > kLoads) return false;
  if (limit_->as_double() - history_.newest_value() <= kFarAhead * leak.rise) return false;
  const Trend& t = leak.trend;
  bool along_one_line = t.residual_sd() <= kOneLine * leak.rise && t.end() - t.begin() >= kLoadsOfOne;
  double before = t.begin() - life_began_;
  bool behind_it = before >= kLoaded && t.slope(now) * before < kSlowedTo * t.value(t.begin());
  return now - life_began_ < kLoadsOfOne || !(along_one_line || behind_it);
}

// A model loading in its first minute heads for any limit, and most stop below half of it.
bool Forecaster::loads() const {
  return history_.newest_time() - life_began_ < kLoadsFor && limit_ &&
         history_.newest_value() < kLoadsUpTo * limit_->as_double();
}

// The limit is hit before everything is copied.
void Forecaster::tell_copies(const Leak& leak) {
  Forecast copies = latest_;
  Sentence told = told_;
  leak.arrived ? tell_arrived(leak) : tell_leak(leak);
  latest_.verdict = copies.verdict;
  told_ = told;
  latest_.evidence.shared = copies.evidence.shared;
}

// A sawtooth rises like a leak, but each earlier tooth was freed.
void Forecaster::tell_freed_before(const Leak& leak, double height) {
  latest_.verdict = Verdict::spikes;
  latest_.evidence.peak_above = whole_bytes(height - leak.trend.value(leak.trend.begin()));
  told_ = {fmt::format("it rises {}, still below the {} from which it fell back before",
                       speed_of(leak.trend.slope(history_.newest_time())), format_size(whole_bytes(height))),
           "", true};
}

void Forecaster::tell_near() {
  latest_.evidence.near_limit = near();
  alarms_.near_limit = latest_.evidence.near_limit.has_value();
  if (!alarms_.near_limit || meets_) return;
  const NearLimit& near = *latest_.evidence.near_limit;
  told_ = {};
  told_.said = fmt::format("it stands at {:.0f} % of its {}, and rose by {} in {}: only {} are left",
                           100 * share(history_.newest_value(), limit_->as_double()), name_of(limit_kind_),
                           format_size(near.moved), format_duration(near.within), format_size(near.left));
  told_.rises = told_.says_what_is_left = true;
}

void Forecaster::analyse(bool may_alert) {
  double now = analysed_at_ = history_.newest_time();
  if (limit_moved()) calibration_.clear();
  limit_then_ = limit_;
  latest_ = Forecast{};
  told_ = {};
  meets_.reset();
  expected_ = history_.newest_value();
  slope_ = band_ = noise_band_ = 0;
  if (history_.samples() < kMinSamples || now < kMinSpan) {
    told_.said = too_early(history_);
    return;
  }
  Restarts restarts = find_restarts(history_, limit_);
  life_began_ = restarts.life_began();
  if (restarts.lives.ended != lives_.ended) calibration_.clear();
  lives_ = restarts.lives;
  alarms_.ends_soon = lives_.ends_soon(now - lives_.ended, history_.newest_value());
  std::vector<Window> windows =
      windows_until(history_, life_began_, now, life_began_ > 0 && life_began_ == lives_.ended);
  if (lives_.ended > 0 && windows.back().buckets.front().time < lives_.ended) {
    told_.said = too_early(now - lives_.ended);
    alarms_.leak = alarms_.near_limit = false;
    return;
  }
  band_ = 6 * windows.front().shape.noise;
  for (const Window& window : windows) noise_band_ = std::max(noise_band_, 6 * window.shape.noise);
  LeakFinder finder(history_, limit_, life_began_, restarts.may_have_died, least_change());
  std::optional<Leak> leak = finder.find(windows, now);
  if (leak && is_taken_back(*leak, restarts, history_)) leak.reset();
  if (!leak) leak = finder.find_arrived();
  // If unreclaimable memory heads for the limit, page cache does not change that.
  bool heads_for_limit = leak && surplus_ == Surplus::droppable && limit_;
  if (!heads_for_limit && tell_surplus(surplus_, history_, total_, least_change(), latest_)) {
    told_.said = latest_.why;
    const auto& shared = latest_.evidence.shared;
    bool bounded = !shared || !limit_ || history_.newest_value() + shared->as_double() <= limit_->as_double();
    if (bounded)
      leak.reset();
    else if (leak)
      tell_copies(*leak);
  } else if (leak && leak->arrived) {
    tell_arrived(*leak);
  } else if (leak) {
    slope_ = leak->trend.slope(now);
    expected_ = leak->trend.value(now);
    band_ = noise_band_ = std::max(6 * leak->trend.residual_sd(), 2 * leak->peaks.mean);
    if (history_.newest_value() < kTeethDiffer * restarts.freed_from && leak->trend.begin() >= restarts.fell)
      tell_freed_before(*leak, restarts.freed_from);
    else if (starts_up(*leak))
      told_ = tell_early(leak->rise, now, latest_);
    else
      tell_leak(*leak);
  } else {
    told_ = tell_rest(windows, history_, least_change(), latest_);
  }
  alarms_.leak =
      leak && meets_ && is_alert(*leak, *meets_, history_, *limit_, alarms_.leak, may_alert && !loads());
  if (leak && meets_) meets_ = calibration_.scaled(*meets_, now, now - leak->trend.begin());
  tell_near();
}

}  // namespace oomcast
