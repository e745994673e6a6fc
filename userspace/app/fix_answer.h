// Compares two runs, before and after a fix: did it help?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forecast/forecast.h"

namespace oomcast {

/// The state at the end of a run.
struct RunShown {
  Verdict verdict = Verdict::unknown;
  std::optional<Growth> growth;
  Seconds lasted{};
  Bytes highest;
  Bytes wobble;                            // between its lowest and its highest recent level
  std::optional<std::uint64_t> oom_kills;  // nullopt: not in the file
};

struct FixAnswer {
  std::optional<bool> helped;      // nullopt: not known yet
  std::optional<Seconds> run_for;  // how long both must run until it is known; nullopt: until the fault shows
  std::string why;                 // one sentence, which begins with the answer
};

/// Growth missing in B counts as cured only if B ran long enough to show it: past the time at which A began
/// to grow, plus the time A's slowest growth needs to stand out of B's noise. Two growth rates differ if
/// their 90 % intervals do not overlap.
FixAnswer did_it_help(const RunShown& a, const RunShown& b);

}  // namespace oomcast
