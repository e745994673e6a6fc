// One line of the kernel's OOM report → one fact. Pure functions; oom_log.h groups the facts.
//
// Forms: mm/oom_kill.c and mm/memcontrol.c of 3.10 to 6.18, and those of EL7 and EL6. Names and paths in them
// are chosen by users, so a line is read from the end where the kernel put something a name cannot imitate
// there:
//   - a comm has at most 15 bytes, of any value but NUL, so it cannot hold the text that follows it;
//   - a cgroup's path may be long and hold anything but a newline, a component anything but '/' and a
//   newline;
//   - what still allows two readings is left unset; it is never guessed.
// Sizes printed in kB are Bytes here; what the kernel prints in pages has `_pages` in its name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "parse/mem_info.h"

namespace oomcast {

/// "COMM invoked oom-killer: gfp_mask=…": the allocation that could not be served.
struct OomInvoked {
  std::string trigger_comm;
  std::optional<std::string> gfp_text;    ///< as printed: "0xcc0(GFP_KERNEL)"; "0x200da" before 4.6
  std::optional<std::uint64_t> gfp_mask;  ///< its bits mean different flags from kernel to kernel
  std::optional<std::string> nodemask;    ///< 4.9 to 4.20 only; "(null)" = no restriction
  std::optional<int> order;               ///< -1: asked for with sysrq
  std::optional<int> oom_score_adj;       ///< of the trigger
};

/// The stack header that follows it, "CPU: N [UID: N] PID: N Comm: COMM …".
struct OomTriggerTask {
  std::uint32_t tid = 0;
};

enum class OomConstraintScope : std::uint8_t { none, memcg, cpuset, mempolicy };

/// "COMM cpuset=NAME mems_allowed=0-1": the trigger's, on a line of its own until 4.20.
struct OomCpuset {
  std::string comm;
  std::string cpuset;  ///< last component only, "/" for the root
  std::string mems_allowed;
};

/// "oom-kill:constraint=…", since 5.0; at most 10 in 5 s.
struct OomConstraint {
  std::optional<OomConstraintScope> scope;  ///< as printed; 5.0 prints NONE for memory cgroups too
  std::optional<std::string> nodemask;
  std::optional<std::string> cpuset;  ///< last component only, "/" for the root
  std::optional<std::string> mems_allowed;
  bool global_oom = false;                ///< the line says that no memory cgroup's limit fired
  std::optional<std::string> oom_memcg;   ///< whose limit fired
  std::optional<std::string> task_memcg;  ///< the chosen process's
  std::optional<std::string> task_comm;
  std::optional<std::uint32_t> pid;  ///< the chosen process's tgid
  std::optional<std::uint32_t> uid;
};

enum class OomScopeWord : std::uint8_t { memcg, machine, allocating_task, cpuset, mempolicy };

/// "… Kill process N (COMM) score N or sacrifice child", until 5.0: the choice; a child may die in its place.
struct OomChosen {
  std::optional<OomScopeWord> scope;
  std::uint32_t tid = 0;  ///< 0: as in OomVictimLine
  std::string comm;
  std::optional<std::uint32_t> score;
};

/// "[scope: ]Killed process N (COMM) total-vm:…": one victim.
struct OomVictimLine {
  std::optional<OomScopeWord> scope;  ///< since 5.1
  std::uint32_t tid = 0;              ///< the thread that still held the memory; not always the tgid. 0: a
                                      ///< person took it out, "Killed process (COMM)"
  std::optional<std::string> comm;
  std::optional<Bytes> total_vm;
  std::optional<Bytes> anon_rss;
  std::optional<Bytes> file_rss;
  std::optional<Bytes> shmem_rss;                 ///< since 4.5; before, it is part of file_rss
  std::optional<std::uint32_t> uid;               ///< since 5.4, and in EL kernels
  std::optional<std::uint64_t> pgtables_printed;  ///< the number before "kB"; see pgtables_of()
  std::optional<Bytes> pgtables;                  ///< since 5.4
  std::optional<int> oom_score_adj;               ///< since 5.4
};

/// What the number of "pgtables:NkB" stands for. The first 5.4 kernels printed bytes there and called them
/// kB. `row`: the process's pgtables_bytes in the table, which settles it. Without it, a reading is taken
/// only if the other is impossible: page tables need at least 1/512 of the resident memory and are not larger
/// than the address space. nullopt: both are possible.
std::optional<Bytes> pgtables_of(const OomVictimLine& victim, std::optional<Bytes> row);

/// "Kill process N (COMM) sharing same memory", until 4.6.
struct OomSharesMemory {
  std::uint32_t tid = 0;
  std::string comm;
};

/// "Tasks in PATH are going to be killed due to memory.oom.group set", since 4.19.
struct OomGroupKill {
  std::string cgroup;
};

/// "oom_reaper: reaped process N (COMM), now anon-rss:…": what was left after it. Since 4.6.
struct OomReaped {
  std::uint32_t tid = 0;
  std::string comm;
  std::optional<Bytes> anon_rss;
  std::optional<Bytes> file_rss;
  std::optional<Bytes> shmem_rss;
};

/// The kernel found no task to kill, or is configured to panic instead (vm.panic_on_oom).
struct OomNoVictim {
  bool panic = false;
};

enum class MemcgCounter : std::uint8_t { memory, memory_swap, swap, kmem };

/// "memory: usage NkB, limit NkB, failcnt N" and its like.
struct MemcgUsageLine {
  MemcgCounter counter = MemcgCounter::memory;
  Bytes usage;
  std::optional<Bytes> limit;  ///< nullopt: no limit is set
  std::optional<std::uint64_t> failcnt;
};

/// "Task in /a killed as a result of limit of /b" (until 4.20) and "Memory limit reached of cgroup /b".
struct MemcgTaskLine {
  std::optional<std::string> task_memcg;
  std::optional<std::string> oom_memcg;  ///< nullopt with `host`: no memory cgroup's limit
  bool host = false;
};

/// One number of memory.stat. Sizes are bytes (kernels before 5.3 print KB, multiplied out here); events are
/// counts.
struct MemcgStat {
  std::string key;
  std::uint64_t value = 0;
};

/// "Memory cgroup stats for PATH:", with its numbers on the same line until 5.2, on lines of their own since.
struct MemcgStatsHead {
  std::string cgroup;
  std::vector<MemcgStat> stats;
};

enum class TaskColumn : std::uint8_t {
  uid,
  tgid,
  total_vm,
  rss,
  rss_anon,
  rss_file,
  rss_shmem,
  nr_ptes,
  nr_pmds,
  nr_puds,
  pgtables_bytes,
  swapents,
  oom_score_adj,
  name,
  unknown,
};

/// "[ pid ]   uid  tgid total_vm …": the columns after the pid, in this kernel's order; `name` is the last.
struct TaskTableHead {
  std::vector<TaskColumn> columns;
};

/// One row of the table. Which fields are set depends on the header.
struct TaskRow {
  std::uint32_t pid = 0;  ///< of the thread that holds the memory
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> tgid;
  std::optional<std::uint64_t> total_vm_pages;
  std::optional<std::uint64_t> rss_pages;
  std::optional<std::uint64_t> rss_anon_pages;
  std::optional<std::uint64_t> rss_file_pages;
  std::optional<std::uint64_t> rss_shmem_pages;
  std::optional<std::uint64_t> pgtables_pages;  ///< until 4.14: all nr_* columns together
  std::optional<Bytes> pgtables;                ///< since 4.15
  std::optional<std::uint64_t> swap_pages;
  std::optional<int> oom_score_adj;
  std::string name;
};

using LogEvent =
    std::variant<OomInvoked, OomTriggerTask, OomConstraint, OomChosen, OomVictimLine, OomSharesMemory,
                 OomGroupKill, OomReaped, OomNoVictim, MemcgUsageLine, MemcgTaskLine, MemcgStatsHead,
                 MemcgStat, TaskTableHead, TaskRow, OomCpuset, MemInfoLine>;

struct ParsedLine {
  std::optional<LogEvent> fact;  ///< nullopt: the line has begun, but says nothing yet
  bool complete = true;  ///< false: the kernel prints more of this line; the rest may be in the next record
};

/// Reads a line that can be told by its own text: everything but table rows, the numbers of a statistics
/// block and mem_info.h's. `cut`: the line's end is missing, so that a number at its very end is not
/// believed. Without it, a last number (oom_score_adj, uid, failcnt) or a last path is taken as whole: the
/// text cannot show that it is not. `rows`: the table printed before, whose names decide between two readings
/// of a constraint line. nullopt: not a line of an OOM report. Cost: linear in the line for all but hostile
/// names.
std::optional<ParsedLine> parse_oom_line(std::string_view text, bool cut = false,
                                         std::span<const TaskRow> rows = {});

/// A line as people shorten it, whose rest does not come: "Killed process N (COMM)", "Kill process N (COMM)",
/// "oom_reaper: reaped process N (COMM)", "COMM invoked oom-killer", and nothing more. nullopt for any other
/// form.
std::optional<LogEvent> parse_shortened(std::string_view text);

/// "[   4515]     0  4515 …" under `columns`. nullopt unless every column is there, and the name to its end.
std::optional<TaskRow> parse_task_row(std::string_view text, const std::vector<TaskColumn>& columns,
                                      bool cut = false);

/// "anon 535658496". nullopt for any other form.
std::optional<MemcgStat> parse_stat_line(std::string_view text, bool cut = false);

}  // namespace oomcast
