// Of a few processes in a look of `blame` the allocations are watched, and who adds to their containers, by
// breakpoints: of which, from when on, and whether there is room for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "app/blame_reader.h"
#include "app/scope.h"
#include "base/result.h"
#include "base/units.h"
#include "collect/bpf_source_faults.h"
#include "collect/cgroupfs.h"
#include "collect/procfs.h"

namespace oomcast {

/// With a source that sets no breakpoints in code, as that of a profile that trace starts by itself, the same
/// processes are chosen, and only Python's objects and the data breakpoints on their containers are used.
///
/// For a breakpoint the kernel copies a page of the program, charges it to the program's cgroup, and takes
/// the mmap_lock of whoever has the file mapped. So none is set in a cgroup that is nearly full, where the
/// copy would be what makes the kernel kill (seen on 6.18, the trigger was the tracer), nor where processes
/// wait for memory, and hold that lock meanwhile, nor on a machine that is nearly full: while the kernel
/// waits for that page, with the lock held, the memory of a victim cannot be freed; nor under a debugger: of
/// a breakpoint of its own in the same place the kernel takes the hits, and clears it with ours. Objects are
/// read all the same, page by page as PageRoom allows.
///
/// Of many processes those are chosen that grow most in the first half of the window, wire::kWatched at most:
/// the ranks of a training, or the workers of its loader, often leak alike. Cost: a line of /proc/PID/statm
/// for each process at most five times, the files of the cgroups of those that are watched five times a
/// second.
class AllocationWatch {
 public:
  /// All of them outlive it.
  AllocationWatch(const ScopeNow& scope, const ProcFs& procfs, const CgroupFs& fs, BlameReader& reader)
      : scope_(scope), procfs_(procfs), fs_(fs), reader_(reader) {}

  /// A new look: nobody is chosen. Before its window a process that is alone is asked for its allocator.
  void prepare(const FaultSource* source);
  /// The reader's answer; before the window begins it is kept. `source` null: there are no breakpoints. Room
  /// and pressure are asked once more: other work of the reader may have come before it.
  void on_allocator(FaultSource* source, std::uint32_t pid, Result<Allocator> allocator);
  /// Watches what was found before, until `end`; false: nothing was.
  bool watch_found(FaultSource* source, MonoTime end);
  /// The window begins; `choose`: nobody is watched yet.
  void begin(const FaultSource* source, MonoTime begin, MonoTime end, bool choose);
  /// When choose() has something to do.
  MonoTime next_choice() const { return std::min(choosing_.at, ask_growing_at_); }
  void choose(MonoTime now);
  /// The reader's answer: who adds there is watched, if this process is still fit for it.
  void on_growing(FaultSource* source, std::uint32_t pid, std::span<const std::uint64_t> lengths);
  /// Ends it where its cgroup came near its limit.
  void check_room(FaultSource& source, MonoTime now);
  /// Takes the breakpoints away and hands on what they saw.
  void end(FaultSource& source, MonoTime now);

  /// Why this process was not chosen.
  std::string why_not(std::uint32_t pid) const;
  /// Why nobody watched who adds to its containers; empty: somebody did, or none grew.
  std::string why_not_added(std::uint32_t pid) const;

 private:
  bool pressed() const;  // processes of this machine wait for memory
  bool traced(std::uint32_t pid) const;
  void watch(FaultSource* source, std::uint32_t pid, const Result<Allocator>& allocator);
  const char* why_unfit(std::uint32_t pid) const;        // for breakpoints, now; nullptr: it is fit
  const char* why_not_addable(std::uint32_t pid) const;  // the same for data breakpoints, which take no page
  /// Those that have grown since the window began and were not chosen, with by how many pages, most first.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> grown() const;

  const ScopeNow& scope_;
  const ProcFs& procfs_;
  const CgroupFs& fs_;
  BlameReader& reader_;
  bool begun_ = false;                                                // the window
  std::optional<std::pair<std::uint32_t, Result<Allocator>>> found_;  // before it
  std::unordered_set<std::uint32_t> sampled_;                         // whose objects are read
  std::unordered_set<std::uint32_t> chosen_;
  std::vector<std::uint32_t> watched_;                       // those of them whose allocator was found
  std::unordered_map<std::uint32_t, std::uint64_t> levels_;  // resident pages when it began
  std::uint64_t most_ = 0;                                   // pages that a chosen one had grown by
  std::unordered_map<std::uint32_t, const char*> unfit_;     // why, when it was their turn
  std::unordered_map<std::uint32_t, std::string> not_added_;
  MonoTime next_check_{}, end_{};
  struct Choosing {
    bool breakpoints = false;  // the source sets them
    MonoTime at = MonoTime::max(), until{};
    Nanos again{};
  } choosing_;
  MonoTime ask_growing_at_ = MonoTime::max();
  Nanos ask_growing_again_{};
};

}  // namespace oomcast
