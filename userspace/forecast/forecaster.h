// Follows one series and says at any moment what is to be expected of it.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/outlook.h"
#include "forecast/trend.h"
#include "leak/shape.h"
#include "model/history.h"

namespace oomcast {

/// One look at a series.
struct Reading {
  MonoTime time;
  /// What is forecast: memory that nothing can take back (pinned, private).
  Bytes value;
  /// What it runs against at this moment; nullopt: nothing.
  std::optional<Bytes> limit;
  /// `value` with what can be dropped (a cgroup: its usage with the page cache) or is shared (processes: the
  /// RSS). nullopt: not known, and neither `cache` nor `cow` can be told.
  std::optional<Bytes> total = std::nullopt;
};

/// What separates `value` from `total`, so that growth of one without the other has a name.
enum class Surplus : std::uint8_t { droppable, shared };

/// The forecast depends on the readings alone: not on when or how often it is asked for. A full analysis
/// (about a millisecond for a leak, some tenths of one for anything else) is made when the series is about 1
/// % older than at the last one, when a reading is not what was expected, and of what leaks near its limit 20
/// times as often; in between the deadline stands and comes closer.
class Forecaster {
 public:
  explicit Forecaster(Surplus surplus = Surplus::droppable) : surplus_(surplus) {}

  /// Readings older than the newest are ignored; one at the same time replaces it. Amortised constant time.
  void add(const Reading& reading);
  /// As of the newest reading. The reference holds until the next call.
  const Forecast& forecast();
  /// What its series take in memory.
  std::size_t footprint() const { return history_.footprint() + total_.footprint(); }

 private:
  struct Leak {
    Trend trend;
    std::vector<Dot> dots;               // that it was fitted to
    Peaks peaks, noise = {};             // noise: what stands above the trend where no peak does
    double rise = 0;                     // since the regime began, bytes
    double floor = 0;                    // now, bytes
    double strength = 0;                 // the rise over what noise and earlier reversed rises give
    bool new_ground = true;              // higher than the series has ever been
    bool of_peaks = false;               // the peaks show it, the floor rises by steps
    std::optional<double> arrived = {};  // s, when it met its limit, at which it stands since
  };
  struct Window {
    std::span<const Bucket> buckets;
    Shape shape;
  };

  bool limit_moved() const;
  void analyse(bool may_alert);
  std::vector<Window> windows_until(double until) const;
  std::optional<Leak> find_leak(const std::vector<Window>& windows, double until) const;
  std::optional<Leak> find_leak(const Window& window, bool whole, double explained, double now) const;
  std::optional<Leak> find_arrived() const;
  std::optional<Leak> find_leak_of_peaks(const Window& window) const;
  Peaks noise_above(const Trend& trend, const Window& window, double since, bool with_excursions) const;
  Peaks peaks_above(const Trend& trend, const Window& window, double since) const;
  void tell_leak(const Leak& leak);
  void tell_arrived(const Leak& leak);
  void tell_rest(const std::vector<Window>& windows);
  bool tell_surplus();
  double least_change() const;
  void decide_alert(const Leak* leak, bool may_alert);
  std::optional<NearLimit> near_limit() const;

  Surplus surplus_;
  History history_, total_;
  std::optional<Bytes> limit_;
  Forecast latest_;
  double life_began_ = 0;                     // s since the first reading
  double analysed_at_ = -1, looked_at_ = -1;  // s since the first reading; the latter: by its own pace
  std::optional<double> meets_, meets_low_, meets_high_;  // the limit, s since the first reading
  std::optional<Bytes> limit_then_;
  double expected_ = 0, slope_ = 0, band_ = 0;  // for the next readings
  bool alert_ = false, near_limit_ = false;
};

}  // namespace oomcast
