/* Reports what ticks miss: cgroups whose tasks sleep, and limit changes. Without a cgroup iterator in the kernel,
 * user space reads the files instead. */

#include "emit.bpf.h"
#include "last_sent.bpf.h"
#include "task.bpf.h"

#define WALKS_A_ROUND 16
unsigned long long oc_walks; /* counted by user space */
/* The walk counts the cgroups that it visits, and the idle ones deferred to the next walk. */
unsigned long long oc_visited, oc_put_off;

/* kernfs numbers a cgroup's files too, so inodes of cgroups may all be alike modulo 16: hash them first. */
static __always_inline bool oc_has_its_turn(u64 id) {
  return !(((id * 0x9e3779b97f4a7c15ull >> 32) + oc_walks) % WALKS_A_ROUND);
}

/* Whenever user space asks: every cgroup whose usage or limit is not what was last told. No tick sees those
 * whose tasks sleep, and none sees a limit change. What finds no room, at the same place of each walk, is
 * told when user space has seen the loss, and reads the files. 10,000 idle cgroups
 * would fill the ring in the first walk: once it is half full, idle ones are put off until the next walk. */
SEC("iter/cgroup")
int walk_cgroups(struct bpf_iter__cgroup* ctx) {
  struct cgroup* cgroup = ctx->cgroup;
  if (!cgroup) return 0;
  if (!cgroup->level) return 0; /* the root is not charged */
  struct cgroup_subsys_state* css = oc_memory_css_of(cgroup);
  if (!css) return 0;
  ++oc_visited;
  u64 id = cgroup->kn->id; /* the verifier knows this pointer: no copy by a helper */
  struct mem_cgroup* memcg = (struct mem_cgroup*)css;
  struct oc_last now = {.pages = BPF_CORE_READ(memcg, memory.usage.counter),
                        .time_ns = bpf_ktime_get_ns(),
                        .limit_pages = BPF_CORE_READ(memcg, memory.max)};
  struct oc_last untold = {.limit_pages = ~0ULL}; /* no limit is that */
  bool idle = oc_is_idle(now.pages);
  struct oc_last* last = bpf_map_lookup_elem(&last_cgroup, &id);
  if (last && idle) { /* it was not when it was told */
    struct oc_last told = *last;
    oc_keep_last(id, &told, true, BPF_ANY);
    bpf_map_delete_elem(&last_cgroup, &id);
    last = NULL;
  }
  if (!last && idle) last = bpf_map_lookup_elem(&last_idle, &id);
  if (last && last->pages == now.pages && last->limit_pages == now.limit_pages) return 0;
  if (idle && bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA) > OC_SAMPLES_HALF) {
    ++oc_put_off;
    return 0;
  }
  /* Of cgroups for which there is no room it is not known what was told: each is told in one of so
   * many walks, or thousands of idle ones would be told in all, and fill the ring in front of the others. */
  bool no_room = !last && oc_keep_last(id, &untold, idle, BPF_NOEXIST);
  if (no_room && !oc_has_its_turn(id)) {
    oc_count_lost(OC_LOST_CGROUP_TABLE_FULL);
    return 0;
  }
  struct oc_cgroup_sample* r = OC_RESERVE_SAMPLE(OC_CGROUP_SAMPLE, oc_cgroup_sample);
  if (!r) return 0;
  oc_fill_memcg(&r->memcg, css);
  r->parent_id = oc_css_id(BPF_CORE_READ(css, parent));
  r->moved = 0;
  r->_pad = 0;
  bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP); /* who asked reads it */
  oc_keep_last(id, &now, idle, BPF_ANY);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
