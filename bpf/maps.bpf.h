/* The maps that several files use, with their byte budgets. Weak, because each program file includes this and
 * the linker keeps one. All are preallocated and none is per-CPU but the counters, so the cost does not grow
 * with the number of CPUs. */
#ifndef OOMCAST_MAPS_BPF_H
#define OOMCAST_MAPS_BPF_H

#include "kernel.bpf.h"
#include "wire.h"

/* Set by user space before load. */
__weak const volatile unsigned int oc_memory_hierarchy_id SEC(".rodata") =
    0; /* of /proc/cgroups; 0: the v2 tree */
__weak const volatile unsigned long long oc_interval_ns SEC(".rodata") =
    0; /* what changed is sent this often */
__weak const volatile unsigned long long oc_host_pages SEC(".rodata") =
    0; /* the limit where no cgroup has one */
__weak const volatile unsigned int oc_tick_jiffies SEC(".rodata") =
    1; /* least distance of two looks of a CPU */

/* When user space will drain the samples next, if not woken before. */
__weak volatile unsigned long long oc_next_look_ns = 0;

#define OC_TRACKED_CGROUPS 16384
#define OC_TRACKED_IDLE 16384
#define OC_TRACKED_PROCESSES 16384
#define OC_TRACKED_VICTIMS 4096
#define OC_TRACKED_MARKED 1024
#define OC_TRACKED_STALLS 4096

#define OC_SAMPLES_BYTES (512 * 1024)
#define OC_SAMPLES_HALF (OC_SAMPLES_BYTES / 2)
struct { /* 512 KiB; drained ten times a second while something comes, and at once when something moved */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, OC_SAMPLES_BYTES);
} samples __weak SEC(".maps");

#define OC_EVENTS_BYTES (1024 * 1024)
/* All that waits between the kernel and user space, which on a slow or busy machine may not run for seconds
 * of a storm of kills. */
struct { /* 1 MiB: some 800 kills with their last words, or 1,400 at once of one cgroup */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, OC_EVENTS_BYTES);
} events __weak SEC(".maps");

struct { /* 128 KiB */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 128 * 1024);
} user_kills __weak SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, OC_LOST_REASONS);
  __type(key, u32);
  __type(value, u64);
} lost __weak SEC(".maps");

/* What was last sent for a cgroup or process: a record goes out when the value has moved far enough from it. */
struct oc_last {
  u64 pages;
  u64 time_ns;
  u64 limit_pages; /* of cgroups, as the walk last saw it */
};

struct { /* 1.4 MiB */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, OC_TRACKED_CGROUPS);
  __type(key, u64);
  __type(value, struct oc_last);
} last_cgroup __weak SEC(".maps");

/* The same for cgroups that hold next to nothing. Any user can make thousands of them: in one table they would
 * keep out the others, and ticks would not follow those. */
struct { /* 1.4 MiB */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, OC_TRACKED_IDLE);
  __type(key, u64);
  __type(value, struct oc_last);
} last_idle __weak SEC(".maps");

/* This map and the next three are LRU, so a process that fills them first cannot keep others out. User space enlarges
 * them on machines with many CPUs, because each CPU keeps some free elements to itself. */
struct { /* 1.4 MiB */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, OC_TRACKED_PROCESSES);
  __type(key, u32); /* tgid; removed at its exit */
  __type(value, struct oc_last);
} last_process __weak SEC(".maps");

/* Processes that the kernel itself sent SIGKILL, until they exit. */
struct oc_victim {
  u32 shown; /* its last words were recorded */
  u32 told;  /* threads whose Python code was */
};

struct { /* 0.3 MiB; an entry goes at its process's exit, or for want of room when it is the oldest */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, OC_TRACKED_VICTIMS);
  __type(key, u32); /* tgid */
  __type(value, struct oc_victim);
} victims __weak SEC(".maps");

/* Those of them that the OOM killer has marked. Any user can, as their tracer, hold thousands of processes in
 * exit that the kernel killed for another reason, at 100 a second: in one table they would evict the OOM victims,
 * whose argv and exit would then be missed. */
struct { /* 0.1 MiB */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, OC_TRACKED_MARKED);
  __type(key, u32); /* tgid */
  __type(value, struct oc_victim);
} marked_victims __weak SEC(".maps");

static __always_inline struct oc_victim* oc_victim_of(u32 tgid) {
  struct oc_victim* marked = bpf_map_lookup_elem(&marked_victims, &tgid);
  return marked ? marked : bpf_map_lookup_elem(&victims, &tgid);
}

struct { /* 0.4 MiB */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, OC_TRACKED_STALLS);
  __type(key, u64); /* cgroup id; user space removes it with the cgroup */
  __type(value, struct oc_stalls);
} stalls __weak SEC(".maps");

struct { /* 0.3 MiB */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, OC_TRACKED_STALLS);
  __type(key, u32); /* tid */
  __type(value, u64);
} reclaim_since __weak SEC(".maps");

#endif
