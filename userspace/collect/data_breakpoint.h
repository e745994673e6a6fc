// Data breakpoints: the processor's own, of which x86-64 has four for each thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"
#include "collect/perf_event.h"

namespace oomcast {

/// An event (perf_event_open(2), PERF_TYPE_BREAKPOINT) that is off until PERF_EVENT_IOC_REFRESH: each write
/// of `thread`, 0 is the caller, to the 8 bytes at `at`. Invalid: errno says why.
UniqueFd open_data_breakpoint(std::uint64_t at, pid_t thread, Events which);

/// Sets one on a variable of the caller's own and writes to it. That one opens says nothing: on some virtual
/// machines (AMD EPYC, Linux 6.18) each opens, and none fires. Error: why none is to be had here. Cost: some
/// 50 µs.
Status try_data_breakpoint(Events which);

}  // namespace oomcast
