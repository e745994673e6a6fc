/* Time that tasks stalled in their own reclaim (direct, memcg), by memory cgroup. Sums stay in the kernel. */
#include "emit.bpf.h"
#include "task.bpf.h"

static __always_inline void begin(void) {
  u32 tid = (u32)bpf_get_current_pid_tgid();
  u64 now = bpf_ktime_get_ns();
  if (bpf_map_update_elem(&reclaim_since, &tid, &now, BPF_ANY)) oc_count_lost(OC_LOST_STALL_TABLE_FULL);
}

static __always_inline void end(u64 reclaimed_pages) {
  u32 tid = (u32)bpf_get_current_pid_tgid();
  u64* since = bpf_map_lookup_elem(&reclaim_since, &tid);
  if (!since) return;
  u64 time_ns = bpf_ktime_get_ns() - *since;
  bpf_map_delete_elem(&reclaim_since, &tid);
  u64 id = oc_css_id(oc_memory_css((struct task_struct*)bpf_get_current_task()));
  struct oc_stalls* sum = bpf_map_lookup_elem(&stalls, &id);
  if (!sum) {
    struct oc_stalls none = {};
    bpf_map_update_elem(&stalls, &id, &none, BPF_NOEXIST);
    sum = bpf_map_lookup_elem(&stalls, &id);
    if (!sum) {
      oc_count_lost(OC_LOST_STALL_TABLE_FULL);
      return;
    }
  }
  __sync_fetch_and_add(&sum->count, 1);
  __sync_fetch_and_add(&sum->time_ns, time_ns);
  __sync_fetch_and_add(&sum->reclaimed_pages, reclaimed_pages);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_direct_reclaim_begin) {
  begin();
  return 0;
}
SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_direct_reclaim_end, unsigned long reclaimed_pages) {
  end(reclaimed_pages);
  return 0;
}
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_memcg_reclaim_begin) {
  begin();
  return 0;
}
SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_memcg_reclaim_end, unsigned long reclaimed_pages) {
  end(reclaimed_pages);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
