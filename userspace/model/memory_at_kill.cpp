#include "model/memory_at_kill.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

namespace oomcast {
namespace {

std::optional<Bytes> without(std::optional<Bytes> all, std::optional<Bytes> part) {
  return all && part ? std::optional(std::max(Bytes{}, *all - *part)) : all;
}

std::optional<Bytes> in_bytes(std::optional<std::uint64_t> pages, std::optional<Bytes> page) {
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  if (!pages || !page || *pages > most / static_cast<std::uint64_t>(page->count)) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*pages) * page->count};
}

std::optional<MemoryAtKill> memory_of_cgroup(const OomDump& dump) {
  // Until 5.2 a block for each cgroup of the tree with what is its own; since, one of all together.
  auto sum = [&](std::string_view key) -> std::optional<Bytes> {
    std::optional<Bytes> out;
    for (const MemcgStatsHead& block : dump.stats)
      for (const MemcgStat& stat : block.stats)
        if (stat.key == key && stat.value <= std::uint64_t{1} << 60)
          out = add_saturating(out ? *out : Bytes{}, {static_cast<std::int64_t>(stat.value)});
    return out;
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

std::optional<MemoryAtKill> memory_of_machine(const OomMemInfo& info, std::optional<Bytes> page) {
  auto sum = [&](std::initializer_list<const char*> kinds) {
    std::optional<Bytes> out;
    for (const char* kind : kinds)
      if (auto part = in_bytes(info.count_of(kind), page)) out = out ? add_saturating(*out, *part) : *part;
    return out;
  };
  if (!info.count_of("inactive_anon")) return std::nullopt;
  MemoryAtKill out;
  out.shmem = sum({"shmem"});
  // Shared memory is on the lists of anonymous memory.
  out.anon = without(sum({"active_anon", "inactive_anon", "isolated_anon"}), out.shmem);
  out.file = sum({"active_file", "inactive_file", "isolated_file"});
  out.slab = sum({"slab_reclaimable", "slab_unreclaimable"});
  out.kernel = sum({"slab_reclaimable", "slab_unreclaimable", "pagetables", "sec_pagetables"});
  out.swap = without(info.swap.total, info.swap.free);
  if (!info.swap.free) out.swap.reset();
  if (!out.anon) return std::nullopt;
  return out;
}

}  // namespace

std::optional<MemoryAtKill> memory_at_kill(const OomDump& dump, std::optional<Bytes> page) {
  if (!dump.stats.empty()) return dump.interleaved ? std::nullopt : memory_of_cgroup(dump);
  return memory_of_machine(dump.mem_info, page);
}

std::optional<MachineAtKill> machine_at_kill(const OomDump& dump, std::optional<Bytes> page) {
  const OomMemInfo& info = dump.mem_info;
  MachineAtKill out;
  if (dump.cpuset) {
    out.cpuset = dump.cpuset->cpuset;
    out.mems_allowed = dump.cpuset->mems_allowed;
  }
  if (dump.invoked) out.nodemask = dump.invoked->nodemask;
  if (const auto& constraint = dump.constraint) {
    out.cpuset = constraint->cpuset;
    out.mems_allowed = constraint->mems_allowed;
    out.nodemask = constraint->nodemask;
  }
  if (out.nodemask == "(null)") out.nodemask.reset();
  out.ram = without(in_bytes(info.ram.pages, page), in_bytes(info.ram.reserved, page));
  if (!info.ram.reserved) out.ram.reset();
  out.free = in_bytes(info.count_of("free"), page);
  out.swap_total = info.swap.total;
  out.swap_free = info.swap.free;
  out.zones = info.zones;
  if (out.zones.size() > MachineAtKill::kMaxZones) out.zones.resize(MachineAtKill::kMaxZones);
  out.slabs = info.slabs;
  std::ranges::stable_sort(out.slabs, std::greater{}, &SlabRow::total);
  if (out.slabs.size() > MachineAtKill::kMaxSlabs) out.slabs.resize(MachineAtKill::kMaxSlabs);
  auto scope = dump.scope();
  bool of_nodes = scope && *scope != OomScope::memcg && (out.mems_allowed || out.nodemask);
  if (out.zones.empty() && !out.ram && !out.free && !of_nodes) return std::nullopt;
  return out;
}

std::vector<TaskAtKill> tasks_at_kill(const OomDump& dump, Bytes page) {
  auto size = [&](const std::optional<std::uint64_t>& pages) { return in_bytes(pages, page); };
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
  if (out.size() > Episode::kMaxTasks) out.resize(Episode::kMaxTasks);
  return out;
}

}  // namespace oomcast
