/* Which line makes a container longer: the processor stops behind each write to its length, by a data
 * breakpoint (PERF_TYPE_BREAKPOINT) of each thread. Nothing of the program is changed, and each is armed for
 * a few writes at a time (collect/bpf_source_additions.h): one takes the program some microseconds.
 */

#include "fault_ring.bpf.h"
#include "record.bpf.h"
#include "task.bpf.h"

struct { /* written by user space, too */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, OC_WATCHED_LENGTHS);
  __type(key, struct oc_length_key);
  __type(value, struct oc_length);
} lengths SEC(".maps");

/* What is taken away is no addition, nor is the first write, for nobody knows what was there. While any
 * thread's writes may be missed nothing is: who takes away would seem to add what others added unseen. */
static __always_inline bool is_longer(const struct oc_length_key* key, u64 length) {
  struct oc_length* known = bpf_map_lookup_elem(&lengths, key);
  if (!known) return false;
  u32 number = known->writes; /* who writes to a container has a lock for it: the interpreter's */
  known->writes = number + 1;
  if (known->state != OC_LENGTH_OPEN) return false;
  u64 before = known->length;
  known->length = length;
  if (number + 1 >= OC_LENGTH_WRITES) known->state = OC_LENGTH_DONE;
  return number && length > before;
}

/* 1: the kernel counts it, and disarms the breakpoint after as many as it was armed for. */
SEC("perf_event")
int on_addition(struct oc_event_context* ctx) {
  struct task_struct* task = (void*)bpf_get_current_task();
  struct oc_length_key key = {.at = ctx->addr, .tgid = oc_seen_tgid(task)};
  u64 length = 0, now = bpf_ktime_get_ns();
  u32 zero = 0;
  if (bpf_probe_read_user(&length, sizeof(length), (void*)key.at) || !is_longer(&key, length)) return 1;
  struct oc_addition* r = bpf_map_lookup_elem(&event_buffer, &zero);
  if (!r) return 1;
  oc_fill_seen_task(&r->task, task);
  r->length_at = key.at;
  r->length = length;
  fill_registers(&r->user, ctx->registers);
  copy_stack(&r->user, task, ctx->registers[RSP]);
  oc_read_python(&r->user.python, task);
  u32 size = __builtin_offsetof(struct oc_addition, user.stack) + r->user.stack_bytes;
  if (size > sizeof(*r)) return 1;
  oc_fill_header_at(&r->header, OC_ADDITION, size, now);
  send_record(r, size, now, OC_LOST_FAULTS_RING_FULL);
  return 1;
}

char LICENSE[] SEC("license") = "GPL";
