#include "model/episodes.h"

#include <algorithm>
#include <set>

#include "model/logged_kill.h"
#include "model/memory_at_kill.h"

namespace oomcast {
namespace {

constexpr std::size_t kRecentKills = 512;
constexpr std::size_t kGrewMost = 5;
constexpr Nanos kGrowthWindow = std::chrono::seconds(60);
constexpr Nanos kSameMoment = std::chrono::seconds(2);
// A report of the log that is read this late is still of the episode that was told; later its number may be
// another's.
constexpr Nanos kToldFor = std::chrono::seconds(5);

template <typename T>
void remember(std::deque<T>& recent, T item, std::size_t most) {
  recent.push_back(std::move(item));
  if (recent.size() > most) recent.pop_front();
}

std::optional<OomScope> scope_of(const wire::OomDecision& decision) {
  if (decision.order == -1) return OomScope::sysrq;
  if (!decision.constraint) return std::nullopt;
  switch (*decision.constraint) {
    case wire::OomDecision::Constraint::none:
      return OomScope::global;
    case wire::OomDecision::Constraint::cpuset:
      return OomScope::cpuset;
    case wire::OomDecision::Constraint::mempolicy:
      return OomScope::mempolicy;
    case wire::OomDecision::Constraint::memcg:
      return OomScope::memcg;
  }
  return std::nullopt;
}

// Fills in what the kernel's line, should it have come first, has not told.
void take_memory(Victim& victim, const wire::Memory& m) {
  auto take = [](auto& to, Bytes from) {
    if (!to) to = from;
  };
  take(victim.anon, m.anon);
  take(victim.file, m.file);
  take(victim.shmem, m.shmem);
  take(victim.swap, m.swap);
  take(victim.pgtables, m.pgtables);
  take(victim.total_vm, m.total_vm);
}

std::uint64_t count_processes(const std::vector<Victim>& victims, bool Victim::*source) {
  std::set<TaskId> distinct;
  for (const Victim& v : victims)
    if (v.*source) distinct.insert(v.process.id);
  return distinct.size();
}

}  // namespace

std::optional<std::uint64_t> limit_owner(const wire::OomMark& mark) {
  // The root is locked only for itself and never charged; it is no owner.
  auto locked = [](const std::vector<wire::Memcg>& chain) {
    std::optional<std::uint64_t> owner;
    for (const wire::Memcg& level : chain)
      if (level.oom_lock) owner = level.inode;
    return owner;
  };
  // A charge is tried in batches of 64 pages per CPU, so a full cgroup can stand that far below its limit.
  auto full = [](const std::vector<wire::Memcg>& chain) -> std::optional<std::uint64_t> {
    for (const wire::Memcg& level : chain)
      if (level.limit && level.usage + KiB(4 * 64) >= *level.limit) return level.inode;
    return std::nullopt;
  };
  if (auto owner = locked(mark.chain)) return owner;
  if (auto owner = full(mark.chain)) return owner;
  return full(mark.victim_chain);
}

bool is_group_kill(const wire::OomMark& mark, std::optional<std::uint64_t> owner) {
  for (const wire::Memcg& level : mark.victim_chain) {
    if (level.oom_group) return true;
    if (level.inode == owner) break;
  }
  return false;
}

ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, TaskId id) {
  ProcessRef out;
  out.id = id;
  if (const TaskState* task = tasks.find(id)) {
    out.comm = task->comm;
    out.cmdline = task->cmdline;
    out.cmdline_source = task->cmdline_source;
    out.cmdline_truncated = task->cmdline_truncated;
    out.uid = task->uid;
    out.ns_pid = task->ns_pid;
    if (task->parent) out.ppid = task->parent->tgid;
    out.cgroup = cgroups.ref(task->cgroup);
  }
  return out;
}

ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, const wire::Task& task) {
  ProcessRef out = process_ref(tasks, cgroups, task.id);
  if (!task.comm.empty()) out.comm = task.comm;
  if (task.uid) out.uid = task.uid;
  if (task.parent) out.ppid = task.parent->tgid;
  if (task.ns_tgid) out.ns_pid = task.ns_tgid;
  if (auto cgroup = cgroups.ref(task.cgroup)) out.cgroup = cgroup;
  return out;
}

void EpisodeBuilder::on_kernel_kill(const wire::KernelKill& kill) {
  remember(kills_, kill, kRecentKills);
}

// A kill is a SIGKILL followed by the mark, by the same thread, of the same thread. A mark without it is of a
// task that was exiting anyway; the kernel logs and counts no kill for it.
bool EpisodeBuilder::was_sent_by(const wire::OomMark& mark) {
  return std::any_of(kills_.rbegin(), kills_.rend(), [&](const wire::KernelKill& kill) {
    return kill.victim.id == mark.victim.id && kill.victim.tid == mark.victim.tid &&
           kill.sender.tid == mark.trigger.tid && kill.time <= mark.time &&
           mark.time - kill.time < kSameMoment;
  });
}

EpisodeBuilder::Open* EpisodeBuilder::open_for(std::optional<std::uint64_t> limit_inode, MonoTime when,
                                               MonoTime alive) {
  for (Open& open : open_)
    if (open.limit_inode == limit_inode && open.victims.size() < kMaxVictims) {
      open.last = std::max(open.last, when);
      return &open;
    }
  if (open_.size() >= kMaxOpen) {
    ++dropped_;
    return nullptr;
  }
  Open& open = open_.emplace_back();
  open.episode.serial = ++serial_;
  open.limit_inode = limit_inode;
  open.last = when;
  open.episode.limit_cgroup = cgroups_.ref(limit_inode);
  open.alone = open_.size() == 1;
  if (!open.alone)
    for (Open& other : open_) other.alone = false;
  begin(open, when, alive);
  return &open;
}

// `alive`: the victim was not yet killed.
void EpisodeBuilder::begin(Open& open, MonoTime when, MonoTime alive) {
  open.episode.time = open.first = when;
  open.vmstat_before.reset();
  for (const KillCount& count : vmstat_)
    if (count.ended < alive) open.vmstat_before = count.kills;
}

void EpisodeBuilder::on_log_read(MonoTime until) {
  remember(log_read_, until, 256);
}

EpisodeBuilder::OpenVictim* EpisodeBuilder::find_victim(TaskId id) {
  for (Open& open : open_)
    for (OpenVictim& v : open.victims)
      if (v.task.id == id) return &v;
  return nullptr;
}

EpisodeBuilder::OpenVictim& EpisodeBuilder::add_victim(Open& open, const wire::Task& task, MonoTime when) {
  OpenVictim& v = open.victims.emplace_back();
  v.task = task;
  v.marked_at = when;
  // Now: under a storm of forks the table may have forgotten it when the episode closes.
  v.victim.process = process_ref(tasks_, cgroups_, task);
  v.victim.tid = task.tid;
  v.victim.oom_score_adj = task.oom_score_adj;
  return v;
}

EpisodeBuilder::OpenVictim& EpisodeBuilder::take_mark(OpenVictim& v, Open& open, const wire::OomMark& mark) {
  v.task = mark.victim;
  v.victim.process.id = mark.victim.id;
  v.victim.tid = mark.victim.tid;
  v.marked_at = mark.time;
  if (!v.victim.oom_score_adj) v.victim.oom_score_adj = mark.victim.oom_score_adj;
  if (mark.time < open.first) begin(open, mark.time, mark.time);
  open.last = open.first;
  for (const OpenVictim& other : open.victims) open.last = std::max(open.last, other.marked_at);
  return v;
}

// The log can be read before the ring: then the victim is there, and the mark tells the rest of it.
EpisodeBuilder::OpenVictim* EpisodeBuilder::find_unmarked(const wire::OomMark& mark,
                                                          std::optional<std::uint64_t> owner, Open** in) {
  for (Open& open : open_)
    for (OpenVictim& v : open.victims) {
      if (v.victim.marked || (v.victim.tid != mark.victim.tid && v.task.id != mark.victim.id)) continue;
      auto owners = std::find_if(open_.begin(), open_.end(), [&](const Open& o) {
        return o.limit_inode == owner && o.victims.size() < kMaxVictims;
      });
      // A line without its report names no limit; the mark does, and what was killed for it may be open.
      if (owners != open_.end() && &*owners != &open && open.victims.size() == 1 && open.begun == 0) {
        owners->victims.push_back(std::move(v));
        auto gone = open_.begin() + (&open - open_.data());
        *in = &*owners - (gone < owners);
        open_.erase(gone);
        return &take_mark((*in)->victims.back(), **in, mark);
      }
      if (!open.limit_inode) {
        open.limit_inode = owner;
        if (auto ref = cgroups_.ref(owner)) open.episode.limit_cgroup = ref;
      }
      *in = &open;
      return &take_mark(v, open, mark);
    }
  return nullptr;
}

// Where it can be probed: all kills of a decision are made by one thread, one after the other.
const wire::OomDecision* EpisodeBuilder::decision_of(const wire::OomMark& mark) const {
  auto at = std::find_if(decisions_.rbegin(), decisions_.rend(), [&](const wire::OomDecision& d) {
    return d.trigger.tid == mark.trigger.tid && d.time <= mark.time && mark.time - d.time < kSameMoment;
  });
  return at == decisions_.rend() ? nullptr : &*at;
}

bool EpisodeBuilder::any_open_around(std::optional<std::uint64_t> inode) const {
  return std::ranges::any_of(open_, [&](const Open& open) {
    return !inode || !open.limit_inode || cgroups_.is_below(*inode, *open.limit_inode);
  });
}

// Victims give memory back while others are being killed: then the limit's owner is no longer full, and only
// the first thread to run into it held its lock. But it is still killed for what was killed for just before:
// by the same thread (a group), or by one that had waited for the first.
std::optional<std::uint64_t> EpisodeBuilder::owner_of(const wire::OomMark& mark) const {
  if (auto owner = limit_owner(mark)) return owner;
  if (mark.trigger.workqueue) return std::nullopt;
  auto holds = [](const std::vector<wire::Memcg>& chain, std::uint64_t inode) {
    return std::any_of(chain.begin(), chain.end(),
                       [&](const wire::Memcg& m) { return m.inode == inode && m.limit; });
  };
  const Open* last = nullptr;
  for (const Open& open : open_)
    if (open.marked && open.limit_inode && mark.time - open.last < kSettle &&
        holds(mark.victim_chain, *open.limit_inode) &&
        (open.trigger->tid == mark.trigger.tid || holds(mark.chain, *open.limit_inode)) &&
        (!last || last->last < open.last))
      last = &open;
  return last ? last->limit_inode : std::nullopt;
}

void EpisodeBuilder::on_mark(const wire::OomMark& mark) {
  OpenVictim* known = find_victim(mark.victim.id);
  if ((known && known->victim.marked) || !was_sent_by(mark)) return;
  const wire::OomDecision* decision = decision_of(mark);
  std::optional<std::uint64_t> owner = decision ? decision->limit_cgroup : owner_of(mark);
  Open* open = nullptr;
  OpenVictim* v = find_unmarked(mark, owner, &open);
  if (!v) {
    open = open_for(owner, mark.time, mark.time);
    if (!open || open->victims.size() >= kMaxVictims) {
      if (open) ++dropped_;
      return;
    }
    v = &add_victim(*open, mark.victim, mark.time);
  }
  Episode& episode = open->episode;
  if (!open->marked) episode.grew_most = grew_most(*open);
  v->victim.marked = true;
  v->killer_tid = mark.trigger.tid;
  v->victim.process = process_ref(tasks_, cgroups_, v->task);
  for (const wire::Exit& exit : exits_)
    if (exit.task.id == mark.victim.id) v->victim.killed = exit.by_sigkill();
  if (mark.memory) {
    take_memory(v->victim, *mark.memory);
    v->mm_key = mark.memory->mm_key;
  }
  if (!open->marked) {
    open->marked = true;
    open->trigger = mark.trigger;
    episode.trigger = process_ref(tasks_, cgroups_, mark.trigger);
    auto holds_owner = [&](const wire::Memcg& m) { return m.inode == owner; };
    bool above_trigger = !owner || std::any_of(mark.chain.begin(), mark.chain.end(), holds_owner);
    const auto& chain = above_trigger ? mark.chain : mark.victim_chain;
    for (const wire::Memcg& level : chain) {
      episode.chain.push_back({cgroups_.ref(level.inode), level.usage, level.limit});
      if (owner == level.inode) {
        episode.usage = level.usage;
        episode.limit = level.limit;
        open->usage_before = level.usage;
      }
    }
    if (!episode.scope)
      episode.scope = owner ? OomScope::memcg : mark.trigger.workqueue ? OomScope::sysrq : OomScope::global;
  }
  episode.group_kill = episode.group_kill.value_or(false) || is_group_kill(mark, owner);
  if (decision) {
    episode.order = decision->order;
    if (auto scope = scope_of(*decision)) episode.scope = scope;
  }
}

void EpisodeBuilder::on_decision(const wire::OomDecision& decision) {
  remember(decisions_, decision, 64);
}

void EpisodeBuilder::on_dying(const wire::Dying& dying) {
  if (OpenVictim* v = find_victim(dying.task.id)) v->victim.process = process_ref(tasks_, cgroups_, v->task);
  if (!dying.stack.empty()) remember(stacks_, {dying.task.id, dying.stack}, 64);
}

void EpisodeBuilder::on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code) {
  if (!code.empty()) remember(threads_, {id, tid, std::move(code)}, 256);
}

void EpisodeBuilder::on_exit(const wire::Exit& exit) {
  if (OpenVictim* v = find_victim(exit.task.id)) v->victim.killed = exit.by_sigkill();
  remember(exits_, exit, kRecentKills);
}

void EpisodeBuilder::on_reaper(const wire::Reaper& reaper) {
  if (reaper.op != wire::Reaper::Op::done) return;
  for (Open& open : open_)
    for (OpenVictim& v : open.victims)
      if (v.victim.tid == reaper.tid && !v.victim.freed_after)
        v.victim.freed_after = seconds_between(v.marked_at, reaper.time);
}

void EpisodeBuilder::on_vmstat(const KillCount& count) {
  remember(vmstat_, count, 16);
}

std::vector<std::uint64_t> EpisodeBuilder::watched() const {
  std::vector<std::uint64_t> out;
  for (const Open& open : open_)
    if (open.limit_inode && open.usage_before &&
        std::any_of(open.victims.begin(), open.victims.end(),
                    [](const auto& v) { return !v.victim.freed_after; }))
      out.push_back(*open.limit_inode);
  return out;
}

void EpisodeBuilder::on_usage(std::uint64_t inode, MonoTime when, Bytes usage) {
  for (Open& open : open_) {
    if (open.limit_inode != inode || !open.usage_before) continue;
    // Memory is back when what the victims held alone, less a tenth for what others took meanwhile, has gone.
    Bytes held;
    for (const OpenVictim& v : open.victims)
      if (v.victim.anon) held += *v.victim.anon;
    if (held.count == 0 || *open.usage_before - usage < Bytes{held.count / 10 * 9}) continue;
    for (OpenVictim& v : open.victims)
      if (!v.victim.freed_after) v.victim.freed_after = seconds_between(v.marked_at, when);
  }
}

EpisodeBuilder::OpenVictim* EpisodeBuilder::find_logged(const OomVictimLine& line, Open** owner) {
  for (Open& open : open_)
    for (OpenVictim& v : open.victims)
      if (v.victim.tid == line.tid) {
        *owner = &open;
        return &v;
      }
  return nullptr;
}

void EpisodeBuilder::add_logged_victim(Open& open, const OomDump& dump, const OomVictimLine& line,
                                       MonoTime when) {
  wire::Task task;
  task.tid = line.tid;
  task.comm = line.comm.value_or("");
  task.id.tgid = tgid_of(dump, line);
  if (const TaskState* known = tasks_.by_pid(task.id.tgid)) {
    task.id = known->id;
    task.parent = known->parent;
    task.cgroup = known->cgroup;
  }
  task.uid = line.uid;
  if (dump.constraint && dump.constraint->task_memcg && dump.victims.size() == 1)
    if (const CgroupState* cgroup = cgroups_.by_path(*dump.constraint->task_memcg))
      task.cgroup = cgroup->ref->id.inode;
  OpenVictim& v = add_victim(open, task, when);
  v.victim.oom_score_adj.reset();
  take_line(v.victim, line);
}

// The log has the trigger's thread; whose thread it is, the victims or the table tell.
wire::Task EpisodeBuilder::logged_trigger(const Open& open, const OomDump& dump) const {
  for (const OpenVictim& v : open.victims)
    if (v.task.tid == *dump.trigger_tid) return v.task;
  wire::Task trigger;
  trigger.tid = *dump.trigger_tid;
  trigger.id.tgid = trigger.tid;
  for (const TaskRow& row : dump.tasks)
    if (row.pid == trigger.tid && row.tgid) trigger.id.tgid = *row.tgid;
  if (const TaskState* known = tasks_.by_pid(trigger.id.tgid)) {
    trigger.id = known->id;
    trigger.parent = known->parent;
    trigger.cgroup = known->cgroup;
  }
  trigger.comm = dump.invoked->trigger_comm;
  return trigger;
}

void EpisodeBuilder::on_dump(const OomDump& dump, MonoTime when) {
  Open* open = nullptr;
  for (const OomVictimLine& line : dump.victims) {
    if (OpenVictim* v = find_logged(line, &open)) {
      take_line(v->victim, line);
      continue;
    }
    bool told = std::any_of(closed_.begin(), closed_.end(),
                            [&](const Closed& c) { return c.tid == line.tid && when - c.at < kToldFor; });
    if (told) continue;
    if (!open) {
      auto path = dump.limit_cgroup();
      const CgroupState* owner = path ? cgroups_.by_path(*path) : nullptr;
      // It is as old as the log's end before it.
      MonoTime alive = MonoTime::min();
      for (MonoTime read : log_read_)
        if (read < when) alive = read;
      open = open_for(owner ? std::optional(owner->ref->id.inode) : std::nullopt, when, alive);
      if (open && path && !open->episode.limit_cgroup) {
        auto ref = std::make_shared<CgroupRef>();
        ref->path = *path;
        ref->name = name_cgroup(*path);
        open->episode.limit_cgroup = ref;
      }
    }
    if (open && open->victims.size() < kMaxVictims)
      add_logged_victim(*open, dump, line, when);
    else if (open)
      ++dropped_;
  }
  if (!open) return;
  Episode& episode = open->episode;
  if (auto scope = dump.scope()) episode.scope = scope;
  if (dump.invoked) {
    if (dump.invoked->order) episode.order = dump.invoked->order;
    if (dump.invoked->gfp_text) episode.gfp = dump.invoked->gfp_text;
    if (!open->trigger && dump.trigger_tid) open->trigger = logged_trigger(*open, dump);
  }
  if (dump.group_kill) episode.group_kill = true;
  if (!episode.memory) episode.memory = memory_at_kill(dump, sources_.page);
  if (!episode.machine) episode.machine = machine_at_kill(dump, sources_.page);
  if (episode.tasks.empty() && !dump.tasks.empty()) {
    episode.tasks = tasks_at_kill(dump, sources_.page);
    episode.tasks_listed = dump.tasks.size() + dump.dropped;
    // Now: at the end of the episode the victims are gone, and their numbers may be others'.
    for (TaskAtKill& task : episode.tasks)
      if (const TaskState* known = tasks_.by_pid(task.process.id.tgid)) {
        std::string comm = std::move(task.process.comm);
        task.process = process_ref(tasks_, cgroups_, known->id);
        task.process.comm = std::move(comm);
      }
  }
  if (const MemcgUsageLine* usage = dump.usage_of(MemcgCounter::memory)) {
    if (!episode.usage) episode.usage = usage->usage;
    if (!episode.limit) episode.limit = usage->limit;
  }
}

bool EpisodeBuilder::complete(const Open& open) const {
  return std::all_of(open.victims.begin(), open.victims.end(), [&](const OpenVictim& v) {
    return (!sources_.bpf || (v.victim.killed && v.victim.freed_after)) &&
           (!sources_.kmsg || v.victim.logged);
  });
}

std::vector<GrewProcess> EpisodeBuilder::grew_most(const Open& open) const {
  std::vector<GrewProcess> out;
  tasks_.for_each([&](const TaskState& task) {
    if (open.limit_inode && !(task.cgroup && cgroups_.is_below(*task.cgroup, *open.limit_inode))) return;
    auto points = task.rss.since(open.first - kGrowthWindow);
    while (!points.empty() && points.back().time > open.first) points = points.first(points.size() - 1);
    if (points.size() < 2) return;
    Bytes grew = points.back().value - points.front().value;
    if (grew > Bytes{})
      out.push_back({process_ref(tasks_, cgroups_, task.id), grew,
                     seconds_between(points.front().time, points.back().time)});
  });
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.grew > b.grew; });
  // Beside the one that grew by gigabytes, the start of a shell is no news.
  std::erase_if(out, [&](const GrewProcess& g) { return g.grew.count < out.front().grew.count / 20; });
  if (out.size() > kGrewMost) out.resize(kGrewMost);
  return out;
}

Episode EpisodeBuilder::finish(Open& open) {
  Episode& episode = open.episode;
  if (!episode.limit_cgroup) episode.limit_cgroup = cgroups_.ref(open.limit_inode);
  if (open.trigger && (!episode.trigger || tasks_.find(open.trigger->id)))
    episode.trigger = process_ref(tasks_, cgroups_, *open.trigger);
  if (episode.trigger && open.trigger && !episode.trigger->cgroup)
    episode.trigger->cgroup = cgroups_.ref(open.trigger->cgroup);
  std::set<TaskId> told;
  for (OpenVictim& v : open.victims) {
    if (tasks_.find(v.task.id)) v.victim.process = process_ref(tasks_, cgroups_, v.task);
    if (!v.victim.process.cgroup) v.victim.process.cgroup = cgroups_.ref(v.task.cgroup);
    for (auto& [id, stack] : stacks_)
      if (id == v.task.id) v.victim.stack = stack;
    int best = 0;
    for (const DyingThread& thread : threads_) {
      if (thread.id != v.task.id) continue;
      bool met_limit = open.trigger && thread.tid == open.trigger->tid;
      int good = met_limit ? 3 : thread.tid == thread.id.tgid ? 2 : 1;
      if (good > best) v.victim.code = thread.code;
      best = std::max(best, good);
    }
    told.insert(v.task.id);
    remember(closed_, Closed{v.victim.tid, open.last}, 4096);
  }
  for (const OpenVictim& v : open.victims)
    for (const wire::KernelKill& kill : kills_)
      // By the same thread as the victim: the address of a freed mm is soon another's.
      if (v.mm_key && kill.memory && kill.memory->mm_key == v.mm_key && kill.sender.tid == v.killer_tid &&
          kill.time >= v.marked_at - kSameMoment && kill.time <= v.marked_at + kSameMoment &&
          told.insert(kill.victim.id).second)
        episode.also_killed.push_back(process_ref(tasks_, cgroups_, kill.victim));
  for (OpenVictim& v : open.victims) episode.victims.push_back(std::move(v.victim));
  // What was on its way at the kill is there now; of a series that has fallen far since then, little is left.
  auto most = [](const std::vector<GrewProcess>& grew) { return grew.empty() ? Bytes{} : grew.front().grew; };
  if (auto now = grew_most(open); most(now) >= most(episode.grew_most)) episode.grew_most = std::move(now);
  if (sources_.bpf) episode.checks.mark_victim = count_processes(episode.victims, &Victim::marked);
  if (sources_.kmsg) episode.checks.kmsg = count_processes(episode.victims, &Victim::logged);
  if (open.alone && open.vmstat_before && !vmstat_.empty() && vmstat_.back().began > open.last)
    episode.checks.vmstat = vmstat_.back().kills - *open.vmstat_before;
  return std::move(episode);
}

std::vector<Episode> EpisodeBuilder::take_begun() {
  std::vector<Episode> out;
  for (Open& open : open_) {
    if (open.victims.size() == open.begun) continue;
    open.begun = open.victims.size();
    Episode episode = open.episode;
    if (!episode.limit_cgroup) episode.limit_cgroup = cgroups_.ref(open.limit_inode);
    for (const OpenVictim& v : open.victims) episode.victims.push_back(v.victim);
    episode.grew_most = grew_most(open);
    out.push_back(std::move(episode));
  }
  return out;
}

std::vector<std::uint32_t> EpisodeBuilder::due(MonoTime when) const {
  std::vector<std::uint32_t> out;
  for (const Open& open : open_)
    if (when - open.last >= kLatest)
      for (const OpenVictim& v : open.victims) out.push_back(v.victim.tid);
  return out;
}

std::vector<Episode> EpisodeBuilder::take_closed(MonoTime now) {
  std::vector<Episode> out;
  for (auto at = open_.begin(); at != open_.end();) {
    Nanos age = now - at->last;
    if (age >= kLatest || (age >= kSettle && complete(*at))) {
      out.push_back(finish(*at));
      at = open_.erase(at);
    } else {
      ++at;
    }
  }
  return out;
}

}  // namespace oomcast
