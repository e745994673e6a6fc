#include "forecast/rest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forecast/numbers.h"
#include "forecast/peaks.h"
#include "leak/levels.h"

namespace oomcast {
namespace {

constexpr std::size_t kMinOfHalf = 5;
constexpr double kSpikeWander = 4.8;  // times the floor's own spread
constexpr double kStartUp = 2;        // times the spikes
constexpr double kStillRises = 0.5;   // of a start-up's rise, in its newer half, of so few
constexpr std::uint64_t kYoung = 24;  // samples, …
constexpr double kYoungFor = 60;      // … or s
constexpr double kLoading = 0.03;     // of the history: before it is under way

// The floor over the whole life.
struct Floor {
  const Shape& shape;
  double level = 1;             // the highest
  double begin = 0, later = 0;  // at the start, and on average in the newer half
  double least_change = 0;
  Segment newer;
};

Floor floor_of(const Shape& shape, double least_change) {
  Floor out{shape, 1, shape.floor.front().value, 0, least_change, {}};
  for (const Dot& d : shape.floor) out.level = std::max(out.level, d.value);
  std::size_t half = shape.floor.size() / 2;
  for (std::size_t i = half; i < shape.floor.size(); ++i)
    out.later += shape.floor[i].value / static_cast<double>(shape.floor.size() - half);
  out.newer = fit_line(shape.floor, half, shape.floor.size());
  return out;
}

// How much correlated neighbours widen a standard error: wandering memory stays at a level for a while.
double spread_of_alike(std::span<const Dot> dots, const Segment& line) {
  double lagged = 0, square = 0, previous = 0;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    double r = dots[i].value - line.at_begin - line.slope * (dots[i].time - dots.front().time);
    if (i) lagged += r * previous;
    square += r * r;
    previous = r;
  }
  double rho = square > 0 ? std::clamp(lagged / square, 0.0, 0.95) : 0;
  return std::sqrt((1 + rho) / (1 - rho));
}

// From the newer half: the current growth, without start-up and earlier levels.
std::optional<Growth> growth_of(const Floor& floor) {
  const auto& dots = floor.shape.floor;
  std::size_t middle = dots.size() / 2, n = dots.size() - middle;
  if (n < kMinOfHalf) return std::nullopt;
  double length = dots.back().time - dots[middle].time;
  // Of n dots at even distances, the sum of squared distances from their middle is about n length² / 12.
  double sd = std::sqrt(floor.newer.error / static_cast<double>(n - 2) * 12 / static_cast<double>(n)) /
              std::max(length, 1e-9) * spread_of_alike(std::span(dots).subspan(middle), floor.newer);
  // Less than a byte in all that time is rounding.
  double slope = std::abs(floor.newer.slope * length) < 1 ? 0 : floor.newer.slope;
  return Growth{{slope}, {slope - 1.645 * sd}, {slope + 1.645 * sd}, Seconds(length), n};
}

// The smallest rise above noise.
double least_rise(const Floor& floor) {
  return std::max({6 * floor.shape.noise, 0.08 * floor.level, floor.least_change});
}

bool is_young(const History& history) {
  return history.samples() < kYoung || history.newest_time() < kYoungFor;
}

// Standard deviation around one straight line.
double wander_of(std::span<const Dot> dots) {
  if (dots.size() < 3) return 0;
  return std::sqrt(fit_line(dots, 0, dots.size()).error / static_cast<double>(dots.size()));
}

// In the window that shows most of them. Whether the floor between the first two or three spikes rises for
// good is not known yet.
std::optional<Sentence> tell_spikes(std::span<const Window> windows, const Floor& floor,
                                    const History& history, Forecast& out) {
  const Window* spiky = nullptr;
  for (const Window& w : windows)
    if (w.shape.excursions.size() >= 2 &&
        (!spiky || w.shape.excursions.size() > spiky->shape.excursions.size()))
      spiky = &w;
  if (!spiky) return std::nullopt;
  const auto& e = spiky->shape.excursions;
  double mean = 0;
  for (const Excursion& x : e) mean += x.height / static_cast<double>(e.size());
  double period = (e.back().peak_time - e.front().peak_time) / static_cast<double>(e.size() - 1);
  bool dwarfed = floor.later - floor.begin > kStartUp * mean;  // by the start-up
  double wander = wander_of(spiky->shape.floor);
  if (dwarfed || mean <= std::max(0.05 * floor.level, floor.least_change) || mean <= kSpikeWander * wander ||
      waves(e, wander, floor.level))
    return std::nullopt;
  bool rises = floor.newer.rise() > least_rise(floor), early = rises && is_young(history);
  out.verdict = early ? Verdict::unknown : Verdict::spikes;
  out.evidence.peak_above = whole_bytes(mean);
  out.evidence.period = Seconds(period);
  out.evidence.peaks = e.size();
  std::string peaks = fmt::format("{} peaks of {} every {} came back", e.size(),
                                  format_size(whole_bytes(mean)), format_duration(Seconds(period)));
  if (early)
    return Sentence{"too early to tell spikes from a leak: " + peaks,
                    ", and the baseline between them rises"};
  return Sentence{peaks, rises ? ", the baseline between them moves, but does not rise steadily"
                               : ", the baseline between them does not rise"};
}

// Memory loaded in a program's first moments is neither a ramp nor a shift.
std::optional<Sentence> tell_step(const Floor& floor, double now, Forecast& out) {
  std::span<const Dot> loaded = floor.shape.floor;
  double first = loaded.front().time, span = std::max(1e-9, loaded.back().time - first);
  while (loaded.size() > 12 && loaded.front().time < first + kLoading * span) loaded = loaded.subspan(1);
  double least_shift = std::max({5 * floor.shape.noise, 0.04 * floor.level, floor.least_change});
  Levels levels = find_levels(loaded, least_shift);
  if (levels.shifts.empty() || levels.explained <= 0.85) return std::nullopt;
  double at = levels.shifts.front().time, before = loaded.front().value, up = 0;
  for (const Dot& d : loaded)
    if (d.time < first + 0.7 * (at - first)) before = d.value;
  bool early = at - first < 0.1 * span || before - loaded.front().value > 0.2 * levels.shifts.front().by;
  bool slanted = fit_line(loaded, 0, loaded.size()).error < 2 * levels.error;
  if (early || slanted) return std::nullopt;
  for (const auto& s : levels.shifts) up += s.by;
  out.verdict = Verdict::step;
  out.evidence.stepped = whole_bytes(up);
  out.evidence.step_ago = Seconds(now - levels.shifts.back().time);
  return Sentence{fmt::format("the level shifted by {}, {} ago", format_size(whole_bytes(up)),
                              format_duration(*out.evidence.step_ago)),
                  ", and is flat since"};
}

// Below the later level at first.
std::optional<Sentence> tell_start_up(const Floor& floor, const History& history, Forecast& out) {
  double rise = floor.later - floor.begin, now = history.newest_time();
  if (rise <= least_rise(floor)) return std::nullopt;
  double risen = floor.shape.floor.back().value - floor.begin;
  if (is_young(history) && floor.newer.rise() > kStillRises * rise && risen > 0)
    return tell_early(risen, now, out);
  out.verdict = Verdict::ramp;
  return Sentence{fmt::format("it rose by {} at the start", format_size(whole_bytes(rise))),
                  " and levelled off"};
}

}  // namespace

Sentence tell_early(double risen, double now, Forecast& out) {
  out.verdict = Verdict::unknown;
  out.evidence.regime = Seconds(now);
  return {fmt::format("too early to tell a start-up from a leak: {} in {}", format_size(whole_bytes(risen)),
                      format_duration(Seconds(now))),
          ", and it still rises", true};
}

Sentence tell_rest(std::span<const Window> windows, const History& history, double least_change,
                   Forecast& out) {
  const Shape& shape = windows.front().shape;
  double now = history.newest_time();
  out.verdict = Verdict::stable;
  if (shape.floor.empty()) return {};
  Floor floor = floor_of(shape, least_change);
  out.evidence.floor = whole_bytes(shape.floor.back().value);
  out.growth = growth_of(floor);
  if (auto spikes = tell_spikes(windows, floor, history, out)) return *spikes;
  if (auto step = tell_step(floor, now, out)) return *step;
  if (auto start_up = tell_start_up(floor, history, out)) return *start_up;
  return {fmt::format("no rise above noise in {}", format_duration(Seconds(now)))};
}

}  // namespace oomcast
