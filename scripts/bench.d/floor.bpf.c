/* The least that any program on rss_stat can cost: the kernel's dispatch. */
#include "../../bpf/kernel.bpf.h"

SEC("tp_btf/rss_stat")
int on_rss_stat_empty(void* ctx) {
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
