/* Copies a thread's user-mode registers and stack for user space to unwind. Uses no map but `pythons`: every
 * object has its own ring. */
#ifndef OOMCAST_USER_STACK_BPF_H
#define OOMCAST_USER_STACK_BPF_H

#include "python.bpf.h"

/* x86-64, by the position in which the kernel saves them. */
enum {
  R15,
  R14,
  R13,
  R12,
  RBP,
  RBX,
  R11,
  R10,
  R9,
  R8,
  RAX,
  RCX,
  RDX,
  RSI,
  RDI,
  ORIG,
  RIP,
  CS,
  FLAGS,
  RSP,
  SS,
  SAVED
};

/* What is left above the last whole chunk is read in halves of halves: a thread's first functions have less
 * than a chunk above them. How far that has come stands in memory, of which the verifier knows nothing: of a
 * number that it knows it would walk each value's way. */
static __always_inline void copy_end(struct oc_user_stack* r, u64 sp, u32 size) {
  u32 filled = *(volatile u32*)&r->stack_bytes;
  if (filled > OC_STACK_BYTES - size || bpf_probe_read_user(&r->stack[filled], size, (void*)(sp + filled)))
    return;
  r->stack_bytes = filled + size;
}

/* Where frames end for sure: the first thread's below its arguments and environment, another's below what the
 * C library knows of it. Nothing above that is copied, which is most of what there is. */
static __always_inline u32 stack_size(struct task_struct* task, u64 sp) {
  u64 to_arguments = BPF_CORE_READ(task, mm, start_stack) - sp; /* huge where that lies below */
  u64 to_thread = BPF_CORE_READ(task, thread.fsbase) - sp;
  u64 size = to_arguments < to_thread ? to_arguments : to_thread;
  return size < OC_STACK_BYTES ? size : OC_STACK_BYTES;
}

#define OC_STACK_CHUNK 1024
static __always_inline void copy_stack(struct oc_user_stack* r, struct task_struct* task, u64 sp) {
  u32 size = stack_size(task, sp);
  barrier_var(size);
  size &= 32767; /* for the verifier */
  if (size <= OC_STACK_BYTES && bpf_probe_read_user(r->stack, size, (void*)sp) == 0) {
    r->stack_bytes = size;
    return;
  }
  r->stack_bytes = 0; /* some of it is not in memory, or it ends before */
  for (int chunk = 0; chunk < OC_STACK_BYTES / OC_STACK_CHUNK; ++chunk) {
    if (bpf_probe_read_user(&r->stack[chunk * OC_STACK_CHUNK], OC_STACK_CHUNK,
                            (void*)(sp + chunk * OC_STACK_CHUNK)))
      break;
    r->stack_bytes = (chunk + 1) * OC_STACK_CHUNK;
  }
  for (u32 rest = OC_STACK_CHUNK / 2; rest >= 8; rest /= 2) copy_end(r, sp, rest);
}

static __always_inline void fill_registers(struct oc_user_stack* r, const u64* saved) {
  r->registers[0] = saved[RAX];
  r->registers[1] = saved[RDX];
  r->registers[2] = saved[RCX];
  r->registers[3] = saved[RBX];
  r->registers[4] = saved[RSI];
  r->registers[5] = saved[RDI];
  r->registers[6] = saved[RBP];
  r->registers[7] = saved[RSP];
  r->registers[8] = saved[R8];
  r->registers[9] = saved[R9];
  r->registers[10] = saved[R10];
  r->registers[11] = saved[R11];
  r->registers[12] = saved[R12];
  r->registers[13] = saved[R13];
  r->registers[14] = saved[R14];
  r->registers[15] = saved[R15];
  r->registers[16] = saved[RIP];
}

#endif
