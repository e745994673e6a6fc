// Uprobes on the allocator of one process: attached, counted, and taken away as the budget has it.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/allocation_budget.h"
#include "collect/code_mappings.h"
#include "collect/held_locks.h"
#include "collect/libbpf.h"
#include "collect/roots.h"
#include "wire/fault.h"

struct bpf_program;

namespace oomcast {

/// Why allocations are unknown to a source that was opened without breakpoints.
constexpr const char* kNoBreakpoints =
    "a profile that starts by itself sets no breakpoints in a program; `oomcast blame` does";
constexpr const char* kNoPages =
    "the machine has little memory left, and the kernel takes a page for each breakpoint";
constexpr std::uint32_t kUprobeMulti = 48;  // enum bpf_attach_type: BPF_TRACE_UPROBE_MULTI

/// A probe is a breakpoint in the program's code: to set or clear one the kernel takes the mmap_lock of each
/// process that has the file mapped, for some microseconds, and waits for who holds it. So only where nobody
/// waits for memory, nor sleeps with such a lock (HeldLocks), and few times, by threads that may be real-time
/// ones where RLIMIT_RTPRIO has it. They end with this, or with this process however it ends.
class AllocationProbes {
 public:
  struct Programs {
    std::array<bpf_program*, wire::kAllocates> enter{};
    bpf_program* leave = nullptr;
    bpf_program* enter_free = nullptr;
    int calls = -1;            // map of calls by process, function and CPU
    std::uint32_t number = 0;  // of this process there; what follows is for it alone
    volatile unsigned int* tgid = nullptr;
    volatile unsigned long long *sample = nullptr, *extra = nullptr;  // as in AllocationPlan
    volatile unsigned int* told = nullptr;            // bits of functions that records are made of
    volatile unsigned int* calling_malloc = nullptr;  // as in AllocatorRates, once records are made
    volatile unsigned long long* records = nullptr;   // that were made
    bool whole_process = false;                       // as KernelFeatures::process_uprobes says
    std::shared_ptr<const HeldLocks> locks;           // null: who holds them cannot be told
    const CodeMappings* mappings = nullptr;
    Roots roots;
  };
  explicit AllocationProbes(Programs programs) : programs_(std::move(programs)) {}
  AllocationProbes(const AllocationProbes&) = delete;

  /// Watches all of it from now on, for a while that tells what it costs. About 1 ms a function. Error: why
  /// not. What each call takes, if the budget has it as 0, is measured first, in 100 ms.
  Status begin(std::uint32_t tgid, const Allocator& allocator, const AllocationBudget& budget, MonoTime now,
               MonoTime end);
  const AllocationBudget& budget() const { return budget_; }
  /// Enforces the budget; call it by next().
  void advance(MonoTime now);
  Nanos next(MonoTime now) const;
  /// Nothing is told of any more; the breakpoints go, in half a second.
  void stop_all(MonoTime now);
  /// That, and waits until they are gone, or for a second where somebody keeps a lock: then they go later,
  /// with this at the latest, whose end waits for them up to a minute. What was watched; nullopt: nothing
  /// was.
  std::optional<WatchedAllocations> end(MonoTime now);
  /// Why no breakpoint would be set there now; empty: it would be.
  std::string why_not_any_more() const;
  /// Whether any breakpoint that should be gone is still set.
  bool closing() const { return !closing_.empty(); }

 private:
  // What it costs is known after a second's quarter, or so many calls: a step of a program may be as long,
  // and one that does nothing but allocate is not to be held for longer than that takes. While all is watched
  // it is planned anew: its steps differ.
  static constexpr Nanos kLongestCount = std::chrono::milliseconds(250);
  static constexpr Nanos kCountEvery = std::chrono::milliseconds(20);
  static constexpr double kCallsEnough = 500;
  static constexpr Nanos kSampleEvery = std::chrono::milliseconds(200);
  using Handle = std::variant<Link, UniqueFd>;
  using Links = std::array<std::vector<Handle>, wire::kAllocatorFunctions>;  // free() comes last
  /// To each of these places, as long as the machine has room. What was set before an error is in `to`, too.
  /// One place a call: what the machine has left, and how often the page is mapped, is asked before each.
  Status attach(const bpf_program* program, std::span<const std::uint64_t> offsets, bool at_return,
                std::uint32_t tgid, int file, std::vector<Handle>& to);
  Result<Handle> attach_one(const bpf_program* program, std::uint64_t offset, bool at_return,
                            std::uint32_t tgid, int file);
  Result<Handle> attach_to_event(const bpf_program* program, std::uint64_t offset, bool at_return,
                                 std::uint32_t tgid, const std::string& path) const;
  Result<Handle> attach_to_process(const bpf_program* program, std::uint64_t offset, bool at_return,
                                   std::uint32_t tgid, const std::string& path) const;
  Status measure();
  /// What a call of one of this process's own functions takes with both breakpoints.
  Result<Nanos> measure(void (*function)(std::uint64_t));
  std::uint32_t key_of(std::size_t function) const {
    return static_cast<std::uint32_t>(programs_.number * wire::kAllocatorFunctions + function);
  }
  AllocatorRates rates(Nanos seen) const;
  void reset_counts();
  void count(MonoTime now);
  /// By what was counted since begin(), in which the program was in more of its steps than when it was
  /// planned.
  void plan(MonoTime now);
  void sample(Bytes each);
  /// By how many records there were since it was asked last.
  void sample_again(MonoTime now);
  void stop(std::size_t function, MonoTime now);
  /// The program's memory at one moment.
  struct Progress {
    MonoTime at{};
    std::optional<std::uint64_t> pages;  // resident
  };
  Progress progress(MonoTime now) const;
  /// By how much faster it grew since it is not all watched; not told where it grew too little before.
  void compare_growth(const Progress& now);
  /// The breakpoints that records are made of no more. Each takes 40 ms, in which it goes on to cost, and the
  /// records that wait are to be read: all at once, and in the background.
  void take_away();
  void close(std::vector<Handle> links);
  MonoTime stops_at(std::size_t function) const;

  Programs programs_;
  UniqueFd file_;  // the allocator's, while there are breakpoints in it
  std::uint64_t place_ = 0;
  std::uint32_t type_ = 0;  // of perf's uprobe events
  AllocationBudget budget_;
  Links links_;
  std::vector<std::future<void>> closing_;
  std::optional<WatchedAllocations> watched_;
  AllocatorRates rates_;  // while all was watched
  std::optional<AllocationPlan> plan_;
  RecordsSoFar records_;  // when the sample was chosen last
  Progress began_, stopped_;
  bool slow_ = false;        // to set a breakpoint took longer than it may
  bool all_watched_ = true;  // no function has been stopped: what is counted is all of it
  MonoTime counted_from_{}, count_at_{}, sample_at_{}, end_{};
};

}  // namespace oomcast
