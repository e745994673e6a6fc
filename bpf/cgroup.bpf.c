/* Memory cgroups: creation, removal and renaming, and tasks attached to them. On v1 every hierarchy fires these
 * events; only the memory controller's count. */
#include "emit.bpf.h"
#include "task.bpf.h"

static __always_inline bool of_memory(struct cgroup* cgroup) {
  return BPF_CORE_READ(cgroup, root, hierarchy_id) == (int)oc_memory_hierarchy_id;
}

static __always_inline void cgroup_event(u32 op, struct cgroup* cgroup) {
  if (!of_memory(cgroup)) return;
  struct cgroup_subsys_state* self = (struct cgroup_subsys_state*)cgroup;
  u64 id = BPF_CORE_READ(cgroup, kn, id);
  if (op == OC_CGROUP_RMDIR) {
    bpf_map_delete_elem(&last_cgroup, &id);
    bpf_map_delete_elem(&last_idle, &id);
    bpf_map_delete_elem(&stalls, &id);
  }
  struct oc_cgroup_event* r = OC_RESERVE_SAMPLE(OC_CGROUP_EVENT, oc_cgroup_event);
  if (!r) return;
  r->op = op;
  r->_pad = 0;
  r->id = id;
  r->parent_id = oc_css_id(BPF_CORE_READ(self, parent));
  const char* name = BPF_CORE_READ(cgroup, kn, name);
  if (bpf_probe_read_kernel_str(r->name, sizeof(r->name), name) < 0) r->name[0] = 0;
  oc_submit_lazily(r);
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_cgroup_mkdir, struct cgroup* cgroup) {
  cgroup_event(OC_CGROUP_MKDIR, cgroup);
  return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(on_cgroup_rmdir, struct cgroup* cgroup) {
  cgroup_event(OC_CGROUP_RMDIR, cgroup);
  return 0;
}

SEC("tp_btf/cgroup_rename")
int BPF_PROG(on_cgroup_rename, struct cgroup* cgroup) {
  cgroup_event(OC_CGROUP_RENAME, cgroup);
  return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_cgroup_attach, struct cgroup* to, const char* path, struct task_struct* task) {
  if (BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid) || !of_memory(to)) return 0;
  struct oc_cgroup_attach* r = OC_RESERVE_SAMPLE(OC_CGROUP_ATTACH, oc_cgroup_attach);
  if (!r) return 0;
  oc_fill_task(&r->task, task);
  r->to_id = BPF_CORE_READ(to, kn, id);
  oc_submit_lazily(r);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
