#include "app/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace oomcast {
namespace {

constexpr Nanos kStorePatience = std::chrono::seconds(5);  // on exit

// Approximate. A kill with a thousand victims counts like a thousand kills.
std::size_t bytes_of(const Fact& fact) {
  std::size_t out = sizeof(fact);
  if (auto* oom = std::get_if<OomEvent>(&fact))
    for (const Victim& v : oom->episode.victims)
      out += sizeof(v) + v.process.cmdline.bytes().size() + v.code.size() * sizeof(CodePlace);
  return out;
}

void add_fact(StoreWriter& to, const Fact& fact) {
  std::visit(
      [&](const auto& f) {
        using T = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<T, OomEvent>)
          to.add(EpisodeFact{f});
        else if constexpr (!std::is_same_v<T, StartFact> && !std::is_same_v<T, EndFact> &&
                           !std::is_same_v<T, LimitChangedFact> &&  // the samples have their limits
                           !std::is_same_v<T, TotalsFact>)
          to.add(f);
      },
      fact);
}

}  // namespace

void Publisher::keep_in(std::unique_ptr<StoreWriter> store,
                        std::function<void(const std::string&)> tell_error) {
  store_ = std::move(store);
  tell_error_ = std::move(tell_error);
  writers_.push_back(store_.get());
}

void Publisher::start(ForecastRegistry::Config config) {
  forecasts_.emplace(config);
}

Publisher::Subscription Publisher::subscribe(Sink sink) {
  subscribers_.emplace(next_subscription_, std::move(sink));
  return next_subscription_++;
}

void Publisher::unsubscribe(Subscription which) {
  subscribers_.erase(which);
}

void Publisher::hand_out(const Fact& fact) {
  for (StoreWriter* writer : writers_) add_fact(*writer, fact);
  // Any sink may unsubscribe itself or the next one while it gets the fact.
  for (auto next = subscribers_.begin(); next != subscribers_.end();) {
    Subscription id = next->first;
    Sink(next->second)(fact);
    next = subscribers_.upper_bound(id);
  }
}

void Publisher::publish(Fact fact) {
  remember(fact);
  analyse(*forecasts_, fact, [this](const Fact& each) { hand_out(each); });
}

ProcessSampleFact Publisher::publish(ProcessSampleFact sample) {
  Fact fact = std::move(sample);
  analyse(*forecasts_, fact, [this](const Fact& each) { hand_out(each); });
  return std::get<ProcessSampleFact>(std::move(fact));
}

void Publisher::store(const EpisodeFact& episode) {
  for (StoreWriter* writer : writers_) writer->add(episode);
}

void Publisher::remember(const Fact& fact) {
  if (auto* alert = std::get_if<AlertFact>(&fact))
    // The latest result replaces the line for the running action.
    std::erase_if(events_, [&](const Fact& event) {
      auto* before = std::get_if<AlertFact>(&event);
      bool same = before && before->time == alert->time && before->rule == alert->rule &&
                  before->cgroup == alert->cgroup && before->message == alert->message;
      if (same) bytes_of_events_ -= bytes_of(event);
      return same;
    });
  if (!std::holds_alternative<OomEvent>(fact) && !std::holds_alternative<UserKillFact>(fact) &&
      !std::holds_alternative<AlertFact>(fact))
    return;
  events_.push_back(fact);
  if (auto* oom = std::get_if<OomEvent>(&events_.back())) oom->episode.tasks.rows.clear();
  bytes_of_events_ += bytes_of(events_.back());
  while (events_.size() > kMaxEvents || (bytes_of_events_ > kMaxOfEvents && events_.size() > 1)) {
    bytes_of_events_ -= bytes_of(events_.front());
    events_.pop_front();
  }
}

bool Publisher::behind() const {
  return std::ranges::any_of(writers_, [](const StoreWriter* w) { return w->behind(); });
}

void Publisher::set_clock(Nanos wall_of_mono_zero) {
  for (StoreWriter* writer : writers_) writer->set_clock(wall_of_mono_zero);
}

void Publisher::set_room(double part) {
  for (StoreWriter* writer : writers_) writer->set_room(part);
}

void Publisher::tell_notices() {
  if (!store_ || hold_notices_) return;
  for (const std::string& notice : store_->take_notices()) tell_error_(notice);
}

void Publisher::close_store() {
  if (!store_) return;
  if (!store_->ends_within(kStorePatience)) {
    tell_error_(fmt::format(
        "the store was not closed within {} s: its disk stands still, and what came last may not be in it",
        kStorePatience / std::chrono::seconds(1)));
    std::erase(writers_, store_.release());  // its thread goes on until the process exits
    return;
  }
  (void)store_->finish();
  tell_notices();
}

}  // namespace oomcast
