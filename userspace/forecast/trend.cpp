#include "forecast/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace oomcast {
namespace {

struct Prior {
  Form form;
  double weight;
};
constexpr auto kPower = Form::Kind::power, kExponential = Form::Kind::exponential;
// Training programs leak a constant amount per step: the line has more than four fifths of the weight before
// anything is seen. Curves that slow down have less than a twentieth, or two minutes would not do to say when
// a leak of forty arrives. In the order of their curvature, for each kind.
constexpr std::array kPriors = {Prior{{kPower, 0.5}, 0.013},        Prior{{kPower, 0.7}, 0.02},
                                Prior{{kPower, 0.85}, 0.027},       Prior{{kPower, 1.0}, 2.40},
                                Prior{{kPower, 1.2}, 0.06},         Prior{{kPower, 1.5}, 0.06},
                                Prior{{kPower, 2.0}, 0.05},         Prior{{kPower, 3.0}, 0.03},
                                Prior{{kExponential, -6.7}, 0.008}, Prior{{kExponential, -3.3}, 0.008},
                                Prior{{kExponential, -1.7}, 0.012}, Prior{{kExponential, -1.0}, 0.017},
                                Prior{{kExponential, 1.0}, 0.03},   Prior{{kExponential, 1.7}, 0.03},
                                Prior{{kExponential, 3.3}, 0.02}};
constexpr std::size_t kLine = 3;
constexpr double kFar = 400;  // in u: where a curve that has not met it by then never will
constexpr int kRefine = 6;
constexpr std::array kOrigins = {0.01, 0.02, 0.035, 0.055, 0.08};      // of the window, before its first dot
constexpr std::array kSquareOrigins = {0.1, 0.3, 0.7, 1.5, 3.0, 6.0};  // of the window
constexpr double kSquare = 0.06;
constexpr double kCurvature = 0.1, kMaxUnsure = 0.7;  // of the parameter
// The best of a kind is looked for where so much of the line's squares are left, and so plainly (n times the
// logarithm of their ratio).
constexpr double kBetterThanLine = 0.3, kPlainlyBetter = 10;

// How much the slope may vary before anything is seen, as a share of it. A program's pace follows the load of
// its machine, which comes and goes within minutes: over hours that averages out.
constexpr double kPriorDrift = 0.025, kPriorDriftShort = 0.12;
constexpr double kLoadLasts = 180;  // s

double prior_drift(double span) {
  return std::clamp(kPriorDriftShort * std::sqrt(kLoadLasts / span), kPriorDrift, kPriorDriftShort);
}

// Between whole quarters of the window, how much does the slope vary beyond what curve and noise give? As a
// share of the slope: what may be expected of it in the future too.
double drift_of(std::span<const Dot> residuals, double slope, double residual_sd, double effective) {
  double prior = prior_drift(residuals.back().time - residuals.front().time);
  if (residuals.size() < 16 || slope == 0) return prior;
  std::array<double, 4> part{};
  double own = 0;
  std::size_t quarter = residuals.size() / 4;
  for (std::size_t q = 0; q < 4; ++q) {
    std::size_t begin = q * quarter, end = q == 3 ? residuals.size() : begin + quarter;
    part[q] = fit_line(residuals, begin, end).slope;
    double span = residuals[end - 1].time - residuals[begin].time;
    double n = std::max(2.0, effective / 4);
    if (span > 0) own += 12 * residual_sd * residual_sd / (n * span * span) / 4;
  }
  double mean = (part[0] + part[1] + part[2] + part[3]) / 4, var = 0;
  for (double p : part) var += (p - mean) * (p - mean) / 3;
  double excess = std::max(0.0, var - own) / (slope * slope);
  constexpr double kPriorWeight = 3;
  return std::sqrt((kPriorWeight * prior * prior + 3 * excess / 4) / (kPriorWeight + 3));
}

// Golden-section search for the form with the least error, one number of which lies between `low` and `high`.
template <class Curve, class Fit>
void narrow(Curve& best, double Form::*number, double low, double high, const Fit& fit) {
  for (int i = 0; i < kRefine; ++i) {
    double at = best.form.*number;
    bool up = high - at > at - low;
    Form form = best.form;
    form.*number = at + 0.382 * ((up ? high : low) - at);
    // The line lies between a saturation and an exponential.
    if (form.kind == kExponential && std::abs(form.parameter) < 0.1) return;
    Curve c = fit(form);
    bool better = c.error < best.error;
    double& side = up == better ? low : high;
    side = better ? at : form.*number;
    if (better) best = c;
  }
}

// The best of a kind, beginning with the best of its priors.
template <class Curve, class Fit>
Curve best_of_kind(std::size_t at, Curve best, const Fit& fit) {
  const Form& own = kPriors[at].form;
  // Do not search for sharper bends than the priors': they would explain any sudden change.
  auto parameter = [&](std::size_t k) {
    return k < kPriors.size() && kPriors[k].form.kind == own.kind ? kPriors[k].form.parameter : own.parameter;
  };
  double low = parameter(at - 1), high = parameter(at + 1);
  narrow(best, &Form::parameter, low, high, fit);
  if (own.kind != kPower) return best;
  // Start time and exponent compensate each other: search for both together.
  for (double origin : kOrigins) {
    Curve c = fit({own.kind, own.parameter, origin});
    narrow(c, &Form::parameter, low, high, fit);
    if (c.error < best.error) best = c;
  }
  return best;
}

}  // namespace

double Form::at(double u) const {
  if (kind == Kind::power) return parameter == 1 ? u : std::pow(std::max(u + origin, 0.0), parameter);
  return parameter < 0 ? 1 - std::exp(parameter * u) : std::exp(std::min(parameter * (u - 1), 50.0));
}

double Form::slope(double u) const {
  u = std::max(u, 1e-3);
  if (kind == Kind::power) return parameter * std::pow(u + origin, parameter - 1);
  return std::abs(parameter) * std::exp(std::min(parameter < 0 ? parameter * u : parameter * (u - 1), 50.0));
}

// Tries the curves, in this order: those of kPriors, the best of each kind, the best square, and what the
// parameters of the best may be beside that.
class Trend::Fitting {
 public:
  Fitting(Trend& out, std::span<const Dot> dots)
      : out_(out), dots_(dots), n_(static_cast<double>(dots.size())), f_(dots.size()) {
    for (const Dot& d : dots) mean_y_ += d.value / n_, level_ = std::max(level_, std::abs(d.value));
    for (const Dot& d : dots) total_ += (d.value - mean_y_) * (d.value - mean_y_);
  }

  void run() {
    for (const Prior& prior : kPriors) add(fit_form(prior.form), prior.weight);
    for (auto kind : {kPower, kExponential}) refine(kind);
    refine_square();
    examine_residuals();
    spread_unsure();
    weigh();
    out_.drift_ = drift_of(residuals_, out_.slope(out_.end_), out_.residual_sd_, out_.effective_);
  }

 private:
  void add(const Curve& curve, double prior) {
    out_.curves_.push_back(curve);
    priors_.push_back(prior);
  }

  Curve fit_form(const Form& form) {
    double mean_f = 0;
    for (std::size_t i = 0; i < dots_.size(); ++i) {
      f_[i] = form.at(out_.u(dots_[i].time));
      mean_f += f_[i] / n_;
    }
    double var = 0, cov = 0;
    for (std::size_t i = 0; i < dots_.size(); ++i) {
      double a = f_[i] - mean_f, y = dots_[i].value - mean_y_;
      var += a * a;
      cov += a * y;
    }
    Curve c;
    c.form = form;
    c.b = var > 0 ? cov / var : 0;
    c.a = mean_y_ - c.b * mean_f;
    c.mean_f = mean_f;
    c.var_f = var;
    c.error = std::max(0.0, total_ - c.b * cov);
    return c;
  }

  // Of the squares that the line leaves, what a curve may leave to be looked at more closely.
  double plainly_better() const { return std::min(kBetterThanLine, std::exp(-kPlainlyBetter / n_)); }

  void refine(Form::Kind kind) {
    auto fit = [this](const Form& form) { return fit_form(form); };
    std::size_t at = kPriors.size();
    for (std::size_t k = 0; k < kPriors.size(); ++k)
      if (kPriors[k].form.kind == kind &&
          (at == kPriors.size() || out_.curves_[k].error < out_.curves_[at].error))
        at = k;
    if (out_.curves_[at].error > plainly_better() * out_.curves_[kLine].error) return;
    Curve refined = best_of_kind(at, out_.curves_[at], fit);
    // What else its parameter may be: Gauss-Hermite's three points, their likelihoods the weights.
    double p = refined.form.parameter, h = kCurvature * std::max(std::abs(p), 0.5);
    auto error_at = [&](double q) { return fit_form({kind, q, refined.form.origin}).error; };
    double bend = (error_at(p - h) + error_at(p + h)) / 2 - refined.error;
    double off = bend > 0 ? h * std::sqrt(3 * refined.error / bend) : h;
    unsure_.push_back({out_.curves_.size(), off});
    add(refined, kPriors[at].weight);
  }

  // A pace that rises evenly: a square, whose origin gives its initial value.
  void refine_square() {
    std::size_t at = 0;
    std::array<Curve, kSquareOrigins.size()> squares;
    for (std::size_t k = 0; k < squares.size(); ++k) {
      squares[k] = fit_form({kPower, 2, kSquareOrigins[k]});
      if (squares[k].error < squares[at].error) at = k;
    }
    if (squares[at].error >= plainly_better() * out_.curves_[kLine].error) return;
    double low = at == 0 ? 0 : kSquareOrigins[at - 1];
    double high = kSquareOrigins[std::min(at + 1, squares.size() - 1)];
    narrow(squares[at], &Form::origin, low, high, [this](const Form& form) { return fit_form(form); });
    add(squares[at], kSquare);
  }

  // Of the best curve: how many independent samples they leave.
  void examine_residuals() {
    const Curve& top = *std::ranges::min_element(out_.curves_, {}, &Curve::error);
    double lagged = 0, square = 0, previous = 0;
    for (std::size_t i = 0; i < dots_.size(); ++i) {
      double r = dots_[i].value - top.a - top.b * top.form.at(out_.u(dots_[i].time));
      if (i) lagged += r * previous;
      square += r * r;
      previous = r;
      residuals_.push_back({dots_[i].time, r});
    }
    double rho = square > 0 ? std::clamp(lagged / square, 0.0, 0.95) : 0;
    out_.effective_ = std::max(3.5, n_ * (1 - rho) / (1 + rho));
    out_.error_ = top.error;
  }

  void spread_unsure() {
    for (auto [k, off] : unsure_) {
      Form form = out_.curves_[k].form;
      double p = form.parameter, by = std::min(off / std::sqrt(out_.effective_), kMaxUnsure * std::abs(p));
      for (double at : {p - by, p + by}) {
        form.parameter = at;
        add(fit_form(form), priors_[k]);
      }
    }
  }

  void weigh() {
    // Differences below a thousandth of a percent of the level are not resolved.
    double floor = std::pow(1e-5 * level_, 2), least = out_.error_;
    out_.residual_sd_ = std::sqrt(least / std::max(1.0, n_ - 2) + floor);
    double sum = 0;
    for (std::size_t k = 0; k < priors_.size(); ++k) {
      Curve& c = out_.curves_[k];
      c.s2 = c.error / std::max(1.0, n_ - 2) + floor;
      double ratio = (least / n_ + floor) / (c.error / n_ + floor);
      c.weight = priors_[k] * std::pow(ratio, out_.effective_ / 2);
      out_.candidates_.push_back({c.form, priors_[k], c.error});
      sum += c.weight;
    }
    for (Curve& c : out_.curves_) c.weight /= sum;
    std::erase_if(out_.curves_, [](const Curve& c) { return c.weight < 0.002; });
    sum = 0;
    for (const Curve& c : out_.curves_) sum += c.weight;
    for (Curve& c : out_.curves_) c.weight /= sum;
  }

  Trend& out_;
  std::span<const Dot> dots_;
  double n_, mean_y_ = 0, level_ = 0, total_ = 0;
  std::vector<double> f_, priors_;
  std::vector<std::pair<std::size_t, double>> unsure_;  // curves, √n times how far their parameter may be off
  std::vector<Dot> residuals_;
};

std::optional<Trend> Trend::fit(std::span<const Dot> dots) {
  if (dots.size() < 4) return std::nullopt;
  Trend out;
  out.begin_ = dots.front().time;
  out.end_ = dots.back().time;
  out.dots_ = dots.size();
  if (!(out.end_ > out.begin_)) return std::nullopt;
  Fitting(out, dots).run();
  return out;
}

double Trend::value(double time) const {
  double v = 0;
  for (const Curve& c : curves_) v += c.weight * (c.a + c.b * c.form.at(u(time)));
  return v;
}

double Trend::slope(double time) const {
  double v = 0;
  for (const Curve& c : curves_) v += c.weight * c.b * c.form.slope(u(time));
  return v / (end_ - begin_);
}

double Trend::slope_sd() const {
  double mean = slope(end_), var = 0, span = end_ - begin_;
  for (const Curve& c : curves_) {
    double s = c.form.slope(1.0);
    double own = c.b * s / span;
    double shrink = static_cast<double>(dots_) / effective_;
    var += c.weight * ((own - mean) * (own - mean) + c.s2 / c.var_f * shrink * s * s / (span * span));
  }
  return std::sqrt(var + drift_ * drift_ * mean * mean);
}

double Trend::levels_off() const {
  double w = 0;
  for (const Curve& c : curves_)
    if (c.form.levels_off() || c.b <= 0) w += c.weight;
  return w;
}

double Trend::never(double limit) const {
  double w = 0;
  for (const Curve& c : curves_)
    if (c.a + c.b * c.form.at(kFar) < limit) w += c.weight;
  return w;
}

}  // namespace oomcast
