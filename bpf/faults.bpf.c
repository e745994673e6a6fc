/* Which code touches new memory: samples of page faults with the registers, the stack and the Python frames of the
 * thread at that moment. An object of its own, loaded only while blame runs.
 *
 * on_fault runs at every minor fault, after the kernel has handled it, in the windows for which user space
 * opens the event (collect/fault_budget.h). A fault may bring 4 KiB or 2 MiB, so that what counts is not
 * faults but what the process grew by since the one before.
 */

#include "fault_ring.bpf.h"
#include "record.bpf.h"
#include "task.bpf.h"

const volatile unsigned int oc_scope_by_cgroup = 0;
const volatile unsigned int oc_scope_by_process = 0;
/* Who asks, and its children: to read what they do makes them do more. */
const volatile unsigned int oc_asking_tgid = 0;
const volatile unsigned long long oc_ns_per_tick = 10000000; /* of user space, in which TaskId has it */
unsigned long long oc_sample_pages = 64; /* a record for about so much; may change while it runs */
unsigned long long oc_window = 1;        /* number of the window of watching */
/* Descendants of a process in scope that found no room: told only while those between live. */
unsigned long long oc_scope_lost = 0;
/* The counters' maximum lag: each CPU keeps changes up to this size to itself. */
const volatile long long oc_lag_pages = 64;

struct { /* on each CPU, in or out of scope: what watching has cost */
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
} fault_count SEC(".maps");

struct { /* on each CPU: how many more may be looked at, should user space come late to close the event */
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
} fault_allowance SEC(".maps");

struct { /* cgroup ids, or oc_scope_of_process(); all there from the beginning, as 5.10 wants it of perf_event
            programs */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16384);
  __type(key, u64);
  __type(value, u32);
} fault_scope SEC(".maps");

struct { /* 2 MiB; a process that falls out begins anew */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, u32); /* tgid */
  __type(value, struct oc_growth);
} growth SEC(".maps");

static __always_inline bool cgroup_in_scope(struct task_struct* task) {
  struct cgroup_subsys_state* css = oc_memory_css(task);
  for (int level = 0; level < OC_CHAIN_LEN && css; ++level) {
    u64 id = oc_css_id(css);
    if (bpf_map_lookup_elem(&fault_scope, &id)) return true;
    css = BPF_CORE_READ(css, parent);
  }
  return false;
}

/* What is asked at each fault. The verifier knows the task that runs, so that this takes loads: with a helper
 * for each it was most of what the program took. on_fault_before_5_15 takes the helpers. */
struct faulting {
  struct mm_struct* mm;
  u64 start_ns; /* of the process */
  u64 faults;   /* of the thread, with those that the event has not: the kernel's for a system call,
                   MAP_POPULATE's */
  u32 flags, thread;
  u32 tgid, parent; /* 0: user space sees no such process */
};

static __always_inline bool look(struct faulting* f, bool modern) {
  struct task_struct* task = (void*)bpf_get_current_task();
  if (modern) {
    struct task_struct* known = (void*)bpf_get_current_task_btf();
    f->mm = known->mm;
    if (!f->mm) return false;
    f->flags = known->flags;
    f->thread = known->pid;
    f->tgid = oc_pid_namespace ? oc_seen_tgid(task) : known->tgid;
    f->parent = oc_pid_namespace ? oc_seen_tgid(BPF_CORE_READ(task, real_parent)) : known->real_parent->tgid;
    f->start_ns = known->group_leader->start_boottime;
    f->faults = known->min_flt + known->maj_flt;
  } else {
    f->mm = BPF_CORE_READ(task, mm);
    f->flags = BPF_CORE_READ(task, flags);
    f->thread = BPF_CORE_READ(task, pid);
    f->tgid = oc_seen_tgid(task);
    f->parent = oc_seen_tgid(BPF_CORE_READ(task, real_parent));
    f->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
    f->faults = BPF_CORE_READ(task, min_flt) + BPF_CORE_READ(task, maj_flt);
  }
  return f->mm;
}

static __always_inline u64 scope_key(struct task_struct* task) {
  return oc_scope_of_process(oc_seen_tgid(task),
                             BPF_CORE_READ(task, group_leader, start_boottime) / oc_ns_per_tick);
}

#define OC_ANCESTORS 8
static __always_inline bool process_in_scope(struct task_struct* task, const struct faulting* f) {
  u64 self = oc_scope_of_process(f->tgid, f->start_ns / oc_ns_per_tick);
  if (bpf_map_lookup_elem(&fault_scope, &self)) return true;
  for (int level = 1; level < OC_ANCESTORS; ++level) {
    task = BPF_CORE_READ(task, real_parent);
    if (BPF_CORE_READ(task, tgid) <= 1) return false;
    u64 key = scope_key(task);
    if (bpf_map_lookup_elem(&fault_scope, &key)) {
      u32 yes = 1; /* known by itself from now on: its parent may end before it does */
      long failed = bpf_map_update_elem(&fault_scope, &self, &yes, BPF_ANY);
      __sync_fetch_and_add(&oc_scope_lost,
                           (u64)failed >> 63); /* the verifier would walk both ways of an if */
      return true;
    }
  }
  return false;
}

struct weight {
  u64 pages, faults;
};

/* What this fault stands for; no pages: not yet worth a record. */
static __always_inline struct weight weigh(const struct faulting* f, bool modern) {
  struct weight none = {};
  u32 tgid = f->tgid;
  u64 mm = (u64)f->mm;
  if (!tgid) return none;
  s64 resident = oc_kept_pages(f->mm, modern);
  struct oc_growth* g = bpf_map_lookup_elem(&growth, &tgid);
  if (g && !g->mm) g->mm = mm; /* user space knew it when the first window began */
  if (!g || g->mm != mm) {
    struct oc_growth first = {
        .mm = mm, .resident_pages = resident, .gathered = 1, .faults = 1, .window = oc_window};
    bpf_map_update_elem(&growth, &tgid, &first, BPF_ANY);
    return none;
  }
  s64 grown = resident - oc_replace(&g->resident_pages, resident, modern);
  if (g->window != oc_window) {
    g->window = oc_window;
    g->thread = 0; /* what it counted while nobody watched is no sample's */
    grown = 0;
  }
  /* Pages of the thread's other faults do not count for this one. */
  u64 between = g->thread == f->thread && f->faults > g->thread_faults ? f->faults - g->thread_faults : 1;
  g->thread = f->thread;
  g->thread_faults = f->faults;
  s64 share = grown > 0 ? (u64)grown / between : 0;
  s64 credit = share - g->ahead > 1 ? share - g->ahead : 1;
  s64 ahead = g->ahead + credit - share;
  g->ahead = ahead < 0 ? 0 : ahead > oc_lag_pages ? oc_lag_pages : ahead;
  __sync_fetch_and_add(&g->faults, between);
  __sync_fetch_and_add(&g->gathered, credit);
  if (g->gathered < g->wanted) return none;
  g->wanted = oc_sample_pages / 2 + bpf_get_prandom_u32() % (u32)(oc_sample_pages | 1);
  struct weight out = {.pages = oc_take(&g->gathered, modern), .faults = oc_take(&g->faults, modern)};
  return out;
}

static __always_inline void find_registers(struct oc_user_stack* r, struct task_struct* task, bool modern) {
  u64 saved[SAVED];
  if (bpf_probe_read_kernel(saved, sizeof(saved), oc_user_registers(task, sizeof(saved), modern))) {
    __builtin_memset(r->registers, 0, sizeof(r->registers));
    return;
  }
  fill_registers(r, saved);
}

static __always_inline int sample(struct oc_event_context* ctx, bool modern) {
  struct task_struct* task = (void*)bpf_get_current_task();
  u32 zero = 0;
  u64* count = bpf_map_lookup_elem(&fault_count, &zero);
  if (count) ++*count;
  u64* allowance = bpf_map_lookup_elem(&fault_allowance, &zero);
  if (!allowance || !*allowance) return 0;
  struct faulting faulting;
  if (!look(&faulting, modern)) return 0;
  --*allowance;
  if (faulting.flags & OC_PF_KTHREAD) return 0; /* the memory is another's, as of vhost */
  if (oc_asking_tgid && (faulting.tgid == oc_asking_tgid || faulting.parent == oc_asking_tgid)) return 0;
  if (oc_scope_by_cgroup && !cgroup_in_scope(task)) return 0;
  if (oc_scope_by_process && !process_in_scope(task, &faulting)) return 0;
  struct weight weight = weigh(&faulting, modern);
  if (!weight.pages) return 0;
  struct oc_fault* r = bpf_map_lookup_elem(&event_buffer, &zero);
  if (!r) return 0;
  u64 now = bpf_ktime_get_ns();
  oc_fill_seen_task(&r->task, task);
  oc_fill_memory(&r->memory, task);
  r->address = ctx->addr;
  r->weight_pages = weight.pages;
  r->faults = weight.faults;
  find_registers(&r->user, task, modern);
  copy_stack(&r->user, task, r->user.registers[7]);
  mend_stack(&r->user, r->user.registers[7]);
  oc_read_python(&r->user.python, task);
  u32 size = __builtin_offsetof(struct oc_fault, user.stack) + r->user.stack_bytes;
  if (size > sizeof(*r)) return 0;
  oc_fill_header_at(&r->header, OC_FAULT, size, now);
  send_record(r, size, now, OC_LOST_FAULTS_RING_FULL);
  return 0;
}

SEC("perf_event")
int on_fault(struct oc_event_context* ctx) {
  return sample(ctx, true);
}

SEC("?perf_event") /* before 5.15: no bpf_task_pt_regs() */
int on_fault_before_5_15(struct oc_event_context* ctx) {
  return sample(ctx, false);
}

char LICENSE[] SEC("license") = "GPL";
