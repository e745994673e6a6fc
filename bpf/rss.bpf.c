/* Growth: absolute usage of the running task's memory cgroups and of its process, read where it is cheap.
 *
 * on_tick runs on the kernel's own tick of each busy CPU. It brings no interrupt of its own: a clock of ours,
 * which a perf event would be, costs 25-30 us a beat in a virtual machine, whatever is done in it, and wakes
 * idle CPUs. on_rss_stat runs on every change of a process's RSS. It is attached only where that exactness is
 * worth its dispatch, 3-5 % of a fault-bound program: while a cgroup in scope is about to hit its limit.
 */

#include "accounting.bpf.h"
#include "emit.bpf.h"
#include "last_sent.bpf.h"
#include "task.bpf.h"

/* Whether the value is worth a record; if so, remembers it as last sent. */
static __always_inline enum oc_send next_to_send(struct oc_last* last, u64 pages, u64 now, u64 step_pages) {
  enum oc_send send = oc_worth_sending(last->pages, last->time_ns, pages, now, step_pages, oc_interval_ns);
  if (send == OC_SEND_NOTHING) return send;
  last->pages = pages;
  last->time_ns = now;
  return send;
}

/* A global function, verified once and by itself: inlined into the walk up the tree it takes the verifier 160
 * ms. Such functions take no kernel pointers, so these come as numbers; they are only read with probe reads.
 */
__noinline int sample_cgroup(u64 css_address, u64 parent_address, u64 step_pages, u64 now) {
  struct cgroup_subsys_state* css = (struct cgroup_subsys_state*)css_address;
  struct cgroup_subsys_state* parent = (struct cgroup_subsys_state*)parent_address;
  u64 id = oc_css_id(css);
  struct mem_cgroup* memcg = (struct mem_cgroup*)css;
  u64 usage = BPF_CORE_READ(memcg, memory.usage.counter);
  enum oc_send send = OC_SEND_MOVED;
  bool idle = oc_is_idle(usage);
  struct oc_last* last = bpf_map_lookup_elem(&last_cgroup, &id);
  if (!last && idle) last = bpf_map_lookup_elem(&last_idle, &id);
  if (last) {
    send = next_to_send(last, usage, now, step_pages);
    if (send == OC_SEND_NOTHING) return 0;
  } else {
    struct oc_last first = {.pages = usage, .time_ns = now};
    if (oc_keep_last(id, &first, idle, BPF_ANY)) {
      oc_count_lost(OC_LOST_CGROUP_TABLE_FULL);
      return 0;
    }
  }
  struct oc_cgroup_sample* r = OC_RESERVE_SAMPLE(OC_CGROUP_SAMPLE, oc_cgroup_sample);
  if (!r) return 0;
  oc_fill_memcg(&r->memcg, css);
  r->parent_id = oc_css_id(parent);
  r->moved = send == OC_SEND_MOVED;
  r->_pad = 0;
  if (send == OC_SEND_MOVED)
    oc_submit_now(r);
  else
    oc_submit_lazily(r);
  return 0;
}

__noinline int sample_process(u64 task_address, u64 step_pages, u64 now) {
  struct task_struct* task = (struct task_struct*)task_address;
  struct mm_struct* mm = BPF_CORE_READ(task, mm);
  /* A kernel thread borrows a process's memory to work for it, as vhost does. And of who exits on_exit may
   * have been: nobody would remove what is kept from now on. */
  if (!mm || (BPF_CORE_READ(task, flags) & (OC_PF_EXITING | OC_PF_KTHREAD))) return 0;
  u32 tgid = bpf_get_current_pid_tgid() >> 32;
  u64 pages = oc_rss_pages(mm, OC_MM_ANON) + oc_rss_pages(mm, OC_MM_FILE) + oc_rss_pages(mm, OC_MM_SHMEM);
  struct oc_last* last = bpf_map_lookup_elem(&last_process, &tgid);
  if (last) {
    if (next_to_send(last, pages, now, step_pages) == OC_SEND_NOTHING) return 0;
  } else {
    struct oc_last first = {.pages = pages, .time_ns = now};
    if (bpf_map_update_elem(&last_process, &tgid, &first, BPF_ANY)) {
      oc_count_lost(OC_LOST_PROCESS_TABLE_FULL);
      return 0;
    }
  }
  struct oc_process_sample* r = OC_RESERVE_SAMPLE(OC_PROCESS_SAMPLE, oc_process_sample);
  if (!r) return 0;
  oc_fill_task(&r->task, task);
  oc_fill_memory(&r->memory, task);
  oc_submit_lazily(r);
  return 0;
}

static __always_inline void sample_current(void) {
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct cgroup_subsys_state* chain[OC_CHAIN_LEN + 1] = {};
  u64 limits[OC_CHAIN_LEN] = {};
  struct cgroup_subsys_state* css = oc_memory_css(task);
  u64 now = bpf_ktime_get_ns();
  u32 levels = 0;
  for (u32 i = 0; i < OC_CHAIN_LEN && css; i++) {
    chain[i] = css;
    limits[i] = BPF_CORE_READ((struct mem_cgroup*)css, memory.max);
    css = BPF_CORE_READ(css, parent);
    levels = i + 1;
  }
  /* From the root down, so that each level's step follows the tightest limit above it. The root itself is not
   * charged: its level is the host's, which user space reads. */
  u64 limit = oc_host_pages;
  for (u32 n = OC_CHAIN_LEN; n > 0; n--) {
    u32 i = n - 1;
    if (i >= levels || !chain[i + 1]) continue;
    if (limits[i] < limit) limit = limits[i];
    sample_cgroup((u64)chain[i], (u64)chain[i + 1], oc_step_pages(limit), now);
  }
  sample_process((u64)task, oc_step_pages(limit), now);
}

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
} last_tick SEC(".maps");

/* Of the kernel's timers the tick is one: the first to expire on this CPU in a new oc_tick_jiffies is taken
 * for it. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_tick) {
  if (!(u32)bpf_get_current_pid_tgid()) return 0; /* idle */
  u32 zero = 0;
  u64* last = bpf_map_lookup_elem(&last_tick, &zero);
  u64 now = bpf_jiffies64();
  if (!last || now - *last < oc_tick_jiffies) return 0;
  *last = now;
  sample_current();
  return 0;
}

/* The same on a perf clock event, only for CPUs without a tick while one task runs (nohz_full). */
SEC("perf_event")
int on_clock(struct bpf_perf_event_data* ctx) {
  if ((u32)bpf_get_current_pid_tgid()) sample_current();
  return 0;
}

struct oc_exact_look {
  u64 mm;
  s64 pages;
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_exact_look);
} last_exact_look SEC(".maps");

#define EXACT_LOOK_PAGES 128 /* half the least step */

SEC("tp_btf/rss_stat")
int BPF_PROG(on_rss_stat, struct mm_struct* mm) {
  u32 zero = 0;
  struct oc_exact_look* last = bpf_map_lookup_elem(&last_exact_look, &zero);
  if (!last) return 0;
  s64 pages = oc_resident_pages(mm);
  s64 moved = pages - last->pages;
  if (last->mm == (u64)mm && moved < EXACT_LOOK_PAGES && moved > -EXACT_LOOK_PAGES) return 0;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  /* Reclaim and process_vm_writev() change another process's counters from here. */
  if (BPF_CORE_READ(task, mm) != mm) return 0;
  last->mm = (u64)mm;
  last->pages = pages;
  sample_current();
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
