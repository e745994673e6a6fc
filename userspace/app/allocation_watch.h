// Chooses the few processes in which a `blame` profile traces allocations and additions to containers with
// breakpoints: which, when, and whether there is memory for the breakpoints.
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

/// With a source that sets no code breakpoints (a profile started by trace), the same processes are chosen,
/// but only Python objects and data breakpoints on their containers are used.
///
/// For a code breakpoint the kernel copies a page of the program, charges it to the program's cgroup, and
/// takes the mmap_lock of every process that maps the file. So none is set:
/// - in a cgroup that is nearly full: the copy would trigger the OOM kill (seen on 6.18, with the tracer as
/// the trigger);
/// - where processes stall on memory, as they hold that lock meanwhile;
/// - on a machine that is nearly full: while the kernel waits for the page with the lock held, a victim's
/// memory cannot be freed;
/// - under a debugger: the kernel takes the hits of the debugger's breakpoint in the same place for ours, and
/// removes it together with ours.
/// Objects are read in any case, page by page as PageRoom allows.
///
/// Of many processes, the ones that grow most in the first half of the window are chosen, at most
/// wire::kWatched: the ranks of a training job, or its loader's workers, often leak alike. Cost:
/// /proc/PID/statm of each process at most five times, and the cgroup files of the chosen processes five
/// times a second.
class AllocationWatch {
 public:
  /// The arguments must outlive it.
  AllocationWatch(const ScopeNow& scope, const ProcFs& procfs, const CgroupFs& fs, BlameReader& reader)
      : scope_(scope), procfs_(procfs), fs_(fs), reader_(reader) {}

  /// Starts a new profile with no process chosen. Before the window, a process that is alone in scope is
  /// asked for its allocator.
  void prepare(const FaultSource* source);
  /// The reader's answer; kept until the window begins. `source` null: no breakpoints. Room and pressure are
  /// checked again: the answer may have waited behind other work of the reader.
  void on_allocator(FaultSource* source, std::uint32_t pid, Result<Allocator> allocator);
  /// Traces the allocator found before, until `end`; false: none was found.
  bool watch_found(FaultSource* source, MonoTime end);
  /// Begins the window; `choose`: no process is traced yet.
  void begin(const FaultSource* source, MonoTime begin, MonoTime end, bool choose);
  /// When choose() has something to do.
  MonoTime next_choice() const { return std::min(choosing_.at, ask_growing_at_); }
  void choose(MonoTime now);
  /// The reader's answer: traces additions to these containers, if the process is still fit for it.
  void on_growing(FaultSource* source, std::uint32_t pid, std::span<const std::uint64_t> lengths);
  /// Stops tracing where the cgroup came near its limit.
  void check_room(FaultSource& source, MonoTime now);
  /// Removes the breakpoints and passes on what they recorded.
  void end(FaultSource& source, MonoTime now);

  /// Why this process was not chosen.
  std::string why_not(std::uint32_t pid) const;
  /// Why additions to its containers were not traced; empty: they were, or no container grew.
  std::string why_not_added(std::uint32_t pid) const;

 private:
  bool pressed() const;  // processes of this machine stall on memory
  bool traced(std::uint32_t pid) const;
  void watch(FaultSource* source, std::uint32_t pid, const Result<Allocator>& allocator);
  const char* why_unfit(std::uint32_t pid) const;        // for breakpoints, now; nullptr: it is fit
  const char* why_not_addable(std::uint32_t pid) const;  // the same for data breakpoints, which take no page
  /// Processes that grew since the window began and were not chosen, with the pages they grew by, most first.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> grown() const;

  const ScopeNow& scope_;
  const ProcFs& procfs_;
  const CgroupFs& fs_;
  BlameReader& reader_;
  bool begun_ = false;                                                // the window
  std::optional<std::pair<std::uint32_t, Result<Allocator>>> found_;  // before it
  std::unordered_set<std::uint32_t> sampled_;                         // processes whose objects are read
  std::unordered_set<std::uint32_t> chosen_;
  std::vector<std::uint32_t> watched_;                       // those of sampled_ whose allocator was found
  std::unordered_map<std::uint32_t, std::uint64_t> levels_;  // resident pages when it began
  std::uint64_t most_ = 0;                                   // growth of the top chosen process, in pages
  std::unordered_map<std::uint32_t, const char*> unfit_;     // why, when it was considered
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
