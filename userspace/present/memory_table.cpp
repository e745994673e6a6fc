#include "present/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/escape.h"
#include "parse/memory_stat.h"
#include "present/rows.h"

namespace oomcast {
namespace {

struct Meaning {
  std::string_view name, meaning, command;
};
constexpr std::array kMeanings = {
    Meaning{"anon", "memory of processes: heap, stacks, tensors in RAM", ""},
    Meaning{"shmem", "shared memory: tmpfs, /dev/shm, memfd", "df -h -t tmpfs; ipcs -m"},
    Meaning{"file", "page cache of files", ""},
    Meaning{"unevictable", "locked in RAM (mlock, secretmem, ramfs)", "grep VmLck /proc/[0-9]*/status"},
    Meaning{"slab_reclaimable", "the kernel's caches: dentries, inodes", "slabtop -o -s c"},
    Meaning{"slab_unreclaimable", "objects of the kernel that cannot be dropped", "slabtop -o -s c"},
    Meaning{"slab", "objects of the kernel", "slabtop -o -s c"},
    Meaning{"pagetables", "page tables of processes", "grep VmPTE /proc/[0-9]*/status"},
    Meaning{"sec_pagetables", "page tables of virtual machines and IOMMUs", ""},
    Meaning{"kernel_stack", "kernel stacks, one per thread", "ps -eLf | wc -l"},
    Meaning{"kernel_misc_reclaimable", "other memory of the kernel that can be dropped", ""},
    Meaning{"kernel_other", "other memory of the kernel", ""},
    Meaning{"percpu", "one copy per CPU: counters, BPF maps", ""},
    Meaning{"vmalloc", "large blocks of the kernel", "cat /proc/vmallocinfo"},
    Meaning{"sock", "buffers of sockets", "ss -tuampn"},
    Meaning{"zswap", "swapped pages, compressed", ""},
    Meaning{"bounce", "bounce buffers of devices", ""},
    Meaning{"hugetlb", "kept as huge pages, in use or not",
            "grep -i huge /proc/meminfo; sysctl vm.nr_hugepages"},
    Meaning{"balloon", "given back to the hypervisor", ""},
    Meaning{"gpu", "buffers of the GPU driver", ""},
    Meaning{"free", "free", ""},
    Meaning{"free_pcp", "free, in lists of single CPUs", ""},
    Meaning{"uncounted", "in no counter: drivers, vmalloc, percpu, zram, a balloon",
            "cat /proc/meminfo; sort -k2 -n -r /proc/vmallocinfo | head; lsmod"},
};

MemoryRow row_of(const std::string& name, Bytes size) {
  const auto* known = std::ranges::find(kMeanings, std::string_view(name), &Meaning::name);
  if (known == kMeanings.end()) return {name, "", "", size};
  return {name, known->meaning, known->command, size};
}

// If the log does not say whose memory ran out: the kernel prints the machine's counters only for global
// kills.
bool is_of_machine(const Episode& e) {
  if (e.limit_cgroup) return false;
  return e.scope ? *e.scope != OomScope::memcg : e.machine && e.machine->ram && !e.usage;
}

void add(std::optional<Bytes>& sum, const std::optional<Bytes>& part) {
  if (part) sum = sum ? add_saturating(*sum, *part) : *part;
}

}  // namespace

std::optional<MemoryTable> memory_table(const Episode& e) {
  if (!e.memory || e.memory->parts.empty()) return std::nullopt;
  MemoryTable out;
  out.of_machine = is_of_machine(e);
  auto whole = out.of_machine ? (e.machine ? e.machine->ram : std::nullopt) : e.usage;
  if (!whole || whole->count <= 0) return std::nullopt;
  out.whole = *whole;
  for (const MemoryAtKill::Part& part : e.memory->parts) {
    out.counted = add_saturating(out.counted, part.size);
    out.rows.push_back(row_of(part.name, part.size));
  }
  if (out.counted < out.whole) out.rows.push_back(row_of("uncounted", out.whole - out.counted));
  std::ranges::stable_sort(out.rows, std::greater{}, &MemoryRow::size);
  return out;
}

std::string percent_of_whole(Bytes part, Bytes whole) {
  return whole.count > 0 ? fmt::format("{:.1f} %", 100 * part.as_double() / whole.as_double()) : "";
}

std::vector<TaskGroup> task_groups(const Episode::Tasks& tasks) {
  bool cgroups =
      std::ranges::all_of(tasks.rows, [](const TaskAtKill& t) { return t.process.cgroup != nullptr; });
  std::map<std::string, TaskGroup> groups;
  for (const TaskAtKill& task : tasks.rows) {
    std::string name = cgroups ? path_of(task.process.cgroup) : displayable(task.process.comm);
    TaskGroup& group = groups[name];
    group.name = name;
    group.cgroup = cgroups;
    ++group.count;
    add(group.rss, task.rss);
    add(group.swap, task.swap);
  }
  std::vector<TaskGroup> out;
  for (auto& [name, group] : groups) out.push_back(std::move(group));
  std::ranges::stable_sort(out, std::greater{}, [](const TaskGroup& g) {
    std::optional<Bytes> both = g.rss;
    add(both, g.swap);
    return both;
  });
  return out;
}

std::string of_which(const Episode::Tasks& tasks) {
  return tasks.rows.size() < tasks.listed ? fmt::format("of its {} largest", tasks.rows.size()) : "of it";
}

}  // namespace oomcast
