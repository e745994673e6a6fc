#include "forecast/outlook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace oomcast {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What is expected before anything is seen: the part of all programs that swings, wanders, goes by day and
// night. The others have noise alone.
constexpr double kSwings = 0.12, kWanders = 0.5, kCycles = 0.2;
// How long that lasts (in u; 7 days), and its size over the noise: three times more from one to the next.
constexpr std::array kSwingLasts = {0.03, 0.09, 0.27};
constexpr std::array kSwingSizes = {1.0, 3.0, 10.0};
constexpr std::array kPaceLasts = {0.005, 0.02, 0.08, 0.3, 1.1, 3.3};
constexpr std::array kPaceSizes = {2.0, 6.0, 18.0, 54.0, 162.0, 486.0, 1458.0};
constexpr double kDay = 86400, kMinOfDay = 0.25, kCycleLasts = 7 * kDay;  // s
constexpr std::array kCycleSizes = {2.0, 6.0, 18.0, 54.0, 162.0};
const double kSizeStep = std::log(3.0);
// A pace wanders by so much of itself, mostly, and a level by day and night.
constexpr double kPaceShare = 0.10, kPaceShareScale = 0.7, kCycleShare = 0.02, kCycleShareScale = 1;
// What bends may as well be a pace that wanders: so much less of a curve's prior.
constexpr double kSlowsDown = 0.15, kSpeedsUp = 0.3;
// Changes of pace that are too slow to be seen yet, as a share of it: a little of any, and half of
// those that are seen.
constexpr double kUnseen = 0.006, kUnseenShort = 0.03, kShort = 180;  // s
constexpr double kSlower = 0.5, kMaxSlower = 0.3;
constexpr double kMinLevel = 1e-5;    // of the level: below that nothing is told apart
constexpr double kMinWeight = 0.004;  // of a course
constexpr std::size_t kMaxCourses = 48;
// A curve is left out whose squares say that it is so unlikely, by twice the logarithm, as if there were at
// most so many dots: a few dots less off may be made up for by what comes on top.
constexpr double kUnlikely = 14, kMaxDots = 24;

// Skew (up/down) of an interval from which a shorter one is searched.
constexpr double kLopsided = 2;

double normal_cdf(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
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

// Density of ln(size) that has Student's distribution of 3 degrees of freedom around `typical`: most are like
// it, and a few are not at all.
double mostly_like(double size, double typical, double scale) {
  double z = std::log(size / typical) / scale;
  return 2 / (std::numbers::pi * std::sqrt(3.0) * scale * std::pow(1 + z * z / 3, 2));
}

}  // namespace

// What becomes of a state (level, pace) of unit variance after `du`: x' = A x + noise of covariance q.
struct Outlook::Step {
  double a00 = 1, a01 = 0, a10 = 0, a11 = 1;
  double q00 = 0, q01 = 0, q11 = 0;
};
// The series, ones, and the curves, at each dot; by dot.
struct Outlook::Columns {
  std::size_t count = 0;
  std::vector<double> times, values;
};

// Sums of products of two columns' innovations over their variance, and where the strays of each have got to.
struct Outlook::Filtered {
  double log_variances = 0, yy = 0, y1 = 0, one1 = 0;
  std::vector<double> yf, f1, ff;  // of each curve
  std::vector<double> level, pace;
  double p00 = 0, p01 = 0, p11 = 0;
};

Outlook::Step Outlook::step(const Strays& strays, double du) {
  double lasts = strays.lasts, phi = std::exp(-du / lasts), gone = 1 - phi, q = 1 - phi * phi;
  if (strays.kind == Strays::Kind::swing) return {phi, 0, 0, 0, q, 0, 0};
  if (strays.kind == Strays::Kind::cycle) {
    double angle = 2 * std::numbers::pi * du / strays.period, c = phi * std::cos(angle),
           s = phi * std::sin(angle);
    return {c, s, -s, c, q, 0, q};
  }
  if (strays.kind == Strays::Kind::not_at_all) return {0, 0, 0, 0};
  // Short steps of what lasts long: the difference of large numbers is nothing but rounding.
  double short_q = 2.0 / 3 * du * du * du / lasts;
  double q00 = du < 1e-3 * lasts ? short_q : 2 * lasts * du - 4 * lasts * lasts * gone + lasts * lasts * q;
  return {1, lasts * gone, 0, phi, std::max(0.0, q00), lasts * gone * gone, q};
}

Outlook::Filtered Outlook::filter(const Columns& columns, const Strays& strays) {
  std::size_t count = columns.count, curves = count - 2;
  Filtered out;
  for (auto* v : {&out.yf, &out.f1, &out.ff}) v->assign(curves, 0);
  for (auto* v : {&out.level, &out.pace}) v->assign(count, 0);
  bool strays_at_all = strays.kind != Strays::Kind::not_at_all;
  double k2 = strays.size * strays.size;
  double p00 = strays.kind == Strays::Kind::pace ? 0 : k2, p01 = 0, p11 = k2;
  std::vector<double> innovation(count);
  double* level = out.level.data();
  double* pace = out.pace.data();
  double* e = innovation.data();
  Step s;
  double stepped = -1;
  for (std::size_t i = 0; i < columns.times.size(); ++i) {
    if (i > 0 && strays_at_all) {
      double du = columns.times[i] - columns.times[i - 1];
      if (std::abs(du - stepped) > 1e-9) s = step(strays, du), stepped = du;
      for (std::size_t c = 0; c < count; ++c) {
        double before = level[c];
        level[c] = s.a00 * before + s.a01 * pace[c];
        pace[c] = s.a10 * before + s.a11 * pace[c];
      }
      double b00 = s.a00 * p00 + s.a01 * p01, b01 = s.a00 * p01 + s.a01 * p11;
      double b10 = s.a10 * p00 + s.a11 * p01, b11 = s.a10 * p01 + s.a11 * p11;
      p00 = b00 * s.a00 + b01 * s.a01 + k2 * s.q00;
      p01 = b00 * s.a10 + b01 * s.a11 + k2 * s.q01;
      p11 = b10 * s.a10 + b11 * s.a11 + k2 * s.q11;
    }
    double variance = p00 + 1, w = 1 / variance;
    double gain0 = p00 * w, gain1 = p01 * w;
    const double* values = columns.values.data() + i * count;
    for (std::size_t c = 0; c < count; ++c) {
      e[c] = values[c] - level[c];
      level[c] += gain0 * e[c];
      pace[c] += gain1 * e[c];
    }
    p11 -= gain1 * p01;
    p01 -= gain0 * p01;
    p00 -= gain0 * p00;
    out.log_variances += std::log(variance);
    double y = w * e[0], one = w * e[1];
    out.yy += y * e[0], out.y1 += y * e[1], out.one1 += one * e[1];
    for (std::size_t k = 0; k < curves; ++k) {
      double f = e[k + 2];
      out.yf[k] += y * f;
      out.f1[k] += one * f;
      out.ff[k] += w * f * f;
    }
  }
  out.p00 = p00, out.p01 = p01, out.p11 = p11;
  return out;
}

// Weighs each combination of a curve and its deviations.
class Outlook::Weighing {
 public:
  Weighing(Outlook& out, std::span<const Dot> dots)
      : out_(out), dots_(dots), n_(static_cast<double>(dots.size())), span_(out.end_ - out.begin_) {
    for (const Dot& d : dots) mean_ += d.value / n_, level_ = std::max(level_, std::abs(d.value));
    floor_ = std::pow(kMinLevel * level_, 2);
    unseen_ = std::clamp(kUnseenShort * std::sqrt(kShort / span_), kUnseen, kUnseenShort);
  }

  void run(const Trend& trend) {
    choose_curves(trend);
    Columns columns = make_columns();
    for (const Strays& strays : all_strays()) {
      Filtered filtered = filter(columns, strays);
      for (std::size_t k = 0; k < curves_.size(); ++k) add(filtered, strays, k);
    }
    keep_the_likely();
  }

 private:
  void choose_curves(const Trend& trend) {
    double least = kInfinity;
    for (const auto& c : trend.candidates()) least = std::min(least, c.error);
    for (auto c : trend.candidates()) {
      double unlikely = std::min(n_, kMaxDots) * std::log((c.error / n_ + floor_) / (least / n_ + floor_));
      if (!c.form.straight() && unlikely > kUnlikely) continue;
      if (!c.form.straight()) c.prior *= c.form.slows_down() ? kSlowsDown : kSpeedsUp;
      curves_.push_back(c);
    }
  }

  Columns make_columns() const {
    Columns columns{curves_.size() + 2, {}, {}};
    for (const Dot& d : dots_) {
      double u = out_.u(d.time);
      columns.times.push_back(u);
      columns.values.push_back(d.value - mean_);
      columns.values.push_back(1);
      for (const auto& c : curves_) columns.values.push_back(c.form.at(u));
    }
    return columns;
  }

  bool days() const { return span_ > kMinOfDay * kDay; }

  std::vector<Strays> all_strays() const {
    std::vector<Strays> all = {{}};
    for (double lasts : kSwingLasts)
      for (double size : kSwingSizes) all.push_back({Strays::Kind::swing, lasts, size});
    for (double lasts : kPaceLasts)
      for (double size : kPaceSizes) all.push_back({Strays::Kind::pace, lasts, size});
    if (days())
      for (double size : kCycleSizes)
        all.push_back({Strays::Kind::cycle, kCycleLasts / span_, size, kDay / span_});
    return all;
  }

  // The curve that fits best with these strays; none, where it cannot be told from a constant.
  void add(const Filtered& f, const Strays& strays, std::size_t k) {
    double det = f.one1 * f.ff[k] - f.f1[k] * f.f1[k];
    if (!(det > 1e-12 * f.one1 * f.ff[k])) return;
    Course c;
    c.form = curves_[k].form;
    c.strays = strays;
    c.a = (f.ff[k] * f.y1 - f.f1[k] * f.yf[k]) / det;
    c.b = (f.one1 * f.yf[k] - f.f1[k] * f.y1) / det;
    c.c00 = f.ff[k] / det, c.c01 = -f.f1[k] / det, c.c11 = f.one1 / det;
    double rest = std::max(0.0, f.yy - c.a * f.y1 - c.b * f.yf[k]);
    c.s2 = rest / std::max(1.0, n_ - 2) + floor_;
    // The mean was taken off the series, not off the ones.
    c.a += mean_;
    c.y = {f.level[0] + mean_ * f.level[1], f.pace[0] + mean_ * f.pace[1]};
    c.one = {f.level[1], f.pace[1]};
    c.f = {f.level[k + 2], f.pace[k + 2]};
    c.p00 = f.p00, c.p01 = f.p01, c.p11 = f.p11;
    double prior = curves_[k].prior * prior_of(c);
    c.unseen = std::hypot(c.unseen, unseen_);
    logs_.push_back(std::log(prior) - f.log_variances / 2 - n_ / 2 * std::log(rest / n_ + floor_));
    out_.courses_.push_back(c);
  }

  // Of its strays; and what of a pace that wanders may be too slow to be seen.
  double prior_of(Course& c) const {
    double size = c.strays.size * std::sqrt(c.s2), slope = std::abs(c.b * c.form.slope(1.0));
    switch (c.strays.kind) {
      case Strays::Kind::not_at_all:
        break;
      case Strays::Kind::swing:
        return kSwings / static_cast<double>(kSwingLasts.size() * kSwingSizes.size());
      case Strays::Kind::cycle:
        return kCycles * kSizeStep * mostly_like(size / level_, kCycleShare, kCycleShareScale);
      case Strays::Kind::pace: {
        double share = size / std::max(slope, 1.0);
        c.unseen = kSlower * std::min(share, kMaxSlower / kSlower);
        return kWanders / static_cast<double>(kPaceLasts.size()) * kSizeStep *
               mostly_like(share, kPaceShare, kPaceShareScale);
      }
    }
    return 1 - kSwings - kWanders - (days() ? kCycles : 0);
  }

  void keep_the_likely() {
    auto& courses = out_.courses_;
    double most = -kInfinity, sum = 0;
    for (double log : logs_) most = std::max(most, log);
    for (std::size_t k = 0; k < logs_.size(); ++k) sum += courses[k].weight = std::exp(logs_[k] - most);
    std::erase_if(courses, [&](const Course& c) { return c.weight < kMinWeight * sum; });
    std::sort(courses.begin(), courses.end(),
              [](const Course& x, const Course& y) { return x.weight > y.weight; });
    if (courses.size() > kMaxCourses) courses.resize(kMaxCourses);
    sum = 0;
    for (const Course& c : courses) sum += c.weight;
    for (Course& c : courses) c.weight /= sum;
  }

  Outlook& out_;
  std::span<const Dot> dots_;
  double n_, span_, mean_ = 0, level_ = 0, floor_ = 0, unseen_ = 0;
  std::vector<Trend::Candidate> curves_;
  std::vector<double> logs_;  // of the likelihood of each course
};

Outlook Outlook::of(std::span<const Dot> dots, const Trend& trend) {
  Outlook out;
  out.begin_ = dots.front().time, out.end_ = dots.back().time;
  Weighing(out, dots).run(trend);
  return out;
}

Outlook::Ahead Outlook::ahead(const Course& c, double at) const {
  double du = std::max(0.0, at - 1), f = c.form.at(at);
  Step s = step(c.strays, du);
  double a = s.a00, b = s.a01, q = s.q00 * c.strays.size * c.strays.size;
  double y = a * c.y.level + b * c.y.pace;
  double g0 = 1 - (a * c.one.level + b * c.one.pace), g1 = f - (a * c.f.level + b * c.f.pace);
  double strayed = a * a * c.p00 + 2 * a * b * c.p01 + b * b * c.p11 + q;
  double estimated = g0 * g0 * c.c00 + 2 * g0 * g1 * c.c01 + g1 * g1 * c.c11;
  double unseen = c.unseen * c.b * (f - c.form.at(1.0));
  return {c.a * g0 + c.b * g1 + y, std::sqrt(c.s2 * (strayed + estimated) + unseen * unseen)};
}

double Outlook::probability(double limit, std::span<const Stand> stands, double time) const {
  double p = 0;
  for (std::size_t k = 0; k < courses_.size(); ++k) {
    Ahead x = ahead(courses_[k], u(time));
    double sd = std::sqrt(x.sd * x.sd + stands[k].sd * stands[k].sd + 1.0);
    p += courses_[k].weight * normal_cdf((x.mean + stands[k].above - limit) / sd);
  }
  return p;
}

Outlook::Crossing Outlook::crossing(double limit, const Peaks& peaks, double now) const {
  double span = end_ - begin_;
  std::vector<Stand> stands;
  for (const Course& c : courses_) {
    Stand stand{peaks.mean, peaks.sd};
    double step = c.b * c.form.slope(1.0) / span * peaks.period;
    if (step > 0) {
      // Noise involves no wait: it is always present.
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
  Crossing out{when(0.05), when(0.5), when(0.95)};
  // The shortest interval, if a few curves are much later than all others.
  for (double below : {0.035, 0.02, 0.01}) {
    if (out.high - out.median < kLopsided * (out.median - out.low)) break;
    double low = when(below), high = when(below + 0.9);
    if (std::isfinite(high) && !(high - low > out.high - out.low)) out.low = low, out.high = high;
  }
  // A peak hits the limit: the first one due after the trend has come close enough.
  if (peaks.periodic()) {
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
