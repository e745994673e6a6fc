#include "forecast/registry.h"

#include <algorithm>
#include <cmath>

#include "model/scope.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxFill = 32;  // readings that stand for a time without samples
constexpr Bytes kMinFollowed = MiB(16);
constexpr double kDeadlineMoved = 0.02;
constexpr double kThrashedLonger = 1.1;
constexpr Nanos kDeadlineKept = 10s;      // an episode is told after its kill
constexpr Nanos kFrees = 30s;             // a kill's memory, at the most
constexpr std::int64_t kFreedStep = 256;  // a fall by such a part of its limit is still of that
constexpr std::size_t kAround = 1024;     // of a series: its last forecasts, and its place in a map

// A series that holds next to nothing has no forecast to lose.
constexpr bool is_a_loss(Bytes held) {
  return held >= MiB(1);
}

}  // namespace

// Private memory is measured now and then; in between, a worker's shared memory is assumed constant. A parent
// counts all of it: its workers come and go, its memory does not.
void ForecastRegistry::learn_shared(Entry& entry, const ProcessSampleFact& sample) const {
  if (!sample.private_bytes || !sample.process.ppid) return;
  auto parent = processes_.lower_bound({*sample.process.ppid, 0});
  bool worker = parent != processes_.end() && parent->first.tgid == *sample.process.ppid;
  if (!worker && !entry.shared) return;
  // Before the measurement its memory looked like the parent's: that was another series.
  if (!entry.shared) entry.forecaster = Forecaster(Surplus::shared);
  entry.shared = std::max(Bytes{}, sample.anon + sample.shmem - *sample.private_bytes);
}

// A victim's memory is freed over many readings, for hundreds of milliseconds or seconds: the next life
// begins when it is gone. Otherwise the level of the old life would be taken for a level to which the new one
// returns.
bool ForecastRegistry::still_frees(Entry& entry, const Reading& reading) {
  if (!entry.killed_at) return false;
  Bytes part{reading.limit.value_or(entry.last.value).count / kFreedStep};
  if (reading.time - *entry.killed_at > kFrees) entry.killed_at.reset();
  return entry.killed_at && entry.last.value - reading.value > part;
}

void ForecastRegistry::add(Entry& entry, const Reading& reading) {
  bool of_a_new_life = entry.killed_at.has_value();
  if (still_frees(entry, reading)) entry.forecaster = Forecaster(Surplus::droppable);
  // No samples in between means no change.
  Nanos gap = reading.time - entry.last.time;
  if (entry.last.time != MonoTime{} && gap > 3 * config_.interval + 2s && !of_a_new_life) {
    auto fill = std::min<std::int64_t>(kMaxFill, gap / config_.interval - 1), parts = fill + 1;
    for (std::int64_t i = 1; i <= fill; ++i) {
      Reading same = entry.last;
      // In two steps: a recording's times may be centuries apart.
      same.time = entry.last.time + gap / parts * i + gap % parts * i / parts;
      entry.forecaster.add(same);
    }
  }
  entry.forecaster.add(reading);
  entry.last = reading;
  bytes_ -= entry.bytes;
  entry.bytes = sizeof(Entry) + kAround + entry.forecaster.footprint();
  bytes_ += entry.bytes;
}

template <typename Map>
void ForecastRegistry::drop(Map& from, typename Map::iterator at) {
  if (at == from.end()) return;
  bytes_ -= at->second.bytes;
  from.erase(at);
}

// A user with thousands of small processes or cgroups must evict only their own forecasts.
void ForecastRegistry::make_room() {
  if (bytes_ <= config_.most_bytes) return;
  struct Row {
    bool loud;
    Bytes held;
    decltype(cgroups_)::iterator cgroup;
    decltype(processes_)::iterator process;
    decltype(gpu_)::iterator on_card;
    auto rank() const { return std::pair(loud, held.count); }
  };
  std::vector<Row> rows;
  for (auto at = cgroups_.begin(); at != cgroups_.end(); ++at)
    rows.push_back({!at->second.quiet(), at->second.last.value, at, processes_.end(), gpu_.end()});
  for (auto at = processes_.begin(); at != processes_.end(); ++at)
    rows.push_back({!at->second.quiet(), at->second.last.value, cgroups_.end(), at, gpu_.end()});
  for (auto at = gpu_.begin(); at != gpu_.end(); ++at)
    if (at->second.newest.process)  // a card stays
      rows.push_back({!at->second.quiet(), at->second.last.value, cgroups_.end(), processes_.end(), at});
  std::ranges::stable_sort(rows, {}, &Row::rank);
  for (const Row& row : rows) {
    if (bytes_ <= config_.most_bytes / 4 * 3) break;
    not_followed_ += is_a_loss(row.held);
    if (row.cgroup != cgroups_.end()) unsettled_.erase(row.cgroup->first);
    drop(cgroups_, row.cgroup);
    drop(processes_, row.process);
    drop(gpu_, row.on_card);
  }
}

void ForecastRegistry::find_spare() {
  spare_.clear();
  for (const auto& [inode, entry] : cgroups_)
    if (entry.quiet()) spare_.push_back({entry.last.value, inode, {}});
  for (const auto& [id, entry] : processes_)
    if (entry.quiet()) spare_.push_back({entry.last.value, std::nullopt, id});
  std::ranges::stable_sort(spare_, std::ranges::greater{}, [](const Spare& s) { return s.held.count; });
}

// Hundreds of idle cgroups must not evict the one job that matters.
bool ForecastRegistry::has_room_for(Bytes held) {
  if (bytes_ < config_.most_bytes / 8 * 7) return true;
  if (!std::exchange(spare_known_, true)) find_spare();
  while (!spare_.empty() && spare_.back().held.count < held.count / 2) {
    Spare spare = spare_.back();
    spare_.pop_back();
    auto cgroup = spare.cgroup ? cgroups_.find(*spare.cgroup) : cgroups_.end();
    auto process = spare.cgroup ? processes_.end() : processes_.find(spare.process);
    bool still = cgroup != cgroups_.end() ? cgroup->second.quiet()
                                          : process != processes_.end() && process->second.quiet();
    if (!still) continue;
    not_followed_ += is_a_loss(spare.held);
    drop(cgroups_, cgroup);
    drop(processes_, process);
    return true;
  }
  return false;
}

void ForecastRegistry::on(const ForgottenFact& forgotten) {
  drop(cgroups_, cgroups_.find(forgotten.cgroup.inode));
  unsettled_.erase(forgotten.cgroup.inode);
  thrashing_.on(forgotten);
}

void ForecastRegistry::analyse(Entry& entry, MonoTime now) {
  entry.newest.time = now;
  entry.newest.forecast = entry.forecaster.forecast();
  if (entry.newest.cgroup) {
    const CgroupId& cgroup = entry.newest.cgroup->id;
    tell_thrashing(entry, now);
    if (entry.quiet())
      unsettled_.erase(cgroup.inode);
    else
      unsettled_.insert(cgroup.inode);
  }
  const Forecast& next = entry.newest.forecast;
  if (next.eta) {
    entry.deadline_before = entry.deadline;
    if (!entry.deadline) entry.first_deadline = now;
    entry.deadline = std::make_shared<const ForecastFact>(entry.newest);
  } else if (entry.deadline && now - entry.deadline->time > kDeadlineKept) {
    entry.deadline.reset();
    entry.deadline_before.reset();
  }
  bool moved = next.eta && (!entry.told_eta || std::abs((*next.eta - *entry.told_eta).count()) >
                                                   kDeadlineMoved * entry.told_eta->count());
  bool gone = entry.told_eta && !next.eta;
  const auto& thrashing = next.evidence.thrashing;
  bool longer =
      thrashing && (!entry.told_thrashing || thrashing->lasts >= kThrashedLonger * *entry.told_thrashing);
  if (!thrashing) entry.told_thrashing.reset();
  bool news = config_.every_forecast || !entry.told || next.verdict != entry.told_verdict ||
              next.alert != entry.told_alert || moved || gone || longer;
  if (!news) return;
  entry.told = true;
  entry.told_alert = next.alert;
  entry.told_verdict = next.verdict;
  entry.told_eta = next.eta;
  if (thrashing) entry.told_thrashing = thrashing->lasts;
  news_.push_back(entry.newest);
}

// While it thrashes at its limit, the verdict that brought it there stays.
void ForecastRegistry::tell_thrashing(Entry& entry, MonoTime now) const {
  Forecast& f = entry.newest.forecast;
  f.evidence.thrashing = thrashing_.of(entry.newest.cgroup->id, now);
  if (!f.evidence.thrashing) return;
  if (entry.deadline && !f.eta) {
    const Forecast& before = entry.deadline->forecast;
    f.verdict = before.verdict;
    f.growth = before.growth;
    f.eta = f.eta_low = Seconds{};
    f.eta_high = f.evidence.thrashing->lasts;
    if (before.evidence.regime)
      f.evidence.regime = *before.evidence.regime + seconds_between(entry.deadline->time, now);
  }
  f.alert = true;
  f.why = "it " + describe(*f.evidence.thrashing);
}

void ForecastRegistry::on(const ReclaimFact& reclaim) {
  thrashing_.on(reclaim);
  if (!reclaim.cgroup || !thrashing_.of(reclaim.cgroup->id, reclaim.time)) return;
  if (auto at = cgroups_.find(reclaim.cgroup->id.inode); at != cgroups_.end())
    analyse(at->second, reclaim.time);
}

void ForecastRegistry::on(const Sample& sample) {
  thrashing_.on(sample);
  if (!sample.cgroup || !sample.pinned) return;
  auto at = cgroups_.find(sample.cgroup->id.inode);
  if (at == cgroups_.end()) {
    if (!has_room_for(*sample.pinned)) {
      not_followed_ += is_a_loss(*sample.pinned);
      return;
    }
    at = cgroups_.try_emplace(sample.cgroup->id.inode, Surplus::droppable).first;
  }
  Entry& entry = at->second;
  entry.newest.cgroup = sample.cgroup;
  NextLimit next = next_limit(sample);
  entry.newest.limit_cgroup = next.owner;
  // Usage, without the swap that `pinned` includes, may be below it.
  auto total = sample.usage ? std::optional(std::max(*sample.usage, *sample.pinned)) : std::nullopt;
  add(entry, {sample.time, *sample.pinned, next.limit, total, next.kind});
  analyse(entry, sample.time);
}

const ForecastRegistry::Entry* ForecastRegistry::of(const CgroupPtr& cgroup) const {
  auto at = cgroup ? cgroups_.find(cgroup->id.inode) : cgroups_.end();
  return at == cgroups_.end() ? nullptr : &at->second;
}

// What a process in `cgroup` may still allocate if all others stay as they are.
std::optional<Bytes> ForecastRegistry::room_beside(const Entry* cgroup) {
  if (!cgroup || !cgroup->last.limit) return std::nullopt;
  return std::max(Bytes{}, *cgroup->last.limit - cgroup->last.value);
}

void ForecastRegistry::on(ProcessSampleFact& sample) {
  const TaskId id = sample.process.id;
  sample.growth = std::nullopt;  // it may be a copy of the one before
  Bytes holds = sample.anon + sample.shmem + sample.swap;
  auto at = processes_.find(id);
  if (at == processes_.end() && holds >= kMinFollowed) {
    if (processes_.size() < config_.most_processes && has_room_for(holds))
      at = processes_.try_emplace(id, Surplus::shared).first;
    else
      ++not_followed_;
  }
  Entry* entry = at == processes_.end() ? nullptr : &at->second;
  if (entry) learn_shared(*entry, sample);
  if (entry && entry->shared) holds = std::max(Bytes{}, holds - *entry->shared);
  if (config_.tree) members_[id] = {holds, sample.process, !entry || entry->shared};
  if (!entry) return;
  entry->newest.process = sample.process;
  const Entry* around = of(sample.process.cgroup);
  entry->newest.limit_cgroup = around ? around->newest.limit_cgroup : nullptr;
  auto room = room_beside(around);
  auto total = entry->shared ? std::optional(std::max(sample.rss, holds)) : std::nullopt;
  add(*entry, {sample.time, holds, room ? std::optional(holds + *room) : std::nullopt, total,
               around ? around->last.limit_kind : std::nullopt});
  const Forecast& next = entry->forecaster.forecast();
  if (next.growth) sample.growth = next.growth->rate;
  if (is_of_note(*entry)) analyse(*entry, sample.time);
}

// A process without a notable verdict is not published.
bool ForecastRegistry::is_of_note(Entry& entry) {
  Verdict verdict = entry.forecaster.forecast().verdict;
  return entry.told || verdict == Verdict::leak || verdict == Verdict::cow;
}

void ForecastRegistry::on(const SeriesReading& reading) {
  Entry& entry = series_.try_emplace(reading.series, reading.surplus).first->second;
  if (reading.turned) entry.forecaster = Forecaster(reading.surplus);
  entry.newest.series = reading.name;
  entry.newest.process = reading.process;
  entry.newest.time_s = reading.time_s;
  entry.forecaster.add(reading.reading);
  entry.last = reading.reading;
}

std::vector<ForecastFact> ForecastRegistry::series() {
  std::vector<ForecastFact> out;
  for (auto& [number, entry] : series_) {
    out.push_back(entry.newest);
    out.back().forecast = entry.forecaster.forecast();
  }
  return out;
}

void ForecastRegistry::on(const ExitFact& exit) {
  drop(processes_, processes_.find(exit.process.id));
  members_.erase(exit.process.id);
}

void ForecastRegistry::on(const GpuSample& sample) {
  if (!sample.device) return;
  std::pair key{*sample.device, sample.process ? sample.process->id : TaskId{}};
  if (sample.ended) {
    drop(gpu_, gpu_.find(key));
    return;
  }
  auto at = gpu_.find(key);
  if (at == gpu_.end()) {
    if (sample.process && sample.held < kMinFollowed) return;
    if (gpu_.size() >= config_.most_processes || (sample.process && !has_room_for(sample.held))) {
      ++not_followed_;
      return;
    }
    at = gpu_.try_emplace(key, Surplus::droppable).first;
  }
  Entry& entry = at->second;
  entry.newest.device = sample.device;
  entry.newest.process = sample.process;
  auto limit = sample.limit;
  if (auto card = gpu_.find({*sample.device, TaskId{}}); sample.process && limit && card != gpu_.end())
    limit = std::max(sample.held, *limit - (card->second.last.value - sample.held));
  add(entry, {sample.time, sample.held, limit});
  const Forecast& next = entry.forecaster.forecast();
  if (!sample.process || entry.told || next.verdict == Verdict::leak) analyse(entry, sample.time);
}

const Forecast* ForecastRegistry::of(const GpuUuid& card) const {
  auto at = gpu_.find({card, TaskId{}});
  return at == gpu_.end() ? nullptr : &at->second.newest.forecast;
}

void ForecastRegistry::add_tree(MonoTime now) {
  if (!config_.tree || members_.empty()) return;
  if (!tree_) tree_.emplace(Surplus::shared);
  auto root = members_.find(*config_.tree);
  const Member& first = root != members_.end() ? root->second : members_.begin()->second;
  tree_->newest.process = first.process;
  Bytes sum;
  CgroupPtr cgroup = first.process.cgroup;
  for (const auto& [id, member] : members_) {
    Bytes held = member.held;
    if (!member.measured && member.process.ppid) {
      // Just after fork all memory of the parent is shared.
      auto parent = members_.lower_bound({*member.process.ppid, 0});
      if (parent != members_.end() && parent->first.tgid == *member.process.ppid)
        held = std::max(Bytes{}, held - parent->second.held);
    }
    sum += held;
    if (cgroup && (!member.process.cgroup || member.process.cgroup->id != cgroup->id)) cgroup = nullptr;
  }
  const Entry* around = of(cgroup);
  if (around) sum = std::min(sum, around->last.value);
  tree_->newest.limit_cgroup = around ? around->newest.limit_cgroup : nullptr;
  auto room = room_beside(around);
  add(*tree_, {now, sum, room ? std::optional(sum + *room) : std::nullopt, std::nullopt,
               around ? around->last.limit_kind : std::nullopt});
  analyse(*tree_, now);
}

void ForecastRegistry::on_kill(const CgroupRef& owner) {
  for (auto& [inode, entry] : cgroups_) {
    if (!in_scope(entry.newest.cgroup->path, owner.path)) continue;
    entry.forecaster = Forecaster(Surplus::droppable);
    entry.killed_at = entry.last.time;
    entry.deadline.reset();
    entry.deadline_before.reset();
    thrashing_.on_kill(entry.newest.cgroup->id);
  }
}

void ForecastRegistry::tick(MonoTime now) {
  auto refresh = [&](Entry& entry) {
    if (now - entry.last.time <= 3 * config_.interval + 2s || entry.quiet()) return;
    Reading same = entry.last;
    same.time = now;
    add(entry, same);
    analyse(entry, now);
  };
  // Of thousands of cgroups most are quiet.
  for (auto at = unsettled_.begin(); at != unsettled_.end();) refresh(cgroups_.at(*at++));
  for (auto& [id, entry] : processes_)
    if (entry.told) refresh(entry);
  for (auto& [key, entry] : gpu_)
    if (entry.told) refresh(entry);
  for (auto& [number, entry] : series_)
    if (entry.last.time == now && (config_.every_forecast || !entry.newest.process || is_of_note(entry)))
      analyse(entry, now);
  add_tree(now);
  make_room();
  spare_known_ = false;
}

const ForecastFact* ForecastRegistry::newest(const CgroupId& cgroup) const {
  auto at = cgroups_.find(cgroup.inode);
  return at == cgroups_.end() || !at->second.newest.cgroup ? nullptr : &at->second.newest;
}

const Forecast* ForecastRegistry::of(const CgroupId& cgroup) const {
  auto at = cgroups_.find(cgroup.inode);
  return at == cgroups_.end() ? nullptr : &at->second.newest.forecast;
}

std::optional<Bytes> ForecastRegistry::pinned(const CgroupId& cgroup) const {
  auto at = cgroups_.find(cgroup.inode);
  if (at == cgroups_.end()) return std::nullopt;
  return at->second.last.value;
}

std::optional<ForecastBefore> ForecastRegistry::before(const CgroupId& limit_cgroup, MonoTime kill) const {
  auto at = cgroups_.find(limit_cgroup.inode);
  if (at == cgroups_.end() || !at->second.deadline || at->second.first_deadline >= kill) return std::nullopt;
  const Entry& e = at->second;
  const auto& last = e.deadline->time < kill ? e.deadline : e.deadline_before;
  if (!last || last->time >= kill) return std::nullopt;
  return ForecastBefore{*last, e.first_deadline};
}

}  // namespace oomcast
