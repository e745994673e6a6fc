#include "model/logged_kill.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <set>

#include "model/memory_at_kill.h"

namespace oomcast {
namespace {

const TaskRow* row_of(const OomDump& dump, std::uint32_t tid) {
  auto row = std::ranges::find(dump.tasks, tid, &TaskRow::pid);
  return row == dump.tasks.end() ? nullptr : &*row;
}

std::optional<Bytes> pages(const std::optional<std::uint64_t>& count, std::optional<Bytes> page_size) {
  if (!count || !page_size || *count > static_cast<std::uint64_t>(INT64_MAX / page_size->count))
    return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*count) * page_size->count};
}

// Fills in what the line does not have.
void take_row(Victim& victim, const TaskRow& row, std::optional<Bytes> page_size) {
  auto take = [](auto& to, const auto& from) {
    if (!to) to = from;
  };
  take(victim.anon, pages(row.rss_anon_pages, page_size));
  take(victim.file, pages(row.rss_file_pages, page_size));
  take(victim.shmem, pages(row.rss_shmem_pages, page_size));
  take(victim.swap, pages(row.swap_pages, page_size));
  take(victim.pgtables, row.pgtables ? row.pgtables : pages(row.pgtables_pages, page_size));
  take(victim.total_vm, pages(row.total_vm_pages, page_size));
  take(victim.oom_score_adj, row.oom_score_adj);
  take(victim.process.uid, row.uid);
}

// Only v1 counts memory and swap together, and prints a cgroup's counters including descendants. A mail
// program may have wrapped one of these lines.
bool is_of_v1(const OomDump& dump) {
  auto with_descendants = [](const MemcgStat& stat) { return stat.key == "total_rss"; };
  return dump.usage_of(MemcgCounter::memory_swap) ||
         std::ranges::any_of(dump.stats, [&](const MemcgStatsHead& block) {
           return std::ranges::any_of(block.stats, with_descendants);
         });
}

CgroupPtr cgroup_of(const OomDump& dump, const std::optional<std::string>& path) {
  if (!path) return nullptr;
  auto ref = std::make_shared<CgroupRef>();
  ref->id.hierarchy = is_of_v1(dump) ? Hierarchy::v1 : Hierarchy::v2;
  ref->path = *path;
  ref->name = name_cgroup(*path);
  return ref;
}

// Zones are printed in kB, and their sum in pages.
std::optional<Bytes> page_size_of_zones(const OomMemInfo& info) {
  Bytes sum;
  for (const ZoneLine& zone : info.zones)
    if (zone.present) sum = add_saturating(sum, *zone.present);
  if (!info.ram.pages || *info.ram.pages == 0) return std::nullopt;
  for (Bytes size : {KiB(4), KiB(16), KiB(64)})
    if (*info.ram.pages == static_cast<std::uint64_t>(sum.count) / static_cast<std::uint64_t>(size.count) &&
        sum.count % size.count == 0)
      return size;
  return std::nullopt;
}

// The cgroup of the chosen process; those of others are not printed.
CgroupPtr chosen_cgroup(const OomDump& dump) {
  if (dump.constraint && dump.constraint->task_memcg) return cgroup_of(dump, dump.constraint->task_memcg);
  // Until 4.20 it is that of the chosen one, too; a child may be killed in its place.
  return cgroup_of(dump, dump.memcg_task ? dump.memcg_task->task_memcg : std::nullopt);
}

// Its tid is on another line, which may be missing.
ProcessRef trigger_of(const OomDump& dump) {
  ProcessRef out;
  out.comm = dump.invoked->trigger_comm;
  if (!dump.trigger_tid) return out;
  out.id.tgid = *dump.trigger_tid;
  if (const TaskRow* row = row_of(dump, *dump.trigger_tid)) {
    if (row->tgid) out.id.tgid = *row->tgid;
    out.uid = row->uid;
  }
  return out;
}

Victim victim_of(const OomDump& dump, const OomVictimLine& line, std::optional<Bytes> page_size) {
  Victim out;
  out.tid = line.tid;
  out.process.id.tgid = tgid_of(dump, line);
  out.process.uid = line.uid;
  const TaskRow* row = row_of(dump, line.tid);
  out.process.comm = line.comm.value_or(row ? row->name : "");
  take_line(out, line);
  if (row) take_row(out, *row, page_size);
  return out;
}

// The line of the decision names the process and its cgroup.
void take_constraint(const OomDump& dump, std::vector<Victim>& victims, std::optional<Bytes> page_size) {
  const auto& constraint = dump.constraint;
  if (!constraint || !constraint->pid) return;
  auto chosen =
      std::ranges::find(victims, *constraint->pid, [](const Victim& v) { return v.process.id.tgid; });
  if (chosen == victims.end() && !victims.empty()) return;
  if (chosen == victims.end()) {
    chosen = victims.insert(victims.end(), Victim{});
    chosen->tid = chosen->process.id.tgid = *constraint->pid;
    if (const TaskRow* row = row_of(dump, *constraint->pid)) take_row(*chosen, *row, page_size);
  }
  if (chosen->process.comm.empty() && constraint->task_comm) chosen->process.comm = *constraint->task_comm;
  if (!chosen->process.uid) chosen->process.uid = constraint->uid;
  chosen->process.cgroup = chosen_cgroup(dump);
}

// Nobody's "Killed process" is there: who was chosen (a child may have died in his place), or whose memory
// was reaped.
void take_named(const OomDump& dump, std::vector<Victim>& victims, std::optional<Bytes> page_size) {
  if (!victims.empty()) return;
  auto add = [&](std::uint32_t tid, const std::string& comm) {
    Victim& victim = victims.emplace_back();
    victim.tid = victim.process.id.tgid = tid;
    victim.process.comm = comm;
    if (const TaskRow* row = row_of(dump, tid)) {
      take_row(victim, *row, page_size);
      if (row->tgid) victim.process.id.tgid = *row->tgid;
    }
  };
  if (dump.chosen) return add(dump.chosen->tid, dump.chosen->comm);
  for (const OomReaped& reaped : dump.reaped) add(reaped.tid, reaped.comm);
}

// "Out of memory" is said of all that no memory cgroup's limit brought about: mostly the machine's.
std::optional<OomScope> scope_by_words(const OomDump& dump) {
  auto says_so = [](std::optional<OomScopeWord> word) {
    return word == OomScopeWord::machine || word == OomScopeWord::allocating_task;
  };
  bool machine =
      (dump.chosen && says_so(dump.chosen->scope)) || (dump.constraint && dump.constraint->global_oom);
  for (const OomVictimLine& victim : dump.victims) machine = machine || says_so(victim.scope);
  return machine ? std::optional(OomScope::global) : std::nullopt;
}

}  // namespace

std::uint32_t tgid_of(const OomDump& dump, const OomVictimLine& victim) {
  const TaskRow* row = row_of(dump, victim.tid);
  if (row && row->tgid) return *row->tgid;
  if (dump.constraint && dump.constraint->pid && dump.victims.size() == 1) return *dump.constraint->pid;
  return victim.tid;
}

void take_line(Victim& victim, const OomVictimLine& line) {
  auto take = [](auto& to, const auto& from) {
    if (from) to = from;
  };
  take(victim.anon, line.anon_rss);
  take(victim.file, line.file_rss);
  take(victim.shmem, line.shmem_rss);
  take(victim.pgtables, line.pgtables);
  take(victim.total_vm, line.total_vm);
  take(victim.oom_score_adj, line.oom_score_adj);
  victim.logged = true;
}

std::optional<Bytes> page_size_of(const OomDump& dump) {
  for (const OomVictimLine& victim : dump.victims) {
    const TaskRow* row = row_of(dump, victim.tid);
    if (!row || !row->total_vm_pages || !*row->total_vm_pages || !victim.total_vm) continue;
    auto size = static_cast<std::uint64_t>(victim.total_vm->count) / *row->total_vm_pages;
    bool exact = size * *row->total_vm_pages == static_cast<std::uint64_t>(victim.total_vm->count);
    constexpr std::uint64_t smallest = 4096, largest = 65536;
    if (exact && std::has_single_bit(size) && size >= smallest && size <= largest)
      return Bytes{static_cast<std::int64_t>(size)};
  }
  return page_size_of_zones(dump.mem_info);
}

std::string episode_id(WallTime time, const Episode& episode) {
  std::time_t secs = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm utc{};
  gmtime_r(&secs, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z-{}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec,
                     episode.victims.empty() ? 0 : episode.victims.front().process.id.tgid);
}

std::optional<Episode> logged_kill(const OomDump& dump) {
  bool is_decision = dump.invoked || dump.constraint || dump.chosen || dump.no_victim ||
                     !dump.reaped.empty() || (dump.memcg_task && dump.memcg_task->oom_memcg);
  if (dump.victims.empty() && !is_decision) return std::nullopt;
  Episode out;
  auto page_size = page_size_of(dump);
  for (const OomVictimLine& line : dump.victims) out.victims.push_back(victim_of(dump, line, page_size));
  take_constraint(dump, out.victims, page_size);
  if (!dump.no_victim) take_named(dump, out.victims, page_size);
  bool is_chosen = dump.chosen && out.victims.size() == 1 && out.victims[0].tid == dump.chosen->tid;
  if (is_chosen && dump.memcg_task) out.victims[0].process.cgroup = chosen_cgroup(dump);
  for (const OomSharesMemory& task : dump.also_killed) {
    ProcessRef process;
    process.id.tgid = task.tid;
    process.comm = task.comm;
    out.also_killed.push_back(std::move(process));
  }
  out.scope = dump.scope();
  if (!out.scope) out.scope = scope_by_words(dump);
  out.limit_cgroup = cgroup_of(dump, dump.limit_cgroup());
  const MemcgUsageLine* usage = dump.interleaved ? nullptr : dump.usage_of(MemcgCounter::memory);
  if (usage) {
    out.usage = usage->usage;
    out.limit = usage->limit;
  }
  if (dump.invoked) {
    out.request.order = dump.invoked->order;
    out.request.gfp = dump.invoked->gfp_text;
    if (dump.trigger_tid || !dump.invoked->trigger_comm.empty()) out.trigger = trigger_of(dump);
  }
  if (dump.group_kill) out.group_kill = true;
  out.memory = memory_at_kill(dump, page_size);
  out.machine = machine_at_kill(dump, page_size);
  if (page_size) out.tasks = tasks_at_kill(dump, *page_size, dump.tasks.size());
  std::set<std::uint32_t> logged;
  for (const Victim& v : out.victims)
    if (v.logged) logged.insert(v.process.id.tgid);
  out.checks.kmsg = logged.size();
  return out;
}

}  // namespace oomcast
