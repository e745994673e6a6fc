/* Reads the Python line of an OOM victim in its own context, while its memory is still there. */
#include "emit.bpf.h"
#include "python_code.bpf.h"
#include "task.bpf.h"

#define OC_TOLD_THREADS 8                         /* of one victim */
#define OC_MOST_IN_RING (OC_EVENTS_BYTES / 4 * 3) /* what says who was killed matters more */

struct { /* 1.6 KiB a CPU */
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_python_stack);
} dying_stack SEC(".maps");

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_dying_code, int sig) {
  if (sig != OC_SIGKILL) return 0;
  u32 tgid = bpf_get_current_pid_tgid() >> 32;
  struct oc_victim* victim = oc_victim_of(tgid);
  if (!victim || victim->told >= OC_TOLD_THREADS) return 0;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct oc_python_layout* layout = oc_python_layout_of(task);
  u32 zero = 0;
  struct oc_python_stack* stack = bpf_map_lookup_elem(&dying_stack, &zero);
  if (!layout || !stack) return 0;
  oc_read_python(stack, task);
  if (!stack->count) return 0;
  if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > OC_MOST_IN_RING) {
    oc_count_lost(OC_LOST_DYING_CODE_NO_ROOM);
    return 0;
  }
  struct oc_dying_code* r = OC_RESERVE_EVENT(OC_DYING_CODE, oc_dying_code);
  if (!r) return 0;
  victim->told++;
  oc_fill_task(&r->task, task);
  oc_copy_code(r, stack, layout);
  oc_submit_now(r);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
