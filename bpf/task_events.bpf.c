/* Fork, exec and exit of processes (threads are no events here). */
#include "emit.bpf.h"
#include "task.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct* parent, struct task_struct* child) {
  child = oc_untrusted(child);
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
  task = oc_untrusted(task);
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

#define OC_EEXIST 17
#define OC_SIGNAL_GROUP_EXIT 0x00000004
/* The process's, not that of the thread which happens to be here: as wait_task_zombie() chooses it. */
static __always_inline void fill_exit(struct oc_exit* r, struct task_struct* task) {
  oc_fill_task_argument(&r->task, task);
  if (task->signal->flags & OC_SIGNAL_GROUP_EXIT)
    r->exit_code = task->signal->group_exit_code;
  else
    r->exit_code = task->group_leader->exit_code;
  r->_pad = 0;
}

struct oc_ended {
  u64 start_ns;
  u32 tgid;
  u32 _pad;
};
struct { /* processes of several threads */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, struct oc_ended);
  __type(value, u32);
} ended SEC(".maps");

/* Up to 6.15 each thread gives back the memory between its end and this tracepoint, and may wait for long: of
 * a thousand threads hundreds come here when none is left. (A leader that comes when all others are gone is
 * told again.) */
static __always_inline bool was_told(struct task_struct* task) {
  if (task->signal->nr_threads < 2) return false;
  struct oc_ended key = {.start_ns = task->group_leader->start_boottime, .tgid = task->tgid};
  u32 yes = 1;
  return bpf_map_update_elem(&ended, &key, &yes, BPF_NOEXIST) == -OC_EEXIST;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct* task) {
  task = oc_untrusted(task);
  if (task->signal->live.counter) return 0; /* threads are left */
  if (was_told(task)) return 0;
  u32 tgid = task->tgid;
  /* A lookup is cheaper than a delete, and few tasks are in either map. */
  if (bpf_map_lookup_elem(&last_process, &tgid)) bpf_map_delete_elem(&last_process, &tgid);
  if (oc_victim_of(tgid)) {
    bpf_map_delete_elem(&marked_victims, &tgid);
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
