#include "model/gpu_memory.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace oomcast {
namespace {

using What = GpuOp::What;
using Op = GpuEvent::Op;

Op op_of(What what) {
  switch (what) {
    case What::context:
      return Op::context;
    case What::reserve:
      return Op::reserve;
    case What::map:
      return Op::map;
    case What::unmap:
    case What::free_range:
      return Op::unmap;
    case What::migrate:
      return Op::migrate;
    case What::free_seen:
      return Op::free_seen;
    default:
      return Op::advise;
  }
}

// The card is claimed by the program itself.
bool may_be_on(const GpuHeld& held, const GpuUuid& card) {
  return held.by_device.contains(card) || held.by_device.size() < GpuMemory::kMaxCards;
}

}  // namespace

std::string_view to_string(GpuEvent::Op op) {
  constexpr std::array<std::string_view, 15> names = {
      "context",   "alloc", "free",      "reserve",        "map",   "unmap", "migrate", "advise",
      "free_seen", "oom",   "recovered", "oversubscribed", "again", "close", "xid"};
  return names[static_cast<std::size_t>(op)];
}

bool is_news(Op op) {
  return op == Op::oom || op == Op::recovered || op == Op::again || op == Op::oversubscribed || op == Op::xid;
}

std::string_view to_string(GpuMemoryKind kind) {
  constexpr std::array<std::string_view, 4> names = {"device", "managed", "pinned", "external"};
  return names[static_cast<std::size_t>(kind)];
}

GpuMemory::Process& GpuMemory::process(TaskId task) {
  auto known = processes_.find(task);
  if (known != processes_.end()) return known->second;
  if (processes_.size() < kMaxProcesses) return processes_[task];
  ++dropped_;
  return nobody_ = {};
}

const GpuHeld* GpuMemory::of(TaskId task) const {
  auto known = processes_.find(task);
  return known == processes_.end() ? nullptr : &known->second.held;
}

bool GpuMemory::holds(TaskId task, const GpuObject& object) const {
  auto known = processes_.find(task);
  return known != processes_.end() && known->second.handles.contains(object);
}

GpuEvent& GpuMemory::add_event(MonoTime time, TaskId task, Op op, const GpuOp& from) {
  GpuEvent event;
  event.time = time;
  event.task = task;
  event.op = op;
  event.kind = from.kind;
  event.bytes = from.bytes;
  event.free_bytes = from.free_bytes;
  event.address = from.address;
  event.device = from.device;
  event.status = from.status;
  return events_.emplace_back(std::move(event));
}

void GpuMemory::on_activity(TaskId task, const std::optional<GpuActivity>& total) {
  auto known = processes_.find(task);
  if (known == processes_.end()) return;
  Process& p = known->second;
  p.evicted_before = p.held.activity ? p.held.activity->evicted : Bytes{};
  if (total)
    p.held.activity = p.activity ? *total - *p.activity : *total;
  else
    p.held.activity.reset();
  p.activity = total;
}

void GpuMemory::on_xid(const wire::GpuXid& xid, std::optional<GpuUuid> card,
                       std::optional<std::uint32_t> blamed) {
  TaskId task;
  for (const auto& [id, process] : processes_)
    if (blamed && id.tgid == *blamed) task = id;
  GpuOp what;
  what.status = xid.code;
  what.device = card;
  GpuEvent& told = add_event(xid.time, task, Op::xid, what);
  told.bus = xid.bus;
  told.message = xid.message;
}

// The card of a call that does not name it: the one with the process's only context, or the only one that the
// driver lists as in use.
std::optional<GpuUuid> GpuMemory::card_of(const Process& process) const {
  const auto& by_device = process.held.by_device;
  if (by_device.size() == 1) return by_device.begin()->first;
  return by_device.empty() ? only_device_ : std::nullopt;
}

void GpuMemory::on(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors) {
  first_of_call_ = events_.size();
  Process& p = process(task);
  if (p.context_at) {
    if (time - *p.context_at > kContextQuiet)
      p.context_at.reset();
    else
      p.context_at = time;
  }
  bool asks = op.what == What::alloc || op.what == What::map || op.what == What::reserve;
  if (is_out_of_memory(op.status, asks)) {
    on_refused(time, task, op);
    return;
  }
  if (op.what == What::check_range) {
    // A mapping unknown to the driver is not its memory.
    if (failed(op.status)) unmap_managed(time, task, op);
    return;
  }
  if (!failed(op.status)) succeeded(time, task, op, ancestors);
}

void GpuMemory::succeeded(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors) {
  Process& p = process(task);
  switch (op.what) {
    case What::open:
    case What::version:
      return;
    case What::card:
      if (p.cards.size() >= kMaxCards) p.cards.clear();
      if (op.device) p.cards[op.object] = *op.device;
      return;
    case What::registers:
      on_own_memory(time, task, op);
      return;
    case What::context:
      ++p.held.contexts;
      p.held.took = true;
      p.context_at = time;
      if (op.device && may_be_on(p.held, *op.device)) p.held.by_device.try_emplace(*op.device);
      break;
    case What::context_end:
      if (p.held.contexts > 0) --p.held.contexts;
      return;
    case What::alloc:
      allocate(time, task, op);
      return;
    case What::free:
      free(time, task, op, ancestors);
      return;
    case What::duplicate:
      if (auto memory = find(p, op.source); memory && !p.handles.contains(op.object) && has_room(p))
        add(task, p, op.object, {memory, op.parent});
      return;
    case What::map:
      map(holder_of(op.object, task, ancestors), op);
      break;
    case What::managed_map:
      map_managed(time, task, op);
      return;
    case What::unmapped:
      unmap_managed(time, task, op);
      return;
    case What::free_seen:
      on_free_seen(p, op);
      break;
    default:
      break;
  }
  add_event(time, task, op_of(op.what), op);
}

// libcuda retries, and so does PyTorch: one refusal is four calls.
void GpuMemory::on_refused(MonoTime time, TaskId task, const GpuOp& op) {
  Process& p = process(task);
  bool same = p.refused_last && p.refused && p.refused->bytes == op.bytes && p.refused->kind == op.kind;
  if (same && time - p.refused->time <= kRecovered)
    p.refused->time = time;
  else
    p.refused = add_event(time, task, Op::oom, op);
  p.refused_last = true;
}

// The program's first own allocation ends the creation of its context, however soon it comes.
void GpuMemory::on_own_memory(MonoTime time, TaskId task, const GpuOp& op) {
  Process& p = process(task);
  p.context_at.reset();
  auto known = p.handles.find(op.object);
  if (known == p.handles.end() || !known->second.memory->overhead) return;
  Memory& memory = *known->second.memory;
  if (memory.owner != task) return;
  count(memory, -1);
  memory.overhead = false;
  count(memory, 1);
  if (memory.kind == GpuMemoryKind::device) look_for_copies(time, task, p, memory.bytes);
}

void GpuMemory::count(const Memory& memory, std::int64_t sign) {
  auto known = processes_.find(memory.owner);
  if (known == processes_.end()) return;
  GpuHeld& held = known->second.held;
  Bytes bytes{sign * memory.bytes.count};
  if (memory.kind == GpuMemoryKind::device) {
    held.device += bytes;
    if (memory.device) held.by_device[*memory.device] += bytes;
  }
  if (memory.kind == GpuMemoryKind::pinned) held.pinned += bytes;
  if (memory.overhead) held.overhead += bytes;
}

void GpuMemory::allocate(MonoTime time, TaskId task, const GpuOp& op) {
  Process& p = process(task);
  // For a kernel that needs more local memory than any before, a context frees its block and allocates a
  // larger one.
  auto makes_room = std::exchange(p.makes_room, std::nullopt);
  bool overhead = p.context_at || (makes_room && time - *makes_room <= kMakesRoom);
  if (op.kind != GpuMemoryKind::external && op.bytes) {
    if (auto before = p.handles.find(op.object); before != p.handles.end())
      release(task, p, before);  // reused
    if (!has_room(p) || p.held.device + p.held.pinned + *op.bytes > kMaxOfOne) {
      if (&p != &nobody_) ++dropped_;
      return;
    }
    Memory memory{task, op.kind, *op.bytes, overhead, {}};
    if (op.kind == GpuMemoryKind::device) memory.device = card_of(p);
    memory.assumed = memory.device.has_value();
    count(memory, 1);
    add(task, p, op.object, {std::make_shared<Memory>(memory), op.parent});
  }
  p.refused_last = false;
  GpuEvent& told = add_event(time, task, Op::alloc, op);
  told.overhead = overhead;
  if (!told.device && op.kind == GpuMemoryKind::device) told.device = card_of(p);
  if (p.refused && op.bytes && time - p.refused->time <= kRecovered && op.bytes >= p.refused->bytes) {
    add_event(time, task, Op::recovered, op);
    p.refused.reset();
  }
  if (op.kind == GpuMemoryKind::device && op.bytes && !overhead) look_for_copies(time, task, p, *op.bytes);
}

// A second copy of a model is a burst of allocations with the same sum as an earlier burst.
void GpuMemory::look_for_copies(MonoTime time, TaskId task, Process& p, Bytes bytes) {
  if (p.bursts.empty() || time - p.bursts.back().last > kBurstGap) {
    if (p.bursts.size() == kMaxBursts) p.bursts.erase(p.bursts.begin());
    p.bursts.push_back({time, time, Bytes{}});
  }
  Burst& now = p.bursts.back();
  now.last = time;
  now.bytes += bytes;
  if (now.bytes < kMinCopy || p.told_again == now.first) return;
  for (auto before = p.bursts.begin(); before + 1 != p.bursts.end(); ++before) {
    Bytes apart{std::abs(before->bytes.count - now.bytes.count)};
    if (apart.count * 50 > now.bytes.count || p.held.device < before->bytes + now.bytes) continue;
    GpuOp all;
    all.bytes = now.bytes;
    all.device = card_of(p);
    add_event(time, task, Op::again, all).first = before->first;
    p.told_again = now.first;
    return;
  }
}

bool GpuMemory::has_room(const Process& process) const {
  return &process != &nobody_ && objects_ < most_objects_ && process.handles.size() < kMaxObjectsOfOne;
}

void GpuMemory::add(TaskId task, Process& process, const GpuObject& object, Handle handle) {
  ++handle.memory->handles[task];
  process.held.took = true;
  process.below.emplace(object.client, handle.parent, object.object);
  process.handles[object] = std::move(handle);
  by_client_[object.client].insert(task);
  ++objects_;
}

// Uncharges the process.
std::optional<GpuMemory::Memory> GpuMemory::release(TaskId task, Process& process,
                                                    std::map<GpuObject, Handle>::iterator at) {
  std::shared_ptr<Memory> memory = at->second.memory;
  std::uint32_t client = at->first.client;
  process.below.erase({client, at->second.parent, at->first.object});
  process.handles.erase(at);
  --objects_;
  auto left = process.handles.lower_bound({client, 0});
  if (left == process.handles.end() || left->first.client != client) {
    auto of_client = by_client_.find(client);
    of_client->second.erase(task);
    if (of_client->second.empty()) by_client_.erase(of_client);
  }
  auto own = memory->handles.find(task);
  if (--own->second > 0) return std::nullopt;
  memory->handles.erase(own);
  if (memory->owner != task) return std::nullopt;
  Memory freed = *memory;
  count(freed, -1);
  if (!memory->handles.empty()) charge_another(*memory);
  return freed;
}

void GpuMemory::charge_another(Memory& memory) {
  memory.owner = memory.handles.begin()->first;
  auto heir = processes_.find(memory.owner);
  if (heir != processes_.end() && memory.device && !may_be_on(heir->second.held, *memory.device))
    memory.device.reset();
  count(memory, 1);
}

// Its own memory, or memory shared by another process.
std::shared_ptr<GpuMemory::Memory> GpuMemory::find(const Process& process, const GpuObject& object) const {
  if (auto own = process.handles.find(object); own != process.handles.end()) return own->second.memory;
  auto of_client = by_client_.find(object.client);
  if (of_client == by_client_.end()) return nullptr;
  std::size_t asked = 0;
  for (TaskId task : of_client->second) {
    if (asked++ == kMaxOfClient) break;
    const auto& handles = processes_.at(task).handles;
    if (auto at = handles.find(object); at != handles.end()) return at->second.memory;
  }
  return nullptr;
}

// The process or an ancestor that holds it; if there is none, the process itself.
TaskId GpuMemory::holder_of(const GpuObject& object, TaskId task, std::span<const TaskId> ancestors) const {
  auto holds = [&](TaskId id) {
    auto known = processes_.find(id);
    return known != processes_.end() && known->second.handles.contains(object);
  };
  if (holds(task)) return task;
  auto above = std::ranges::find_if(ancestors, holds);
  return above == ancestors.end() ? task : *above;
}

void GpuMemory::free(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors) {
  if (free_of(time, task, op)) return;
  for (TaskId above : ancestors)
    if (free_of(time, above, op)) return;
  if (process(task).held.since_before) add_event(time, task, Op::free, op).bytes.reset();
}

// Returns whether the holder had it.
bool GpuMemory::free_of(MonoTime time, TaskId holder, const GpuOp& op) {
  auto known = processes_.find(holder);
  if (known == processes_.end()) return false;
  Process& p = known->second;
  auto release_all = [&](std::map<GpuObject, Handle>::iterator at) {
    auto memory = release(holder, p, at);
    if (!memory) return;
    if (memory->overhead && memory->kind == GpuMemoryKind::device) p.makes_room = time;
    GpuOp what;
    what.kind = memory->kind;
    what.bytes = memory->bytes;
    what.device = memory->device;
    what.status = op.status;
    add_event(time, holder, Op::free, what).overhead = memory->overhead;
  };
  if (auto own = p.handles.find(op.object); own != p.handles.end()) return release_all(own), true;
  // Freeing a client or device frees everything below it.
  bool any = false;
  auto [client, object] = op.object;
  if (client == object)
    for (auto at = p.handles.lower_bound({client, 0}); at != p.handles.end() && at->first.client == client;
         any = true)
      release_all(at++);
  for (auto at = p.below.lower_bound({client, object, 0});
       at != p.below.end() && std::get<0>(*at) == client && std::get<1>(*at) == object; any = true)
    release_all(p.handles.find({client, std::get<2>(*at++)}));
  return any;
}

void GpuMemory::map(TaskId holder, const GpuOp& op) {
  auto process = processes_.find(holder);
  if (process == processes_.end() || !op.device) return;
  Process& p = process->second;
  auto known = p.handles.find(op.object);
  if (known == p.handles.end()) return;
  Memory& memory = *known->second.memory;
  if ((memory.device && !memory.assumed) || memory.owner != holder || !may_be_on(p.held, *op.device)) return;
  count(memory, -1);
  memory.device = op.device;
  memory.assumed = false;
  count(memory, 1);
}

void GpuMemory::map_managed(MonoTime time, TaskId task, const GpuOp& op) {
  Process& p = process(task);
  if (!op.address || !op.bytes || op.bytes->count <= 0) return;
  if (p.managed.size() >= kMaxRanges || p.held.managed + *op.bytes > kMaxOfOne) {
    ++dropped_;
    return;
  }
  // MAP_FIXED: the previous mapping is gone.
  std::size_t before = events_.size();
  unmap_managed(time, task, op);
  events_.resize(before);
  p.managed[*op.address] = static_cast<std::uint64_t>(op.bytes->count);
  p.held.managed += *op.bytes;
  p.held.took = true;
  add_event(time, task, Op::alloc, op);
}

// munmap may cover a part of a range, or several ranges.
void GpuMemory::unmap_managed(MonoTime time, TaskId task, const GpuOp& op) {
  auto known = processes_.find(task);
  if (known == processes_.end() || !op.address || !op.bytes || op.bytes->count <= 0) return;
  auto& ranges = known->second.managed;
  std::uint64_t begin = *op.address, end = begin + static_cast<std::uint64_t>(op.bytes->count);
  if (end < begin) return;
  Bytes gone{};
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin()) --at;
  while (at != ranges.end() && at->first < end) {
    std::uint64_t first = at->first, last = first + at->second;
    auto next = std::next(at);
    if (last > begin) {
      ranges.erase(at);
      if (first < begin) ranges[first] = begin - first;
      std::uint64_t until = std::min(last, end);
      if (last > end && ranges.size() < kMaxRanges) {
        ranges[end] = last - end;
      } else if (last > end) {
        until = last;
        ++dropped_;
      }
      gone += Bytes{static_cast<std::int64_t>(until - std::max(first, begin))};
    }
    at = next;
  }
  if (gone.count == 0) return;
  known->second.held.managed -= gone;
  GpuOp told = op;
  told.kind = GpuMemoryKind::managed;
  told.bytes = gone;
  add_event(time, task, Op::free, told);
}

void GpuMemory::on_exit(MonoTime time, TaskId task) {
  auto known = processes_.find(task);
  if (known == processes_.end()) return;
  const GpuHeld& held = known->second.held;
  if (held.is_of_interest()) {
    GpuOp all;
    all.bytes = held.device;
    all.device = card_of(known->second);
    GpuEvent& told = add_event(time, task, Op::close, all);
    told.managed = held.managed;
    told.pinned = held.pinned;
  }
  auto& handles = known->second.handles;
  while (!handles.empty()) release(task, known->second, handles.begin());
  processes_.erase(known);
}

// ---- cards

// The driver lists cards in use; counters of others restart from 0.
void GpuMemory::forget_counters_of_others(const std::vector<GpuCard>& cards) {
  for (auto& [uuid, card] : cards_) {
    if (card.counters.uuid != uuid || std::ranges::find(cards, uuid, &GpuCard::uuid) != cards.end()) continue;
    card.counters = card.counters_before = {};
    card.free.reset();
  }
}

// A card known only from programs is evicted for one that the driver lists.
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

// Possible if more is held than the card has; certain if the driver evicts pages as well. Known evictions
// need no other proof: pages are evicted because the card is full.
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
    // The card's counters and the page events are not read at the same time.
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
      // A card known only from this program's claims is not real.
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

// CUDA asks for it at startup, before creating a context, after the driver has named the card.
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
  // The newest claim of a program, so that a false one lasts only until the next; the driver's own value
  // takes precedence.
  if (op.bytes && !state.counters.memory) state.memory = op.bytes;
}

}  // namespace oomcast
