/* Lists processes whose mmap_lock is held: user space checks before it sets or clears breakpoints
 * (collect/held_locks.h). Takes no lock, so a single answer may be stale; several equal ones are reliable. */

#include "numbers.bpf.h"
#include "wire_faults.h"

/* Bits of rw_semaphore.count. PREEMPT_RT kernels use another lock, which is not reported. */
#define OC_LOCK_WRITER 1ULL
#define OC_LOCK_READERS (~0ULL >> 1 & ~0xffULL)
#define OC_LOCK_OWNER_FLAGS 7ULL

/* Each process once, by its group leader; if that has exited, by every other thread. */
SEC("iter/task")
int held_locks(struct bpf_iter__task* ctx) {
  struct seq_file* seq = ctx->meta->seq;
  struct task_struct* task = ctx->task;
  if (!task || !bpf_core_field_exists(struct rw_semaphore, count)) return 0;
  if (task->pid != task->tgid && BPF_CORE_READ(task, group_leader, mm)) return 0;
  struct mm_struct* mm = task->mm;
  if (!mm) return 0;
  u64 count = BPF_CORE_READ(mm, mmap_lock.count.counter);
  if (!(count & (OC_LOCK_WRITER | OC_LOCK_READERS))) return 0;
  struct oc_held_lock held = {.tgid = oc_seen_tgid(task)};
  held.owner = BPF_CORE_READ(mm, mmap_lock.owner.counter) & ~OC_LOCK_OWNER_FLAGS;
  struct task_struct* owner = (struct task_struct*)held.owner;
  held.ran_ns = BPF_CORE_READ(owner, se.sum_exec_runtime);
  bpf_seq_write(seq, &held, sizeof(held));
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
