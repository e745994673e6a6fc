// The kernel program that sums up events of managed memory's pages per process. It needs kprobes and a
// driver whose events are known (gpu_page_events.h); without it faults and moves are known by card alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "base/task_id.h"
#include "collect/gpu_source.h"
#include "collect/roots.h"
#include "parse/gpu_page_events.h"

namespace oomcast {

class GpuPages {
 public:
  /// Attaches to the driver; `source` tells whose va_spaces are from then on, and has to outlive this. Error:
  /// why it is not possible here, in words that can follow "not per process:".
  static Result<std::unique_ptr<GpuPages>> open(const Roots& roots, GpuSource& source,
                                                const GpuSourceOptions& options);
  virtual ~GpuPages() = default;

  /// Those whose va_spaces are known, with what their pages did since load. Empty until the driver has called
  /// at all: a probe that never fires counts nothing, which is not the same as nothing to count.
  virtual std::map<TaskId, GpuActivity> read() = 0;
  /// Forgets processes that ended. Cost: a pass over both tables, some 5 ms when they are full.
  virtual void forget(const std::set<TaskId>& tasks) = 0;
  /// Events with implausible contents; after 16 of them the program stops for good.
  virtual std::uint64_t implausible() const = 0;
  virtual bool stopped() const = 0;
  /// Events that found no room in the table, or came while the program ran on that CPU.
  virtual std::uint64_t lost() const = 0;
};

}  // namespace oomcast
