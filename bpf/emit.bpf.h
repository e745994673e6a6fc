/* Records of the object that is always loaded: reserved here, or counted as lost. */
#ifndef OOMCAST_EMIT_BPF_H
#define OOMCAST_EMIT_BPF_H

#include "maps.bpf.h"
#include "record.bpf.h"

static __always_inline void oc_count_lost(u32 reason) {
  u64* count = bpf_map_lookup_elem(&lost, &reason);
  if (count) (*count)++;
}

/* Reserves a record of fixed size; the caller returns at once if it got none, and otherwise fills everything
 * behind the header and submits it. (At once: verifiers before 6.3 forget over a call that a reserved record
 * is not null.) */
#define OC_RESERVE(ring, reason, record_type, type_name)                            \
  ({                                                                                \
    struct type_name* r_ = bpf_ringbuf_reserve(&ring, sizeof(struct type_name), 0); \
    if (r_)                                                                         \
      oc_fill_header(&r_->header, record_type, sizeof(struct type_name));           \
    else                                                                            \
      oc_count_lost(reason);                                                        \
    r_;                                                                             \
  })
#define OC_RESERVE_SAMPLE(record_type, type_name) \
  OC_RESERVE(samples, OC_LOST_SAMPLES_RING_FULL, record_type, type_name)
#define OC_RESERVE_EVENT(record_type, type_name) \
  OC_RESERVE(events, OC_LOST_EVENTS_RING_FULL, record_type, type_name)

#define OC_LOOK_NS 100000000ull

/* Frequent records wait for the reader's next drain, unless that is far off: while nothing arrives, the reader
 * sleeps. */
static __always_inline u64 oc_wakeup_soon(void) {
  u64 latest = bpf_ktime_get_ns() + OC_LOOK_NS;
  if (oc_next_look_ns <= latest) return BPF_RB_NO_WAKEUP;
  oc_next_look_ns = latest;
  return BPF_RB_FORCE_WAKEUP;
}
/* Wake the reader at once when the ring is half full. */
static __always_inline u64 oc_lazy_wakeup(void) {
  if (bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA) > OC_SAMPLES_HALF) return BPF_RB_FORCE_WAKEUP;
  return oc_wakeup_soon();
}
static __always_inline void oc_submit_lazily(void* record) {
  bpf_ringbuf_submit(record, oc_lazy_wakeup());
}
static __always_inline void oc_submit_now(void* record) {
  bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}
/* Sends a record of variable length that was built elsewhere. */
static __always_inline void oc_send_event(void* record, u32 size) {
  if (bpf_ringbuf_output(&events, record, size, BPF_RB_FORCE_WAKEUP)) oc_count_lost(OC_LOST_EVENTS_RING_FULL);
}

#endif
