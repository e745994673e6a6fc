// What is said of a series: what it does, how fast it grows, and when it meets its limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "model/facts.h"
#include "model/thrashing.h"

namespace oomcast {

/// Slope with a 90 % interval.
struct Growth {
  BytesPerSec rate, low, high;
  Seconds span{};  // of the samples it rests on
  std::size_t samples = 0;
};

enum class Verdict : std::uint8_t {
  stable,   // no trend above noise
  leak,     // the floor rises and goes on rising
  spikes,   // excursions that come back
  step,     // level shifts, flat before and after
  ramp,     // start-up
  cow,      // private memory of forked workers grows while their RSS is flat
  cache,    // what grows can be dropped
  unknown,  // too early; the last one
};
constexpr std::size_t kVerdicts = static_cast<std::size_t>(Verdict::unknown) + 1;
std::string_view to_string(Verdict verdict);

/// "its …": "limit", "memory.high".
std::string_view name_of(std::optional<LimitKind> kind);

/// It stands near its limit, higher than ever, and has just risen by more than is left.
struct NearLimit {
  Bytes left, moved;
  Seconds within{};  // it moved
};

/// The numbers a verdict rests on; nullopt: does not apply, or not known.
struct Evidence {
  std::optional<Bytes> floor;        // what the series comes back to, now
  std::optional<Bytes> peak_above;   // how far a recurring peak stands above the floor
  std::optional<Seconds> period;     // between two peaks
  std::optional<std::size_t> peaks;  // that were seen
  std::optional<Seconds> regime;     // for how long the present behaviour lasts
  std::optional<Bytes> stepped;      // by how much the level shifted, all shifts together
  std::optional<Seconds> step_ago;   // when it last did
  std::optional<Bytes> shared;       // what copy-on-write may still make private
  std::optional<NearLimit> near_limit;
  std::optional<Thrashing> thrashing;  // no kill comes, and its tasks wait for memory
};

struct Forecast {
  Verdict verdict = Verdict::unknown;
  std::optional<Growth> growth;
  std::optional<Bytes> limit;
  std::optional<LimitKind> limit_kind;  // nullopt: there is no limit, or it is a card's or another tool's
  /// From the newest sample to the limit: median and a 90 % interval. eta unset: not in sight. eta_high unset
  /// with eta_low set: may never.
  std::optional<Seconds> eta, eta_low, eta_high;
  bool alert = false;  // a person should act
  std::string why;     // one sentence
  Evidence evidence;
};

}  // namespace oomcast
