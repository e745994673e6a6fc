// By which numbers perf_event_open knows the kernel's tracepoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collect/roots.h"

namespace oomcast {

/// The ids of `names` ("syscalls/sys_exit_ioctl"); a tracepoint that is not there, or cannot be read, is left
/// out. From tracefs where it is mounted, else from a mount that no path leads to and that is gone on return
/// (Linux 5.2, CAP_SYS_ADMIN). They hold until the machine restarts.
std::map<std::string, std::uint64_t> read_tracepoint_ids(const Roots& roots,
                                                         const std::vector<std::string>& names);

}  // namespace oomcast
