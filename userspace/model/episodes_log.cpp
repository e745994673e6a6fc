// What the kernel's log adds to the episodes.
#include <algorithm>

#include "model/episodes.h"
#include "model/logged_kill.h"
#include "model/memory_at_kill.h"
#include "model/process_ref.h"
#include "model/recent.h"

namespace oomcast {

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

// Of victims that no mark told of.
EpisodeBuilder::Open* EpisodeBuilder::open_logged(const OomDump& dump, MonoTime when) {
  // It is as old as the log's end before it.
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

// nullptr: the report names none.
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

// A cgroup that the tree has no room for, or was gone before it was seen: the mark has its number, the log
// its path.
CgroupPtr EpisodeBuilder::with_number(const CgroupRef& logged, std::optional<std::uint64_t> inode) const {
  auto known = cgroups_.ref(inode);
  if (known || !inode) return known;
  auto ref = std::make_shared<CgroupRef>(logged);
  ref->id.inode = *inode;
  return ref;
}

// The marks tell the owner by what was locked or full at that moment, as far as sixteen levels up; the report
// is of the decision. A container that the page cache keeps at its limit is not why the machine's killer, or
// SysRq, chose somebody in it.
void EpisodeBuilder::take_owner(Open& open, const OomDump& dump) {
  auto scope = dump.interleaved ? std::nullopt : dump.scope();
  if (!scope) return;
  Episode& episode = open.episode;
  CgroupPtr owner = *scope == OomScope::memcg ? limit_of(dump) : nullptr;
  bool told = open.limit_inode || episode.limit_cgroup;
  // In a cgroup namespace the same one has another path, which is none of the tree's.
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
    // Now: at the end of the episode the victims are gone, and their numbers may be others'.
    for (TaskAtKill& task : episode.tasks.rows)
      if (const TaskState* known = tasks_.by_pid(task.process.id.tgid)) {
        std::string comm = std::move(task.process.comm);
        task.process = process_ref(tasks_, cgroups_, known->id);
        task.process.comm = std::move(comm);
      }
  }
  // At the mark an earlier victim of the same limit may have given memory back: the report is of the
  // decision.
  const MemcgUsageLine* usage = dump.interleaved ? nullptr : dump.usage_of(MemcgCounter::memory);
  if (usage) {
    episode.usage = usage->usage;
    if (!episode.limit) episode.limit = usage->limit;
  }
}

}  // namespace oomcast
