// Whether a page that is charged to a process's cgroup may be what makes the kernel kill there.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "collect/cgroupfs.h"
#include "collect/process_memory.h"
#include "collect/procfs.h"

namespace oomcast {

/// nullptr: some pages more are surely not, on the machine and in each cgroup above the process, as
/// has_room() has it. Otherwise why that is not sure. Cost: meminfo, and three files for each cgroup with a
/// limit.
const char* why_no_room(const ProcFs& procfs, const CgroupFs& fs, std::uint32_t pid);

/// Guards of the memory that a reader reads: without swap an anonymous page stays where it is, and each other
/// one is read only while there is room, asked for at most every 10 ms.
class PageRoom {
 public:
  /// Both outlive the guards. Without the cgroups nothing is known of their room.
  PageRoom(const ProcFs& procfs, const Result<CgroupFs>& fs) : procfs_(procfs), fs_(fs) {}
  ProcessMemory::Guard guard(std::uint32_t pid) const;

 private:
  const ProcFs& procfs_;
  const Result<CgroupFs>& fs_;
};

}  // namespace oomcast
