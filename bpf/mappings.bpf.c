/* How often a page of a file is mapped: to set a breakpoint in it the kernel visits each of these mappings,
 * on the whole machine, with a lock held that every fork needs, and copies a page in each mapping of the
 * process that the breakpoint is for. So user space asks first (collect/code_mappings.h). It runs these
 * programs by BPF_PROG_RUN, in its own context, on a mapping of its own of that page: of an overlay's file
 * that has the file below, which the descriptor has not.
 *
 * Nothing is locked. A tree that changes during the walk gives a count that is off by what changed, and a
 * node that is freed one that ends early or at the limit of steps; reads of freed memory are safe here.
 */

#include "numbers.bpf.h"

#define OC_PAGE_SHIFT 12 /* x86-64 */
#define OC_WALK_STEPS 64 /* a run: the verifier of 5.10 follows each */
#define OC_OWN_MAPPINGS 256

/* Set by user space: where it has mapped the page, and the process that it asks about. */
unsigned long long oc_walk_address;
unsigned int oc_walk_tgid;
/* A node of the kernel's tree, and whence the walk came to it; 0: the walk has ended. */
unsigned long long oc_walk_node;
enum { OC_FROM_ABOVE, OC_FROM_LEFT, OC_FROM_RIGHT };
unsigned int oc_walk_from;
unsigned long long oc_walk_page; /* in the file */
/* Mappings of the page: all, those of the process; and what it has mapped in sum, if it has this page. */
unsigned long long oc_walk_all, oc_walk_of_process, oc_walk_mappings;

static __always_inline void begin_at(struct file* file, u64 start, u64 first_page) {
  oc_walk_page = first_page + ((oc_walk_address - start) >> OC_PAGE_SHIFT);
  oc_walk_node = (u64)BPF_CORE_READ(file, f_mapping, i_mmap.rb_root.rb_node);
}

static long begin_in(struct task_struct* task, struct vm_area_struct* vma, void* unused) {
  begin_at(BPF_CORE_READ(vma, vm_file), BPF_CORE_READ(vma, vm_start), BPF_CORE_READ(vma, vm_pgoff));
  return 0;
}

/* 0, or an error: the lock of its mappings was taken. */
SEC("?raw_tp")
int begin_walk(void* ctx) {
  u32 unused = 0;
  return bpf_find_vma(bpf_get_current_task_btf(), oc_walk_address, begin_in, &unused, 0);
}

SEC("?raw_tp")
int begin_walk_before_5_17(void* ctx) {
  struct task_struct* task = (void*)bpf_get_current_task();
  struct mm_struct___list* mm = (void*)BPF_CORE_READ(task, mm);
  struct vm_area_struct___list* vma = BPF_CORE_READ(mm, mmap);
  for (int i = 0; i < OC_OWN_MAPPINGS && vma; ++i) {
    u64 start = BPF_CORE_READ(vma, vm_start);
    if (start <= oc_walk_address && oc_walk_address < BPF_CORE_READ(vma, vm_end)) {
      begin_at(BPF_CORE_READ(vma, vm_file), start, BPF_CORE_READ(vma, vm_pgoff));
      return 0;
    }
    vma = BPF_CORE_READ(vma, vm_next);
  }
  return -1;
}

static __always_inline struct vm_area_struct* mapping_of(u64 node) {
  return (void*)(node - bpf_core_field_offset(struct vm_area_struct, shared.rb));
}

/* Whether a mapping below this node may contain the page. */
static __always_inline bool leads_to_page(u64 node) {
  return node && BPF_CORE_READ(mapping_of(node), shared.rb_subtree_last) >= oc_walk_page;
}

static __always_inline void count(struct vm_area_struct* vma) {
  struct mm_struct* mm = BPF_CORE_READ(vma, vm_mm);
  ++oc_walk_all;
  if (oc_seen_tgid(BPF_CORE_READ(mm, owner)) != oc_walk_tgid) return;
  ++oc_walk_of_process;
  oc_walk_mappings = BPF_CORE_READ(mm, map_count);
}

/* Mappings are ordered by first page: after one that begins behind the page, none contains it. */
static __always_inline void step(u64 at) {
  struct rb_node* node = (void*)at;
  if (oc_walk_from == OC_FROM_ABOVE) {
    u64 left = (u64)BPF_CORE_READ(node, rb_left);
    bool down = leads_to_page(left);
    oc_walk_node = down ? left : at;
    oc_walk_from = down ? OC_FROM_ABOVE : OC_FROM_LEFT;
  } else if (oc_walk_from == OC_FROM_LEFT) {
    struct vm_area_struct* vma = mapping_of(at);
    u64 first = BPF_CORE_READ(vma, vm_pgoff);
    u64 pages = (BPF_CORE_READ(vma, vm_end) - BPF_CORE_READ(vma, vm_start)) >> OC_PAGE_SHIFT;
    if (first <= oc_walk_page && first + pages > oc_walk_page) count(vma);
    u64 right = (u64)BPF_CORE_READ(node, rb_right);
    bool down = leads_to_page(right);
    oc_walk_node = first > oc_walk_page ? 0 : down ? right : at;
    oc_walk_from = down ? OC_FROM_ABOVE : OC_FROM_RIGHT;
  } else {
    u64 parent = BPF_CORE_READ(node, __rb_parent_color) & ~3UL;
    oc_walk_from =
        parent && (u64)BPF_CORE_READ((struct rb_node*)parent, rb_left) == at ? OC_FROM_LEFT : OC_FROM_RIGHT;
    oc_walk_node = parent;
  }
}

/* Some steps further; the walk has ended when `node` is 0. */
SEC("?raw_tp")
int walk_mappings(void* ctx) {
  for (int i = 0; i < OC_WALK_STEPS; ++i) {
    u64 at = oc_walk_node;
    if (!at) return 0;
    step(at);
  }
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
