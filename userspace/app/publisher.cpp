#include "app/publisher.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace oomcast {
namespace {

void add_fact(StoreWriter& to, const Fact& fact) {
  std::visit(
      [&](const auto& f) {
        using T = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<T, OomFactLine>)
          to.add(EpisodeFact{f});
        else if constexpr (!std::is_same_v<T, StartFact> && !std::is_same_v<T, EndFact>)
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

void Publisher::start(Book::Config config, Sink sink) {
  sink_ = [this, sink = std::move(sink)](const Fact& fact) {
    for (StoreWriter* writer : writers_) add_fact(*writer, fact);
    sink(fact);
  };
  book_.emplace(config);
}

void Publisher::publish(Fact fact) {
  remember(fact);
  analyse(*book_, fact, sink_);
}

ProcessSampleFact Publisher::publish(ProcessSampleFact sample) {
  Fact fact = std::move(sample);
  analyse(*book_, fact, sink_);
  return std::get<ProcessSampleFact>(std::move(fact));
}

void Publisher::store(const EpisodeFact& episode) {
  for (StoreWriter* writer : writers_) writer->add(episode);
}

void Publisher::remember(const Fact& fact) {
  if (auto* alert = std::get_if<AlertFact>(&fact))
    // With its last result, in place of the line that said that it runs.
    std::erase_if(events_, [&](const Fact& event) {
      auto* before = std::get_if<AlertFact>(&event);
      return before && before->time == alert->time && before->rule == alert->rule &&
             before->cgroup == alert->cgroup;
    });
  if (!std::holds_alternative<OomFactLine>(fact) && !std::holds_alternative<UserKillFact>(fact) &&
      !std::holds_alternative<AlertFact>(fact))
    return;
  events_.push_back(fact);
  if (events_.size() > kMaxEvents) events_.pop_front();
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
  (void)store_->finish();
  tell_notices();
}

}  // namespace oomcast
