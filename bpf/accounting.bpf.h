/* Pure arithmetic, also compiled natively by the tests. */
#ifndef OOMCAST_ACCOUNTING_BPF_H
#define OOMCAST_ACCOUNTING_BPF_H

#ifdef __bpf__
#include "kernel.bpf.h"
#else
typedef unsigned long long u64;
typedef long long s64;
#endif
#include "wire_faults.h"

/* How far a value may move unseen: 1/256 of the limit in force, so that what was sent is within 1 % of the
 * truth with room for what happens between two ticks; at least 1 MiB of 4 KiB pages, so that small limits
 * don't flood. */
static inline u64 oc_step_pages(u64 limit_pages) {
  u64 step = limit_pages >> 8;
  return step < 256 ? 256 : step;
}

enum oc_send { OC_SEND_NOTHING, OC_SEND_MOVED, OC_SEND_DUE };

/* Whether `pages` at `now_ns` is worth a record, given what was last sent. */
static inline enum oc_send oc_worth_sending(u64 last_pages, u64 last_ns, u64 pages, u64 now_ns,
                                            u64 step_pages, u64 interval_ns) {
  u64 moved = pages > last_pages ? pages - last_pages : last_pages - pages;
  if (moved >= step_pages) return OC_SEND_MOVED;
  if (moved && now_ns - last_ns >= interval_ns) return OC_SEND_DUE;
  return OC_SEND_NOTHING;
}

/* A sampled block in realloc(): `weight` is what this call's draw makes of a block of `bytes`, 0 mostly. What
 * it grows by stands for what the draw before says, and never for this one's: a block that is met now may
 * have had many calls before, each with a chance to be met. So each step is weighed once, by its own chance.
 */
static inline void oc_resize_block(struct oc_block* block, u64 bytes, u64 weight) {
  block->weight_bytes += (s64)((bytes - block->bytes) * block->scale) >> 8;
  block->bytes = bytes;
  block->scale = bytes ? (weight << 8) / bytes : 0;
}

#endif
