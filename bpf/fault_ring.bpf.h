/* The ring of page faults and allocations, and what stands in the way of a stack while an allocator is
 * watched. */
#ifndef OOMCAST_FAULT_RING_BPF_H
#define OOMCAST_FAULT_RING_BPF_H

#include "user_stack.bpf.h"

struct { /* 8 MiB: 300 full stacks, several thousand usual ones */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 8 * 1024 * 1024);
} faults __weak SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, OC_FAULT_LOST_REASONS);
  __type(key, u32);
  __type(value, u64);
} faults_lost __weak SEC(".maps");

struct oc_event_context { /* struct bpf_perf_event_data, which BPF sees in this form */
  u64 registers[SAVED];
  u64 sample_period;
  u64 addr;
};

/* Only for perf event programs: the kernel does not let them interrupt each other on a CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_fault);
} event_buffer __weak SEC(".maps");

/* A call of the allocator in progress. */
struct oc_allocating {
  u64 size;
  u64 sp;     /* where its return address stands, */
  u64 caller; /* and that address: a probe of returns puts the kernel's own in its place */
  u64 out;    /* posix_memalign's first argument */
  u64 weight;
  u64 since_ns;
  u64 old;               /* realloc's first argument, */
  struct oc_block known; /* and what was known of it; born 0: nothing */
  u32 function;
  u32 _pad;
};

struct { /* 1 MiB; removed at the return */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 8192);
  __type(key, u64); /* tgid and tid */
  __type(value, struct oc_allocating);
} allocating __weak SEC(".maps");

/* Where the breakpoint at its return was taken away while a thread was in the function, nothing ends its
 * entry. */
#define OC_LONGEST_CALL_NS 1000000000ull
static __always_inline bool goes_on(const struct oc_allocating* a) {
  return bpf_ktime_get_ns() - a->since_ns < OC_LONGEST_CALL_NS;
}

/* While a thread is in a function whose return is probed, its stack has the kernel's trampoline in place of
 * the caller: no unwinder gets past that. */
static __always_inline void mend_stack(struct oc_user_stack* r, u64 sp) {
  u64 thread = bpf_get_current_pid_tgid();
  struct oc_allocating* a = bpf_map_lookup_elem(&allocating, &thread);
  if (!a || a->sp < sp || !goes_on(a)) return;
  u64 at = a->sp - sp;
  if (at > OC_STACK_BYTES - sizeof(u64)) return;
  u64 caller = a->caller;
  __builtin_memcpy(&r->stack[at], &caller, sizeof(caller));
}

static __always_inline void count_lost(u32 reason) {
  u64* count = bpf_map_lookup_elem(&faults_lost, &reason);
  if (count) (*count)++;
}

#define OC_WAKE_EVERY_NS 10000000
__weak unsigned long long woken_ns; /* racing CPUs wake once more */

/* The reader is woken every 10 ms, and by every quarter of the ring: what it is late for may have ended, and
 * taken its names with it. */
/* false: no room. */
static __always_inline bool send_record(void* record, u64 size, u64 now, u32 loss) {
  bool wake =
      now - woken_ns > OC_WAKE_EVERY_NS || bpf_ringbuf_query(&faults, BPF_RB_AVAIL_DATA) > 2 * 1024 * 1024;
  if (wake) woken_ns = now;
  if (bpf_ringbuf_output(&faults, record, size, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP)) {
    count_lost(loss);
    return false;
  }
  return true;
}

#endif
