// Whether charging a page to a process's cgroup could trigger an OOM kill.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "collect/cgroupfs.h"
#include "collect/process_memory.h"
#include "collect/procfs.h"

namespace oomcast {

/// nullptr: a few more pages certainly fit on the machine and in each cgroup above the process (has_room()).
/// Otherwise the reason why that is not certain. Cost: meminfo, and three files for each cgroup with a limit.
const char* why_no_room(const ProcFs& procfs, const CgroupFs& fs, std::uint32_t pid);

/// Guards for a reader of process memory: without swap an anonymous page stays resident and may be read; any
/// other page is read only while there is room, checked at most every 10 ms.
class PageRoom {
 public:
  /// Both must outlive the guards. Without `fs` the room of cgroups is unknown.
  PageRoom(const ProcFs& procfs, const Result<CgroupFs>& fs) : procfs_(procfs), fs_(fs) {}
  ProcessMemory::Guard guard(std::uint32_t pid) const;

 private:
  const ProcFs& procfs_;
  const Result<CgroupFs>& fs_;
};

}  // namespace oomcast
