/* Errors of cards (Xid) reported by the NVIDIA driver, from its tracepoint nvidia:nvidia_dev_xid,
 * which newer drivers have. Attached by name: a module's types are not needed, and rarely there.
 */

#include "record.bpf.h"

unsigned long long oc_xids_lost = 0; /* the ring was full */

struct { /* 60 of them: a card that is broken repeats itself */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 16 * 1024);
} gpu_xids SEC(".maps");

SEC("raw_tp/nvidia_dev_xid")
int BPF_PROG(on_xid, struct pci_dev* card, u32 code, const char* message) {
  struct oc_gpu_xid* r = bpf_ringbuf_reserve(&gpu_xids, sizeof(*r), 0);
  if (!r) {
    __sync_fetch_and_add(&oc_xids_lost, 1);
    return 0;
  }
  oc_fill_header(&r->header, OC_GPU_XID, sizeof(*r));
  r->code = code;
  r->_pad = 0;
  r->bus[0] = r->message[0] = 0;
  bpf_probe_read_kernel_str(r->bus, sizeof(r->bus), BPF_CORE_READ(card, dev.kobj.name));
  bpf_probe_read_kernel_str(r->message, sizeof(r->message), message);
  bpf_ringbuf_submit(r, 0);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
