/* Which blocks some processes allocate, and which of them they free: samples of calls of their allocators,
 * with the stack and the Python frames of the caller. Uprobes of these processes, attached only while someone
 * looks (collect/bpf_source_allocations.h): each call that is watched takes its program some microseconds
 * longer.
 *
 * A block of S bytes is sampled with a chance of (S + oc_sample_extra) / oc_sample_bytes, and stands for S
 * over that chance: large blocks are met, and small ones too where there are many. What is freed is told of
 * sampled blocks alone.
 */

#include "accounting.bpf.h"
#include "fault_ring.bpf.h"
#include "record.bpf.h"
#include "task.bpf.h"

/* Indexed by watched process; all of it may change at run time. */
unsigned int oc_watched_tgids[OC_WATCHED] = {}; /* 0: none */
unsigned long long oc_sample_bytes[OC_WATCHED] = {};
unsigned long long oc_sample_extra[OC_WATCHED] = {};
/* Bits by function: of the others calls are counted, and no more. To take a breakpoint away lasts 40 ms. */
unsigned int oc_functions_told[OC_WATCHED] = {};
/* Bits of the functions that call malloc() in their turn, as musl's calloc() does. */
unsigned int oc_calling_malloc[OC_WATCHED] = {};
/* Records of blocks; two CPUs may count one. */
unsigned long long oc_blocks_told[OC_WATCHED] = {};

struct { /* 7 MiB; an entry goes when its block is freed */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 65536);
  __type(key, struct oc_block_key);
  __type(value, struct oc_block);
} blocks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, OC_WATCHED* OC_ALLOCATOR_FUNCTIONS);
  __type(key, u32);
  __type(value, struct oc_allocator_calls);
} allocator_calls SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, OC_WATCHED);
  __type(key, u32);
  __type(value, s64);
} bytes_to_sample SEC(".maps");

/* Such a program may be interrupted by another thread's on the same CPU, which finds it taken or, between two
 * instructions, takes it as well: the first one sees that it is not its own any more. */
struct allocation_buffer {
  u64 owner; /* thread; 0: none */
  struct oc_allocation record;
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct allocation_buffer);
} allocation_buffers SEC(".maps");

/* OC_WATCHED: it is not watched, as a child that has its parent's breakpoints for a moment. */
static __always_inline u32 number_of(u32 tgid) {
  for (u32 number = 0; number < OC_WATCHED; ++number)
    if (tgid && oc_watched_tgids[number] == tgid) return number;
  return OC_WATCHED;
}

/* Whether to go on with it. */
static __always_inline bool count_call(u32 number, u32 function, u64 size) {
  if (number >= OC_WATCHED) return false;
  u32 key = number * OC_ALLOCATOR_FUNCTIONS + function;
  struct oc_allocator_calls* c = bpf_map_lookup_elem(&allocator_calls, &key);
  if (!c) return false;
  c->calls += 1;
  c->bytes += size;
  return oc_functions_told[number] >> function & 1;
}

/* The weight of a block of this size; 0: not sampled. Points of a renewal process along the bytes
 * that are allocated and what is added for each block, oc_sample_bytes apart on average. */
static __always_inline u64 weigh_block(u32 number, u64 size) {
  if (number >= OC_WATCHED) return 0;
  u64 each = oc_sample_bytes[number], length = size + oc_sample_extra[number];
  if (length >= 2 * each) return size; /* always sampled */
  s64* left = bpf_map_lookup_elem(&bytes_to_sample, &number);
  if (!left) return 0;
  if (!*left) *left = bpf_get_prandom_u32() % (u32)(each | 1); /* in the midst of a gap */
  s64 now = *left - (s64)length;
  u64 points = 0;
  for (int point = 0; point < 4 && now <= 0; ++point) {
    ++points;
    now += each / 2 + bpf_get_prandom_u32() % (u32)(each | 1);
  }
  *left = now;
  return length ? points * each * size / length : 0;
}

static __always_inline void tell_freed(u32 tgid, u64 address) {
  struct oc_freed freed = {};
  oc_fill_header(&freed.header, OC_FREED, sizeof(freed));
  freed.tgid = tgid;
  freed.address = address;
  send_record(&freed, sizeof(freed), freed.header.time_ns, OC_LOST_FREES_RING_FULL);
}

static __always_inline int enter(struct pt_regs* ctx, u32 function, u64 size, u64 out, u64 old) {
  u64 thread = bpf_get_current_pid_tgid();
  u64 sp = PT_REGS_SP(ctx);
  u32 tgid = oc_seen_tgid_of_current();
  u32 number = number_of(tgid);
  if (!count_call(number, function, size)) return 0;
  struct oc_allocating* outer = bpf_map_lookup_elem(&allocating, &thread);
  if (outer && outer->sp > sp && goes_on(outer)) { /* the allocator's own call */
    if (function == OC_MALLOC && number < OC_WATCHED)
      oc_calling_malloc[number] |= 1U << (outer->function & 31);
    return 0;
  }
  struct oc_allocating a = {.size = size, .sp = sp, .out = out, .function = function};
  a.since_ns = bpf_ktime_get_ns();
  bpf_probe_read_user(&a.caller, sizeof(a.caller), (void*)sp);
  a.weight = weigh_block(number, size);
  if (old) {
    struct oc_block_key key = {.address = old, .tgid = tgid};
    struct oc_block* known = bpf_map_lookup_elem(&blocks, &key);
    a.old = old;
    if (known) {
      a.known = *known;
      bpf_map_delete_elem(&blocks, &key);
    }
  }
  if (bpf_map_update_elem(&allocating, &thread, &a, BPF_ANY)) count_lost(OC_LOST_BLOCK_TABLE_FULL);
  return 0;
}

SEC("uprobe")
int enter_malloc(struct pt_regs* ctx) {
  return enter(ctx, OC_MALLOC, PT_REGS_PARM1(ctx), 0, 0);
}
SEC("uprobe")
int enter_calloc(struct pt_regs* ctx) {
  return enter(ctx, OC_CALLOC, PT_REGS_PARM1(ctx) * PT_REGS_PARM2(ctx), 0, 0);
}
SEC("uprobe")
int enter_realloc(struct pt_regs* ctx) {
  return enter(ctx, OC_REALLOC, PT_REGS_PARM2(ctx), 0, PT_REGS_PARM1(ctx));
}
SEC("uprobe")
int enter_posix_memalign(struct pt_regs* ctx) {
  return enter(ctx, OC_POSIX_MEMALIGN, PT_REGS_PARM3(ctx), PT_REGS_PARM1(ctx), 0);
}
SEC("uprobe")
int enter_aligned_alloc(struct pt_regs* ctx) {
  return enter(ctx, OC_ALIGNED_ALLOC, PT_REGS_PARM2(ctx), 0, 0);
}
SEC("uprobe")
int enter_memalign(struct pt_regs* ctx) {
  return enter(ctx, OC_MEMALIGN, PT_REGS_PARM2(ctx), 0, 0);
}

SEC("uprobe")
int enter_free(struct pt_regs* ctx) {
  struct oc_block_key key = {.address = PT_REGS_PARM1(ctx), .tgid = oc_seen_tgid_of_current()};
  if (!count_call(number_of(key.tgid), OC_FREE, 0)) return 0;
  if (key.address && !bpf_map_delete_elem(&blocks, &key)) tell_freed(key.tgid, key.address);
  return 0;
}

/* false: not reported. */
static __always_inline bool tell_allocated(struct pt_regs* ctx, const struct oc_allocating* a, u64 address,
                                           const struct oc_block* block, u64 now) {
  u32 zero = 0;
  struct allocation_buffer* buffer = bpf_map_lookup_elem(&allocation_buffers, &zero);
  if (!buffer) return false;
  u64 saved[SAVED];
  if (bpf_probe_read_kernel(saved, sizeof(saved), ctx)) return false;
  --saved[RIP]; /* inside of the call, not behind it */
  u64 thread = bpf_get_current_pid_tgid();
  volatile u64* owner = &buffer->owner;
  if (*owner) {
    count_lost(OC_LOST_ALLOCATIONS_BUSY);
    return false;
  }
  *owner = thread;
  struct oc_allocation* r = &buffer->record;
  struct task_struct* task = (void*)bpf_get_current_task();
  oc_fill_seen_task(&r->task, task);
  r->address = address;
  r->bytes = a->size;
  r->base_bytes = block->base;
  r->weight_bytes = block->weight_bytes;
  r->born_ns = block->born_ns;
  r->replaces = a->known.born_ns ? a->old : 0;
  r->function = a->function;
  fill_registers(&r->user, saved);
  copy_stack(&r->user, task, saved[RSP]);
  oc_read_python(&r->user.python, task);
  u32 size = __builtin_offsetof(struct oc_allocation, user.stack) + r->user.stack_bytes;
  oc_fill_header_at(&r->header, OC_ALLOCATION, size, now);
  if (*owner != thread) {
    count_lost(OC_LOST_ALLOCATIONS_BUSY);
    return false;
  }
  bool told = size <= sizeof(*r) && send_record(r, size, now, OC_LOST_FAULTS_RING_FULL);
  *owner = 0;
  return told;
}

SEC("uretprobe")
int leave(struct pt_regs* ctx) {
  u64 thread = bpf_get_current_pid_tgid();
  struct oc_allocating* known = bpf_map_lookup_elem(&allocating, &thread);
  if (!known || PT_REGS_SP(ctx) != known->sp + 8) return 0;
  struct oc_allocating a = *known;
  bpf_map_delete_elem(&allocating, &thread);
  u64 address = PT_REGS_RC(ctx);
  if (a.function == OC_POSIX_MEMALIGN) {
    u64 failed = address & 0xffffffff;
    address = 0;
    if (!failed) bpf_probe_read_user(&address, sizeof(address), (void*)a.out);
  }
  struct oc_block_key key = {.address = address ? address : a.old, .tgid = oc_seen_tgid_of_current()};
  /* The block at this address was freed unseen. */
  if (address && !bpf_map_delete_elem(&blocks, &key)) tell_freed(key.tgid, address);
  if (!a.weight && !a.known.born_ns) return 0;
  u64 now = bpf_ktime_get_ns();
  struct oc_block block = a.known; /* a sampled block goes on, whatever its size is now */
  if (!a.known.born_ns) {
    block.born_ns = now;
    block.base = a.old ? a.size : 0;
    block.weight_bytes = a.old ? 0 : a.weight;
    block.bytes = a.size;
    block.scale = a.size ? (a.weight << 8) / a.size : 0;
  } else if (address) { /* else it failed, and the block is what it was */
    oc_resize_block(&block, a.size, a.weight);
  }
  if (!key.address) return 0;
  if (!address && !a.known.born_ns) return 0;
  if (!address && a.size == 0) { /* realloc(p, 0) frees */
    tell_freed(key.tgid, a.old);
    return 0;
  }
  if (bpf_map_update_elem(&blocks, &key, &block, BPF_ANY)) {
    count_lost(OC_LOST_BLOCK_TABLE_FULL);
    if (a.known.born_ns) tell_freed(key.tgid, a.old);
    return 0;
  }
  if (!address) return 0;
  if (!tell_allocated(ctx, &a, address, &block, now)) {
    bpf_map_delete_elem(&blocks, &key);
    return 0;
  }
  u32 number = number_of(key.tgid);
  if (number < OC_WATCHED) oc_blocks_told[number] += 1;
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
