// Finds the processes that grow, and the lines: retained blocks and page faults by process and stack, scaled
// to the actual growth of the processes.
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

/// Counters of a process at one moment.
struct ProcessLevel {
  Bytes anon;                    // including swap, where that is known
  std::optional<Bytes> shmem;    // mapped shared memory, tmpfs and pinned memory; counted in each process
  std::optional<Bytes> uss;      // private memory, including swap
  std::optional<Bytes> hugetlb;  // pages of the huge page pool, in none of the above
  std::optional<Bytes> swap;     // part of anon and uss
  std::uint64_t faults = 0;      // so far
  void set_private(std::optional<Bytes> own) {
    if (own && swap) uss = *own + *swap;
  }
};

struct BlameSite {
  Stack stack;
  Bytes grown;    // the part still present, as a share of the process's growth
  Bytes touched;  // faulted in there, whether or not freed again
  std::uint64_t samples = 0;
  Kept kept{};                             // allocated there and not freed; may exceed the process's growth
  std::optional<std::uint32_t> held_by{};  // the process's holder that leads to most of that
  // Objects in the interpreter's own pools (small_objects). The code that first touches a page of a pool need
  // not be the code that keeps objects in it: a line that makes a few short-lived objects faults in each new
  // page before the line whose objects stay. So the stack is the one that adds objects to their holder, if it
  // was seen (adds); otherwise the common part of all stacks that touched such pages, without the touching
  // functions and without a line.
  bool adds = false, small_objects = false;
  /// The part of `grown` that is known to be retained there, or held by a container. The rest was first
  /// touched there, possibly by a temporary. A block count within its error proves nothing.
  Bytes sure() const {
    if (kept.bytes > Bytes{}) return kept.error < kept.bytes ? std::min(grown, kept.bytes) : Bytes{};
    return held_by ? grown : Bytes{};
  }
};

/// A stack that made a container longer, and how often it was seen.
struct BlameAddition {
  Stack stack;
  std::uint64_t seen = 0;
};

/// A container of a Python program that grew.
struct BlameHolder {
  Holder holder;
  std::uint64_t blocks = 0;                // retained blocks reachable from what was added to it
  std::vector<BlameAddition> additions{};  // a sample, most frequent first; empty: none was seen
};

struct BlameHolders {
  std::vector<BlameHolder> all;                 // by blocks, then by the minimum of bytes held
  bool cut = false;                             // some objects were not read, for lack of time or room
  std::optional<std::vector<GrownType>> types;  // types with more objects; nullopt: not counted
};

/// Device memory that a process allocated from the NVIDIA driver in the window and still holds: growth of a
/// pool. The line is the one that triggered the growth, not necessarily the one that fills the pool.
struct BlameGpuSite {
  Stack stack;
  Bytes bytes;
  std::uint64_t calls = 0;  // to the driver
};

/// How far a process's allocations were traced, and what was retained.
struct KeptOfProcess {
  Kept all;
  Seconds outlived{};        // all calls of the allocator were traced,
  Seconds all_watched{};     // and the largest allocating functions, which were traced longest
  Seconds watched{};         // and those that allocate most for longest
  double calls_per_s = 0;    // of the allocator
  bool without_new = false;  // memory from the allocator's own operator new is missing
};

struct BlameProcess {
  ProcessRef process;
  bool exited = false;
  bool growth_unknown = false;     // no counters from the start or the end of the window
  std::optional<Bytes> anon, own;  // at the end, as in ProcessLevel (own: uss); nullopt: it had exited
  Bytes grown_anon;
  std::optional<Bytes> grown_shmem = Bytes();  // nullopt: unknown, and not in grown()
  std::optional<Bytes> grown_uss;
  std::optional<Bytes> grown_hugetlb;  // not in grown(): neither RSS nor a cgroup's memory counts it
  // Pages shared by fork that it has copied since. Anonymous memory does not grow by them: they were counted
  // before.
  Bytes unshared;
  Bytes unseen;  // growth without sampled faults
  // Growth of the allocator's heap without a live block: pinned by blocks around it, or simply not returned.
  Bytes free_in_heap;
  std::optional<KeptOfProcess> kept;
  std::string why_not_kept;   // why its allocations were not traced, or prove nothing; empty: not tried
  std::string why_not_added;  // why additions to containers were not traced; empty: they were, or none grew
  std::vector<BlameSite> sites;         // by growth, then by bytes touched
  std::optional<BlameHolders> holders;  // nullopt: not Python, or not profiled
  std::vector<BlameGpuSite> gpu;        // by bytes
  std::string python;                   // "CPython 3.11.2", why its frames cannot be read, or empty
  ProcessRole role;
  /// As far as known: without shared memory if that was unreadable.
  Bytes grown() const { return grown_anon + unshared + (grown_shmem ? *grown_shmem : Bytes{}); }
};

/// Whether a container holds what a site retains. Of the site's `blocks`, `reached` were reached from the
/// sampled `part` of what was added to the container, and `own` (0 or 1) is its element storage. false if
/// that proves nothing: an object that all elements refer to is reached however small the sample is.
bool holds_site(std::uint64_t reached, std::uint64_t own, std::uint64_t blocks, double part);

/// Attributes what was touched in small-object pages of a Python program to the container that holds most, if
/// that is at least a fifth, and to the lines that add to it; see BlameSite::small_objects. `in_pools`: for
/// each site, the fraction of its growth that lies in such pages, 0 to 1.
void join_small_objects(BlameProcess& process, std::span<const double> in_pools);

struct BlameReport {
  std::string scope;
  Seconds window{};
  Bytes grown;                          // of all processes
  std::optional<Bytes> cgroup_grown;    // sum over the cgroups in scope, by their own counters
  std::vector<BlameProcess> processes;  // by growth
  double watched_share = 1;             // fraction of the window in which faults were traced
  std::uint64_t samples = 0;
  std::uint64_t incomplete_stacks = 0;  // outer frames are missing
  std::uint64_t incomplete_python = 0, misplaced_python = 0;
  std::uint64_t unnamed_frames = 0, frames = 0;
  std::uint64_t not_noted =
      0;  // processes for which there was no room: of these only what they touch is told
  std::uint64_t symbols_unread = 0;           // symbol tables and perf maps that are too long to read
  std::vector<std::string> unread;            // processes that could not be read: "python3[4711]"
  std::map<std::string, std::uint64_t> lost;  // by reason
  bool gpu_followed = false;                  // the NVIDIA driver is loaded, and its calls were traced
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
    /// Called before a process's files or memory are touched: if this process dies then, that one was the
    /// cause.
    std::function<void(std::uint32_t tgid)> on_read;
    /// Processes whose files and memory must not be touched: only their counters are read.
    std::unordered_set<std::uint32_t> unread;
    bool blind = false;  // the same for all
    /// The guard for a process's memory; none: all of it is read.
    std::function<ProcessMemory::Guard(std::uint32_t tgid)> guard_of;
    std::size_t longest_name = 512;  // see shorten()
    /// For all processes; when full, every second sample of the process with most is dropped, and the others
    /// count double. 6 MiB.
    std::size_t max_samples = 100'000;
    /// Processes that are read before the window. For any other, the level at its first reported fault is
    /// the start level.
    std::size_t max_noted = 512;
    /// Since boot, on the clock of process start times.
    std::function<Nanos()> boot_time = [] { return clock_now(CLOCK_BOOTTIME); };
  };
  explicit Blame(Config config);

  /// Adds a process that exists before the window begins. About 5 ms; ignores kernel threads, and any process
  /// beyond max_noted.
  void note(std::uint32_t pid);
  /// Reads the counters of all noted processes: growth counts from here on, so faults must be traced from now
  /// on. About 0.1 ms a process, and 10 ms per GiB that it has. Reads private memory only where the walk is
  /// quick.
  void begin();
  void add(const wire::Fault& fault);
  void add(wire::Allocation allocation);
  void add(const wire::Freed& freed);
  void add(const wire::Addition& addition);
  /// Device memory that a known process allocated, with the stack; gpu_gone(): what was freed before the end.
  void add_gpu(const wire::GpuStack& at, const GpuObject& object, Bytes bytes);
  void gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects);
  /// Finds the allocator of a noted process. Error: not found, or no permission.
  Result<FoundAllocator> find_allocator(std::uint32_t pid);
  /// Records the container lengths of a Python program. Up to a second.
  void sample_objects(std::uint32_t pid);
  /// In the window: addresses of the lengths that grow most, to trace who writes to them.
  std::vector<std::uint64_t> growing_lengths(std::uint32_t pid, std::size_t most);
  /// After end(): which containers grew.
  void sample_objects_again(std::uint32_t pid);
  /// The live blocks according to the kernel programs; before finish(). A block missing here and without a
  /// record is gone.
  void add_living(std::uint32_t pid, std::span<const wire::LivingBlock> living);
  void set_watched(const WatchedAllocations& watched);
  void set_unwatched(std::uint32_t pid, const std::string& why);
  /// Drops samples of pages that have been freed since: each sampled page is checked after 1, 2, 4, … calls,
  /// and all pages of a process that has shrunk, so that memory which comes and goes is found missing once.
  /// About 0.5 µs a page checked, 20 µs a process. `watched_share` as in finish(), so far.
  void look(double watched_share = 1);
  /// Reads every process's counters again: growth counts until here. Faults from before must still be added,
  /// or growth lacks its samples.
  void end();
  /// Scales the samples to the growth. If only a share of the window was traced, the samples of each interval
  /// stand for all faults that the kernel counted in it. The caller adds scope, cgroups and losses.
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
    std::uint64_t mm_key = 0;            // 0: not sampled yet, and until then
    std::optional<std::uint64_t> stack;  // tells of another program, as ProcStat has it
    bool python_told = false;
    std::unique_ptr<ProcessView> view;
    std::optional<ProcessLevel> before, after;
    std::optional<wire::Memory> last;
    std::vector<Sample> samples;
    std::size_t thinned = 0;
    std::uint64_t faults = 0;  // counted by the kernel, for which the samples stand
    struct Settled {           // last scaled: its samples, and the fault counts after it
      std::size_t from = 0, to = 0;
      std::uint64_t faults = 0, counted = 0;
    };
    Settled settled;
    std::uint64_t resident_pages = 0;  // at the last call of look()
    std::map<Stack, std::uint32_t> sites;
    Survivors survivors;
    struct Allocations {
      bool blocks_tell = false;  // block_held() works for this allocator
      bool has_own_new = false;  // see FoundAllocator
      std::optional<WatchedAllocations> watched;
      std::unordered_map<std::uint64_t, MonoTime> living;  // by address: time of allocation
      std::string why_not_watched;
    };
    Allocations allocations;
    struct Containers {      // of a Python program
      bool known = false;    // the lengths at the start
      bool refused = false;  // the guard refused some of their pages
      std::optional<std::vector<Holder>> grown;
      std::map<std::uint64_t, std::map<Stack, std::uint64_t>> additions;  // by the address of the length
    };
    Containers containers;
    std::map<Stack, std::uint32_t> gpu_sites;
    std::map<GpuObject, std::pair<std::uint32_t, Bytes>> gpu;  // allocated by it: site and size
  };
  Process* known(std::uint32_t pid);
  Stack read_stack(Process& process, const wire::UserStack& at, MonoTime now);
  std::uint32_t site_of(Process& process, const wire::UserStack& at, MonoTime now);
  void read_stacks(Process& process, bool all);
  /// Each attributes part of the growth: first retained blocks, then touched pages.
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
  /// Since the last call.
  bool has_executed(Process& process) const;
  void describe(Process& process) const;
  /// Without uss. nullopt: exited, or unreadable.
  std::optional<ProcessLevel> level_of(const TaskId& id) const;
  bool has_ended(const TaskId& id) const;
  std::optional<Bytes> private_bytes_of(const TaskId& id) const;
  /// For as many processes as can be read within a second.
  std::unordered_map<TaskId, std::optional<Bytes>> private_bytes() const;
  ProcessMemory memory_of(std::uint32_t tgid) const;
  /// Calls Config::on_read. false: the process must not be read.
  bool about_to_read(std::uint32_t tgid) const;
  static void settle(Process& process, std::uint64_t counted, bool last);
  void read_pages(Process& process) const;
  std::optional<ProcessLevel> still_held(const Process& process) const;
  BlameProcess judge(Process& process, Seconds window, double watched_share) const;

  Config config_;
  ProcFs procfs_;
  MappedFiles files_;        // must outlive the views
  std::size_t samples_ = 0;  // of all processes; those of replaced programs count until some are thinned
  std::unordered_map<TaskId, Process> processes_;
  std::uint64_t began_ticks_ = 0;  // the window, in clock ticks since boot
  std::uint32_t looks_ = 0;
  BlameReport report_;
};

}  // namespace oomcast
