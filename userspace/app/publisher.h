// Hands every fact of a run to all consumers, in one order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/analysis.h"
#include "base/units.h"
#include "forecast/registry.h"
#include "store/writer.h"
#include "stream/facts.h"

namespace oomcast {

/// A fact, completed from the forecasts, goes to the stores and then to the subscribers; then the forecasts
/// process it, and the facts that they produce go the same way.
class Publisher {
 public:
  static constexpr std::size_t kMaxEvents = 100, kMaxOfEvents = 2 << 20;  // bytes

  /// Call before start(). The store is written from now on; a recording belongs to the caller. `tell_error`
  /// takes a line for each failure of the store.
  void keep_in(std::unique_ptr<StoreWriter> store, std::function<void(const std::string&)> tell_error);
  void record_in(StoreWriter& recording) { writers_.push_back(&recording); }
  void start(ForecastRegistry::Config config);
  bool started() const { return forecasts_.has_value(); }

  using Subscription = std::uint64_t;
  /// Every fact goes to `sink` from now on, after the stores and earlier subscribers. A late subscriber gets
  /// the current state from the model (newest_facts, snapshots.h).
  Subscription subscribe(Sink sink);
  /// A sink may call this while it gets a fact, for itself or for another.
  void unsubscribe(Subscription which);

  /// After start().
  void publish(Fact fact);
  /// The same for a process sample; returns it as completed.
  ProcessSampleFact publish(ProcessSampleFact sample);
  /// To the stores only: a kill before its line is published, and later additions to it.
  void store(const EpisodeFact& episode);

  /// After start().
  const ForecastRegistry& forecasts() const { return *forecasts_; }
  /// OOM kills (without their task tables), SIGKILLs and alerts, newest last: at most kMaxEvents or
  /// kMaxOfEvents, but always the newest.
  const std::deque<Fact>& events() const { return events_; }

  bool has_store() const { return store_ != nullptr; }
  /// Some episode handed to a store is not in its file yet.
  bool behind() const;
  /// Items that could not be stored.
  std::uint64_t not_stored() const { return store_ ? store_->lost() : 0; }
  void set_clock(Nanos wall_of_mono_zero);
  void set_room(double part);
  /// Problems of the store are reported on stderr, but not while the screen is drawn.
  void hold_notices(bool hold) { hold_notices_ = hold; }
  bool holds_notices() const { return hold_notices_; }
  void tell_notices();
  /// Writes what is queued, and closes the store.
  void close_store();

 private:
  void remember(const Fact& fact);
  void hand_out(const Fact& fact);

  std::unique_ptr<StoreWriter> store_;
  std::vector<StoreWriter*> writers_;  // `store_` and recordings
  std::function<void(const std::string&)> tell_error_;
  bool hold_notices_ = false;
  std::map<Subscription, Sink> subscribers_;  // in their order
  Subscription next_subscription_ = 1;
  std::optional<ForecastRegistry> forecasts_;  // from start() on
  std::deque<Fact> events_;
  std::size_t bytes_of_events_ = 0;
};

}  // namespace oomcast
