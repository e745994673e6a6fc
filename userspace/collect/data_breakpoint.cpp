#include "collect/data_breakpoint.h"

#include <fmt/format.h>
#include <linux/hw_breakpoint.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace oomcast {

UniqueFd open_data_breakpoint(std::uint64_t at, pid_t thread, Events which) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_BREAKPOINT;
  attr.bp_type = HW_BREAKPOINT_W;
  attr.bp_addr = at;
  attr.bp_len = HW_BREAKPOINT_LEN_8;
  attr.sample_period = 1;
  attr.exclude_kernel = attr.exclude_hv = 1;
  attr.disabled = 1;
  if (which == Events::that_never_fire) never_fire(attr);
  return open_perf_event(attr, thread, -1);
}

Status try_data_breakpoint(Events which) {
  constexpr std::uint64_t kWrites = 4;
  alignas(8) volatile std::uint64_t watched = 0;
  UniqueFd event = open_data_breakpoint(reinterpret_cast<std::uint64_t>(&watched), 0, which);
  if (!event) return Error::from_errno("setting a data breakpoint");
  if (ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 2 * kWrites) != 0)
    return Error::from_errno("arming a data breakpoint");
  for (std::uint64_t i = 1; i <= kWrites; ++i) watched = i;
  std::uint64_t seen = 0;
  if (read(event.get(), &seen, sizeof(seen)) != sizeof(seen))
    return Error::from_errno("reading a data breakpoint");
  if (seen == kWrites) return Ok{};
  return Error::failed(
      fmt::format("hardware breakpoints do not fire on this machine: of {} writes of our own {} were seen",
                  kWrites, seen));
}

}  // namespace oomcast
