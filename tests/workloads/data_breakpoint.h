/* Whether this machine's data breakpoints fire: many hypervisors let them be set, and keep them to
 * themselves. */
#ifndef OOMCAST_WORKLOAD_DATA_BREAKPOINT_H
#define OOMCAST_WORKLOAD_DATA_BREAKPOINT_H

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many of so many writes to a variable of this thread's own one sees; -1: none can be set, or read. */
static inline long data_breakpoint_sees(uint64_t writes) {
  static volatile uint64_t watched;
  struct perf_event_attr attr;
  memset(&attr, 0, sizeof(attr));
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_BREAKPOINT;
  attr.bp_type = HW_BREAKPOINT_W;
  attr.bp_addr = (uint64_t)(uintptr_t)&watched;
  attr.bp_len = HW_BREAKPOINT_LEN_8;
  attr.sample_period = 1;
  attr.exclude_kernel = 1;
  int event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (event < 0) return -1;
  for (uint64_t i = 0; i < writes; i++) watched = i;
  uint64_t seen = 0;
  ssize_t got = read(event, &seen, sizeof(seen));
  close(event);
  return got == (ssize_t)sizeof(seen) ? (long)seen : -1;
}

#endif
