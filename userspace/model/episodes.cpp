#include "model/episodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "model/logged_kill.h"
#include "model/memory_at_kill.h"
#include "model/process_ref.h"
#include "model/recent.h"

namespace oomcast {
namespace {

// A group is killed at once, but a slow console delays each line of it.
constexpr Nanos kGroupPause = std::chrono::seconds(1);
constexpr int kNeverKilled = -1000;  // oom_score_adj

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

// Fills in what the kernel's line, if it came first, did not have.
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

void EpisodeBuilder::on_kernel_kill(const wire::KernelKill& kill) {
  if (recent_.add(kill)) ledger_.add_sent_again();
}

// ---- what is open

// Makes room by dropping what is already published.
bool EpisodeBuilder::has_room(const Open* open) {
  if (open && open->victims.size() >= kMaxVictims) return false;
  auto is_full = [&] { return victims_ >= kMaxVictimsInAll || (!open && open_.size() >= kMaxOpen); };
  for (auto at = open_.begin(); is_full() && at != open_.end();) {
    Open& oldest = *at++;
    if (!oldest.told || &oldest == open) continue;
    if (oldest.news) completed_.push_back(as_known(oldest));
    let_go(&oldest);
  }
  return !is_full();
}

void EpisodeBuilder::let_go(Open* open) {
  for (const OpenVictim& v : open->victims) {
    remember(closed_, Closed{v.victim.tid, v.task.id, open->last, v.victim.logged}, 4096);
    if (index_.find(v.victim.tid).open == open) index_.by_tid.erase(v.victim.tid);
    if (index_.find(v.task.id).open == open) index_.by_task.erase(v.task.id);
  }
  forget_usage_before(*open);
  victims_ -= open->victims.size();
  if (!open->told) --untold_;
  open_.remove_if([&](const Open& o) { return &o == open; });
}

void EpisodeBuilder::forget_usage_before(Open& open) {
  if (!std::exchange(open.usage_before, std::nullopt) || !open.limit_inode) return;
  auto [from, to] = by_limit_.equal_range(*open.limit_inode);
  auto own = std::find_if(from, to, [&](const auto& entry) { return entry.second == &open; });
  if (own != to) by_limit_.erase(own);
}

// Its log report, or its mark from the other source, is of the same kill.
void EpisodeBuilder::drop(std::uint32_t tid, const TaskId& id, MonoTime when, bool logged) {
  ++dropped_;
  ledger_.add_known();
  remember(closed_, Closed{tid, id, when, logged}, 4096);
}

EpisodeBuilder::At EpisodeBuilder::Index::find(const TaskId& id) const {
  auto at = by_task.find(id);
  return at == by_task.end() ? At{} : at->second;
}

EpisodeBuilder::At EpisodeBuilder::Index::find(std::uint32_t tid) const {
  auto at = by_tid.find(tid);
  return at == by_tid.end() ? At{} : at->second;
}

void EpisodeBuilder::Index::add(Open& open, std::size_t nr) {
  const OpenVictim& v = open.victims[nr];
  by_tid[v.victim.tid] = {&open, nr};
  by_task[v.task.id] = {&open, nr};
}

bool EpisodeBuilder::was_closed(const wire::OomMark& mark) const {
  return std::any_of(closed_.begin(), closed_.end(), [&](const Closed& c) {
    if (c.id.start_ticks) return c.id == mark.victim.id;
    return c.tid == mark.victim.tid && mark.time - c.at < kToldFor;
  });
}

// A log line may be read long after its kill was published: on a slow machine it waits behind thousands. A
// victim whose line has been read is not expected again, so the next line with that tid is another victim's.
bool EpisodeBuilder::was_closed(std::uint32_t tid, MonoTime when) {
  auto at = std::find_if(closed_.rbegin(), closed_.rend(), [&](const Closed& c) {
    return c.tid == tid && (!c.logged || when - c.at < kToldFor);
  });
  if (at == closed_.rend()) return false;
  at->logged = true;
  return true;
}

// `alive`: the last time at which the victim was not yet killed.
EpisodeBuilder::Open* EpisodeBuilder::begin(MonoTime when, MonoTime alive) {
  if (!has_room(nullptr)) return nullptr;
  Open& open = open_.emplace_back();
  ++untold_;
  open.episode.serial = ++serial_;
  open.last = when;
  open.alone = untold_ == 1;
  if (!open.alone)
    for (Open& other : open_)
      if (!other.told) other.alone = false;
  begin_at(open, when, alive);
  return &open;
}

void EpisodeBuilder::begin_at(Open& open, MonoTime when, MonoTime alive) {
  open.episode.time = open.first = when;
  open.vmstat_before = ledger_.before(alive);
}

EpisodeBuilder::At EpisodeBuilder::add_victim(Open& open, const wire::Task& task, MonoTime when) {
  OpenVictim& v = open.victims.emplace_back();
  v.task = task;
  v.marked_at = when;
  v.victim.time = when;
  // Resolved now: in a fork storm the table may have dropped it by the time of publication.
  v.victim.process = process_ref(tasks_, cgroups_, task);
  v.victim.tid = task.tid;
  v.victim.oom_score_adj = task.oom_score_adj;
  ++victims_;
  ledger_.add_known();
  if (open.told) {
    ++late_victims_;
    open.news = true;
  }
  open.last = std::max(open.last, when);
  index_.add(open, open.victims.size() - 1);
  return {&open, open.victims.size() - 1};
}

// The log was read before the ring: the victim is known, and the mark adds the rest. A line without its
// report stands alone, until the mark shows to which group it belongs.
EpisodeBuilder::At EpisodeBuilder::take_mark(At at, Open* group, const wire::OomMark& mark) {
  Open* open = at.open;
  bool stands_alone = open->victims.size() == 1 && !open->begun && !open->told;
  index_.by_task.erase(at.victim().task.id);
  if (group && group != open && stands_alone && has_room(group)) {
    OpenVictim moved = std::move(at.victim());
    index_.by_tid.erase(moved.victim.tid);
    open->victims.clear();
    --victims_;
    let_go(open);
    group->victims.push_back(std::move(moved));
    ++victims_;
    if (group->told) {
      ++late_victims_;
      group->news = true;
    }
    open = group;
    at = {open, open->victims.size() - 1};
  }
  OpenVictim& v = at.victim();
  v.task = mark.victim;
  v.victim.process.id = mark.victim.id;
  v.victim.tid = mark.victim.tid;
  v.victim.time = v.marked_at = mark.time;
  if (!v.victim.oom_score_adj) v.victim.oom_score_adj = mark.victim.oom_score_adj;
  index_.add(*open, at.nr);
  if (mark.time < open->first) begin_at(*open, mark.time, mark.time);
  open->last = open->first;
  for (const OpenVictim& other : open->victims) open->last = std::max(open->last, other.marked_at);
  return at;
}

// ---- whose decision

// Victims of one group that the same thread kills one after the other. A thread in the group dies with it,
// and one whose decision was traced has made no other: so the gap may be as long as the machine takes (1.3 s
// between two victims on a CPU shared by six programs). With oom_score_adj -1000 the thread survives its
// group's kill, and may kill the next group (a database's postmaster).
EpisodeBuilder::Open* EpisodeBuilder::open_group(const wire::OomMark& mark,
                                                 std::optional<std::uint64_t> owner, std::uint64_t group,
                                                 const wire::OomDecision* decision) {
  bool dies_with_it = mark.trigger.oom_score_adj != kNeverKilled &&
                      std::ranges::any_of(mark.chain, [&](const wire::Memcg& m) { return m.inode == group; });
  auto at = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& open) {
    bool same_decision = decision && decision->time <= open.first;
    return open.marked && open.group == group && open.limit_inode == owner &&
           open.victims.size() < kMaxVictims && open.trigger->tid == mark.trigger.tid &&
           mark.time - open.last < (dies_with_it || same_decision ? kFollow : kGroupPause) &&
           (!decision || same_decision);
  });
  return at == open_.rend() ? nullptr : &*at;
}

std::size_t EpisodeBuilder::living_in(std::uint64_t group, MonoTime at) const {
  std::size_t count = 0;
  CgroupTree::Below below(cgroups_, group);
  tasks_.for_each([&](const TaskState& task) {
    bool lives = !task.died || *task.died >= at;
    count += lives && task.cgroup && below(*task.cgroup);
  });
  return count;
}

bool EpisodeBuilder::any_open_around(std::optional<std::uint64_t> inode) const {
  return std::ranges::any_of(open_, [&](const Open& open) {
    return !inode || !open.limit_inode || cgroups_.is_below(*inode, *open.limit_inode);
  });
}

std::optional<std::uint64_t> EpisodeBuilder::on_mark(const wire::OomMark& mark) {
  std::optional<std::uint64_t> owner = decisions_.owner_of(mark);
  add_mark(mark, owner);
  return owner;
}

void EpisodeBuilder::add_mark(const wire::OomMark& mark, std::optional<std::uint64_t> owner) {
  At known = index_.find(mark.victim.id);
  if ((known && known.victim().victim.marked) || !recent_.precede(mark)) return;
  if (!known) known = index_.find(mark.victim.tid);
  if (known && known.victim().victim.marked) known = {};  // an earlier process with that pid
  if (!known && was_closed(mark)) return;
  const wire::OomDecision* decision = decisions_.of(mark);
  auto group = group_of(mark, owner);
  Open* open = group ? open_group(mark, owner, *group, decision) : nullptr;
  if (known) {
    known = take_mark(known, open, mark);
  } else {
    if (!open) open = begin(mark.time, mark.time);
    if (!open || !has_room(open)) {
      if (open && open->victims.empty()) let_go(open);
      return drop(mark.victim.tid, mark.victim.id, mark.time, false);
    }
    known = add_victim(*open, mark.victim, mark.time);
  }
  open = known.open;
  open->news = true;
  OpenVictim& v = known.victim();
  v.victim.marked = true;
  v.killer_tid = mark.trigger.tid;
  v.victim.process = process_ref(tasks_, cgroups_, v.task);
  if (auto killed = recent_.ended_by_sigkill(mark.victim.id)) v.victim.killed = killed;
  if (mark.memory) {
    take_memory(v.victim, *mark.memory);
    v.mm_key = mark.memory->mm_key;
  }
  if (!open->marked) first_mark(*open, mark, owner);
  if (group && open->group != group) open->expected = living_in(*group, mark.time);
  open->group = group;
  open->episode.group_kill = group.has_value();
  if (decision) {
    open->episode.request.order = decision->order;
    if (!open->episode.request.gfp) open->episode.request.gfp = fmt::format("{:#x}", decision->gfp_mask);
    if (auto scope = scope_of(*decision)) open->episode.scope = scope;
  }
}

void EpisodeBuilder::first_mark(Open& open, const wire::OomMark& mark, std::optional<std::uint64_t> owner) {
  Episode& episode = open.episode;
  open.marked = true;
  open.trigger = mark.trigger;
  episode.trigger = process_ref(tasks_, cgroups_, mark.trigger);
  if (owner) {
    open.limit_inode = owner;
    if (auto ref = episode.limit_cgroup ? with_number(*episode.limit_cgroup, owner) : cgroups_.ref(owner))
      episode.limit_cgroup = ref;
  }
  bool above_trigger = !owner || std::any_of(mark.chain.begin(), mark.chain.end(),
                                             [&](const wire::Memcg& m) { return m.inode == owner; });
  for (const wire::Memcg& level : above_trigger ? mark.chain : mark.victim_chain) {
    episode.chain.push_back({cgroups_.ref(level.inode), level.usage, level.limit});
    if (owner == level.inode) {
      episode.usage = level.usage;
      episode.limit = level.limit;
      open.usage_before = level.usage;
    }
  }
  if (!open.usage_before && mark.owner && owner == mark.owner->inode) {  // higher than in the chain
    episode.usage = open.usage_before = mark.owner->usage;
    episode.limit = mark.owner->limit;
  }
  if (open.usage_before) by_limit_.emplace(*open.limit_inode, &open);
  if (!episode.scope)
    episode.scope = owner ? OomScope::memcg : mark.trigger.workqueue ? OomScope::sysrq : OomScope::global;
  episode.grew_most = growth_.grew_most(open.limit_inode, open.first);
}

// ---- what becomes of a victim

void EpisodeBuilder::on_dying(const wire::Dying& dying) {
  if (At at = index_.find(dying.task.id))
    at.victim().victim.process = process_ref(tasks_, cgroups_, at.victim().task);
  stacks_.on_stack(dying.task.id, dying.stack);
}

void EpisodeBuilder::on_exit(const wire::Exit& exit) {
  if (At at = index_.find(exit.task.id)) {
    at.victim().victim.killed = exit.by_sigkill();
    at.open->news = true;
  }
  recent_.add(exit);
}

void EpisodeBuilder::on_reaper(const wire::Reaper& reaper) {
  if (reaper.op != wire::Reaper::Op::done) return;
  At at = index_.find(reaper.tid);
  if (!at || at.victim().victim.freed_after) return;
  at.victim().victim.freed_after = seconds_between(at.victim().marked_at, reaper.time);
  at.open->news = true;
}

std::vector<std::uint64_t> EpisodeBuilder::watched() const {
  std::vector<std::uint64_t> out;
  if (!untold_) return out;
  for (const Open& open : open_)
    if (!open.told && open.usage_before &&
        std::any_of(open.victims.begin(), open.victims.end(),
                    [](const auto& v) { return !v.victim.freed_after; }))
      out.push_back(*open.limit_inode);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void EpisodeBuilder::on_usage(std::uint64_t inode, MonoTime when, Bytes usage) {
  auto [from, to] = by_limit_.equal_range(inode);
  for (auto at = from; at != to; ++at) {
    Open& open = *at->second;
    // Memory is back when the victims' own memory is gone, less a tenth that others may have taken meanwhile.
    Bytes held;
    for (const OpenVictim& v : open.victims)
      if (v.victim.anon) held += *v.victim.anon;
    if (held.count == 0 || *open.usage_before - usage < Bytes{held.count / 10 * 9}) continue;
    for (OpenVictim& v : open.victims)
      if (!v.victim.freed_after && when >= v.marked_at) {
        v.victim.freed_after = seconds_between(v.marked_at, when);
        open.news = true;
      }
  }
}

// ---- what is told

bool EpisodeBuilder::complete(const Open& open) const {
  return open.victims.size() >= open.expected &&
         std::all_of(open.victims.begin(), open.victims.end(), [&](const OpenVictim& v) {
           return (!sources_.bpf || (v.victim.killed && v.victim.freed_after)) &&
                  (!sources_.kmsg || v.victim.logged);
         });
}

// Resolves the processes while the table still has them.
void EpisodeBuilder::close(Open& open) {
  Episode& episode = open.episode;
  open.told = true;
  open.news = false;
  --untold_;
  if (!episode.limit_cgroup) episode.limit_cgroup = cgroups_.ref(open.limit_inode);
  auto cgroup_of = [&](const wire::Task& task) {
    auto known = cgroups_.ref(task.cgroup);
    return known || !task.cgroup || task.cgroup != open.limit_inode ? known : episode.limit_cgroup;
  };
  if (open.trigger && (!episode.trigger || tasks_.find(open.trigger->id)))
    episode.trigger = process_ref(tasks_, cgroups_, *open.trigger);
  if (episode.trigger && open.trigger && !episode.trigger->cgroup)
    episode.trigger->cgroup = cgroup_of(*open.trigger);
  for (OpenVictim& v : open.victims) {
    if (tasks_.find(v.task.id)) v.victim.process = process_ref(tasks_, cgroups_, v.task);
    if (!v.victim.process.cgroup) v.victim.process.cgroup = cgroup_of(v.task);
    stacks_.fill_in(v.victim, v.task.id, open.trigger ? std::optional(open.trigger->tid) : std::nullopt);
  }
  std::set<TaskId> told;
  for (const OpenVictim& v : open.victims) told.insert(v.task.id);
  for (const OpenVictim& v : open.victims)
    for (const wire::Task& task : recent_.with_memory(v.mm_key, v.killer_tid, v.marked_at))
      if (told.insert(task.id).second) episode.also_killed.push_back(process_ref(tasks_, cgroups_, task));
  if (auto kills = ledger_.after(open.last); kills && open.alone && open.vmstat_before)
    episode.checks.vmstat = *kills - *open.vmstat_before;
}

Episode EpisodeBuilder::as_known(const Open& open) const {
  Episode episode = open.episode;
  if (!episode.limit_cgroup) episode.limit_cgroup = cgroups_.ref(open.limit_inode);
  std::size_t arguments = 0;
  for (const OpenVictim& v : open.victims) {
    ProcessRef& process = episode.victims.emplace_back(v.victim).process;
    // No reader takes a line with the arguments of a thousand victims.
    if (arguments > kMaxArguments && process.cmdline.cut(TaskTable::kCutOff))
      process.cmdline_truncated = true;
    arguments += process.cmdline.bytes().size();
  }
  if (!open.told) return episode;
  if (sources_.bpf) episode.checks.mark_victim = count_processes(episode.victims, &Victim::marked);
  if (sources_.kmsg) episode.checks.kmsg = count_processes(episode.victims, &Victim::logged);
  return episode;
}

std::vector<Episode> EpisodeBuilder::take_opened() {
  std::vector<Episode> out;
  for (Open& open : open_) {
    if (open.told || open.victims.size() == open.begun) continue;
    open.begun = open.victims.size();
    out.push_back(as_known(open));
  }
  return out;
}

std::vector<std::uint32_t> EpisodeBuilder::due(MonoTime when) const {
  std::vector<std::uint32_t> out;
  for (const Open& open : open_)
    if (!open.told && when - open.first >= kLatest)
      for (const OpenVictim& v : open.victims) out.push_back(v.victim.tid);
  return out;
}

std::vector<Episode> EpisodeBuilder::take_closed(MonoTime now, bool all) {
  std::vector<Episode> out;
  GrowthAtKill now_known(tasks_, cgroups_);
  auto most = [](const std::vector<GrewProcess>& grew) { return grew.empty() ? Bytes{} : grew.front().grew; };
  for (auto at = open_.begin(); untold_ && at != open_.end();) {
    Open& open = *at++;
    if (open.told) continue;
    bool is_complete = complete(open);
    if (!all && now - open.first < kLatest && !(is_complete && now - open.last >= kSettle)) continue;
    if (!all && store_behind_ && now - open.first < kLatest + kForStore) continue;
    close(open);
    // Records in flight at the kill have arrived by now; a series that has fallen far since then has little
    // left.
    if (auto grew = now_known.grew_most(open.limit_inode, open.first);
        most(grew) >= most(open.episode.grew_most))
      open.episode.grew_most = std::move(grew);
    out.push_back(as_known(open));
    if (is_complete) let_go(&open);
  }
  return out;
}

std::vector<Episode> EpisodeBuilder::take_completed(MonoTime now) {
  std::vector<Episode> out = std::exchange(completed_, {});
  for (auto at = open_.begin(); open_.size() > untold_ && at != open_.end();) {
    Open& open = *at++;
    if (!open.told || (!complete(open) && now - open.first < kFollow)) continue;
    if (open.news) out.push_back(as_known(open));
    let_go(&open);
  }
  return out;
}

// ---- what the kernel's log adds

void EpisodeBuilder::on_log_read(MonoTime until) {
  remember(log_read_, until, 256);
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
  OpenVictim& v = add_victim(open, task, when).victim();
  v.victim.oom_score_adj.reset();
  take_line(v.victim, line);
}

// The log has the trigger's tid; its process is found among the victims or in the table.
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

// For victims without a mark.
EpisodeBuilder::Open* EpisodeBuilder::open_logged(const OomDump& dump, MonoTime when) {
  // The kill is no older than the previous end of the log.
  MonoTime alive = MonoTime::min();
  for (MonoTime read : log_read_)
    if (read < when) alive = read;
  Open* open = begin(when, alive);
  if (!open) return nullptr;
  open->episode.limit_cgroup = limit_of(dump);
  if (open->episode.limit_cgroup && open->episode.limit_cgroup->id.inode)
    open->limit_inode = open->episode.limit_cgroup->id.inode;
  return open;
}

void EpisodeBuilder::on_dump(const OomDump& dump, MonoTime when) {
  ledger_.add_logged_again(dump.counts.named_again);
  std::vector<Open*> opens;
  std::vector<const OomVictimLine*> strangers;
  for (const OomVictimLine& line : dump.victims) {
    At at = index_.find(line.tid);
    if (at && (!at.victim().victim.logged || when - at.victim().marked_at < kToldFor)) {
      if (at.victim().victim.logged) ledger_.add_logged_again(1);
      take_line(at.victim().victim, line);
      at.open->news = true;
      if (std::find(opens.begin(), opens.end(), at.open) == opens.end()) opens.push_back(at.open);
    } else if (!was_closed(line.tid, when)) {
      strangers.push_back(&line);
    }
  }
  for (Open* open : opens) take_report(*open, dump);
  if (strangers.empty()) return;
  Open* open = opens.empty() ? open_logged(dump, when) : opens.back();
  for (const OomVictimLine* line : strangers)
    if (open && has_room(open))
      add_logged_victim(*open, dump, *line, when);
    else
      drop(line->tid, TaskId{}, when, true);
  if (!open) return;
  if (open->victims.empty())
    let_go(open);
  else
    take_report(*open, dump);
}

// nullptr: the report has no limit cgroup.
CgroupPtr EpisodeBuilder::limit_of(const OomDump& dump) const {
  auto path = dump.limit_cgroup();
  if (!path) return nullptr;
  if (const CgroupState* known = cgroups_.by_path(*path)) return known->ref;
  auto ref = std::make_shared<CgroupRef>();
  ref->id.hierarchy = cgroups_.hierarchy();
  ref->path = *path;
  ref->name = name_cgroup(*path);
  return ref;
}

// A cgroup that was refused, or removed before it was seen: the mark has its inode, the log its path.
CgroupPtr EpisodeBuilder::with_number(const CgroupRef& logged, std::optional<std::uint64_t> inode) const {
  auto known = cgroups_.ref(inode);
  if (known || !inode) return known;
  auto ref = std::make_shared<CgroupRef>(logged);
  ref->id.inode = *inode;
  return ref;
}

// Marks give the owner by which cgroups were locked or full at that time, up to sixteen levels; the report is
// about the decision itself. A container that page cache keeps at its limit is not the reason why a global
// OOM kill, or SysRq, chose a process in it.
void EpisodeBuilder::take_owner(Open& open, const OomDump& dump) {
  auto scope = dump.interleaved ? std::nullopt : dump.scope();
  if (!scope) return;
  Episode& episode = open.episode;
  CgroupPtr owner = *scope == OomScope::memcg ? limit_of(dump) : nullptr;
  bool told = open.limit_inode || episode.limit_cgroup;
  // In a cgroup namespace the same cgroup has another path, which is not in the tree.
  bool same = owner && told &&
              (!owner->id.inode || owner->id.inode == open.limit_inode ||
               (episode.limit_cgroup && owner->path == episode.limit_cgroup->path));
  if (same && !owner->id.inode && !episode.limit_cgroup)
    episode.limit_cgroup = with_number(*owner, open.limit_inode);
  if (same || (!owner && (!told || *scope == OomScope::memcg))) return;
  forget_usage_before(open);
  if (told) episode.usage = episode.limit = std::nullopt;
  open.limit_inode = owner && owner->id.inode ? std::optional(owner->id.inode) : std::nullopt;
  episode.limit_cgroup = std::move(owner);
  episode.grew_most = growth_.grew_most(open.limit_inode, open.first);
}

void EpisodeBuilder::take_report(Open& open, const OomDump& dump) {
  Episode& episode = open.episode;
  take_owner(open, dump);
  if (auto scope = dump.scope()) episode.scope = scope;
  if (dump.invoked) {
    if (dump.invoked->order) episode.request.order = dump.invoked->order;
    if (dump.invoked->gfp_text) episode.request.gfp = dump.invoked->gfp_text;
    if (!open.trigger && dump.trigger_tid) open.trigger = logged_trigger(open, dump);
    if (open.trigger && !episode.trigger) episode.trigger = process_ref(tasks_, cgroups_, *open.trigger);
  }
  if (dump.group_kill) episode.group_kill = true;
  if (!episode.memory) episode.memory = memory_at_kill(dump, sources_.page);
  if (!episode.machine) episode.machine = machine_at_kill(dump, sources_.page);
  if (episode.tasks.rows.empty() && !dump.tasks.empty()) {
    episode.tasks = tasks_at_kill(dump, sources_.page);
    // Resolved now: at the end of the episode the victims are gone, and their pids may be reused.
    for (TaskAtKill& task : episode.tasks.rows)
      if (const TaskState* known = tasks_.by_pid(task.process.id.tgid)) {
        std::string comm = std::move(task.process.comm);
        task.process = process_ref(tasks_, cgroups_, known->id);
        task.process.comm = std::move(comm);
      }
  }
  // By the time of the mark an earlier victim of the same limit may have freed memory: the report shows the
  // usage at the decision.
  const MemcgUsageLine* usage = dump.interleaved ? nullptr : dump.usage_of(MemcgCounter::memory);
  if (usage) {
    episode.usage = usage->usage;
    if (!episode.limit) episode.limit = usage->limit;
  }
}

}  // namespace oomcast
