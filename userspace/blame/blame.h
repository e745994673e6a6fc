// Who is growing, and from which line: blocks that stay and page faults, by process and stack, weighed
// against what the processes truly grew by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/task_id.h"
#include "base/units.h"
#include "blame/allocator.h"
#include "blame/frame.h"
#include "blame/process_view.h"
#include "blame/roles.h"
#include "blame/survivors.h"
#include "collect/procfs.h"
#include "model/facts.h"
#include "parse/gpu_calls.h"
#include "wire/fault.h"

namespace oomcast {

/// A process's own counters at one moment.
struct ProcessLevel {
  Bytes anon;                    // with what is in swap, where that is known
  std::optional<Bytes> shmem;    // mapped shared memory, tmpfs and pinned memory too: counted in each process
  std::optional<Bytes> uss;      // private memory, with swap
  std::optional<Bytes> hugetlb;  // huge pages of the pool, which are in none of these
  std::optional<Bytes> swap;     // in anon and uss
  std::uint64_t faults = 0;      // so far
  void set_private(std::optional<Bytes> own) {
    if (own && swap) uss = *own + *swap;
  }
};

struct BlameSite {
  Stack stack;
  Bytes grown;    // what is still there of it, as a part of the process's growth
  Bytes touched;  // what was faulted in there, whether or not it was given back
  std::uint64_t samples = 0;
  Kept kept{};  // what was allocated there and not freed; may be more than the process grew by
  std::optional<std::uint32_t> held_by{};  // of the process's holders the one that leads to most of that
  // Objects in the interpreter's own pools. Who touched a page of those is not who keeps what stands in it: a
  // line that makes some for a moment meets each new page before the one whose objects stay. So the stack is
  // where they are added to what holds them, if that was seen; or else what all who touched such pages have
  // in common, without the functions that did, and without a line.
  bool adds = false, small_objects = false;
  /// Of `grown` what was kept there, or what a container holds. The rest was touched there first, which a
  /// temporary may have done. A block count that its error swallows is sure of nothing.
  Bytes sure() const {
    if (kept.bytes > Bytes{}) return kept.error < kept.bytes ? std::min(grown, kept.bytes) : Bytes{};
    return held_by ? grown : Bytes{};
  }
};

/// Where a container became longer, and how often that was seen.
struct BlameAddition {
  Stack stack;
  std::uint64_t seen = 0;
};

/// A container of a Python program that has grown.
struct BlameHolder {
  Holder holder;
  std::uint64_t blocks = 0;                // that have stayed, and what was added to it leads to
  std::vector<BlameAddition> additions{};  // a sample, most first; empty: none was seen
};

struct BlameHolders {
  std::vector<BlameHolder> all;                 // by blocks, then by what they hold at least
  bool cut = false;                             // not all of its objects were read, for want of time or room
  std::optional<std::vector<GrownType>> types;  // whose objects became more; nullopt: they were not counted
};

/// Device memory that a process took from the NVIDIA driver in the window and still has: what a pool grew by.
/// The line is the one that it grew for, which need not be the one that fills it.
struct BlameGpuSite {
  Stack stack;
  Bytes bytes;
  std::uint64_t calls = 0;  // to the driver
};

/// How far a process's allocations were watched, and what of them has stayed.
struct KeptOfProcess {
  Kept all;
  Seconds outlived{};        // blocks that were older by the end count as kept
  Seconds all_watched{};     // in which every call of the allocator was watched,
  Seconds watched{};         // and those that allocate most for longest
  double calls_per_s = 0;    // of the allocator
  bool without_new = false;  // what the allocator's own operator new made is not in it
};

struct BlameProcess {
  ProcessRef process;
  bool exited = false;
  bool growth_unknown = false;     // its counters could not be read when the window began, or at its end
  std::optional<Bytes> anon, own;  // at the end, as ProcessLevel has it (own: uss); nullopt: it had ended
  Bytes grown_anon;
  std::optional<Bytes> grown_shmem = Bytes();  // nullopt: unknown, and not in grown()
  std::optional<Bytes> grown_uss;
  std::optional<Bytes> grown_hugetlb;  // not in grown(): neither RSS nor a cgroup's memory counts it
  // Pages that it shared with those it was forked from, or that were forked from it, and has copies of now.
  // Anonymous memory does not count them: it had them before.
  Bytes unshared;
  Bytes unseen;  // growth that made no faults that were sampled
  // Growth of the allocator's heap in which no block lives: it cannot be given back for those that stay
  // around it, or is not.
  Bytes free_in_heap;
  std::optional<KeptOfProcess> kept;
  std::string why_not_kept;   // why its allocations could not be watched, or say nothing; empty: not tried
  std::string why_not_added;  // why nobody saw who adds to its containers; empty: was tried, or had no need
  std::vector<BlameSite> sites;         // by growth, then by what was touched
  std::optional<BlameHolders> holders;  // nullopt: it is no Python, or none that was looked at
  std::vector<BlameGpuSite> gpu;        // by bytes
  std::string python;                   // "CPython 3.11.2", why its frames cannot be read, or empty
  ProcessRole role;
  /// As far as it is known: without shared memory where that could not be read.
  Bytes grown() const { return grown_anon + unshared + (grown_shmem ? *grown_shmem : Bytes{}); }
};

/// Whether a container holds what a site keeps: of `blocks` the `part` of all that was added to it that was
/// looked at leads to `reached`, and to `own` (0 or 1) as the place of its elements. false where that tells
/// nothing: an object that all elements refer to is reached however few are looked at.
bool holds_site(std::uint64_t reached, std::uint64_t own, std::uint64_t blocks, double part);

/// Gives what was touched in pages of small objects of a Python program to the container that holds most, if
/// that is a fifth at least, and to the lines that add to it; as BlameSite::small_objects has it. `in_pools`:
/// of each site the part of its growth that lies in such pages, 0 to 1.
void join_small_objects(BlameProcess& process, std::span<const double> in_pools);

struct BlameReport {
  std::string scope;
  Seconds window{};
  Bytes grown;                          // of all processes
  std::optional<Bytes> cgroup_grown;    // of the cgroups in scope, by their own counters
  std::vector<BlameProcess> processes;  // by growth
  double watched_share = 1;             // part of the window in which faults were looked at
  std::uint64_t samples = 0;
  std::uint64_t incomplete_stacks = 0;  // outer frames are missing
  std::uint64_t incomplete_python = 0, misplaced_python = 0;
  std::uint64_t unnamed_frames = 0, frames = 0;
  std::uint64_t not_noted =
      0;  // processes for which there was no room: of these only what they touch is told
  std::uint64_t symbols_unread = 0;           // tables of symbols and perf maps, longer than what is read
  std::vector<std::string> unread;            // processes that could not be looked at: "python3[4711]"
  std::map<std::string, std::uint64_t> lost;  // by reason
  bool gpu_followed = false;                  // the NVIDIA driver is there, and its calls were read
  std::string
      no_stacks;  // why faults could not be watched: growth by process is all there is; empty: they were
};

class Blame {
 public:
  struct Config {
    Roots roots;
    std::function<void(std::uint32_t tgid, const wire::PythonLayout&)> on_python;
    std::function<void(std::uint32_t tgid, Bytes resident)> on_baseline;
    std::function<CgroupPtr(std::uint32_t pid)> cgroup_of;
    /// Told before a process's files or memory are touched: if this process ends then, it was by that one.
    std::function<void(std::uint32_t tgid)> on_read;
    /// Of these neither files nor memory are touched: only their counters count.
    std::unordered_set<std::uint32_t> unread;
    bool blind = false;  // of none
    /// Of each one's memory; none: all of it is read.
    std::function<ProcessMemory::Guard(std::uint32_t tgid)> guard_of;
    std::size_t longest_name = 512;  // as shorten() has it
    /// Of all processes; when there are as many, every second one goes of the process that has most, and its
    /// others weigh double. 6 MiB.
    std::size_t max_samples = 100'000;
    /// Processes that are read before the window begins. What others held then is what they hold at their
    /// first fault that is told of.
    std::size_t max_noted = 512;
    /// Since boot, by the clock that processes' starts are told in.
    std::function<Nanos()> boot_time = [] { return clock_now(CLOCK_BOOTTIME); };
  };
  explicit Blame(Config config);

  /// A process that exists before the window begins. About 5 ms; of a kernel's thread, and where there are
  /// max_noted already, nothing is noted.
  void note(std::uint32_t pid);
  /// Reads every process's counters, once all are noted: growth counts from here on, and faults are to be
  /// watched from now. About 0.1 ms a process, and 10 ms per GiB that it has. Private memory only of those
  /// that are quick to walk.
  void begin();
  void add(const wire::Fault& fault);
  void add(wire::Allocation allocation);
  void add(const wire::Freed& freed);
  void add(const wire::Addition& addition);
  /// Device memory that a known process took, where; and what of it was given back before the end.
  void add_gpu(const wire::GpuStack& at, const GpuObject& object, Bytes bytes);
  void gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects);
  /// Where the allocator of a process is that was noted. Error: not found, or it may not be read.
  Result<FoundAllocator> find_allocator(std::uint32_t pid);
  /// Remembers how long a Python program's containers are. Up to a second.
  void sample_objects(std::uint32_t pid);
  /// In the window: where the lengths of those are that grow most, for who makes them longer.
  std::vector<std::uint64_t> growing_lengths(std::uint32_t pid, std::size_t most);
  /// Behind end(): which of them have grown.
  void sample_objects_again(std::uint32_t pid);
  /// Until when these records were made; before finish().
  /// A block that is not among these is gone, if there is no record of it.
  void add_living(std::uint32_t pid, std::span<const wire::LivingBlock> living);
  void set_watched(const WatchedAllocations& watched);
  void set_unwatched(std::uint32_t pid, const std::string& why);
  /// Forgets what has been given back since it was touched: each sampled page is looked at again after 1, 2,
  /// 4, … calls, and all of a process that has shrunk, so that memory which comes and goes is found missing
  /// once. About 0.5 µs a page looked at, 20 µs a process. `watched_share` as in finish(), so far.
  void look(double watched_share = 1);
  /// Reads every process's counters again: growth counts until here. What was faulted in until now is still
  /// to be added, so that no growth is without its samples.
  void end();
  /// Weighs. Where only a share of the window was watched, the samples of each while stand for all faults
  /// that the kernel counted in it. The caller adds scope, cgroups and losses.
  BlameReport finish(Seconds window, double watched_share = 1);

 private:
  struct Sample {
    std::uint64_t address = 0;
    Bytes weight;
    std::uint64_t faults = 0;
    std::uint32_t site = 0;
    std::uint32_t next_look = 0, gap = 1;
    bool gone = false, shared = false;
  };
  struct Process {
    ProcessRef ref;
    std::uint64_t mm_key = 0;            // 0: not sampled yet; until then
    std::optional<std::uint64_t> stack;  // tells of another program, as ProcStat has it
    bool python_told = false;
    std::unique_ptr<ProcessView> view;
    std::optional<ProcessLevel> before, after;
    std::optional<wire::Memory> last;
    std::vector<Sample> samples;
    std::size_t thinned = 0;
    std::uint64_t faults = 0;  // that the samples stand for
    struct Settled {           // what was weighed last: its samples, and the counts of faults behind it
      std::size_t from = 0, to = 0;
      std::uint64_t faults = 0, counted = 0;
    };
    Settled settled;
    std::uint64_t resident_pages = 0;  // at the last look
    std::map<Stack, std::uint32_t> sites;
    Survivors survivors;
    struct Allocations {
      bool blocks_tell = false;  // block_held() knows
      bool has_own_new = false;  // as FoundAllocator has it
      std::optional<WatchedAllocations> watched;
      std::unordered_map<std::uint64_t, MonoTime> living;  // by address: when it was born
      std::string why_not_watched;
    };
    Allocations allocations;
    struct Containers {      // of a Python program
      bool known = false;    // how long they were
      bool refused = false;  // some of their pages, by the guard
      std::optional<std::vector<Holder>> grown;
      std::map<std::uint64_t, std::map<Stack, std::uint64_t>> additions;  // by where the length stands
    };
    Containers containers;
    std::map<Stack, std::uint32_t> gpu_sites;
    std::map<GpuObject, std::pair<std::uint32_t, Bytes>> gpu;  // what it took: its site and size
  };
  Process* known(std::uint32_t pid);
  Stack read_stack(Process& process, const wire::UserStack& at, MonoTime now);
  std::uint32_t site_of(Process& process, const wire::UserStack& at, MonoTime now);
  void read_stacks(Process& process, bool all);
  /// Of all that its growth may be: first what was kept, then what was touched.
  static void follow_moved(Process& p, const wire::Allocation& allocation);
  static void judge_touched(Process& p, double watched_share, BlameProcess& out);
  static void judge_kept(const Process& process, Seconds window, BlameProcess& out);
  static std::vector<BlameGpuSite> judge_gpu(const Process& process);
  static void judge_holders(const Process& process, const Survivors::Estimate& kept, BlameProcess& out);
  static std::vector<BlameAddition> additions_to(const Process& process, std::size_t holder);
  static std::vector<double> parts_in_pools(const Process& process, const BlameProcess& out);
  Process& process_of(const wire::Fault& fault);
  bool began_before(const Process& process) const;  // the window
  void begin_late(Process& process, const wire::Fault& fault) const;
  static void thin_samples(Process& process);
  void thin_most();
  void open_view(Process& process);
  void tell_python(Process& process) const;
  /// Since this was asked last.
  bool has_executed(Process& process) const;
  void describe(Process& process) const;
  /// Without uss. nullopt: it has ended, or cannot be read.
  std::optional<ProcessLevel> level_of(const TaskId& id) const;
  bool has_ended(const TaskId& id) const;
  std::optional<Bytes> private_bytes_of(const TaskId& id) const;
  /// Of as many as a second is enough for.
  std::unordered_map<TaskId, std::optional<Bytes>> private_bytes() const;
  ProcessMemory memory_of(std::uint32_t tgid) const;
  /// Says so (Config::on_read). false: it may not be.
  bool about_to_read(std::uint32_t tgid) const;
  static void settle(Process& process, std::uint64_t counted, bool last);
  void read_pages(Process& process) const;
  std::optional<ProcessLevel> still_held(const Process& process) const;
  BlameProcess judge(Process& process, Seconds window, double watched_share) const;

  Config config_;
  ProcFs procfs_;
  MappedFiles files_;        // outlives their views
  std::size_t samples_ = 0;  // of all; what goes with a program is counted until some are thinned
  std::unordered_map<TaskId, Process> processes_;
  std::uint64_t began_ticks_ = 0;  // the window, in clock ticks since boot
  std::uint32_t looks_ = 0;
  BlameReport report_;
};

}  // namespace oomcast
