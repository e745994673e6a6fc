#include "app/fix_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace oomcast {
namespace {

constexpr Seconds kShortestRun{60};
constexpr Seconds kLongestRun{30 * 86400.0};

// It grows steadily; growth at the start does not count.
bool rises(const RunShown& run) {
  return (run.verdict == Verdict::leak || run.verdict == Verdict::cow) && run.growth &&
         run.growth->low.value > 0;
}

bool is_open(const RunShown& run) {
  return run.verdict == Verdict::unknown || run.verdict == Verdict::ramp ||
         ((run.verdict == Verdict::leak || run.verdict == Verdict::cow) && !rises(run));
}

std::string interval(const Growth& g) {
  return fmt::format("{} to {}", format_rate(g.low), format_rate(g.high));
}

FixAnswer yes(const std::string& why) {
  return {true, std::nullopt, "yes: " + why};
}
FixAnswer no(const std::string& why) {
  return {false, std::nullopt, "no: " + why};
}
FixAnswer not_yet(Seconds run_for, const std::string& why) {
  run_for = Seconds(std::ceil(std::clamp(run_for, kShortestRun, kLongestRun).count()));
  return {std::nullopt, run_for,
          fmt::format("it cannot be said yet: {}; run both for {}", why, format_duration(run_for))};
}

// How long a level run must last until it would have shown the other run's growth.
Seconds until_seen(const RunShown& grows, const RunShown& level) {
  constexpr double kLeast = 1 << 20, kStandsOut = 2;
  Seconds onset = std::max(Seconds{}, grows.lasted - grows.growth->span);
  double wobble = std::max(level.wobble.as_double(), kLeast);
  return std::max(kShortestRun, onset + Seconds(kStandsOut * wobble / grows.growth->low.value));
}

FixAnswer both_rise(const RunShown& a, const RunShown& b) {
  const Growth &x = *a.growth, &y = *b.growth;
  std::string rates = fmt::format("B grows {}, A grew {}", interval(y), interval(x));
  if (y.high < x.low) return yes(rates + ", more slowly beyond doubt; but it still grows");
  if (y.low > x.high) return no(rates + ", faster");
  double rate = std::max(x.rate.value, y.rate.value);
  double width = std::max(x.high.value, y.high.value) - std::min(x.low.value, y.low.value);
  if (width <= 0.5 * rate) return no(rates + ": the intervals overlap");
  // The interval of a slope narrows with time to the power of 1.5.
  double apart = std::max(std::fabs(x.rate.value - y.rate.value), 0.25 * rate);
  double longer = std::pow(std::max(2.0, width / apart), 2.0 / 3);
  return not_yet(longer * std::max(a.lasted, b.lasted), rates + ", and the intervals overlap");
}

}  // namespace

FixAnswer did_it_help(const RunShown& a, const RunShown& b) {
  if (is_open(a) || is_open(b)) {
    const RunShown& open = is_open(a) ? a : b;
    return not_yet(2 * std::max(a.lasted, b.lasted),
                   fmt::format("{} is {} after {}", is_open(a) ? "A" : "B", to_string(open.verdict),
                               format_duration(open.lasted)));
  }
  bool killed = a.oom_kills && b.oom_kills && *a.oom_kills > 0 && *b.oom_kills == 0;
  if (a.oom_kills && b.oom_kills && *a.oom_kills == 0 && *b.oom_kills > 0)
    return no(fmt::format("B was OOM-killed ({}), A was not", *b.oom_kills));
  if (rises(a) && rises(b)) return both_rise(a, b);
  if (rises(a)) {
    Seconds needed = until_seen(a, b);
    std::string grew = fmt::format("A grew {}", interval(*a.growth));
    if (b.lasted < needed)
      return not_yet(needed, fmt::format("{}, and B has run for {} alone", grew, format_duration(b.lasted)));
    return yes(fmt::format("{}; B is {} for {}, in which that would have shown", grew, to_string(b.verdict),
                           format_duration(b.lasted)));
  }
  if (rises(b)) {
    Seconds needed = until_seen(b, a);
    std::string grows = fmt::format("B grows {}", interval(*b.growth));
    if (a.lasted >= needed) return no(fmt::format("{}; A did not in {}", grows, format_duration(a.lasted)));
    return not_yet(needed, fmt::format("{}, and A ran for {} alone", grows, format_duration(a.lasted)));
  }
  if (killed && b.lasted >= a.lasted)
    return yes(fmt::format("A was OOM-killed ({}), B was not in {}, and does not grow", *a.oom_kills,
                           format_duration(b.lasted)));
  constexpr double kMuch = 0.1;
  Bytes less = a.highest - b.highest;
  bool much = std::fabs(less.as_double()) > kMuch * std::max(a.highest, b.highest).as_double() &&
              std::fabs(less.as_double()) > (a.wobble + b.wobble).as_double();
  if (much && less > Bytes{} && b.lasted < a.lasted)
    return not_yet(a.lasted,
                   fmt::format("neither grows, and B has run for {} alone", format_duration(b.lasted)));
  if (much && less > Bytes{})
    return yes(fmt::format("neither grows, and B takes {} less", format_size(less)));
  if (much) return no(fmt::format("neither grows, and B takes {} more", format_size(-less)));
  return {
      std::nullopt, std::nullopt,
      fmt::format(
          "it cannot be said yet: A does not grow in {}, so there is nothing to see mended; run A until the "
          "fault shows, and B as long",
          format_duration(a.lasted))};
}

}  // namespace oomcast
