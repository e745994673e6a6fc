// The part of GpuMemory that is about cards.
#include <algorithm>

#include "model/gpu_memory.h"

namespace oomcast {

// The driver lists cards that somebody uses; of others its counters begin anew.
void GpuMemory::forget_counters_of_others(const std::vector<GpuCard>& cards) {
  for (auto& [uuid, card] : cards_) {
    if (card.counters.uuid != uuid || std::ranges::find(cards, uuid, &GpuCard::uuid) != cards.end()) continue;
    card.counters = card.counters_before = {};
    card.free.reset();
  }
}

// One that only programs speak of makes way for one that the driver lists.
bool GpuMemory::has_room_for_card(const GpuUuid& uuid) {
  if (cards_.size() < kMaxCards || cards_.contains(uuid)) return true;
  auto claimed =
      std::ranges::find_if(cards_, [](const auto& c) { return c.second.counters.uuid != c.first; });
  if (claimed == cards_.end()) return false;
  cards_.erase(claimed);
  return true;
}

void GpuMemory::on_cards(MonoTime time, const std::vector<GpuCard>& cards, Bytes page) {
  forget_counters_of_others(cards);
  for (const GpuCard& now : cards) {
    if (!has_room_for_card(now.uuid)) {
      ++dropped_;
      continue;
    }
    GpuCardState& card = cards_[now.uuid];
    bool is_new = !card.memory && !card.counters.faults && !card.counters.migrated_pages_in;
    card.counters_before = is_new ? now : card.counters;
    card.counters = now;
    if (now.memory) card.memory = now.memory;
  }
  for (const GpuCard& now : cards)
    if (auto at = cards_.find(now.uuid); at != cards_.end())
      look_for_oversubscription(time, at->first, at->second, page);
  if (cards.size() == 1) only_device_ = cards.front().uuid;
  if (cards.size() > 1) only_device_.reset();
}

// Possible where more is held than the card has; it is when the driver pushes pages out as well. What is
// known to be evicted needs no other proof: it was pushed out because the card was full.
void GpuMemory::look_for_oversubscription(MonoTime time, const GpuUuid& uuid, GpuCardState& card,
                                          Bytes page) {
  auto before = card.counters_before.migrated_pages_out, now = card.counters.migrated_pages_out;
  if (!before || !now || *now <= *before) return;
  Bytes asked{};
  std::pair<Bytes, TaskId> most, most_evicted;
  for (const auto& [task, process] : processes_) {
    auto on_card = process.held.by_device.find(uuid);
    if (on_card == process.held.by_device.end()) continue;
    asked += on_card->second + process.held.managed;
    most = std::max(most, {process.held.managed, task});
    // The card's counters and the events of pages are not read at the same moment.
    Bytes evicted = process.evicted_before;
    if (process.held.activity) evicted += process.held.activity->evicted;
    most_evicted = std::max(most_evicted, {evicted, task});
  }
  if (most_evicted.first.count > 0)
    most = most_evicted;
  else if (!card.memory || asked <= *card.memory || most.first.count == 0)
    return;
  bool is_news = !card.oversubscribed || time - *card.oversubscribed > kOversubscribed;
  card.oversubscribed = time;
  if (!is_news) return;
  GpuOp what;
  what.kind = GpuMemoryKind::managed;
  what.device = uuid;
  what.bytes = Bytes{static_cast<std::int64_t>(*now - *before) * page.count};
  add_event(time, most.second, GpuEvent::Op::oversubscribed, what);
}

std::map<GpuUuid, GpuMemory::OnCard> GpuMemory::held_by_card() const {
  std::map<GpuUuid, OnCard> out;
  for (const auto& [uuid, card] : cards_) out.try_emplace(uuid);
  for (const auto& [task, process] : processes_)
    for (const auto& [uuid, bytes] : process.held.by_device) {
      auto at = out.find(uuid);
      // What a program claims of a card that nobody else knows is its own invention.
      if (at == out.end() && out.size() < 2 * kMaxCards) at = out.try_emplace(uuid).first;
      if (at == out.end()) continue;
      at->second.held += bytes;
      at->second.since_before = at->second.since_before || process.held.since_before;
    }
  for (const auto& [uuid, card] : cards_)
    if (auto at = out.find(uuid); card.free && at != out.end())
      at->second.free = std::max(Bytes{}, *card.free - (at->second.held - card.held_then));
  return out;
}

// CUDA asks for it as it begins, before it makes a context, and has the driver name the card before that.
void GpuMemory::on_free_seen(const Process& p, const GpuOp& op) {
  auto named = p.cards.find(op.object);
  auto card = op.device ? op.device : named != p.cards.end() ? std::optional(named->second) : card_of(p);
  if (!card || (!cards_.contains(*card) && cards_.size() >= kMaxCards)) return;
  GpuCardState& state = cards_[*card];
  state.free = op.free_bytes;
  state.held_then = {};
  for (const auto& [task, process] : processes_)
    if (auto on_card = process.held.by_device.find(*card); on_card != process.held.by_device.end())
      state.held_then += on_card->second;
  // The newest word of a program, so that a false one lasts until the next one asks; the driver's own stands.
  if (op.bytes && !state.counters.memory) state.memory = op.bytes;
}

}  // namespace oomcast
