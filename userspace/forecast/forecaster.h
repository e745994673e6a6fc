// Follows one series and says at any moment what is to be expected of it.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/forecast.h"
#include "model/series.h"

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

/// The forecast depends on the readings alone: not on when or how often it is asked for.
class Forecaster {
 public:
  explicit Forecaster(Surplus surplus = Surplus::droppable) : surplus_(surplus) {}

  /// Readings older than the newest are ignored; one at the same time replaces it. Amortised constant time.
  void add(const Reading& reading);
  /// As of the newest reading. The reference holds until the next call.
  const Forecast& forecast();

 private:
  Surplus surplus_;
  Series series_;
  std::optional<Bytes> limit_;
  Forecast latest_;
};

}  // namespace oomcast
