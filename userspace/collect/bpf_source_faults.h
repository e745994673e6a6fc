// Page faults of the processes in scope, and allocations of a few of them, sampled by kernel programs of
// their own that run only while this lives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/allocation_budget.h"
#include "collect/fault_budget.h"
#include "collect/kernel_features.h"
#include "collect/perf_event.h"
#include "collect/roots.h"
#include "wire/fault.h"

namespace oomcast {

struct FaultOptions {
  Roots roots;
  std::optional<KernelFeatures> features;  // nullopt: the kernel is asked
  std::vector<std::uint64_t> cgroups;      // inodes in the memory hierarchy, with what is below them
  std::vector<std::uint32_t> processes;    // with their descendants; both empty: the whole machine
  std::uint32_t asking = 0;                // whose faults, and whose children's, are nobody's; 0: none
  FaultBudget::Limits budget;              // of faults that are looked at
  Bytes sample_bytes = KiB(256);           // a fault is recorded when its process has grown by about so much,
  std::uint64_t records_per_s = 1000;      // or by more, so that there are not many more records than this
  /// Whether watch_allocations() may be called: it sets breakpoints in the code of other programs. Their
  /// programs are most of what the verifier has to do here.
  bool code_breakpoints = true;
  wire::Units units;
  Events page_faults = Events::of_this_machine, data_breakpoints = Events::of_this_machine;
};

class FaultSource {
 public:
  /// Loads. Error::forbidden: the kernel refuses the program; says what is missing.
  static Result<std::unique_ptr<FaultSource>> open(const FaultOptions& options);
  virtual ~FaultSource() = default;

  /// Samples from now on. Error::forbidden: the kernel refuses its page-fault events, or a fault of this
  /// process's own fires none.
  virtual Status begin(MonoTime now) = 0;
  /// Becomes readable when records should be read at once; others wait for the next call of drain().
  virtual int fd() const = 0;
  /// Hands waiting records to `sink`, as wire::decode_fault() takes them, and keeps to the budget. Some
  /// hundreds at most, so that it ends however fast others come: fd() stays readable then. Call it again
  /// within next_look().
  using Sink = std::function<void(std::span<const std::byte> record)>;
  virtual Status drain(const Sink& sink, MonoTime now) = 0;
  virtual Nanos next_look() const = 0;
  /// Part of the time since begin() in which faults were looked at: 1 unless the budget ran out.
  virtual double watched_share() const = 0;
  /// The frames of this process, and of children that it forks, are read from now on.
  /// `layout`: a wire::PythonLayout, encoded.
  virtual Status set_python(std::uint32_t tgid, std::span<const std::byte> layout) = 0;
  /// What it holds of its own (anonymous, shared, swapped): from there on its growth is counted.
  virtual Status set_baseline(std::uint32_t tgid, Bytes resident) = 0;
  /// Of FaultOptions.
  virtual bool sets_code_breakpoints() const = 0;
  /// Samples this process's allocations, too, until `end`; those of wire::kWatched processes since open().
  /// `share`: of the records of allocations that there may be. Error: why it cannot.
  virtual Status watch_allocations(std::uint32_t tgid, const Allocator& allocator, double share, MonoTime now,
                                   MonoTime end) = 0;
  /// Why that of one process should end: its allocator is mapped too often by now, and to clear a breakpoint
  /// takes as long as to set one. Empty: it may go on.
  virtual std::string why_drop(std::uint32_t tgid) const = 0;
  /// Ends that of one process. What was seen of it is of no use.
  virtual void drop_allocations(std::uint32_t tgid, MonoTime now) = 0;
  /// Ends it for all, in half a second, or one where breakpoints have to be left for a while.
  virtual std::vector<WatchedAllocations> end_allocations(MonoTime now) = 0;
  /// Tells of who makes these 8 bytes larger, which stand at addresses of the process, from now on: where a
  /// container has its length. Of AdditionProbes::kMaxLengths, the first of them. Error: why it cannot, as
  /// where a data breakpoint of this process's own does not fire, which is tried first.
  virtual Status watch_additions(std::uint32_t tgid, std::span<const std::uint64_t> lengths,
                                 MonoTime now) = 0;
  virtual void end_additions() = 0;
  /// The process that these wait for, as it sleeps with the lock of its memory; so does the end of this, up
  /// to a minute.
  virtual std::optional<std::uint32_t> waits_for() const = 0;
  /// Then: of the blocks that it was told of, those that were not freed, although a record may be lost.
  virtual Result<std::vector<wire::LivingBlock>> living_blocks(std::uint32_t tgid) const = 0;
  /// By reason, since open().
  virtual std::map<std::string, std::uint64_t> lost() const = 0;
};

}  // namespace oomcast
