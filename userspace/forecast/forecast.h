// A forecast: what a series does, how fast it grows, and when it hits its limit.
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
  Seconds span{};  // of the samples it is based on
  std::size_t samples = 0;
};

enum class Verdict : std::uint8_t {
  stable,   // no trend above noise
  leak,     // the baseline keeps rising
  spikes,   // excursions that return to the baseline
  step,     // level shifts, flat before and after
  ramp,     // start-up
  cow,      // private memory of forked workers grows while their RSS is flat
  cache,    // what grows is reclaimable
  unknown,  // too early to say; keep last
};
constexpr std::size_t kVerdicts = static_cast<std::size_t>(Verdict::unknown) + 1;
std::string_view to_string(Verdict verdict);

/// "its …": "limit", "memory.high".
std::string_view name_of(std::optional<LimitKind> kind);

/// The series is near its limit, at its highest level so far, and has just risen by more than is left.
struct NearLimit {
  Bytes left, moved;
  Seconds within{};  // time that the rise took
};

/// The numbers behind a verdict; nullopt: does not apply, or not known.
struct Evidence {
  std::optional<Bytes> floor;        // the baseline now
  std::optional<Bytes> peak_above;   // height of a recurring peak above the baseline
  std::optional<Seconds> period;     // between peaks
  std::optional<std::size_t> peaks;  // peaks seen
  std::optional<Seconds> regime;     // how long the present behaviour has lasted
  std::optional<Bytes> stepped;      // sum of all level shifts
  std::optional<Seconds> step_ago;   // time since the last shift
  std::optional<Bytes> shared;       // what copy-on-write may still make private
  std::optional<NearLimit> near_limit;
  std::optional<Thrashing> thrashing;  // its tasks stall in reclaim and no kill comes
};

struct Forecast {
  Verdict verdict = Verdict::unknown;
  std::optional<Growth> growth;
  std::optional<Bytes> limit;
  std::optional<LimitKind> limit_kind;  // nullopt: there is no limit, or it is a card's or another tool's
  /// From the newest sample to the limit: median and a 90 % interval. eta unset: not in sight. eta_high unset
  /// with eta_low set: may never.
  std::optional<Seconds> eta, eta_low, eta_high;
  bool alert = false;  // someone should act
  std::string why;     // one sentence
  Evidence evidence;
};

}  // namespace oomcast
