/* Fills the records' descriptions of tasks, their memory and their memory cgroups. */
#ifndef OOMCAST_TASK_BPF_H
#define OOMCAST_TASK_BPF_H

#include "numbers.bpf.h"

#define OC_PF_EXITING 0x00000004
#define OC_PF_WQ_WORKER 0x00000020
#define OC_PF_KTHREAD 0x00200000

/* Of a tracepoint's own argument the verifier knows the type: it allows no arithmetic with it, nor global
 * functions that take it. A copy is a number like any other. */
static __always_inline u64 oc_as_number(const void* pointer) {
  u64 number = 0;
  bpf_probe_read_kernel(&number, sizeof(number), &pointer);
  return number;
}

static __always_inline u64 oc_css_id(struct cgroup_subsys_state* css) {
  return css ? BPF_CORE_READ(css, cgroup, kn, id) : OC_NO_CGROUP;
}

static __always_inline void oc_fill_task_rest(struct oc_task* out, struct task_struct* task, u32 flags) {
  out->flags =
      (flags & OC_PF_EXITING ? OC_TASK_EXITING : 0) | (flags & OC_PF_WQ_WORKER ? OC_TASK_WORKQUEUE : 0);
  out->_pad = 0;
  bpf_probe_read_kernel(out->comm, sizeof(out->comm),
                        (char*)task + bpf_core_field_offset(struct task_struct, comm));
}

static __always_inline void oc_fill_task(struct oc_task* out, struct task_struct* task) {
  struct task_struct* leader = BPF_CORE_READ(task, group_leader);
  struct task_struct* parent = BPF_CORE_READ(leader, real_parent);
  struct pid* pid = BPF_CORE_READ(leader, thread_pid);
  out->tgid = BPF_CORE_READ(task, tgid);
  out->tid = BPF_CORE_READ(task, pid);
  out->start_ns = BPF_CORE_READ(leader, start_boottime);
  out->parent_tgid = BPF_CORE_READ(parent, tgid);
  out->parent_start_ns = BPF_CORE_READ(parent, group_leader, start_boottime);
  out->ns_tgid = oc_pid_number(pid, BPF_CORE_READ(pid, level));
  out->cgroup_id = oc_css_id(oc_memory_css(task));
  out->uid = BPF_CORE_READ(task, real_cred, uid.val);
  out->oom_score_adj = BPF_CORE_READ(task, signal, oom_score_adj);
  oc_fill_task_rest(out, task, BPF_CORE_READ(task, flags));
}

/* The same of a tracepoint's own argument, which may be read without a helper: less than half the cost. The
 * task that runs cannot be read so, because 5.10 has no bpf_get_current_task_btf() to make it known to the
 * verifier. */
static __always_inline void oc_fill_task_argument(struct oc_task* out, struct task_struct* task) {
  struct task_struct* leader = task->group_leader;
  struct task_struct* parent = leader->real_parent;
  struct pid* pid =
      BPF_CORE_READ(leader, thread_pid); /* as a number: 6.1 does not index behind a known struct */
  struct cgroup_subsys_state* css = *(struct cgroup_subsys_state**)((char*)task->cgroups + OC_MEMORY_SUBSYS);
  out->tgid = task->tgid;
  out->tid = task->pid;
  out->start_ns = leader->start_boottime;
  out->parent_tgid = parent->tgid;
  out->parent_start_ns = parent->group_leader->start_boottime;
  out->ns_tgid = oc_pid_number(pid, leader->thread_pid->level);
  out->cgroup_id = css ? css->cgroup->kn->id : OC_NO_CGROUP;
  out->uid = task->real_cred->uid.val;
  out->oom_score_adj = task->signal->oom_score_adj;
  oc_fill_task_rest(out, task, task->flags);
}

/* With pids as user space sees them. */
static __always_inline void oc_fill_seen_task(struct oc_task* out, struct task_struct* task) {
  oc_fill_task(out, task);
  if (!oc_pid_namespace) return;
  out->tgid = oc_seen_tgid(task);
  out->tid = oc_number_in_namespace(BPF_CORE_READ(task, thread_pid));
  out->parent_tgid = oc_seen_tgid(BPF_CORE_READ(task, group_leader, real_parent));
}

static __always_inline void oc_fill_memory(struct oc_memory* out, struct task_struct* task) {
  struct mm_struct* mm = BPF_CORE_READ(task, mm);
  if (!mm) {
    out->anon_pages = out->file_pages = out->shmem_pages = out->swap_entries = OC_UNKNOWN_BYTES;
    out->total_vm_pages = out->pgtables_bytes = OC_UNKNOWN_BYTES;
    out->mm_key = 0;
    return;
  }
  out->anon_pages = oc_rss_pages(mm, OC_MM_ANON);
  out->file_pages = oc_rss_pages(mm, OC_MM_FILE);
  out->shmem_pages = oc_rss_pages(mm, OC_MM_SHMEM);
  out->swap_entries = oc_rss_pages(mm, OC_MM_SWAP);
  out->total_vm_pages = BPF_CORE_READ(mm, total_vm);
  out->pgtables_bytes = BPF_CORE_READ(mm, pgtables_bytes.counter);
  out->mm_key = (u64)mm;
}

/* mem_cgroup begins with its css, so the two share an address. Without a branch, because the verifier walks
 * every path of every level: a null css reads as zeroes, which is OC_NO_CGROUP. */
static __always_inline void oc_fill_memcg(struct oc_memcg* out, struct cgroup_subsys_state* css) {
  struct mem_cgroup* memcg = (struct mem_cgroup*)css;
  out->id = BPF_CORE_READ(css, cgroup, kn, id);
  out->usage_pages = BPF_CORE_READ(memcg, memory.usage.counter);
  out->limit_pages = BPF_CORE_READ(memcg, memory.max);
  out->watermark_pages = BPF_CORE_READ(memcg, memory.watermark);
  out->oom_lock = oc_has_oom_lock() ? BPF_CORE_READ(memcg, oom_lock) : 0;
  out->oom_group = BPF_CORE_READ(memcg, oom_group);
}

/* A task's argv as it stands in its memory now, as /proc shows it; only in its own context. Bytes read, 0 if
 * unreadable. A title that was written over argv and runs on into the environment ends at its first NUL. */
static __always_inline u32 oc_read_args(char* to, u32* truncated, struct mm_struct* mm) {
  u64 start = BPF_CORE_READ(mm, arg_start);
  u64 end = BPF_CORE_READ(mm, arg_end);
  if (end <= start) return 0;
  char last = 0;
  if (bpf_probe_read_user(&last, sizeof(last), (void*)(end - 1))) return 0;
  if (last) {
    long bytes = bpf_probe_read_user_str(to, OC_ARGS_LEN, (void*)start);
    *truncated = bytes == OC_ARGS_LEN;
    return bytes > 0 && bytes <= OC_ARGS_LEN ? bytes : 0;
  }
  u64 size = end - start;
  *truncated = size > OC_ARGS_LEN;
  if (size > OC_ARGS_LEN) size = OC_ARGS_LEN;
  /* The mask tells the verifier what the comparison above already guarantees. */
  u32 bytes = size & (2 * OC_ARGS_LEN - 1);
  if (bytes > OC_ARGS_LEN || !bytes) return 0;
  return bpf_probe_read_user(to, bytes, (void*)start) ? 0 : bytes;
}

#endif
