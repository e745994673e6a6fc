/* The contract's part for `blame`: page faults and allocations. See wire.h. */
#ifndef OOMCAST_WIRE_FAULTS_H
#define OOMCAST_WIRE_FAULTS_H

#include "wire_python.h"

#define OC_REGISTERS 17      /* x86-64, in the order of its DWARF numbers: rax … r15, rip */
#define OC_STACK_BYTES 24576 /* of a user stack, from the stack pointer on */

/* A thread's user-mode state, as needed to unwind it. Sent up to the filled part of `stack`. */
struct oc_user_stack {
  unsigned long long registers[OC_REGISTERS];
  unsigned int stack_bytes;
  unsigned int _pad;
  struct oc_python_stack python;
  unsigned char stack[OC_STACK_BYTES];
};

/* A page fault that stands for `weight_pages`: what the process grew by, or touched if that is more, since
 * its last record; and for `faults` of them. */
struct oc_fault {
  struct oc_header header;
  struct oc_task task;
  struct oc_memory memory; /* after the fault */
  unsigned long long address;
  unsigned long long weight_pages;
  unsigned long long faults;
  struct oc_user_stack user;
};

#define OC_WATCHED 4 /* processes whose allocators are watched at a time */

enum oc_allocator_function {
  OC_MALLOC = 0,
  OC_CALLOC = 1,
  OC_REALLOC = 2,
  OC_POSIX_MEMALIGN = 3,
  OC_ALIGNED_ALLOC = 4,
  OC_MEMALIGN = 5,
  OC_ALLOCATING_FUNCTIONS = 6,
  OC_FREE = 6,
  OC_ALLOCATOR_FUNCTIONS = 7,
};

/* A block that was allocated, or grew in realloc(): it represents `weight_bytes` of them. */
struct oc_allocation {
  struct oc_header header; /* its time: when the block got this size */
  struct oc_task task;
  unsigned long long address;
  unsigned long long bytes;      /* of the block, */
  unsigned long long base_bytes; /* and of these what it had when it was seen first, in realloc() */
  long long weight_bytes;        /* less than 0: of what realloc() made smaller */
  unsigned long long born_ns;    /* when it was seen first: realloc() keeps that */
  unsigned long long replaces;   /* the block's address before realloc(); 0: none that was told of */
  unsigned int function;         /* enum oc_allocator_function */
  unsigned int _pad;
  struct oc_user_stack user; /* of the caller */
};

struct oc_freed {
  struct oc_header header;
  unsigned int tgid;
  unsigned int _pad;
  unsigned long long address;
};

/* A container became longer: where its program was just after. */
struct oc_addition {
  struct oc_header header;
  struct oc_task task;
  unsigned long long length_at; /* where its length stands, */
  unsigned long long length;    /* and what it is now */
  struct oc_user_stack user;
};

/* The address of a watched container's length; key and value of map "lengths". */
#define OC_WATCHED_LENGTHS 8 /* two of each process */
struct oc_length_key {
  unsigned long long at;
  unsigned long long tgid;
};
#define OC_LENGTH_WRITES 16 /* that are looked at; then it is done */
enum oc_length_state {
  OC_LENGTH_ARMING = 0, /* some threads' writes are not seen yet: they are counted, and no more */
  OC_LENGTH_OPEN = 1,
  OC_LENGTH_DONE = 2,
};
struct oc_length {
  unsigned long long length; /* at the last write; nothing before the first */
  unsigned int writes;       /* in this state */
  unsigned int state;        /* enum oc_length_state */
};

/* Calls of one function of an allocator; a value of map "allocator_calls": all functions of one process, then
 * those of the next one. */
struct oc_allocator_calls {
  unsigned long long calls;
  unsigned long long bytes;
};

/* A reported block that is not freed yet; key and value of map "blocks". */
struct oc_block_key {
  unsigned long long address;
  unsigned long long tgid;
};
struct oc_block {
  unsigned long long born_ns;
  unsigned long long base;  /* bytes that it had when it was seen first, if that was in realloc() */
  unsigned long long bytes; /* that it has */
  long long weight_bytes;   /* that it stands for */
  unsigned long long scale; /* what a byte stands for by which it grows in the next call, in 256ths */
};

/* Key of map "fault_scope": a process by its identity, because its pid may be reused soon. A cgroup's key is its
 * id, which never has the highest bit set. */
static inline unsigned long long oc_scope_of_process(unsigned int tgid, unsigned long long start_ticks) {
  return 1ull << 63 | start_ticks << 22 | tgid; /* no kernel has process numbers of more than 22 bits */
}

/* A process's growth; the value of map "growth", keyed by tgid. */
struct oc_growth {
  unsigned long long mm;            /* 0: not seen by the kernel program yet */
  long long resident_pages;         /* anonymous, shared and swapped, at the last look */
  unsigned long long gathered;      /* pages since the last record */
  unsigned long long faults;        /* since the last record */
  unsigned long long wanted;        /* pages that make a record; varies, so that no rhythm escapes */
  unsigned long long window;        /* of watching: what it grew by before is not in `gathered` */
  unsigned long long thread;        /* of the last look */
  unsigned long long thread_faults; /* its own count then */
  long long ahead;                  /* pages in `gathered` that the counters do not show yet */
};

/* A process whose mmap_lock is held; what the iterator "held_locks" writes. */
struct oc_held_lock {
  unsigned long long tgid;
  unsigned long long owner; /* an address that stands for the thread that took the lock last */
  unsigned long long
      ran_ns; /* for how long that has had a CPU so far: who sleeps with it has no more of it */
};

enum oc_fault_lost_reason {
  OC_LOST_FAULTS_RING_FULL = 0, /* of allocations, too */
  OC_LOST_ALLOCATIONS_BUSY = 1, /* another thread was interrupted while it told of one on this CPU */
  OC_LOST_BLOCK_TABLE_FULL = 2,
  OC_LOST_FREES_RING_FULL = 3, /* map "blocks" tells at the end */
  OC_FAULT_LOST_REASONS = 4,
};

OC_ASSERT_SIZE(oc_growth, 72);
OC_ASSERT_SIZE(oc_user_stack, 8 * OC_REGISTERS + 8 + sizeof(struct oc_python_stack) + OC_STACK_BYTES);
OC_ASSERT_SIZE(oc_fault, 168 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_allocation, 144 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_freed, 32);
OC_ASSERT_SIZE(oc_addition, 104 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_length, 16);
OC_ASSERT_SIZE(oc_allocator_calls, 16);
OC_ASSERT_SIZE(oc_block_key, 16);
OC_ASSERT_SIZE(oc_block, 40);
OC_ASSERT_SIZE(oc_held_lock, 24);

#endif
