// Data breakpoints on the lengths of one process's containers, to find the line that makes them longer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/data_breakpoint.h"
#include "collect/roots.h"

struct bpf_program;

namespace oomcast {

/// No memory of the program is written for them, no lock of it is taken, and they go with this process
/// however it ends.
///
/// In a round kLengthWrites of wire/fault.h are looked at, of whichever threads; each thread's is off after
/// kMostWrites, and there are kTimes rounds, kEvery apart at least.
class AdditionProbes {
 public:
  struct Programs {
    const bpf_program* on_addition = nullptr;
    int lengths = -1;  // map
    Roots roots;
    Events breakpoints = Events::of_this_machine;
  };
  /// A debugger of the program's user needs the other two.
  static constexpr std::size_t kMaxLengths = 2;

  AdditionProbes(Programs programs, std::uint32_t tgid) : programs_(std::move(programs)), tgid_(tgid) {}

  /// For each of these addresses, where 8 bytes stand that grow, in each of the first kMaxThreads threads:
  /// what others write is not seen. Other addresses that were watched are not any more. About 50 µs for each
  /// thread. Error: why none of them could be watched.
  Status watch(std::span<const std::uint64_t> lengths, MonoTime now);
  void advance(MonoTime now);
  Nanos next(MonoTime now) const;

 private:
  static constexpr int kMostWrites = 64, kTimes = 8;
  // While they are armed one after the other: more, and the first may be off before the last is armed.
  static constexpr std::uint32_t kMostWhileArmed = kMostWrites / 2;
  static constexpr Nanos kEvery = std::chrono::milliseconds(100);
  static constexpr std::size_t kMaxThreads = 64;
  struct Length {
    std::uint64_t at = 0;
    std::vector<std::uint32_t> threads;
    std::vector<UniqueFd> events;
    int armed = 0;  // times
  };
  Status arm(Length& length) const;
  UniqueFd open_event(std::uint64_t at, std::uint32_t thread) const;

  Programs programs_;
  std::uint32_t tgid_ = 0;
  std::vector<Length> lengths_;
  MonoTime arm_at_{};
};

}  // namespace oomcast
