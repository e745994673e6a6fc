// Hands every fact of a run to all who are to have it, in one order.
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

/// A fact goes to the stores and then to the subscribers, completed by what is forecast; then the forecasts
/// take it, and what they make of it goes the same way.
class Publisher {
 public:
  static constexpr std::size_t kMaxEvents = 100, kMaxOfEvents = 2 << 20;  // bytes

  /// Before start(). The store is written from now on; a recording is its owner's. `tell_error` takes a line
  /// for each failure of the store.
  void keep_in(std::unique_ptr<StoreWriter> store, std::function<void(const std::string&)> tell_error);
  void record_in(StoreWriter& recording) { writers_.push_back(&recording); }
  void start(ForecastRegistry::Config config);
  bool started() const { return forecasts_.has_value(); }

  using Subscription = std::uint64_t;
  /// Every fact goes to `sink` from now on, after the stores and those that subscribed before. How everything is
  /// now, one that comes late gets from the model (newest_facts, snapshots.h).
  Subscription subscribe(Sink sink);
  /// Also by a sink of itself, or of another, while it gets a fact.
  void unsubscribe(Subscription which);

  /// After start().
  void publish(Fact fact);
  /// The same of a process, with what was completed of it.
  ProcessSampleFact publish(ProcessSampleFact sample);
  /// To the stores alone: what is known of a kill before its line, and what came after it.
  void store(const EpisodeFact& episode);

  /// After start().
  const ForecastRegistry& forecasts() const { return *forecasts_; }
  /// OOM kills (without their tables of tasks), SIGKILLs and alerts, newest last: kMaxEvents or kMaxOfEvents
  /// at most, and always the newest.
  const std::deque<Fact>& events() const { return events_; }

  bool has_store() const { return store_ != nullptr; }
  /// Some episode that was given to a store is not in its file yet.
  bool behind() const;
  /// Items that came to nothing.
  std::uint64_t not_stored() const { return store_ ? store_->lost() : 0; }
  void set_clock(Nanos wall_of_mono_zero);
  void set_room(double part);
  /// What is wrong with the store is told on stderr, but not while a screen is drawn.
  void hold_notices(bool hold) { hold_notices_ = hold; }
  bool holds_notices() const { return hold_notices_; }
  void tell_notices();
  /// Writes what waits, and closes the store.
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
