// Bounded readers of /proc. A process that is gone is a normal answer (nullopt), not an Error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arguments.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/task_id.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/roots.h"
#include "parse/memory_stat.h"

namespace oomcast {

/// /proc/PID/stat.
struct ProcStat {
  std::string comm;  // bytes, may hold anything, at most 15 of them (kernel threads: 63)
  char state = '?';
  std::uint32_t ppid = 0;
  std::uint64_t flags = 0;   // PF_*; 0x200000 = kernel thread
  std::uint64_t faults = 0;  // of all its threads so far, minor and major
  std::uint32_t num_threads = 0;
  std::uint64_t start_ticks = 0;  // clock ticks since boot, as in TaskId
  /// Where its stack begins: each exec makes another one. nullopt: exiting, or this process may not look.
  std::optional<std::uint64_t> stack;
  bool kernel_thread() const { return (flags & 0x200000) != 0; }
  bool exiting() const { return (flags & 0x4) != 0 || state == 'Z' || state == 'X'; }
};

/// Where a process's arguments and environment stand in its memory.
struct ProcStrings {
  std::uint64_t arguments = 0, arguments_end = 0, environment = 0, environment_end = 0;
};

/// /proc/PID/cmdline.
struct ProcCmdline {
  Arguments args;          // empty for kernel threads and zombies
  bool truncated = false;  // there was more than 4096 bytes
};

/// /proc/PID/status. Memory is nullopt for kernel threads and zombies, which have none.
struct ProcStatus {
  std::optional<std::uint32_t> tgid;
  std::optional<std::uint32_t> uid;   // effective
  std::vector<std::uint32_t> ns_pid;  // outermost (host) first; the last is the pid inside its container
  std::optional<std::uint32_t> threads;
  std::optional<std::uint32_t> tracer;  // process that traces its first thread (ptrace); 0: none
  std::optional<Bytes> rss;
  std::optional<Bytes> rss_anon;
  std::optional<Bytes> rss_file;
  std::optional<Bytes> rss_shmem;
  std::optional<Bytes> swap;
  std::optional<Bytes> rss_peak;     // VmHWM
  std::optional<Bytes> hugetlb;      // HugetlbPages, private and shared; not in rss
  std::optional<Bytes> locked;       // VmLck
  std::optional<Bytes> page_tables;  // VmPTE: 2 MiB for each GiB that is mapped in 4 KiB pages
  /// Signals that it handles itself (SigCgt) or takes by other means (SigBlk): bit N − 1 for signal N.
  std::optional<std::uint64_t> caught, blocked;

  /// Whether its private memory may be asked for (ProcessMemory::private_memory()): one whose pages are
  /// locked one by one, and who reads it, wait for each other; pages of hugetlbfs would be counted; and 128
  /// MiB of tables, 64 GiB in 4 KiB pages, take .6 s.
  bool quick_to_walk(Bytes most_tables = MiB(128)) const {
    return locked == Bytes{} && !(hugetlb && *hugetlb > Bytes{}) && page_tables &&
           *page_tables <= most_tables;
  }
};

/// /proc/PID/statm, in pages (the page size is the caller's to know).
struct ProcStatm {
  std::uint64_t size_pages = 0;
  std::uint64_t resident_pages = 0;
  std::uint64_t shared_pages = 0;  // file and shmem
};

/// /proc/PID/cgroup, the memory hierarchy's line.
struct ProcCgroup {
  std::string path;      // as the reader's cgroup namespace sees it: see CgroupMount::from_proc_path
  bool deleted = false;  // v2: the directory is gone
};

/// /proc/meminfo.
struct MemInfo {
  std::optional<Bytes> total;
  std::optional<Bytes> free;
  std::optional<Bytes> available;
  std::optional<Bytes> swap_total;
  std::optional<Bytes> swap_free;
  std::optional<Bytes> anon;  // AnonPages
  std::optional<Bytes> cached;
  std::optional<Bytes> shmem;
  std::optional<Bytes> active_file;
  std::optional<Bytes> inactive_file;
  std::optional<Bytes> slab_reclaimable;
  std::optional<Bytes> slab_unreclaimable;
  std::optional<Bytes> kernel_stack;
  std::optional<Bytes> page_tables;
  std::optional<Bytes> hugetlb;  // Hugetlb: set aside for huge pages of all sizes

  /// Hardly any of the machine's memory is available: 3 %, 2 GiB at most. Unknown is not short.
  bool is_short() const;
  /// It surely gives some pages at once: a sixteenth is available, or 4 GiB. Unknown is no room.
  bool has_room() const;
};

/// Whether a number means the same process to the kernel's programs and log, to /proc, and to this process's
/// system calls.
struct PidNumbers {
  /// Inode of the pid namespace whose numbers /proc and this process have, while the kernel has the
  /// machine's; 0: they have the machine's, too, or it is not told.
  std::uint32_t space = 0;
  bool foreign = false;  // /proc is another pid namespace's than this process
};
/// What is not told there, and what helps, for a person; empty: nothing.
std::string what_it_costs(PidNumbers numbers);

/// Pure parsers of the files above; nullopt: not such a text.
std::optional<ProcStat> parse_proc_stat(std::string_view text);
/// Of the same text. nullopt also: it is not told to everybody.
std::optional<ProcStrings> parse_proc_strings(std::string_view text);
ProcCmdline parse_cmdline(std::string_view text, std::size_t max);
ProcStatus parse_status(std::string_view text);
std::optional<ProcStatm> parse_statm(std::string_view text);
std::optional<ProcCgroup> parse_proc_cgroup(std::string_view text, Hierarchy hierarchy);
MemInfo parse_meminfo(std::string_view text);

/// Each reader opens, reads once and closes (about 10 µs unless said). Error: not allowed, or not what /proc
/// prints.
class ProcFs {
 public:
  /// `cpu_time`: what this thread has used so far.
  explicit ProcFs(const Roots& roots, std::function<Nanos()> cpu_time = thread_cpu_time)
      : proc_(roots.proc()), cpu_time_(std::move(cpu_time)) {}

  Result<std::optional<ProcStat>> read_stat(std::uint32_t pid) const;
  /// A file that is as long as its process likes: 65,536 groups, which any user can have in a namespace of
  /// his own, take the kernel 5 ms at each read, while which it holds the process's memory. Error also: it
  /// was longer than kLongStatus before and took kSlowStatus, or such reads have taken kSlowInAll within this
  /// second. A short one that took as long met a slow machine.
  Result<std::optional<ProcStatus>> read_status(std::uint32_t pid) const;
  static constexpr Nanos kSlowStatus = std::chrono::milliseconds(1),
                         kSlowInAll = std::chrono::milliseconds(50);
  static constexpr std::size_t kLongStatus = 32 << 10;  // bytes; 5 KiB where a kernel is made for 8,192 CPUs
  Result<std::optional<ProcStatm>> read_statm(std::uint32_t pid) const;
  /// nullopt also when the process has no line for the hierarchy.
  Result<std::optional<ProcCgroup>> read_cgroup(std::uint32_t pid, Hierarchy hierarchy) const;
  /// The same of this very process while it lives; nullopt also once it exits: v1 shows it in the root then,
  /// wherever it was.
  Result<std::optional<ProcCgroup>> read_cgroup_of(const TaskId& id, Hierarchy hierarchy) const;
  /// The process's identity: its tgid is `pid`, which must be a process and not another thread of one.
  Result<std::optional<TaskId>> read_task_id(std::uint32_t pid) const;

  PidNumbers pid_numbers() const;

  /// Every process, ascending. About 1 µs each.
  Result<std::vector<std::uint32_t>> list_pids() const;
  /// The process's threads, the first `most` of them: they are in the order in which they began.
  Result<std::vector<std::uint32_t>> list_threads(std::uint32_t pid, std::size_t most) const;

  /// From a file that stays open: nothing is taken of a machine that has nothing left.
  Result<MemInfo> read_meminfo() const;
  /// OOM kills since boot, whatever their scope. nullopt: the kernel does not count them (before 4.13).
  Result<std::optional<std::uint64_t>> read_vmstat_oom_kill() const;
  /// nullopt: a kernel without PSI, or with psi=0.
  Result<std::optional<Pressure>> read_pressure() const;
  /// vm.swappiness.
  Result<std::uint64_t> read_swappiness() const;

 private:
  static Nanos thread_cpu_time() { return clock_now(CLOCK_THREAD_CPUTIME_ID); }
  bool is_slow_to_tell(std::uint32_t pid) const;
  void note_slow(std::uint32_t pid, Nanos took) const;

  static constexpr std::size_t kMaxSlow = 65536;
  std::string proc_;
  std::function<Nanos()> cpu_time_;
  mutable UniqueFd meminfo_;
  mutable std::unordered_map<std::uint32_t, std::uint64_t> slow_;  // pids with their start, in ticks
  mutable MonoTime slow_second_{};
  mutable Nanos slow_in_second_{};
};

}  // namespace oomcast
