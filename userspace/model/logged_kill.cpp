#include "model/logged_kill.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <set>

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

// What the line does not say.
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

CgroupPtr cgroup_of(const OomDump& dump, const std::optional<std::string>& path) {
  if (!path) return nullptr;
  auto ref = std::make_shared<CgroupRef>();
  // Only the first hierarchy counts memory and swap together.
  ref->id.hierarchy = dump.usage_of(MemcgCounter::memory_swap) ? Hierarchy::v1 : Hierarchy::v2;
  ref->path = *path;
  ref->name = name_cgroup(*path);
  return ref;
}

// The cgroup of the chosen process; those of others are not printed.
CgroupPtr chosen_cgroup(const OomDump& dump) {
  if (dump.constraint && dump.constraint->task_memcg) return cgroup_of(dump, dump.constraint->task_memcg);
  // Until 4.20 it is that of the chosen one, too; a child may be killed in its place.
  return cgroup_of(dump, dump.memcg_task ? dump.memcg_task->task_memcg : std::nullopt);
}

ProcessRef trigger_of(const OomDump& dump) {
  ProcessRef out;
  out.id.tgid = *dump.trigger_tid;
  out.comm = dump.invoked->trigger_comm;
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

// The decision's own line names the process, and its cgroup.
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
  return std::nullopt;
}

std::string episode_id(WallTime time, const Episode& episode) {
  std::time_t secs = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm utc{};
  gmtime_r(&secs, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z-{}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec,
                     episode.victims.empty() ? 0 : episode.victims.front().process.id.tgid);
}

std::optional<MemoryAtKill> memory_at_kill(const OomDump& dump) {
  if (dump.stats.empty() || dump.interleaved) return std::nullopt;
  // Until 5.2 a block for each cgroup of the tree with what is its own; since, one of all together.
  auto sum = [&](std::string_view key) -> std::optional<Bytes> {
    std::optional<Bytes> out;
    for (const MemcgStatsHead& block : dump.stats)
      for (const MemcgStat& stat : block.stats)
        if (stat.key == key && stat.value <= std::uint64_t{1} << 60)
          out = add_saturating(out ? *out : Bytes{}, {static_cast<std::int64_t>(stat.value)});
    return out;
  };
  auto without = [](std::optional<Bytes> all, std::optional<Bytes> part) {
    return all && part ? std::optional(std::max(Bytes{}, *all - *part)) : all;
  };
  auto used = [&](MemcgCounter counter) {
    const MemcgUsageLine* line = dump.usage_of(counter);
    return line ? std::optional(line->usage) : std::nullopt;
  };
  MemoryAtKill out;
  out.shmem = sum("shmem");
  bool old = sum("rss").has_value();
  // Both of them count shmem.
  out.file = without(sum(old ? "cache" : "file"), out.shmem);
  out.anon = sum(old ? "rss" : "anon");
  out.slab = sum("slab");
  out.kernel = sum("kernel");
  if (!out.kernel) out.kernel = used(MemcgCounter::kmem);
  if (!out.kernel && !old)
    for (const char* key : {"kernel_stack", "pagetables", "percpu", "sock", "vmalloc", "slab"})
      if (auto part = sum(key)) out.kernel = add_saturating(out.kernel ? *out.kernel : Bytes{}, *part);
  out.swap = sum("swap");
  if (!out.swap) out.swap = used(MemcgCounter::swap);
  if (!out.swap) out.swap = without(used(MemcgCounter::memory_swap), used(MemcgCounter::memory));
  if (!out.anon && !out.file && !out.kernel) return std::nullopt;
  return out;
}

std::vector<TaskAtKill> tasks_at_kill(const OomDump& dump, Bytes page) {
  auto size = [&](const std::optional<std::uint64_t>& pages) -> std::optional<Bytes> {
    if (!pages || *pages > (std::uint64_t{1} << 60) / static_cast<std::uint64_t>(page.count))
      return std::nullopt;
    return Bytes{static_cast<std::int64_t>(*pages) * page.count};
  };
  std::vector<TaskAtKill> out;
  if (dump.interleaved) return out;
  for (const TaskRow& row : dump.tasks) {
    TaskAtKill& task = out.emplace_back();
    task.process.id.tgid = row.tgid.value_or(row.pid);
    task.process.comm = row.name;
    task.process.uid = row.uid;
    task.rss = size(row.rss_pages);
    task.anon = size(row.rss_anon_pages);
    task.file = size(row.rss_file_pages);
    task.shmem = size(row.rss_shmem_pages);
    task.swap = size(row.swap_pages);
    task.pgtables = row.pgtables ? row.pgtables : size(row.pgtables_pages);
    task.oom_score_adj = row.oom_score_adj;
  }
  auto held = [](const TaskAtKill& t) { return (t.rss ? *t.rss : Bytes{}) + (t.swap ? *t.swap : Bytes{}); };
  std::stable_sort(out.begin(), out.end(),
                   [&](const TaskAtKill& a, const TaskAtKill& b) { return held(a) > held(b); });
  if (out.size() > Episode::kMostTasks) out.resize(Episode::kMostTasks);
  return out;
}

std::optional<Episode> logged_kill(const OomDump& dump) {
  bool is_decision = dump.invoked || dump.constraint || dump.chosen || dump.no_victim;
  if (dump.victims.empty() && !is_decision) return std::nullopt;
  Episode out;
  auto page_size = page_size_of(dump);
  for (const OomVictimLine& line : dump.victims) out.victims.push_back(victim_of(dump, line, page_size));
  take_constraint(dump, out.victims, page_size);
  bool is_chosen = dump.chosen && out.victims.size() == 1 && out.victims[0].tid == dump.chosen->tid;
  if (is_chosen && dump.memcg_task) out.victims[0].process.cgroup = chosen_cgroup(dump);
  for (const OomSharesMemory& task : dump.also_killed) {
    ProcessRef process;
    process.id.tgid = task.tid;
    process.comm = task.comm;
    out.also_killed.push_back(std::move(process));
  }
  out.scope = dump.scope();
  out.limit_cgroup = cgroup_of(dump, dump.limit_cgroup());
  const MemcgUsageLine* usage = dump.interleaved ? nullptr : dump.usage_of(MemcgCounter::memory);
  if (usage) {
    out.usage = usage->usage;
    out.limit = usage->limit;
  }
  if (dump.invoked) {
    out.order = dump.invoked->order;
    out.gfp = dump.invoked->gfp_text;
    if (dump.trigger_tid) out.trigger = trigger_of(dump);
  }
  if (dump.group_kill) out.group_kill = true;
  out.memory = memory_at_kill(dump);
  if (page_size) out.tasks = tasks_at_kill(dump, *page_size);
  if (!out.tasks.empty()) out.tasks_listed = dump.tasks.size() + dump.dropped;
  std::set<std::uint32_t> logged;
  for (const Victim& v : out.victims)
    if (v.logged) logged.insert(v.process.id.tgid);
  out.checks.kmsg = logged.size();
  return out;
}

}  // namespace oomcast
