#include "model/memory_at_kill.h"

#include <fmt/format.h>

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

using Parts = std::vector<MemoryAtKill::Part>;

void add_part(Parts& parts, std::string_view name, const std::optional<Bytes>& size) {
  if (size && *size > Bytes{}) parts.push_back({std::string(name), *size});
}

// The counters that are part of `kernel`; the unaccounted rest of `kernel` as kernel_other.
void add_kernel_parts(Parts& parts, const MemoryAtKill& kinds,
                      const std::function<std::optional<Bytes>(std::string_view)>& count) {
  std::optional<Bytes> rest = kinds.kernel;
  auto add = [&](std::string_view name) {
    auto size = count(name);
    add_part(parts, name, size);
    if (rest && size) rest = std::max(Bytes{}, *rest - *size);
    return size.has_value();
  };
  bool both = add("slab_reclaimable");
  both = add("slab_unreclaimable") || both;
  if (!both) (void)add("slab");
  for (const char* name : {"kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "zswap"})
    (void)add(name);
  add_part(parts, "kernel_other", rest);
}

std::optional<MemoryAtKill> memory_of_cgroup(const OomDump& dump) {
  // Until 5.2 one block per cgroup of the tree, without descendants; since then one for all together.
  auto sum_of = [&](std::string_view key) -> std::optional<Bytes> {
    std::optional<Bytes> out;
    for (const MemcgStatsHead& block : dump.stats)
      for (const MemcgStat& stat : block.stats)
        if (stat.key == key && stat.value <= std::uint64_t{1} << 60)
          out = add_saturating(out ? *out : Bytes{}, {static_cast<std::int64_t>(stat.value)});
    return out;
  };
  // Newer kernels print each v1 counter twice: the cgroup's own, and total_* including descendants.
  auto sum = [&](std::string_view key) -> std::optional<Bytes> {
    auto total = sum_of(fmt::format("total_{}", key));
    return total ? total : sum_of(key);
  };
  auto used = [&](MemcgCounter counter) {
    const MemcgUsageLine* line = dump.usage_of(counter);
    return line ? std::optional(line->usage) : std::nullopt;
  };
  MemoryAtKill out;
  out.shmem = sum("shmem");
  bool old = sum("rss").has_value();
  // Both of these include shmem.
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
  add_part(out.parts, "anon", out.anon);
  add_part(out.parts, "file", out.file);
  add_part(out.parts, "shmem", out.shmem);
  bool counted = sum("kernel") || used(MemcgCounter::kmem);
  // Without a `kernel` counter out.kernel is the sum of these parts and of sockets: show no rest.
  MemoryAtKill kernel = out;
  if (!counted) kernel.kernel.reset();
  add_kernel_parts(out.parts, kernel, sum);
  add_part(out.parts, "sock", sum("sock"));
  add_part(out.parts, "hugetlb", sum("hugetlb"));
  return out;
}

// Each page of the machine once: LRU lists, kernel memory, free pages.
Parts parts_of_machine(const OomMemInfo& info, Bytes page) {
  Parts out;
  auto pages = [&](std::initializer_list<const char*> kinds) {
    std::optional<Bytes> sum;
    for (const char* kind : kinds)
      if (auto part = in_bytes(info.count_of(kind), page)) sum = sum ? add_saturating(*sum, *part) : *part;
    return sum;
  };
  auto each = [](const auto& lines, auto size) {
    std::optional<Bytes> sum;
    for (const auto& line : lines)
      if (auto part = size(line)) sum = sum ? add_saturating(*sum, *part) : *part;
    return sum;
  };
  // Shared memory is on the anonymous LRU lists, or locked.
  auto shmem = pages({"shmem"}), anon = pages({"active_anon", "inactive_anon", "isolated_anon"});
  auto locked = pages({"unevictable"});
  if (shmem && anon && locked && *shmem > *anon) locked = std::max(Bytes{}, *locked - (*shmem - *anon));
  add_part(out, "anon", without(anon, shmem));
  add_part(out, "shmem", shmem);
  add_part(out, "file", pages({"active_file", "inactive_file", "isolated_file"}));
  add_part(out, "unevictable", locked);
  for (const char* name : {"slab_reclaimable", "slab_unreclaimable", "pagetables", "sec_pagetables"})
    add_part(out, name, pages({name}));
  auto stacks = each(info.nodes, [](const NodeLine& n) { return n.kernel_stack; });
  if (!stacks) stacks = each(info.zones, [](const ZoneLine& z) { return z.kernel_stack; });
  add_part(out, "kernel_stack", stacks);
  add_part(out, "kernel_misc_reclaimable", pages({"kernel_misc_reclaimable"}));
  add_part(out, "bounce", pages({"bounce"}));
  add_part(out, "hugetlb",
           each(info.huge_pages, [](const HugePagesLine& h) { return in_bytes(h.total, h.size); }));
  add_part(out, "balloon", each(info.nodes, [](const NodeLine& n) { return n.balloon; }));
  add_part(out, "gpu", each(info.nodes, [](const NodeLine& n) { return n.gpu; }));
  add_part(out, "free", pages({"free"}));
  add_part(out, "free_pcp", pages({"free_pcp"}));
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
  // Shared memory is on the anonymous LRU lists.
  out.anon = without(sum({"active_anon", "inactive_anon", "isolated_anon"}), out.shmem);
  out.file = sum({"active_file", "inactive_file", "isolated_file"});
  out.slab = sum({"slab_reclaimable", "slab_unreclaimable"});
  out.kernel = sum({"slab_reclaimable", "slab_unreclaimable", "pagetables", "sec_pagetables"});
  out.swap = without(info.swap.total, info.swap.free);
  if (!info.swap.free) out.swap.reset();
  if (!out.anon) return std::nullopt;
  if (page) out.parts = parts_of_machine(info, *page);
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

Episode::Tasks tasks_at_kill(const OomDump& dump, Bytes page, std::size_t most) {
  auto size = [&](const std::optional<std::uint64_t>& pages) { return in_bytes(pages, page); };
  Episode::Tasks all;
  std::vector<TaskAtKill>& out = all.rows;
  if (dump.interleaved || dump.tasks.empty()) return all;
  all.listed = std::max(dump.counts.tasks, dump.tasks.size());
  all.rss = size(dump.counts.rss_pages);
  all.swap = size(dump.counts.swap_pages);
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
  if (out.size() > most) out.resize(most);
  return all;
}

}  // namespace oomcast
