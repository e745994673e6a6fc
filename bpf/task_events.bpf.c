/* Fork, exec and exit of processes (threads are no events here). */
#include "emit.bpf.h"
#include "task.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct* parent, struct task_struct* child) {
  if (child->pid != child->tgid) return 0;
  struct oc_fork* r = OC_RESERVE_SAMPLE(OC_FORK, oc_fork);
  if (!r) return 0;
  oc_fill_task_argument(&r->child, child);
  oc_submit_lazily(r);
  return 0;
}

/* A record is as long as its argv, so it is built here first. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_exec);
} exec_scratch SEC(".maps");

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct* task) {
  u32 zero = 0;
  struct oc_exec* r = bpf_map_lookup_elem(&exec_scratch, &zero);
  if (!r) return 0;
  struct mm_struct* mm = task->mm;
  oc_fill_task_argument(&r->task, task);
  r->args_truncated = 0;
  u32 args_bytes = mm ? oc_read_args(r->args, &r->args_truncated, mm) : 0;
  asm volatile("" : "+r"(args_bytes)); /* the verifier needs the bound that the compiler knows already */
  if (args_bytes > OC_ARGS_LEN) args_bytes = OC_ARGS_LEN;
  r->args_bytes = args_bytes;
  u32 size = sizeof(*r) - OC_ARGS_LEN + args_bytes;
  oc_fill_header(&r->header, OC_EXEC, size);
  if (bpf_ringbuf_output(&samples, r, size, oc_lazy_wakeup())) oc_count_lost(OC_LOST_SAMPLES_RING_FULL);
  return 0;
}

static __always_inline void fill_exit(struct oc_exit* r, struct task_struct* task) {
  oc_fill_task_argument(&r->task, task);
  r->exit_code = task->exit_code;
  r->_pad = 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct* task) {
  if (task->signal->live.counter) return 0; /* threads are left */
  u32 tgid = task->tgid;
  /* Looking is cheaper than deleting, and few are in either. */
  if (bpf_map_lookup_elem(&last_process, &tgid)) bpf_map_delete_elem(&last_process, &tgid);
  if (bpf_map_lookup_elem(&victims, &tgid)) {
    bpf_map_delete_elem(&victims, &tgid);
    struct oc_exit* r = OC_RESERVE_EVENT(OC_VICTIM_EXIT, oc_exit);
    if (!r) return 0;
    fill_exit(r, task);
    oc_submit_now(r);
  } else {
    struct oc_exit* r = OC_RESERVE_SAMPLE(OC_EXIT, oc_exit);
    if (!r) return 0;
    fill_exit(r, task);
    oc_submit_lazily(r);
  }
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
