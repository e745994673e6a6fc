/* Two tables of what was last sent for a cgroup: thousands of cgroups may hold next to nothing, and they must not
 * keep out the others. */
#ifndef OOMCAST_LAST_SENT_BPF_H
#define OOMCAST_LAST_SENT_BPF_H

#include "maps.bpf.h"

#define OC_IDLE_PAGES 256

/* The limit does not count: a user who makes thousands of cgroups also sets their limits. */
static __always_inline bool oc_is_idle(u64 pages) {
  return pages < OC_IDLE_PAGES;
}

/* Nonzero: no room. */
static __always_inline long oc_keep_last(u64 id, const struct oc_last* now, bool idle, u64 flags) {
  if (idle) return bpf_map_update_elem(&last_idle, &id, now, flags);
  bpf_map_delete_elem(&last_idle, &id);
  return bpf_map_update_elem(&last_cgroup, &id, now, flags);
}

#endif
