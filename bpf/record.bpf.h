/* What each record begins with. Without maps: every object has its own rings, and its own counters of what
 * found no room in them. */
#ifndef OOMCAST_RECORD_BPF_H
#define OOMCAST_RECORD_BPF_H

#include "kernel.bpf.h"
#include "wire.h"

static __always_inline void oc_fill_header_at(struct oc_header* h, u16 type, u16 size, u64 time_ns) {
  h->type = type;
  h->size = size;
  h->cpu = bpf_get_smp_processor_id();
  h->time_ns = time_ns;
}

static __always_inline void oc_fill_header(struct oc_header* h, u16 type, u16 size) {
  oc_fill_header_at(h, type, size, bpf_ktime_get_ns());
}

#endif
