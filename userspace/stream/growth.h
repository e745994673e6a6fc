// From where processes grew, in words that say what each rests on. What was kept or is held has its part of
// the growth; what was only touched has none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/facts.h"

namespace oomcast {

/// Measurement noise of any program's memory.
constexpr Bytes kUsualChange = MiB(1);

/// Of two places of one process, which to print first: one that a fifth of its growth certainly came from, or
/// the one where more of it was touched.
bool is_better_known(const GrewFrom& a, const GrewFrom& b);

/// One of them is set.
struct GrowthSource {
  const GrewFrom* site = nullptr;
  const GrownHolder* holder = nullptr;
  const ProcessRef& process() const { return site ? site->process : holder->process; }
  /// Of what its process grew by, the part that certainly came from there. 0: that line was seen to touch
  /// pages first, and may be a temporary's.
  double sure_share() const { return site ? site->sure_share() : holder->share(); }
};
/// What to print, in order: by process, the surest and largest first. A container that a place is held by is
/// named with the place, if that has most of it. They point into what was given.
std::vector<GrowthSource> growth_sources(const GrowthOrigins& origins);

/// The process changed no more than any program does while it was profiled, so its line explains nothing.
bool only_varied(const GrowthSource& source);

/// "held by cache in __main__, list of 55: +36 Tensor". Safe on a terminal.
std::string describe_container(const GrownHolder& holder);
/// And ", added by hook (train.py:15)", where a line was seen to.
std::string describe(const GrownHolder& holder);
/// The same of the container that holds what a place keeps, as far as `holders` know it; empty: none does.
std::string describe_holder(const GrewFrom& site, std::span<const GrownHolder> holders);
/// What it rests on, as "58.0 MiB ± 1.00 MiB allocated there and not freed".
std::string describe_evidence(const GrewFrom& site);
/// Why a place that was only touched need not be the one that keeps.
std::string describe_doubt(const GrewFrom& site);
/// A line of all that, with the process: "kept by hook (train.py:15): 58.0 MiB ± 1.00 MiB, 97 % of the …".
std::string describe(const GrowthSource& source, std::span<const GrownHolder> holders);

/// The callers of where it grew, innermost first; empty: none is known.
std::string describe_callers(const std::vector<CodePlace>& code);
/// What weakens its share, as "120 of 240 samples were lost"; empty: nothing that is known.
std::string doubts_of(const GrewFrom& grew);

}  // namespace oomcast
