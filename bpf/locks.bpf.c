/* Which processes' memory is locked at this moment: user space asks before breakpoints are set or cleared
 * (collect/held_locks.h). Nothing is waited for, so each answer may be wrong of its moment; several that are
 * the same are not. */

#include "numbers.bpf.h"
#include "wire_faults.h"

/* Of rw_semaphore.count. A kernel with PREEMPT_RT has another lock, of which nothing is told. */
#define OC_LOCK_WRITER 1ULL
#define OC_LOCK_READERS (~0ULL >> 1 & ~0xffULL)
#define OC_LOCK_OWNER_FLAGS 7ULL

/* Each process once, by its first thread, or if that has ended by all others. */
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
