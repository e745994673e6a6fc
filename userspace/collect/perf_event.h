// Perf events: the right to open them.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>

#include "base/unique_fd.h"

namespace oomcast {

/// Whether this kernel wants CAP_SYS_ADMIN for any perf event where others are content with CAP_PERFMON:
/// Debian's and Ubuntu's have a perf_event_paranoid above 2. false where it cannot be read.
bool perf_events_need_admin();

/// `that_never_fire`, for tests: they are opened and see nothing, as data breakpoints under a hypervisor that
/// keeps the debug registers to itself.
enum class Events : std::uint8_t { of_this_machine, that_never_fire };
/// What is neither the kernel's nor a program's is nobody's.
inline void never_fire(perf_event_attr& attr) {
  attr.exclude_kernel = attr.exclude_user = 1;
}

/// perf_event_open(2), closed on exec. Where the kernel wants CAP_SYS_ADMIN and this thread may have it, it
/// is effective for this call alone. Invalid: errno says why.
UniqueFd open_perf_event(perf_event_attr& attr, pid_t pid, int cpu);

}  // namespace oomcast
