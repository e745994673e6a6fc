/* What the pages of managed memory do: faults of CPU and card, moves between them, evictions. Nobody asks for
 * these, and the driver's own threads handle them, so that no system call shows them; but all of them pass
 * uvm_perf_event_notify(events, id, data). Its arguments are no interface: where what stands in them is told
 * by user space for the driver's version, and what is read is not believed as soon as it makes no sense.
 *
 * An object of its own: a kernel that refuses it, or the probe, still follows the driver's calls. Millions of
 * events a second are possible, so they are added up here.
 */

#include "gpu_maps.bpf.h"

#define SMALLEST_PAGE 4096
#define LARGEST_MOVE (2ull << 20) /* a block of the driver's */
#define PROCESSORS 300            /* of which 0 is the CPU */
#define CAUSES 32
#define BACK_POINTER_WITHIN 64 /* words */
#define LARGEST_VA_SPACE (16ull << 20)
#define MAX_IMPLAUSIBLE 16

const volatile unsigned int oc_fault_id = 0, oc_move_id = 0;
/* Offsets in the event's data. */
const volatile unsigned int oc_fault_processor_at = 0, oc_move_to_at = 0, oc_move_from_at = 0,
                            oc_move_bytes_at = 0, oc_move_cause_at = 0;

volatile unsigned int oc_seen = 0;       /* it was called at all */
volatile unsigned int oc_back_word = 0;  /* where `events` points back to its va_space; counts from 1 */
volatile unsigned int oc_looks_left = 0; /* for that place; user space allows some now and then */
unsigned long long oc_implausible =
    0; /* events that made no sense; MAX_IMPLAUSIBLE of them end it for good */
unsigned long long oc_activity_lost = 0; /* events that found no room in the table */

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(max_entries, 2048); /* a process has about ten rows; user space removes those of the dead */
  __type(key, struct oc_gpu_activity_key);
  __type(value, struct oc_gpu_activity);
} gpu_activity SEC(".maps");

static __always_inline bool read_number(u32* to, u64 from) {
  return !bpf_probe_read_kernel(to, sizeof(*to), (void*)from);
}

/* `events` lies in the va_space that it points back to. Once per driver: the place is the same for all. */
static __always_inline struct oc_gpu_owner* look_for_owner(u64 events) {
  for (u32 i = 0; i < BACK_POINTER_WITHIN; ++i) {
    u64 word = 0;
    if (bpf_probe_read_kernel(&word, sizeof(word), (void*)(events + 8 * i))) return 0;
    if (word > events || events - word > LARGEST_VA_SPACE) continue;
    struct oc_gpu_owner* owner = bpf_map_lookup_elem(&gpu_va_spaces, &word);
    if (!owner) continue;
    oc_back_word = i + 1;
    return owner;
  }
  return 0;
}

static __always_inline struct oc_gpu_owner* owner_of(u64 events) {
  u32 at = oc_back_word;
  if (at) {
    u64 word = 0;
    if (bpf_probe_read_kernel(&word, sizeof(word), (void*)(events + 8 * (at - 1)))) return 0;
    return bpf_map_lookup_elem(&gpu_va_spaces, &word);
  }
  u32 left = oc_looks_left;
  if (!left) return 0;
  oc_looks_left = left - 1;
  return look_for_owner(events);
}

/* False: it makes no sense. */
static __always_inline bool read_fault(struct oc_gpu_activity_key* key, u64 data) {
  u32 processor = 0;
  if (!read_number(&processor, data + oc_fault_processor_at) || processor >= PROCESSORS) return false;
  key->what = processor ? OC_GPU_CARD_FAULT : OC_GPU_CPU_FAULT;
  return true;
}

static __always_inline bool read_move(struct oc_gpu_activity_key* key, u64* bytes, u64 data) {
  u32 to = 0, from = 0, cause = 0;
  if (!read_number(&to, data + oc_move_to_at) || !read_number(&from, data + oc_move_from_at) ||
      !read_number(&cause, data + oc_move_cause_at) ||
      bpf_probe_read_kernel(bytes, sizeof(*bytes), (void*)(data + oc_move_bytes_at)))
    return false;
  if (to >= PROCESSORS || from >= PROCESSORS || cause >= CAUSES) return false;
  if (!*bytes || *bytes > LARGEST_MOVE || *bytes % SMALLEST_PAGE) return false;
  if (!to && !from) return true; /* from one node of the host's memory to another */
  key->what = !from ? OC_GPU_TO_CARD : !to ? OC_GPU_FROM_CARD : OC_GPU_BETWEEN_CARDS;
  key->cause = cause;
  return true;
}

SEC("kprobe/uvm_perf_event_notify")
int BPF_KPROBE(on_page_event, u64 events, u32 id, u64 data) {
  if (oc_implausible >= MAX_IMPLAUSIBLE) return 0;
  bool fault = id == oc_fault_id;
  if (!fault && id != oc_move_id) return 0;
  if (!oc_seen) oc_seen = 1;
  struct oc_gpu_activity_key key = {};
  u64 bytes = 0;
  if (!(fault ? read_fault(&key, data) : read_move(&key, &bytes, data))) {
    __sync_fetch_and_add(&oc_implausible, 1);
    return 0;
  }
  if (!key.what) return 0;
  struct oc_gpu_owner* owner = owner_of(events);
  if (owner) {
    key.start_ns = owner->start_ns;
    key.tgid = owner->tgid;
  }
  struct oc_gpu_activity* sum = bpf_map_lookup_elem(&gpu_activity, &key);
  if (!sum) {
    struct oc_gpu_activity none = {};
    bpf_map_update_elem(&gpu_activity, &key, &none, BPF_NOEXIST);
    sum = bpf_map_lookup_elem(&gpu_activity, &key);
  }
  if (!sum) {
    __sync_fetch_and_add(&oc_activity_lost, 1);
    return 0;
  }
  sum->count += 1;
  sum->bytes += bytes;
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
