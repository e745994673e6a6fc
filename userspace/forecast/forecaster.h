// Follows one series and forecasts it.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/calibration.h"
#include "forecast/forecast.h"
#include "forecast/last_word.h"
#include "forecast/leak.h"
#include "forecast/leak_alert.h"
#include "forecast/restarts.h"
#include "forecast/surplus.h"
#include "model/history.h"

namespace oomcast {

/// One reading of a series.
struct Reading {
  MonoTime time;
  /// What is forecast: unreclaimable memory (a process: private memory).
  Bytes value;
  /// The limit it runs against now; nullopt: none.
  std::optional<Bytes> limit;
  /// `value` plus what is reclaimable (a cgroup: its usage with the page cache) or shared (processes: the RSS).
  /// nullopt: not known; neither `cache` nor `cow` can then be the verdict.
  std::optional<Bytes> total = std::nullopt;
  std::optional<LimitKind> limit_kind = std::nullopt;  // see Forecast
};

/// The forecast depends on the readings alone, not on when or how often it is queried. A full analysis (about a
/// millisecond for a leak, some tenths of one for anything else) runs when the series is about 1 % older than at
/// the last one, or a twentieth nearer to its deadline; 60 times in the minutes after the first unexpected
/// reading; and 20 times as often for a leak near its limit. In between, the deadline keeps its date.
class Forecaster {
 public:
  explicit Forecaster(Surplus surplus = Surplus::droppable) : surplus_(surplus) {}

  /// Readings older than the newest are ignored; one at the same time replaces it. Amortised constant time.
  void add(const Reading& reading);
  /// As of the newest reading. The reference holds until the next call.
  const Forecast& forecast();
  /// Memory used by its series, bytes.
  std::size_t footprint() const {
    return history_.footprint() + total_.footprint() + calibration_.footprint();
  }

 private:
  bool limit_moved() const;
  std::optional<NearLimit> near() const;
  void analyse(bool may_alert);
  void tell_leak(const Leak& leak);
  void tell_arrived(const Leak& leak);
  void tell_copies(const Leak& leak);
  void tell_freed_before(const Leak& leak, double height);
  void tell_near();
  double least_change() const;
  bool starts_up(const Leak& leak) const;
  bool loads() const;

  Surplus surplus_;
  History history_, total_;
  std::optional<Bytes> limit_;
  std::optional<LimitKind> limit_kind_;
  Forecast latest_;
  double life_began_ = 0;  // s since the first reading
  PastLives lives_;
  double analysed_at_ = -1, looked_at_ = -1;  // s since the first reading; the latter: by its own pace
  std::optional<double> surprised_at_;        // by the first of the readings that were not expected
  std::optional<Meeting> meets_;              // its limit
  Calibration calibration_;                   // of the deadlines of this life, against this limit
  std::optional<Bytes> limit_then_;
  Sentence told_;                     // before the newest readings are held against it
  double expected_ = 0, slope_ = 0;   // for the next readings
  double band_ = 0, noise_band_ = 0;  // of the mean over a while, of a single one
  struct Alarms {
    bool leak = false, near_limit = false, ends_soon = false;
  } alarms_;
};

}  // namespace oomcast
