// Decides which functions of an allocator are watched, and for how long. A watched call costs its program
// microseconds, and a program that does little else may make millions of them a second.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "base/units.h"
#include "wire/fault.h"

namespace oomcast {

/// Measurements of an allocator while all of its functions were watched.
struct AllocatorRates {
  std::array<double, wire::kAllocates> calls_per_s{}, bytes_per_s{};
  double frees_per_s = 0;
  std::uint32_t calling_malloc = 0;  // bits of the functions that call malloc() in their turn
};

/// Times from the beginning on.
struct AllocationPlan {
  std::array<Nanos, wire::kAllocates> watched{};  // each function
  Nanos frees_watched{};                          // what is freed later counts as kept
  Bytes sample, extra;  // a block of S bytes is told of with a chance of (S + extra) / sample
};

/// What a breakpoint takes its program: at a call or at a return; and more where the kernel has the program
/// execute the instruction there, with a trap behind it, instead of doing itself what it would do. Measured
/// on a virtual machine of 2026: 0.7 µs, and 9.7 µs more.
struct CallCost {
  Nanos trap{}, step{};
};

struct AllocationBudget {
  // Of a CPU, on average over the window: what calls that are watched take, as measured, beside their
  // records. In a PyTorch loop, whose caches are cold where the kernel is, they take half as much again; so
  // where they come one after the other, and would take over a tenth of the time, it is twice this.
  double share = 0.005;
  CallCost each;
  std::uint32_t stepped = 0;  // as Allocator has it
  Nanos counted{};            // for as long all was watched already, before the window, and nothing told of
  double records_per_s = 400;
  double told = 1;  // records for each that was planned: a large block is one, however little it stands for
};

/// Of a window.
struct RecordsSoFar {
  Nanos at{};  // since its beginning
  std::uint64_t count = 0;
};

/// An alias of one of the usual functions; function wire::kAllocates: of free().
struct OtherFunction {
  std::uint64_t place = 0;  // in the file; 0: none
  std::uint64_t function = 0;
};
using OtherFunctions = std::array<OtherFunction, 32>;

/// Where a process's allocator is: a file, and in it the functions, by their place in the file; 0: it has no
/// such function.
struct Allocator {
  UniqueFd file;
  std::array<std::uint64_t, wire::kAllocates> allocates{};
  std::uint64_t free = 0;
  OtherFunctions others{};
  std::uint32_t stepped = 0;  // bits of functions: the kernel executes its breakpoint's instruction in a step
  /// All that do what this one does, wire::kAllocates: what free() does.
  std::vector<std::uint64_t> places(std::size_t function) const;
};

/// Of which calls of one process records were made.
struct WatchedAllocations {
  std::uint32_t tgid = 0;
  MonoTime begin{};
  std::array<MonoTime, wire::kAllocates> until{};  // by function
  MonoTime frees_until{};
  MonoTime end{};    // of all of it
  Bytes sample;      // what a block stands for at least that was not always told of
  double taken = 0;  // share of a CPU that it took while all were watched
  struct Faster {
    double by, doubt;
  };
  std::optional<Faster> faster;  // it grew when not all were watched; nullopt: not known
  double calls_per_s = 0;        // of all functions, while all were watched
  /// For how long every function was that the allocator has.
  Nanos all_watched() const {
    MonoTime least = frees_until;
    for (MonoTime each : until)
      if (each != MonoTime{}) least = std::min(least, each);
    return least - begin;
  }
};

/// Share of a CPU that the probes cost while all functions are watched.
double share_taken(const AllocatorRates& rates, const AllocationBudget& budget);

/// Where all of it is within the budget, all is watched to the end. Else, of what the frees leave, or of a
/// third of it where they leave little, the functions with the most bytes a call are watched for longest; and
/// with a quarter of what the frees leave, or two thirds, everything for a first part of the window, at full
/// cost. The rates are those of a program that is slowed by all of it: calls come faster when only some are
/// watched. malloc() is watched no longer than who calls it: else the same blocks would be counted as both's.
AllocationPlan plan_allocations(const AllocatorRates& rates, const AllocationBudget& budget, Nanos window);

/// Between two times of the window, with that sample.
double planned_records(const AllocationPlan& plan, const AllocatorRates& rates, Bytes sample, Nanos from,
                       Nanos to);
/// The smallest sample with which what is left of the budget lasts to the window's end.
Bytes plan_sample(const AllocationPlan& plan, const AllocatorRates& rates, const AllocationBudget& budget,
                  Nanos window, const RecordsSoFar& so_far);

}  // namespace oomcast
