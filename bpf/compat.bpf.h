/* Every kernel difference. Asked of the running kernel's BTF, never of its version. */
#ifndef OOMCAST_COMPAT_BPF_H
#define OOMCAST_COMPAT_BPF_H

#include "kernel.bpf.h"
#include "wire.h"

enum oc_mm_counter { OC_MM_FILE = 0, OC_MM_ANON = 1, OC_MM_SWAP = 2, OC_MM_SHMEM = 3 };

/* One RSS counter, as get_mm_counter() gives it to the kernel's own OOM line. An atomic in struct mm_rss_stat
 * up to 6.1; since 6.2 (f1a7941243c1) a percpu_counter, whose central count lags by at most batch times CPUs.
 */
static __always_inline s64 oc_rss_pages(struct mm_struct* mm, u32 counter) {
  s64 pages = 0;
  if (bpf_core_type_exists(struct mm_rss_stat)) {
    u64 at = bpf_core_field_offset(struct mm_struct___atomic, rss_stat) +
             bpf_core_field_offset(struct mm_rss_stat, count) + counter * sizeof(s64);
    bpf_probe_read_kernel(&pages, sizeof(pages), (char*)mm + at);
  } else {
    u64 at = bpf_core_field_offset(struct mm_struct, rss_stat) +
             counter * bpf_core_type_size(struct percpu_counter) +
             bpf_core_field_offset(struct percpu_counter, count);
    bpf_probe_read_kernel(&pages, sizeof(pages), (char*)mm + at);
  }
  return pages < 0 ? 0 : pages;
}

/* All that a process holds in memory, from a tracepoint's own argument. A few loads since 6.2; before, the
 * verifier does not see into the array of atomics, and the event is rare because each task gathers 64
 * changes. */
static __always_inline s64 oc_resident_pages(struct mm_struct* mm) {
  if (bpf_core_type_exists(struct mm_rss_stat))
    return oc_rss_pages(mm, OC_MM_ANON) + oc_rss_pages(mm, OC_MM_FILE) + oc_rss_pages(mm, OC_MM_SHMEM);
  return mm->rss_stat[OC_MM_ANON].count + mm->rss_stat[OC_MM_FILE].count + mm->rss_stat[OC_MM_SHMEM].count;
}

/* A process's unreclaimable memory: anonymous, shared and swapped. `known`: the verifier knows this mm's type, so
 * plain loads will do. */
static __always_inline s64 oc_kept_pages(struct mm_struct* mm, bool known) {
  if (!known || bpf_core_type_exists(struct mm_rss_stat))
    return oc_rss_pages(mm, OC_MM_ANON) + oc_rss_pages(mm, OC_MM_SHMEM) + oc_rss_pages(mm, OC_MM_SWAP);
  return mm->rss_stat[OC_MM_ANON].count + mm->rss_stat[OC_MM_SHMEM].count + mm->rss_stat[OC_MM_SWAP].count;
}

/* The memory controller's index differs between configurations, so it is relocated. */
#define OC_MEMORY_SUBSYS_OF(type)               \
  (bpf_core_field_offset(struct type, subsys) + \
   bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void*))
#define OC_MEMORY_SUBSYS OC_MEMORY_SUBSYS_OF(css_set)
static __always_inline struct cgroup_subsys_state* oc_memory_css(struct task_struct* task) {
  struct css_set* set = BPF_CORE_READ(task, cgroups);
  struct cgroup_subsys_state* css = 0;
  bpf_probe_read_kernel(&css, sizeof(css), (char*)set + OC_MEMORY_SUBSYS);
  return css;
}

static __always_inline struct cgroup_subsys_state* oc_memory_css_of(struct cgroup* cgroup) {
  struct cgroup_subsys_state* css = 0;
  bpf_probe_read_kernel(&css, sizeof(css), (char*)cgroup + OC_MEMORY_SUBSYS_OF(cgroup));
  return css;
}

/* The mark left on a memcg and everything below it while its OOM kill is decided. Only where the kernel is
 * built with v1 support since 6.12 (e93d4166b40a); before that always. */
static __always_inline bool oc_has_oom_lock(void) {
  return bpf_core_field_exists(struct mem_cgroup, oom_lock);
}

/* Set by user space before load (KernelFeatures::cast). */
__weak const volatile bool oc_can_cast SEC(".rodata") = false;
extern void* bpf_rdonly_cast(const void* pointer, u32 type) __ksym __weak;

/* For each pointer field loaded from a tracepoint's own argument, verifiers since 6.2 check whether it is trusted,
 * by the names of all kernel types: a fifth of the start-up time of trace. They skip the check for a cast pointer,
 * and at run time the cast is no instruction. */
static __always_inline struct task_struct* oc_untrusted(struct task_struct* task) {
  return oc_can_cast ? bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct)) : task;
}

/* Of the next three `modern` is constant in each program: since 5.12 (5ffa25502b5a) BPF has an exchange,
 * since 5.15 (dd6e10fbd9fb) bpf_task_pt_regs(). Older verifiers refuse the exchange where nothing reaches it,
 * so that the program for them has none, and user space chooses (KernelFeatures::task_registers).
 *
 * Without one, two threads that fault at the same moment may both take what came before: a sum is right again
 * with the next fault, as it is taken off twice as well; of resident pages what came in that moment counts
 * twice. */
static __always_inline u64 oc_take(u64* sum, bool modern) {
  if (modern) return __sync_lock_test_and_set(sum, 0);
  u64 all = *sum;
  __sync_fetch_and_add(sum, -all);
  return all;
}

static __always_inline s64 oc_replace(s64* value, s64 by, bool modern) {
  if (modern) return __sync_lock_test_and_set(value, by);
  s64 before = *value;
  *value = by;
  return before;
}

/* The registers of user space lie at the top of the thread's kernel stack: four pages since 4.x, without
 * padding on the kernels that have no helper to tell. */
#define OC_KERNEL_STACK (4 * 4096)
static __always_inline void* oc_user_registers(struct task_struct* task, u32 bytes, bool modern) {
  if (modern) return (void*)bpf_task_pt_regs(bpf_get_current_task_btf());
  return BPF_CORE_READ(task, stack) + OC_KERNEL_STACK - bytes;
}

#endif
