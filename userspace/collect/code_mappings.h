// Counts the mappings of a page of code: the cost of a breakpoint there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace oomcast {

/// For a breakpoint the kernel (uprobe_register()) visits every mapping of its page, on the whole machine,
/// with a lock held that every fork waits for: 0.6 µs each on 6.18. In each mapping of the process that it is
/// for it copies the page, which is charged to that process's cgroup, in 50 µs. A tenant can map a page of
/// libc a million times, in 200 MiB: forks of the whole machine then stood for 0.6 s, and a cgroup of 200 MiB
/// was killed by the copies alone. So it is counted first.
class CodeMappings {
 public:
  struct Count {
    std::uint64_t all = 0, of_process = 0;  // mappings of the page
    std::uint64_t in_process = 0;           // of anything, by the process; 0: it has none of this page
  };
  /// Most of them for which a breakpoint is set: 5 ms for `all`, 32 KiB for `of_process` (a program maps its
  /// allocator once), and for a process of so many mappings each visit takes long.
  static constexpr std::uint64_t kMaxAll = 8192, kMaxOfProcess = 8, kMaxInProcess = 4096;

  /// Runs of the kernel programs (bpf/mappings.bpf.c), false: it failed; and what they share with user space.
  struct Programs {
    std::function<bool()> begin, walk;
    volatile unsigned long long *address = nullptr, *node = nullptr;
    volatile unsigned int *tgid = nullptr, *from = nullptr;
    volatile unsigned long long *all = nullptr, *of_process = nullptr, *in_process = nullptr;
  };
  explicit CodeMappings(Programs programs) : programs_(std::move(programs)) {}

  /// Of the page at `offset` of `file`. What is mapped or unmapped meanwhile may be missed. Error: the page
  /// cannot be mapped, or the walk has no end within kMaxAll. Cost: 10 µs, and 0.5 µs for each mapping; a
  /// mapping of this process's own, for that time. Not for several threads at once.
  Result<Count> count(int file, std::uint64_t offset, std::uint32_t tgid) const;
  /// Why no breakpoint is set there; empty: one may be.
  std::string why_not(int file, std::uint64_t offset, std::uint32_t tgid) const;

 private:
  Programs programs_;
};

/// The rule behind CodeMappings::why_not().
std::string why_too_many(const CodeMappings::Count& count);

}  // namespace oomcast
