#include "model/machine_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "model/process_ref.h"
#include "model/scope.h"
#include "parse/other_killers.h"

namespace oomcast {
namespace {

constexpr Nanos kKeepRemoved = std::chrono::seconds(3);  // longer than an episode stays open
constexpr Nanos kSweepEvery = std::chrono::milliseconds(500);
constexpr Nanos kSameSeries = std::chrono::minutes(5);
constexpr std::size_t kMaxSeries = 1024, kMaxStalls = 16'384, kMaxGrowingUnknown = 16;

CgroupPtr host_root(Hierarchy hierarchy) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id = {hierarchy, 0};
  ref->path = std::string("/");  // GCC 12 sees an overflow in the assignment of the literal
  ref->name = name_cgroup("/");
  return ref;
}

std::optional<std::string> cause_of(const wire::UserKill& kill) {
  if (!kill.si_code) {  // sent by cgroup.kill, PR_SET_PDEATHSIG and, since 5.19, PTRACE_KILL
    if (kill.sender.exiting) return "PR_SET_PDEATHSIG";
    return kill.by_tracer ? std::nullopt : std::optional<std::string>("cgroup.kill");
  }
  if (!kill.may_kill_anybody) return std::nullopt;  // any process can take such a name
  const OtherKiller* killer = other_killer_named(kill.sender.comm);
  return killer ? std::optional<std::string>(killer->name) : std::nullopt;
}

// A workload restarted after its kill has another cgroup, but in the same pod, job or unit. By path, not by
// name: anyone can give a name to a cgroup of their own.
std::optional<std::string> series_key(const Episode& episode) {
  if (!episode.limit_cgroup)
    return episode.scope == OomScope::global ? std::optional<std::string>("the machine") : std::nullopt;
  const CgroupRef& limit = *episode.limit_cgroup;
  return limit.name.series_bytes ? limit.path.substr(0, limit.name.series_bytes) : limit.path;
}

}  // namespace

MachineModel::MachineModel(MachineConfig config)
    : config_(std::move(config)),
      cgroups_(config_.hierarchy, CgroupTree::kMaxBytes, config_.sees_root),
      episodes_(config_.sources, tasks_, cgroups_) {
  host_.ref = host_root(config_.hierarchy);
}

std::optional<KillDecision> MachineModel::on_record(const wire::Record& record) {
  if (auto* mark = std::get_if<wire::OomMark>(&record)) return apply(*mark);
  std::visit([this](const auto& r) { apply(r); }, record);
  return std::nullopt;
}

void MachineModel::on_cgroup(const CgroupEntry& entry) {
  cgroups_.add(entry.id.inode, entry.parent ? std::optional(entry.parent->inode) : std::nullopt, entry.path);
  if (!entry.parent && config_.sees_root) host_.ref = cgroups_.ref(entry.id.inode);
}

void MachineModel::on_tree(const CgroupListing& tree, MonoTime when) {
  std::unordered_set<std::uint64_t> there;
  for (const CgroupEntry& entry : tree.cgroups) {
    on_cgroup(entry);
    there.insert(entry.id.inode);
  }
  std::vector<std::uint64_t> gone;
  cgroups_.for_each([&](const CgroupState& state) {
    std::uint64_t inode = state.ref->id.inode;
    if (!state.removed && !there.contains(inode) && !cgroups_.is_below_any(inode, tree.not_all_below))
      gone.push_back(inode);
  });
  for (std::uint64_t inode : gone) cgroups_.remove(inode, when);
}

void MachineModel::on_process(const SeenProcess& process) {
  TaskState& task = tasks_.note(process.id);
  if (process.parent) task.set_parent(*process.parent);
  // In /proc an exec shows only as a new name: arguments read before may be the old program's.
  if (task.comm != process.comm && task.cmdline_source == CmdlineSource::shown)
    tasks_.set_cmdline(task, std::nullopt, CmdlineSource::shown, task.cmdline_at);
  task.comm = process.comm;
  task.uid = process.uid;
  task.ns_pid = process.ns_pid;
  if (process.cgroup) task.cgroup = process.cgroup;
}

void MachineModel::on_arguments(const TaskId& id, wire::Args args, MonoTime when) {
  if (args.argv.empty() || !tasks_.find(id)) return;
  tasks_.set_cmdline(tasks_.note(id), std::move(args), CmdlineSource::shown, when);
}

void MachineModel::apply(const wire::CgroupSample& r) {
  CgroupState* state = cgroups_.find(r.memcg.inode);
  if (!state) {
    bool idle = CgroupTree::is_idle(r.memcg.usage);
    if (cgroups_.is_refused(r.memcg.inode) && (idle || !cgroups_.reconsider(r.memcg.inode))) return;
    unknown_.any = true;
    if (!idle && r.parent && cgroups_.find(*r.parent) && unknown_.growing.size() < kMaxGrowingUnknown)
      unknown_.growing.emplace(r.memcg.inode, *r.parent);
    return;
  }
  state->limit = r.memcg.limit;
  state->limit_known = true;
  state->peak = r.memcg.watermark;
}

void MachineModel::apply(const wire::ProcessSample& r) {
  TaskState& task = tasks_.note(r.task);
  if (!r.memory) return;
  task.rss.add({r.time, r.memory->rss()});
  if (!task_in_scope(task.id)) return;
  if (is_left_out(task, r.memory->rss())) return;
  if (too_soon(task.told, r.time)) return;
  task.told = r.time;
  const wire::Memory& m = *r.memory;
  events_.push_back(ProcessSampleFact{r.time, process_ref(tasks_, cgroups_, task.id), m.rss(), m.anon, m.file,
                                      m.shmem, m.swap, std::nullopt, std::nullopt, config_.rss_error});
}

// A compile starts hundreds of small processes a second. They are skipped, except in the cgroups that run out
// first or grow fastest, as one of them may be the cause.
bool MachineModel::is_left_out(const TaskState& task, Bytes rss) {
  if (!config_.scope.whole_machine || rss >= kSmallProcess) return false;
  if (!is_followed(task)) return true;
  if (small_.size() < kMaxSmall) small_.insert(task.id);
  return !small_.contains(task.id);
}

void MachineModel::follow(std::unordered_set<std::uint64_t> cgroups) {
  followed_ = std::move(cgroups);
  small_.clear();
}

void MachineModel::apply(const wire::Exec& r) {
  TaskState& task = tasks_.note(r.task);
  task.comm = r.task.comm;
  tasks_.set_cmdline(task, r.args, CmdlineSource::exec, r.time);
}

void MachineModel::apply(const wire::Exit& r) {
  tasks_.note(r.task);
  if (r.killed_by_kernel) episodes_.on_exit(r);
  on_gone(r.time, r.task.id);
}

void MachineModel::on_gone(MonoTime time, TaskId id) {
  tasks_.mark_dead(id, time);
  tell_gpu();
  if (const GpuHeld* held = gpu_.of(id)) sample_gpu(time, id, *held, true);
  gpu_.on_exit(time, id);
}

void MachineModel::apply(const wire::CgroupEvent& r) {
  switch (r.op) {
    case wire::CgroupEvent::Op::mkdir:
      if (!r.parent || !(cgroups_.add_child(r.inode, *r.parent, r.name) || cgroups_.is_refused(r.inode)))
        unknown_.any = true;
      break;
    case wire::CgroupEvent::Op::rmdir:
      cgroups_.remove(r.inode, r.time);
      break;
    case wire::CgroupEvent::Op::rename:
      cgroups_.rename(r.inode, r.name);
      break;
  }
}

void MachineModel::apply(const wire::CgroupAttach& r) {
  tasks_.note(r.task).cgroup = r.to;
}

KillDecision MachineModel::apply(const wire::OomMark& r) {
  tasks_.note(r.victim);
  tasks_.note(r.trigger);
  KillDecision decision{episodes_.on_mark(r)};
  // In a storm the record of a cgroup's creation may be lost; its kill must still name it.
  for (const auto* task : {&r.victim, &r.trigger})
    if (task->cgroup && !cgroups_.find(*task->cgroup) &&
        (!cgroups_.is_refused(*task->cgroup) || cgroups_.reconsider(*task->cgroup)))
      unknown_.urgent = true;
  if (decision.owner)
    if (auto ref = cgroups_.ref(*decision.owner); ref && std::ranges::find(hit_, ref) == hit_.end()) {
      hit_.push_back(ref);
      events_.push_back(LimitHit{std::move(ref)});
    }
  return decision;
}

void MachineModel::apply(const wire::KernelKill& r) {
  tasks_.note(r.victim);
  episodes_.on_kernel_kill(r);
}

void MachineModel::apply(const wire::Dying& r) {
  TaskState& task = tasks_.note(r.task);
  if (r.args) tasks_.set_cmdline(task, r.args, CmdlineSource::shown, r.time);
  episodes_.on_dying(r);
}

void MachineModel::apply(const wire::UserKill& r) {
  tasks_.note(r.victim);
  tasks_.note(r.sender);
  if (!task_in_scope(r.victim.id) || is_between_helpers(r)) return;
  events_.push_back(UserKillFact{r.time, process_ref(tasks_, cgroups_, r.victim),
                                 process_ref(tasks_, cgroups_, r.sender), cause_of(r)});
}

// Between our own helpers, or those of another oomcast: that is how helpers are ended.
bool MachineModel::is_between_helpers(const wire::UserKill& r) const {
  const TaskState* own = own_ ? tasks_.find(*own_) : nullptr;
  return own && r.victim.comm == own->comm && r.sender.comm == own->comm &&
         (tasks_.descends_from(r.victim.id, r.sender.id) ||
          (tasks_.descends_from(r.victim.id, *own_) && tasks_.descends_from(r.sender.id, *own_)));
}

bool MachineModel::too_soon(std::optional<MonoTime> told, MonoTime now) {
  if (!told || pace_ <= Nanos{} || now - *told >= pace_) return false;
  ++spared_;
  return true;
}

void MachineModel::on_pressure(MonoTime time, std::optional<std::uint64_t> inode, const Pressure& pressure) {
  if (inode) {
    events_.push_back(PressureFact{time, cgroups_.ref(inode), pressure});
    return;
  }
  std::optional<std::uint64_t> stalled;
  if (pressure.some) stalled = pressure.some->total_us;
  bool news = host_.stalled_us && stalled != host_.stalled_us;
  host_.stalled_us = stalled;
  if (news && config_.scope.whole_machine) events_.push_back(PressureFact{time, host_.ref, pressure});
}

bool MachineModel::on_stalls(MonoTime time, std::uint64_t inode, const wire::Stalls& sums) {
  bool known = cgroups_.find(inode) != nullptr;
  if (!known && stalls_.size() >= kMaxStalls) return false;  // removals of unknown ones are not reported
  wire::Stalls& told = stalls_[inode];
  if (sums.count == told.count) return false;
  if (sums.count < told.count) told = {};  // evicted from the kernel's table meanwhile, and restarted from 0
  bool tell = known && cgroup_in_scope(inode);
  if (tell)
    events_.push_back(ReclaimFact{time, cgroups_.ref(inode), sums.count - told.count, sums.time - told.time,
                                  sums.reclaimed - told.reclaimed});
  told = sums;
  return tell;
}

void MachineModel::on_gpu(MonoTime time, const wire::Task& task, const GpuOp& op,
                          const std::vector<CodePlace>& code) {
  constexpr std::size_t kMaxAncestors = 8;
  // Its exit came through another ring: its memory is gone already.
  if (const TaskState* known = tasks_.find(task.id); known && known->died) return;
  tasks_.note(task);
  // A forked child can map and free its ancestors' memory.
  bool of_others = op.what == GpuOp::What::free || op.what == GpuOp::What::map;
  gpu_.on(time, task.id, op, of_others ? tasks_.ancestors(task.id, kMaxAncestors) : std::vector<TaskId>());
  gpu_.set_code(code);
}

// Delayed: an exec comes through another ring, and may be read after the program's calls.
void MachineModel::tell_gpu() {
  for (GpuEvent& event : gpu_.take()) {
    if (!event_in_scope(event)) continue;
    std::optional<ProcessRef> process;
    if (event.task.tgid) process = process_ref(tasks_, cgroups_, event.task);
    events_.push_back(GpuFact{event.time, std::move(process), std::move(event)});
  }
}

// An event of a card concerns all processes that hold memory on it.
bool MachineModel::event_in_scope(const GpuEvent& event) const {
  if (event.task.tgid || config_.scope.whole_machine) return task_in_scope(event.task);
  bool out = false;
  gpu_.for_each([&](TaskId task, const GpuHeld& held) {
    out = out || (task_in_scope(task) && (!event.device || held.by_device.contains(*event.device)));
  });
  return out;
}

// The last sample, of what a process held at exit, is published whether it changed or not.
void MachineModel::tell_gpu_sample(GpuSample s) {
  bool moved = (s.moved_in && s.moved_in->count) || (s.moved_out && s.moved_out->count) ||
               (s.faults && *s.faults) || (s.cpu_faults && *s.cpu_faults);
  auto same = [&](const GpuSample& t) {
    return !moved && t.held == s.held && t.overhead == s.overhead && t.managed == s.managed &&
           t.pinned == s.pinned && t.limit == s.limit && t.free == s.free && t.since_before == s.since_before;
  };
  std::pair key{s.process ? s.process->id : TaskId{}, s.device};
  auto told = gpu_told_.find(key);
  if (told != gpu_told_.end() && same(told->second) && !s.ended) return;
  if (s.ended)
    gpu_told_.erase(key);
  else
    gpu_told_[key] = s;
  events_.push_back(std::move(s));
}

void MachineModel::sample_gpu(MonoTime time, TaskId task, const GpuHeld& held, bool ended) {
  if (!task_in_scope(task) || !held.is_of_interest()) return;
  GpuSample s;
  s.time = time;
  s.process = process_ref(tasks_, cgroups_, task);
  s.managed = held.managed;
  s.pinned = held.pinned;
  s.since_before = held.since_before;
  s.ended = ended;
  if (const auto& a = held.activity) {
    s.moved_in = a->moved_in;
    s.moved_out = a->moved_out;
    s.evicted = a->evicted;
    s.faults = a->faults;
    s.cpu_faults = a->cpu_faults;
  }
  Bytes elsewhere = held.device;
  for (const auto& [card, bytes] : held.by_device) {
    s.device = card;
    s.held = bytes;
    elsewhere -= bytes;
    s.overhead = held.by_device.size() == 1 ? held.overhead : Bytes{};
    auto known = gpu_.cards().find(card);
    s.limit = known != gpu_.cards().end() ? known->second.memory : std::nullopt;
    tell_gpu_sample(s);
  }
  bool was_elsewhere = gpu_told_.contains({task, std::nullopt});
  if (elsewhere.count == 0 && !held.by_device.empty() && !was_elsewhere) return;
  s.device.reset();
  s.limit.reset();
  s.held = elsewhere;
  s.overhead = held.by_device.empty() ? held.overhead : Bytes{};
  tell_gpu_sample(std::move(s));
}

void MachineModel::sample_gpu(MonoTime time) {
  auto cards = gpu_.held_by_card();
  std::map<TaskId, const GpuHeld*> processes;
  gpu_.for_each([&](TaskId task, const GpuHeld& held) { processes.emplace(task, &held); });
  std::erase_if(gpu_told_, [&](const auto& told) {
    const auto& [task, card] = told.first;
    return task == TaskId{} && card && !cards.contains(*card);
  });
  for (const auto& [uuid, on_card] : cards) {
    GpuSample s;
    s.time = time;
    s.device = uuid;
    s.held = on_card.held;
    s.since_before = on_card.since_before;
    s.free = on_card.free;
    if (auto known = gpu_.cards().find(uuid); known != gpu_.cards().end()) {
      const GpuCardState& card = known->second;
      s.limit = card.memory;
      auto since = [](const std::optional<std::uint64_t>& before, const std::optional<std::uint64_t>& now) {
        return before && now && *now >= *before ? std::optional(*now - *before) : std::nullopt;
      };
      auto pages = [&](const auto& before, const auto& now) -> std::optional<Bytes> {
        auto n = since(before, now);
        return n ? std::optional(Bytes{static_cast<std::int64_t>(*n) * config_.sources.page.count})
                 : std::nullopt;
      };
      s.moved_in = pages(card.counters_before.migrated_pages_in, card.counters.migrated_pages_in);
      s.moved_out = pages(card.counters_before.migrated_pages_out, card.counters.migrated_pages_out);
      s.faults = since(card.counters_before.faults, card.counters.faults);
    }
    tell_gpu_sample(std::move(s));
  }
  for (const auto& [task, held] : processes) sample_gpu(time, task, *held, false);
}

std::optional<KillSeries> MachineModel::series_of(const Episode& episode) {
  auto key = series_key(episode);
  if (!key) return std::nullopt;
  std::erase_if(series_, [&](const auto& s) { return episode.time - s.second.last > kSameSeries; });
  if (series_.size() >= kMaxSeries && !series_.contains(*key)) return std::nullopt;
  auto [at, is_new] = series_.try_emplace(*key, Repeats{{0, episode.time}, episode.time});
  Repeats& repeats = at->second;
  ++repeats.series.kills;
  repeats.last = std::max(repeats.last, episode.time);
  return is_new ? std::nullopt : std::optional(repeats.series);
}

void MachineModel::set_room(double part) {
  tasks_.set_room(part);
  cgroups_.set_room(part);
  gpu_.set_room(part);
}

void MachineModel::advance(MonoTime heard, bool all) {
  for (std::uint64_t inode : cgroups_.take_evicted()) forget(inode);
  for (Episode& episode : episodes_.take_closed(heard, all))
    if (episode_in_scope(episode)) {
      episode.series = series_of(episode);
      events_.push_back(ModelFact(std::move(episode)));
    }
  for (Episode& episode : episodes_.take_completed(all ? heard + EpisodeBuilder::kFollow : heard))
    if (episode_in_scope(episode)) events_.push_back(KillCompleted{std::move(episode)});
  if (swept_ && heard - *swept_ < kSweepEvery) return;
  swept_ = heard;
  for (std::uint64_t inode : cgroups_.forget_removed(heard - kKeepRemoved)) forget(inode);
}

void MachineModel::forget(std::uint64_t inode) {
  stalls_.erase(inode);
  events_.push_back(CgroupDropped{inode});
}

std::vector<ModelEvent> MachineModel::take() {
  tell_gpu();
  std::vector<ModelEvent> out;
  for (Episode& episode : episodes_.take_opened())
    if (episode_in_scope(episode)) out.push_back(KillOpened{std::move(episode)});
  if (out.empty()) out.swap(events_);
  out.insert(out.end(), std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  hit_.clear();
  return out;
}

bool MachineModel::cgroup_in_scope(std::uint64_t inode) const {
  if (config_.scope.whole_machine) return true;
  for (std::uint64_t top : config_.scope.cgroups)
    if (cgroups_.is_below(inode, top)) return true;
  for (TaskId top : config_.scope.tasks)
    if (const TaskState* task = tasks_.find(top); task && task->cgroup == inode) return true;
  return false;
}

bool MachineModel::task_in_scope(TaskId id) const {
  if (config_.scope.whole_machine) return true;
  const TaskState* task = tasks_.find(id);
  for (std::uint64_t top : config_.scope.cgroups)
    if (task && task->cgroup && cgroups_.is_below(*task->cgroup, top)) return true;
  for (TaskId top : config_.scope.tasks)
    if (tasks_.descends_from(id, top)) return true;
  return false;
}

// An episode is published if its limit or one of its victims is in scope; the trigger may be outside.
bool MachineModel::episode_in_scope(const Episode& episode) const {
  if (config_.scope.whole_machine) return true;
  if (episode.limit_cgroup && cgroup_in_scope(episode.limit_cgroup->id.inode)) return true;
  // A cgroup removed before it was seen is known only by its path in the log.
  if (episode.limit_cgroup && !cgroups_.find(episode.limit_cgroup->id.inode))
    for (std::uint64_t top : config_.scope.cgroups)
      if (const CgroupState* root = cgroups_.find(top);
          root && in_scope(episode.limit_cgroup->path, root->ref->path))
        return true;
  // From the kernel log alone the owner may be unknown: better one episode too many than one too few.
  if (!episode.limit_cgroup && std::any_of(episode.victims.begin(), episode.victims.end(),
                                           [](const Victim& v) { return !v.marked && !v.process.cgroup; }))
    return true;
  auto in_scope = [&](const ProcessRef& p) {
    return task_in_scope(p.id) || (p.cgroup && cgroup_in_scope(p.cgroup->id.inode));
  };
  return std::any_of(episode.victims.begin(), episode.victims.end(),
                     [&](const Victim& v) { return in_scope(v.process); }) ||
         std::any_of(episode.also_killed.begin(), episode.also_killed.end(), in_scope);
}

// ---- what cgroups and the machine hold, and what is left of it

namespace {

constexpr std::int64_t kNoNews = 256;  // smaller decreases of a limit by others are ignored

}  // namespace

std::string_view to_string(LimitKind kind) {
  constexpr std::string_view names[] = {"max", "high", "host"};
  return names[static_cast<std::size_t>(kind)];
}

NextLimit next_limit(const Sample& sample) {
  if (sample.throttle) return {sample.throttle->limit, sample.throttle->owner, LimitKind::high};
  return {sample.headroom_limit, sample.headroom_cgroup,
          sample.headroom_cgroup ? LimitKind::max : LimitKind::host};
}

void MachineModel::on_reading(std::uint64_t inode, const CgroupReading& reading, bool show) {
  CgroupState* state = cgroups_.find(inode);
  if (!state || state->removed) return;
  if (reading.usage) {
    state->usage = reading.usage;
    episodes_.on_usage(inode, reading.time, *reading.usage);
  }
  // The kernel's own peak came with an earlier event.
  if (state->peak && reading.usage) state->peak = std::max(*state->peak, *reading.usage);
  if (reading.stat) state->stat = *reading.stat;
  if (reading.limit) {
    state->limit = *reading.limit;
    state->limit_known = true;
  }
  std::optional<Bytes> host_total = host_.info ? host_.info->total : std::nullopt;
  auto tightest = cgroups_.tightest_limit(inode, host_total);
  if (reading.swap) state->swap = reading.swap;
  if (reading.swappiness) state->swappiness = reading.swappiness;
  bool measured = false;
  if (auto room = headroom(headroom_input(*state, reading, tightest.limit)); room && reading.stat) {
    measured = true;
    state->headroom_cgroup = tightest.owner;
    leave_to_others(*state, *room, reading.time);
    state->headroom_limit = room->limit;
    throttle(*state, reading, room->pinned);
    if (!state->pinned || reading.time >= state->pinned->time)
      state->pinned = Point{reading.time, room->pinned};
  }
  bool changed = state->usage != state->shown.usage || tightest.limit != state->shown.limit;
  if (!cgroup_in_scope(inode) || !(show || changed || !state->shown.at)) return;
  if (too_soon(state->shown.at, reading.time)) return;
  tell_limits(*state, reading.time, tightest, host_total);
  state->shown.usage = state->usage;
  state->shown.limit = tightest.limit;
  state->shown.at = reading.time;
  Sample sample = sample_of(*state, reading.time, tightest);
  if (!measured) sample.pinned.reset();
  events_.push_back(std::move(sample));
}

Sample MachineModel::sample_of(const CgroupState& state, MonoTime time,
                               const CgroupTree::Tightest& tightest) const {
  return {time,
          state.ref,
          state.usage,
          tightest.limit,
          tightest.owner,
          state.stat,
          state.pinned ? std::optional(state.pinned->value) : std::nullopt,
          state.headroom_limit,
          state.peak,
          state.headroom_cgroup,
          state.high.throttle};
}

std::optional<Sample> MachineModel::newest_sample(std::uint64_t inode) const {
  const CgroupState* state = cgroups_.find(inode);
  if (!state || state->removed || !state->shown.at || !cgroup_in_scope(inode)) return std::nullopt;
  MonoTime time = state->pinned ? std::max(state->pinned->time, *state->shown.at) : *state->shown.at;
  return sample_of(*state, time,
                   cgroups_.tightest_limit(inode, host_.info ? host_.info->total : std::nullopt));
}

// Kubernetes sets memory.high by itself (MemoryQoS), below memory.max: a leak is throttled there and never
// killed, yet it got a deadline for memory.max.
void MachineModel::throttle(CgroupState& state, const CgroupReading& reading, Bytes pinned) const {
  state.high.throttle.reset();
  auto high = cgroups_.tightest_high(state.ref->id.inode);
  if (!high.limit) return;
  auto room = headroom(headroom_input(state, reading, high.limit));
  if (!room || !room->limit) return;
  Bytes limit = *room->limit;
  const CgroupState* owner = cgroups_.find(high.owner->id.inode);
  if (owner && owner != &state && owner->pinned)
    limit = std::max(pinned, limit - std::max(Bytes{}, owner->pinned->value - pinned));
  if (!state.headroom_limit || limit < *state.headroom_limit)
    state.high.throttle = Throttle{limit, high.owner};
}

void MachineModel::tell_limits(CgroupState& state, MonoTime when, const CgroupTree::Tightest& max,
                               std::optional<Bytes> host) {
  auto high = cgroups_.tightest_high(state.ref->id.inode);
  auto before = state.shown.limit ? state.shown.limit : host, now = max.limit ? max.limit : host;
  if (state.shown.at && before != now)
    events_.push_back(LimitChangedFact{when, state.ref, max.owner,
                                       max.owner ? LimitKind::max : LimitKind::host, before, now});
  if (state.shown.at && state.shown.high != high.limit)
    events_.push_back(
        LimitChangedFact{when, state.ref, high.owner, LimitKind::high, state.shown.high, high.limit});
  state.shown.high = high.limit;
}

// The nearest ancestor with a limit of its own, or the machine, as far as their levels are known.
std::optional<MachineModel::LimitAbove> MachineModel::limit_above(const CgroupState& state) const {
  std::optional<std::uint64_t> at = state.parent;
  for (int depth = 0; at && depth < CgroupTree::kMaxDepth; ++depth) {
    const CgroupState* above = cgroups_.find(*at);
    if (!above) break;
    if (above->limit && above->pinned && above->headroom_limit)
      return LimitAbove{*at, above->pinned->time, above->pinned->value, *above->headroom_limit,
                        above->headroom_cgroup};
    at = above->parent;
  }
  auto room = host_.info ? host_headroom(*host_.info) : std::nullopt;
  if (!room || !room->limit) return std::nullopt;
  return LimitAbove{0, host_.read, room->pinned, *room->limit, nullptr};
}

// A limit is shared by everything below it: memory held by others is not available.
void MachineModel::leave_to_others(CgroupState& state, Headroom& room, MonoTime when) {
  auto above = limit_above(state);
  if (!above) return;
  if (state.beneath != above->inode) state.others = {};
  state.beneath = above->inode;
  if (!state.others.any() || std::chrono::abs(when - above->read) <= HeldByOthers::kTogether)
    state.others.add(above->pinned, room.pinned);
  Bytes left = std::max(room.pinned, above->limit - state.others.typical());
  if (room.limit && *room.limit - left <= Bytes{room.limit->count / kNoNews}) return;
  room.limit = left;
  state.headroom_cgroup = above->whose;
}

HeadroomInput MachineModel::headroom_input(const CgroupState& state, const CgroupReading& reading,
                                           std::optional<Bytes> limit) const {
  HeadroomInput in;
  in.usage = state.usage;
  in.stat = state.stat;
  in.limit = limit || !host_.info ? limit : host_.info->total;
  in.swap = reading.swap;
  if (host_.info && host_.info->swap_free) cgroups_.limit_swap(state, *host_.info->swap_free, in);
  // If the machine itself runs out, the kernel swaps even at swappiness 0.
  if (limit) in.swappiness = state.ref->id.hierarchy == Hierarchy::v1 ? state.swappiness : host_.swappiness;
  return in;
}

void MachineModel::on_host(MonoTime time, const MemInfo& info) {
  host_.info = info;
  host_.read = time;
  if (auto sample = newest_host_sample()) events_.push_back(*std::move(sample));
}

std::optional<Sample> MachineModel::newest_host_sample() const {
  if (!host_.info || !cgroup_in_scope(host_.ref->id.inode))
    return std::nullopt;  // it stands for the root cgroup
  const MemInfo& info = *host_.info;
  auto room = host_headroom(info);
  Sample sample;
  sample.time = host_.read;
  sample.cgroup = host_.ref;
  if (info.total && info.free) sample.usage = *info.total - *info.free;
  sample.stat.anon = info.anon;
  sample.stat.shmem = info.shmem;
  if (info.cached && info.shmem) sample.stat.file = *info.cached - *info.shmem;
  if (info.swap_total && info.swap_free) sample.stat.swap = *info.swap_total - *info.swap_free;
  if (room) {
    sample.pinned = room->pinned;
    sample.headroom_limit = room->limit;
  }
  return sample;
}

bool MachineModel::is_above_scope(std::uint64_t inode) const {
  for (std::uint64_t top : config_.scope.cgroups)
    if (cgroups_.is_below(top, inode)) return true;
  for (TaskId top : config_.scope.tasks)
    if (const TaskState* task = tasks_.find(top);
        task && task->cgroup && cgroups_.is_below(*task->cgroup, inode))
      return true;
  return false;
}

}  // namespace oomcast
