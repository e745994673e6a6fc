#include "forecast/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace oomcast {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Kind { power, exponential, saturation };
struct Form {
  Kind kind;
  double parameter;  // exponent, or time constant as a share of the window
  double prior;
};
// Training programs leak a constant amount per step: the line has four fifths of the weight before anything
// is seen.
constexpr std::array kForms = {Form{Kind::power, 1.0, 2.40},       Form{Kind::power, 0.5, 0.05},
                               Form{Kind::power, 0.7, 0.06},       Form{Kind::power, 0.85, 0.06},
                               Form{Kind::power, 1.2, 0.06},       Form{Kind::power, 1.5, 0.06},
                               Form{Kind::power, 2.0, 0.05},       Form{Kind::power, 3.0, 0.03},
                               Form{Kind::exponential, 1.0, 0.03}, Form{Kind::exponential, 0.6, 0.03},
                               Form{Kind::exponential, 0.3, 0.02}, Form{Kind::saturation, 1.0, 0.035},
                               Form{Kind::saturation, 0.6, 0.035}, Form{Kind::saturation, 0.3, 0.035},
                               Form{Kind::saturation, 0.15, 0.035}};

double shape(const Form& form, double u) {
  switch (form.kind) {
    case Kind::power:
      return form.parameter == 1.0 ? u : std::pow(std::max(u, 0.0), form.parameter);
    case Kind::exponential:
      return std::exp(std::min((u - 1) / form.parameter, 50.0));
    case Kind::saturation:
      return 1 - std::exp(-u / form.parameter);
  }
  return u;
}

double slope_of(const Form& form, double u) {
  u = std::max(u, 1e-3);
  switch (form.kind) {
    case Kind::power:
      return form.parameter * std::pow(u, form.parameter - 1);
    case Kind::exponential:
      return std::exp(std::min((u - 1) / form.parameter, 50.0)) / form.parameter;
    case Kind::saturation:
      return std::exp(-u / form.parameter) / form.parameter;
  }
  return 1;
}

double normal_cdf(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

// Peaks of standard deviation 1 come one after the other while the trend takes `chances` of them to rise
// by 1. The first to meet the limit: how far the trend is below it then, as quantiles of the survival
// exp(−chances · E[(X − z)+]) for a normal X.
struct FirstPassage {
  double median, sd;
};
double loss_inverse(double wanted) {  // of the unit normal loss function φ(z) − z(1 − Φ(z)), falling in z
  if (wanted > 4) return -wanted;
  double low = -4.1, high = 6;
  for (int i = 0; i < 24; ++i) {
    double z = (low + high) / 2;
    double loss = std::exp(-z * z / 2) / 2.5066282746 - z * normal_cdf(-z);
    (loss > wanted ? low : high) = z;
  }
  return (low + high) / 2;
}
FirstPassage first_passage(double chances) {
  double median = loss_inverse(std::log(2.0) / chances);
  double early = loss_inverse(-std::log(0.95) / chances), late = loss_inverse(-std::log(0.05) / chances);
  return {median, (early - late) / (2 * 1.645)};
}

// How much the slope may vary before anything is seen, as a share of it. A program's pace follows the load of
// its machine, which comes and goes within minutes: over hours that averages out.
constexpr double kPriorDrift = 0.025, kPriorDriftShort = 0.12;
constexpr double kLoadLasts = 180;  // s

double prior_drift(double span) {
  return std::clamp(kPriorDriftShort * std::sqrt(kLoadLasts / span), kPriorDrift, kPriorDriftShort);
}

// Between whole quarters of the window, how much does the slope vary beyond what noise gives? As a share of
// the slope: what may be expected of it in the future too.
double drift_of(std::span<const Dot> dots, double slope, double residual_sd, double effective) {
  double prior = prior_drift(dots.back().time - dots.front().time);
  if (dots.size() < 16 || slope == 0) return prior;
  std::array<double, 4> part{};
  double own = 0;
  std::size_t quarter = dots.size() / 4;
  for (std::size_t q = 0; q < 4; ++q) {
    std::size_t begin = q * quarter, end = q == 3 ? dots.size() : begin + quarter;
    part[q] = fit_line(dots, begin, end).slope;
    double span = dots[end - 1].time - dots[begin].time;
    double n = std::max(2.0, effective / 4);
    if (span > 0) own += 12 * residual_sd * residual_sd / (n * span * span) / 4;
  }
  double mean = (part[0] + part[1] + part[2] + part[3]) / 4, var = 0;
  for (double p : part) var += (p - mean) * (p - mean) / 3;
  double excess = std::max(0.0, var - own) / (slope * slope);
  constexpr double kPriorWeight = 3;
  return std::sqrt((kPriorWeight * prior * prior + 3 * excess / 4) / (kPriorWeight + 3));
}

}  // namespace

std::optional<Trend> Trend::fit(std::span<const Dot> dots) {
  if (dots.size() < 4) return std::nullopt;
  Trend out;
  out.begin_ = dots.front().time;
  out.end_ = dots.back().time;
  out.dots_ = dots.size();
  if (!(out.end_ > out.begin_)) return std::nullopt;
  double n = static_cast<double>(dots.size()), mean_y = 0, level = 0;
  for (const Dot& d : dots) mean_y += d.value / n, level = std::max(level, std::abs(d.value));
  std::vector<double> f(dots.size()), error(kForms.size());
  double least = kInfinity;
  std::size_t best = 0;
  for (std::size_t k = 0; k < kForms.size(); ++k) {
    double mean_f = 0;
    for (std::size_t i = 0; i < dots.size(); ++i) {
      f[i] = shape(kForms[k], out.u(dots[i].time));
      mean_f += f[i] / n;
    }
    double var = 0, cov = 0, total = 0;
    for (std::size_t i = 0; i < dots.size(); ++i) {
      double a = f[i] - mean_f, y = dots[i].value - mean_y;
      var += a * a;
      cov += a * y;
      total += y * y;
    }
    Curve c;
    c.form = static_cast<int>(k);
    c.b = var > 0 ? cov / var : 0;
    c.a = mean_y - c.b * mean_f;
    c.mean_f = mean_f;
    c.var_f = var;
    error[k] = std::max(0.0, total - c.b * cov);
    if (error[k] < least) least = error[k], best = k;
    out.curves_.push_back(c);
  }
  const Curve& top = out.curves_[best];
  double lagged = 0, square = 0, previous = 0;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    double r = dots[i].value - top.a - top.b * shape(kForms[best], out.u(dots[i].time));
    if (i) lagged += r * previous;
    square += r * r;
    previous = r;
  }
  double rho = square > 0 ? std::clamp(lagged / square, 0.0, 0.95) : 0;
  out.effective_ = std::max(3.5, n * (1 - rho) / (1 + rho));
  out.error_ = least;
  // Below a thousandth of a percent of the level nothing is told apart.
  double floor = std::pow(1e-5 * level, 2);
  out.residual_sd_ = std::sqrt(least / std::max(1.0, n - 2) + floor);
  double sum = 0;
  for (std::size_t k = 0; k < kForms.size(); ++k) {
    Curve& c = out.curves_[k];
    c.s2 = error[k] / std::max(1.0, n - 2) + floor;
    double ratio = (least / n + floor) / (error[k] / n + floor);
    c.weight = kForms[k].prior * std::pow(ratio, out.effective_ / 2);
    sum += c.weight;
  }
  for (Curve& c : out.curves_) c.weight /= sum;
  std::erase_if(out.curves_, [](const Curve& c) { return c.weight < 0.002; });
  sum = 0;
  for (const Curve& c : out.curves_) sum += c.weight;
  for (Curve& c : out.curves_) c.weight /= sum;
  out.drift_ = drift_of(dots, out.slope(out.end_), out.residual_sd_, out.effective_);
  return out;
}

double Trend::value(double time) const {
  double v = 0;
  for (const Curve& c : curves_)
    v += c.weight * (c.a + c.b * shape(kForms[static_cast<std::size_t>(c.form)], u(time)));
  return v;
}

double Trend::slope(double time) const {
  double v = 0;
  for (const Curve& c : curves_)
    v += c.weight * c.b * slope_of(kForms[static_cast<std::size_t>(c.form)], u(time));
  return v / (end_ - begin_);
}

double Trend::slope_sd() const {
  double mean = slope(end_), var = 0, span = end_ - begin_;
  for (const Curve& c : curves_) {
    double s = slope_of(kForms[static_cast<std::size_t>(c.form)], 1.0);
    double own = c.b * s / span;
    double shrink = static_cast<double>(dots_) / effective_;
    var += c.weight * ((own - mean) * (own - mean) + c.s2 / c.var_f * shrink * s * s / (span * span));
  }
  return std::sqrt(var + drift_ * drift_ * mean * mean);
}

double Trend::levels_off() const {
  double w = 0;
  for (const Curve& c : curves_)
    if (kForms[static_cast<std::size_t>(c.form)].kind == Kind::saturation || c.b <= 0) w += c.weight;
  return w;
}

double Trend::probability(double limit, std::span<const Stand> stands, double time) const {
  double p = 0, shrink = static_cast<double>(dots_) / effective_;
  for (std::size_t k = 0; k < curves_.size(); ++k) {
    const Curve& c = curves_[k];
    const Form& form = kForms[static_cast<std::size_t>(c.form)];
    double f = shape(form, u(time)), f_now = shape(form, 1.0);
    double own =
        c.s2 * shrink * (1.0 / static_cast<double>(dots_) + (f - c.mean_f) * (f - c.mean_f) / c.var_f);
    double drifted = drift_ * c.b * (f - f_now);
    double sd = std::sqrt(own + drifted * drifted + stands[k].sd * stands[k].sd + 1.0);
    p += c.weight * normal_cdf((c.a + c.b * f + stands[k].above - limit) / sd);
  }
  return p;
}

Trend::Crossing Trend::crossing(double limit, const Peaks& peaks, double now) const {
  double span = end_ - begin_;
  std::vector<Stand> stands;
  for (const Curve& c : curves_) {
    Stand stand{peaks.mean, peaks.sd};
    double step = c.b * slope_of(kForms[static_cast<std::size_t>(c.form)], 1.0) / span * peaks.period;
    if (step > 0) {
      // Noise has no wait: it is there at any time.
      double scale = peaks.recurring ? std::max(peaks.sd, 0.05 * step) : peaks.sd;
      FirstPassage first = first_passage(std::max(scale, 1.0) / step);
      if (!peaks.recurring) first = {std::max(0.0, first.median), std::min(1.0, first.sd)};
      stand = {std::min(peaks.mean + scale * first.median, std::max(peaks.most, peaks.mean)),
               scale * first.sd};
    }
    stands.push_back(stand);
  }
  double at_once = std::min(probability(limit, stands, now), 0.999);
  auto given = [&](double time) { return (probability(limit, stands, time) - at_once) / (1 - at_once); };
  double far = now + 400 * span;
  double most = given(far);
  auto when = [&](double wanted) {
    if (most < wanted) return kInfinity;
    double low = now, high = now + 0.01 * span;
    while (given(high) < wanted && high < far) low = high, high = now + 1.6 * (high - now);
    for (int i = 0; i < 30 && high - low > 1e-4 * (high - now); ++i) {
      double mid = (low + high) / 2;
      (given(mid) < wanted ? low : high) = mid;
    }
    return (low + high) / 2;
  };
  Crossing out{when(0.05), when(0.5), when(0.95), 1 - most};
  if (!peaks.recurring || peaks.period <= 0) return out;
  // The limit is met by a peak: by the first one due after the trend has come close enough.
  if (peaks.jitter < 0.35) {
    // The wait that is in the quantiles is that of peaks at any time, 0.69 periods: these have theirs.
    auto next = [&](double t) {
      double k = std::round((t - peaks.last) / peaks.period - 0.19);
      return std::max(now, peaks.last + std::max(k, 1.0) * peaks.period);
    };
    if (std::isfinite(out.median)) out.median = next(out.median);
    if (std::isfinite(out.low)) out.low = std::max(now, next(out.low) - peaks.jitter * peaks.period);
    if (std::isfinite(out.high)) out.high = next(out.high) + peaks.jitter * peaks.period;
  }
  return out;
}

}  // namespace oomcast
