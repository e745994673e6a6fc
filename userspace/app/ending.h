// What was reported about a program before it began to exit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/units.h"

namespace oomcast {

/// A program that exits gives memory back, some of it while it still runs: destructors, the interpreter's
/// final collection, workers that exit one by one. That must not decide the verdict on its whole life. So
/// each report is kept for a minute, with the level at that time. The report that counts is the one from when
/// the program last held (almost) as much as its maximum within the last third of its life, unless it has
/// settled on a lower level since. Cost: constant time, at most 1,200 copies of `Said`; said() is quadratic
/// in those.
template <class Said>
class BeforeTheEnd {
 public:
  void add(MonoTime time, Bytes level, Said said) {
    // A report follows the level it is about; one made during a fall belongs to another level.
    bool same = !kept_.empty() && level <= kept_.back().level &&
                level.as_double() >= kHigh * kept_.back().level.as_double();
    if (same && time - kept_.back().time < kApart) {
      kept_.back().said = std::move(said);
      return;
    }
    kept_.push_back({time, level, std::move(said)});
    while (kept_.size() > 1 && (time - kept_[1].time > kMax || kept_.size() > kMaxKept)) kept_.pop_front();
  }

  /// For a life from `began` to `end`; nullopt: nothing was ever reported.
  std::optional<Said> said(MonoTime began, MonoTime end) const {
    if (kept_.empty()) return std::nullopt;
    Nanos life = end - began;
    Nanos least = std::clamp(life / 100, kMin, kMax), most = std::clamp(life / 3, kMin, kMax);
    std::size_t from = 0, n = kept_.size();
    while (from + 1 < n && end - kept_[from].time > most) ++from;
    Bytes highest;
    for (std::size_t i = from; i < n; ++i) highest = std::max(highest, kept_[i].level);
    double about = (1 - kHigh) * highest.as_double();
    std::size_t last = n - 1;
    while (last > from && (highest - kept_[last].level).as_double() > about) --last;
    // The longest stretch at one level after that.
    Nanos settled{};
    std::size_t settled_to = last;
    for (std::size_t i = last + 1; i < n; ++i) {
      std::size_t to = i;
      while (to + 1 < n && std::abs((kept_[to + 1].level - kept_[i].level).as_double()) <= about) ++to;
      if (kept_[to].time - kept_[i].time <= settled) continue;
      settled = kept_[to].time - kept_[i].time;
      settled_to = to;
    }
    if (2 * settled > end - kept_[last].time) last = settled_to;
    // Not of the moments in which nobody looks.
    while (last > 0 && end - kept_[last].time < least) --last;
    return kept_[last].said;
  }

 private:
  static constexpr Nanos kApart = std::chrono::milliseconds(50), kMin = std::chrono::seconds(1),
                         kMax = std::chrono::minutes(1);
  static constexpr std::size_t kMaxKept = 1200;
  static constexpr double kHigh = 0.98;
  struct One {
    MonoTime time;
    Bytes level;
    Said said;
  };
  std::deque<One> kept_;
};

}  // namespace oomcast
