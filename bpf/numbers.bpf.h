/* Pids as user space sees them: in a pid namespace, as in a container, they differ from the kernel's. */
#ifndef OOMCAST_NUMBERS_BPF_H
#define OOMCAST_NUMBERS_BPF_H

#include "compat.bpf.h"

/* Set by user space before load: the inode of its pid namespace; 0: the initial one. */
__weak const volatile unsigned int oc_pid_namespace SEC(".rodata") = 0;

#define OC_PID_LEVELS 32 /* MAX_PID_NS_LEVEL */

/* Where it has its number of one level of nesting. */
static __always_inline char* oc_upid(struct pid* pid, u32 level) {
  return (char*)pid + bpf_core_field_offset(struct pid, numbers) +
         (u64)(level % OC_PID_LEVELS) * bpf_core_type_size(struct upid);
}

/* A process's pid in its own pid namespace, which is the innermost. */
static __always_inline u32 oc_pid_number(struct pid* pid, u32 level) {
  int nr = 0;
  if (pid)
    bpf_probe_read_kernel(&nr, sizeof(nr), oc_upid(pid, level) + bpf_core_field_offset(struct upid, nr));
  return nr;
}

/* 0: it has none there. */
static __noinline u32 oc_number_in_namespace(struct pid* pid) {
  u32 innermost = BPF_CORE_READ(pid, level);
  for (u32 level = 0; level < OC_PID_LEVELS && level <= innermost; ++level) {
    struct pid_namespace* ns = 0;
    bpf_probe_read_kernel(&ns, sizeof(ns), oc_upid(pid, level) + bpf_core_field_offset(struct upid, ns));
    if (BPF_CORE_READ(ns, ns.inum) == oc_pid_namespace) return oc_pid_number(pid, level);
  }
  return 0;
}

/* 0: the process is not visible to user space. */
static __always_inline u32 oc_seen_tgid(struct task_struct* task) {
  if (!oc_pid_namespace) return BPF_CORE_READ(task, tgid);
  return oc_number_in_namespace(BPF_CORE_READ(task, group_leader, thread_pid));
}

static __always_inline u32 oc_seen_tgid_of_current(void) {
  return oc_pid_namespace ? oc_seen_tgid((void*)bpf_get_current_task()) : bpf_get_current_pid_tgid() >> 32;
}

#endif
