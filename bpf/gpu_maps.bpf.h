/* What the objects of the NVIDIA driver share: user space hands the map of the first on to the others. */
#ifndef OOMCAST_GPU_MAPS_BPF_H
#define OOMCAST_GPU_MAPS_BPF_H

#include "kernel.bpf.h"
#include "wire.h"

struct { /* learned from the calls of processes; user space removes those of the dead */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, u64); /* address of a va_space of nvidia-uvm */
  __type(value, struct oc_gpu_owner);
} gpu_va_spaces SEC(".maps");

#endif
