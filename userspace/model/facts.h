// The model's output: plain values, rendered elsewhere. Unknown is std::nullopt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/arguments.h"
#include "base/task_id.h"
#include "base/units.h"
#include "model/cgroup_name.h"
#include "model/code_place.h"
#include "model/gpu_memory.h"
#include "parse/memory_stat.h"
#include "parse/oom_log.h"

namespace oomcast {

struct CgroupRef {
  CgroupId id;
  std::string path;  // of the memory hierarchy, as the kernel log prints it; bytes
  CgroupName name;
};
/// Shared, because every record about a cgroup names it. Null: unknown, or none.
using CgroupPtr = std::shared_ptr<const CgroupRef>;

enum class CmdlineSource : std::uint8_t {
  shown,  // what the process last showed: /proc, or its own memory as it died
  exec,   // what it was started with
};

struct ProcessRef {
  TaskId id;
  std::string comm;   // bytes
  Arguments cmdline;  // empty: unknown
  std::optional<CmdlineSource> cmdline_source;
  bool cmdline_truncated = false;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> ppid;
  std::optional<std::uint32_t> ns_pid;  // pid in its own pid namespace
  CgroupPtr cgroup;
};

enum class LimitKind : std::uint8_t {
  max,   // memory.max (v1: memory.limit_in_bytes): the kernel reclaims there, then kills
  high,  // memory.high: the kernel throttles there, and does not kill
  host,  // the machine's memory
};
std::string_view to_string(LimitKind kind);

/// The level of unreclaimable memory at which the kernel throttles a cgroup, if it does so before it would kill.
struct Throttle {
  Bytes limit;      // memory.high with the swap that is left, less what others hold below it
  CgroupPtr owner;  // owner of that memory.high: the cgroup or an ancestor
};

/// A cgroup's memory at one moment.
struct Sample {
  MonoTime time;
  CgroupPtr cgroup;
  std::optional<Bytes> usage;
  std::optional<Bytes> limit;  // tightest of the cgroup and its ancestors; nullopt: the host's
  CgroupPtr limit_cgroup;      // owner of `limit`
  MemoryStat stat;
  std::optional<Bytes> pinned;  // unreclaimable, with swap; the series that is forecast
  /// What `pinned` runs against: the limit with the swap that is left, or what others leave of a larger one.
  std::optional<Bytes> headroom_limit;
  std::optional<Bytes> peak;            // the highest usage the kernel has seen
  CgroupPtr headroom_cgroup = nullptr;  // whose limit `headroom_limit` is, or is of; null: the host's
  std::optional<Throttle> throttle = std::nullopt;  // only if it is less than `headroom_limit`
};

/// The limit that `pinned` of a sample hits first.
struct NextLimit {
  std::optional<Bytes> limit;
  CgroupPtr owner;  // null: the host's
  LimitKind kind = LimitKind::max;
};
NextLimit next_limit(const Sample& sample);

/// The effective limit of a cgroup changed.
struct LimitChangedFact {
  MonoTime time;
  CgroupPtr cgroup;
  CgroupPtr limit_cgroup;  // owner of the new limit; null: none, or the host's
  LimitKind kind = LimitKind::max;
  std::optional<Bytes> before, limit;  // nullopt: none
};

/// A process's memory at one moment. Counters lag the kernel's exact sums by at most `rss_error`.
struct ProcessSampleFact {
  MonoTime time;
  ProcessRef process;
  Bytes rss, anon, file, shmem, swap;
  std::optional<Bytes> private_bytes;
  std::optional<BytesPerSec> growth;
  Bytes rss_error;
};

/// The end of a process that was sampled.
struct ExitFact {
  MonoTime time;
  ProcessRef process;
};

/// A removed cgroup whose state was dropped; its inode may be reused. Not shown.
struct ForgottenFact {
  MonoTime time;
  CgroupId cgroup;
};

struct Victim {
  ProcessRef process;
  std::optional<MonoTime> time;  // of its kill
  std::uint32_t tid = 0;         // the marked thread: the number in the kernel's line
  std::optional<Bytes> anon, file, shmem, swap, pgtables, total_vm;
  std::optional<int> oom_score_adj;
  std::optional<bool> killed;  // nullopt: its exit was not seen yet
  std::optional<Seconds> freed_after;
  std::vector<std::uint64_t> stack;  // user addresses, innermost first
  std::vector<CodePlace> code;       // Python, innermost first: where a thread of it was; the rest is cut off
  bool marked = false;               // by oom:mark_victim
  bool logged = false;               // by the kernel's "Killed process" line
};

struct GrewProcess {
  ProcessRef process;
  Bytes grew;
  Seconds over{};
};

/// What is known of a place that memory came from. Who touches a page first need not keep it: a temporary
/// does so, and what stays then lies in the hole that it left.
struct GrowthEvidence {
  enum class Kind : std::uint8_t { kept, added, held, touched };
  Bytes sure{};  // of the growth there what was kept, or is held by a container; the rest was only touched
  std::optional<Bytes> kept{}, kept_error{};  // allocated there and not freed; nullopt: not traced, or not
  std::string kept_unknown{};                 // recorded; why, where that is known
  std::optional<Bytes> touched{};             // faulted in there, given back or not; nullopt: not recorded
  bool adds = false;                          // that line, to the container
  std::string held_by{};  // the container that leads to what it keeps, by its program's names; empty: unknown
  Kind kind() const {
    if (sure > Bytes{} && kept && *kept > Bytes{}) return Kind::kept;
    if (adds) return Kind::added;
    return held_by.empty() ? Kind::touched : Kind::held;
  }
};
constexpr std::string_view to_string(GrowthEvidence::Kind kind) {
  constexpr std::string_view names[] = {"kept", "added", "held", "touched"};
  return names[static_cast<std::size_t>(kind)];
}

/// A place where a process grew during the profiled windows. For a process that exited in its only window: pages
/// faulted in there.
struct GrewFrom {
  ProcessRef process;
  std::vector<CodePlace> code;  // the line, then its callers
  Bytes grown;                  // there
  Bytes of;                     // growth of the whole process in those windows
  Seconds watched{};            // total length of the windows
  MonoTime from, to;            // begin of the first window, end of the last
  GrowthEvidence evidence{};
  /// Of all processes of those profiles. nullopt: not recorded.
  std::optional<std::uint64_t> samples{}, lost{};
  std::optional<double> faults_watched{};  // part of the time, by a budget
  /// Of what the process grew by, the part that certainly came from there; 0: none is known to.
  double sure_share() const { return part(evidence.sure, of); }
  double share() const { return part(grown, of); }
  static double part(Bytes some, Bytes all) { return all.count > 0 ? some.as_double() / all.as_double() : 0; }
};

/// A container of a Python program that has grown in such windows.
struct GrownHolder {
  ProcessRef process;
  std::string path;              // by its program's names: "trainer.history['loss'] in __main__"
  std::string type;              // "list"
  std::string added_type{};      // that most of what was added has; empty: unknown, or several
  std::uint64_t containers = 1;  // that have this name, as the lists of a dict have
  std::uint64_t length = 0;      // at the end
  std::uint64_t added = 0;       // in those windows
  Bytes least;                   // what was added takes, with all that nothing else refers to
  Bytes of;                      // that the process grew by
  Seconds watched{};
  MonoTime from, to;
  std::vector<CodePlace> adder{};               // the line that adds most, then its callers; empty: none seen
  std::uint64_t adder_seen = 0, adds_seen = 0;  // how often it added, and any line did
  double share() const { return GrewFrom::part(least, of); }
};

/// By process, what is surest and largest first; empty: none was profiled.
struct GrowthOrigins {
  std::vector<GrewFrom> sites;
  std::vector<GrownHolder> holders;
};

/// One level of a chain of memory cgroups at the kill.
struct ChainLevel {
  CgroupPtr cgroup;
  Bytes usage;
  std::optional<Bytes> limit;
};

/// Where the memory of the limit's cgroup, or of the machine, was at the kill, as the kernel's report has it;
/// nullopt: it does not say. The kinds do not overlap, but for slab, which is part of `kernel`.
struct MemoryAtKill {
  std::optional<Bytes> anon, file, shmem, kernel, slab, swap;
  struct Part {
    std::string name;  // the kernel's counter; "anon" and the like for a sum of several
    Bytes size;
  };
  /// Every counter of the report, without overlap: of the cgroup's usage, or of the machine's RAM. What is
  /// missing to that whole is in none of the counters.
  std::vector<Part> parts{};
};

/// Without a memory cgroup's limit: what the machine had left, and where the request had to be met from.
struct MachineAtKill {
  static constexpr std::size_t kMaxZones = 64, kMaxSlabs = 16;
  std::optional<std::string> cpuset;        // the trigger's: its last component
  std::optional<std::string> mems_allowed;  // NUMA nodes that it allows: "0-1"
  std::optional<std::string> nodemask;      // NUMA nodes that the request's memory policy allows
  std::optional<Bytes> ram, free;           // ram: without what the kernel reserved at boot
  std::optional<Bytes> swap_total, swap_free;
  std::vector<ZoneLine> zones;
  std::vector<SlabRow> slabs;  // the largest of those that cannot be reclaimed; empty: not printed
};

/// A row of the kernel's table of OOM candidates.
struct TaskAtKill {
  ProcessRef process;
  std::optional<Bytes> rss, anon, file, shmem, swap, pgtables;
  std::optional<int> oom_score_adj;
};

/// Distinct processes that each source counted. `vmstat` is the kernel's own counter of kills, nullopt while
/// episodes overlap; a source that was not read is nullopt.
struct EpisodeChecks {
  std::optional<std::uint64_t> mark_victim, kmsg, vmstat;
};

/// Kills for the same limit, each within five minutes of the one before.
struct KillSeries {
  std::uint64_t kills = 0;  // with this one
  MonoTime since;           // of the first
};

/// One decision of the OOM killer.
struct Episode {
  static constexpr std::size_t kMaxTasks = 64;
  std::uint64_t serial = 0;  // counts those of a run from 1, also while the id may change; 0: of no run
  std::string id;
  MonoTime time;  // of the first kill
  std::optional<OomScope> scope;
  CgroupPtr limit_cgroup;
  std::optional<Bytes> usage, limit;
  std::optional<ProcessRef> trigger;
  struct Request {  // for which there was no memory
    std::optional<int> order;
    std::optional<std::string> gfp;
  } request;
  std::optional<bool> group_kill;
  std::vector<Victim> victims;
  std::vector<ProcessRef> also_killed;
  std::vector<GrewProcess> grew_most;
  GrowthOrigins grew_from;
  std::vector<ChainLevel> chain;
  std::optional<MemoryAtKill> memory;
  std::optional<MachineAtKill> machine;
  struct Tasks {
    /// The largest: of a live or stored kill `kMaxTasks` at most, of a log all that its parser kept. Empty:
    /// the log has no table.
    std::vector<TaskAtKill> rows;
    std::size_t listed = 0;              // rows that the table had
    std::optional<Bytes> rss{}, swap{};  // sums over all listed; memory that several share counts for each
  } tasks;
  EpisodeChecks checks;
  std::optional<KillSeries> series;  // nullopt: it is the first of its limit for a while
};

/// A SIGKILL from user space.
struct UserKillFact {
  MonoTime time;
  ProcessRef victim, sender;
  std::optional<std::string> cause;
};

/// Time that tasks of a cgroup stalled in their own reclaim, since the last such fact.
struct ReclaimFact {
  MonoTime time;
  CgroupPtr cgroup;
  std::uint64_t stalls = 0;
  Seconds stalled{};
  Bytes reclaimed;
};

/// Pressure of a cgroup; a null cgroup is the host.
struct PressureFact {
  MonoTime time;
  CgroupPtr cgroup;
  Pressure pressure;
};

/// Something a process did with GPU memory, or that happened to it or to a card.
struct GpuFact {
  MonoTime time;
  std::optional<ProcessRef> process;  // nullopt: of a card, an xid alone
  GpuEvent event;
};

/// GPU memory at one moment: of a process on one card, or of a card with all that is known to be on it.
struct GpuSample {
  MonoTime time;
  std::optional<ProcessRef> process = {};  // nullopt: the card
  std::optional<GpuUuid> device = {};      // nullopt: on which card is not known
  Bytes held = {};                         // on the card
  Bytes overhead = {};                     // of it: what contexts took by themselves
  std::optional<Bytes> managed = {};       // of the process, on all cards and the host
  std::optional<Bytes> pinned = {};        // of the process: host memory
  std::optional<Bytes> limit = {};         // the card's memory
  std::optional<Bytes> free = {};          // of a card, as the driver told last
  /// Since the sample before: what moved to the card and from it, and how often a page was missing there. Of
  /// a process on all cards; nullopt: not followed.
  std::optional<Bytes> moved_in = {}, moved_out = {};
  std::optional<std::uint64_t> faults = {};
  /// Of a process: what was pushed out because a card was full, and how often the CPU missed a page.
  std::optional<Bytes> evicted = {};
  std::optional<std::uint64_t> cpu_faults = {};
  bool since_before = false;  // it holds more: there was some before it was followed
  bool ended = false;         // the process: what it held at its end
};

using ModelFact = std::variant<Sample, LimitChangedFact, ProcessSampleFact, Episode, UserKillFact,
                               ReclaimFact, PressureFact, GpuFact, GpuSample>;

}  // namespace oomcast
