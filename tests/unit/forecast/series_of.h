// Series for the forecast's tests: made from a formula, with noise that is the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "forecast/forecaster.h"

namespace oomcast {

inline constexpr double kGiB = 1073741824.0;

/// About normal, standard deviation 1, mean 0; the same sequence on every machine.
class Noise {
 public:
  double operator()() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      sum += static_cast<double>(state_ >> 11) / 9007199254740992.0;
    }
    return sum - 6;
  }

 private:
  std::uint64_t state_ = 42;
};

inline MonoTime at_s(double s) {
  return MonoTime(Nanos(std::llround((s + 1) * 1e9)));
}

/// Feeds value(t) for t = from, from + step, … < to, in GiB, under `limit_gib` (0: none).
inline void feed(Forecaster& f, double from, double to, double step, double limit_gib,
                 const std::function<double(double)>& value) {
  auto gib = [](double v) { return Bytes{std::llround(v * kGiB)}; };
  for (double t = from; t < to; t += step)
    f.add({at_s(t), gib(value(t)), limit_gib > 0 ? std::optional(gib(limit_gib)) : std::nullopt});
}

}  // namespace oomcast
