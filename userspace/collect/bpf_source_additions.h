// Data breakpoints on the lengths of one process's containers: which line makes them longer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/roots.h"

struct bpf_program;

namespace oomcast {

/// The processor's own (perf_event_open(2), PERF_TYPE_BREAKPOINT), of which x86-64 has four for each thread:
/// no memory of the program is written, no lock of it is taken, and they go with this process however it
/// ends.
///
/// Each lets a thread go on for kWrites writes and is off then, to be armed again kEvery later, kTimes in
/// all: by 3 µs a write, and 5 µs more where the write made it longer, a thread that does nothing but append
/// is held up for less than 2 ms in all (measured on 6.18, in a virtual machine).
class AdditionProbes {
 public:
  struct Programs {
    const bpf_program* on_addition = nullptr;
    int lengths = -1;  // the map of what was there before
    Roots roots;
  };
  /// A debugger of the program's user needs the other two.
  static constexpr std::size_t kMaxLengths = 2;

  AdditionProbes(Programs programs, std::uint32_t tgid) : programs_(std::move(programs)), tgid_(tgid) {}

  /// For each of these addresses, where 8 bytes stand that grow, in each of the first kMaxThreads threads;
  /// others that were watched are not any more. About 50 µs each. Error: why not one could be set.
  Status watch(std::span<const std::uint64_t> lengths, MonoTime now);
  void advance(MonoTime now);
  Nanos next(MonoTime now) const;

 private:
  static constexpr int kWrites = 16, kTimes = 8;
  static constexpr Nanos kEvery = std::chrono::milliseconds(100);
  static constexpr std::size_t kMaxThreads = 64;
  struct Probe {
    UniqueFd event;
    std::uint64_t at = 0;
    std::uint32_t thread = 0;
    int armed = 0;  // times
  };
  bool arm(Probe& probe) const;

  Programs programs_;
  std::uint32_t tgid_ = 0;
  std::vector<Probe> probes_;
  MonoTime arm_at_{};
};

}  // namespace oomcast
