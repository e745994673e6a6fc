// Two runs, before a fix and after it: whether it helped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forecast/forecast.h"

namespace oomcast {

/// What a run has shown at its end.
struct RunShown {
  Verdict verdict = Verdict::unknown;
  std::optional<Growth> growth;
  Seconds lasted{};
  Bytes highest;
  Bytes wobble;                            // between its lowest and its highest level lately
  std::optional<std::uint64_t> oom_kills;  // nullopt: the file does not say
};

struct FixAnswer {
  std::optional<bool> helped;  // nullopt: it cannot be said yet
  std::optional<Seconds>
      run_for;      // how long both would have to run until it can; nullopt: until the fault shows
  std::string why;  // one sentence, which begins with the answer
};

/// Growth that B does not show counts as cured only if B ran long enough to show it: beyond the moment at
/// which A began to grow, by as long as A's slowest growth takes to stand out of B's ups and downs. Two
/// growths differ where their 90 % intervals do not overlap.
FixAnswer did_it_help(const RunShown& a, const RunShown& b);

}  // namespace oomcast
