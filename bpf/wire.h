/* The contract between the kernel programs and user space: the only definition of every record.
 *
 * Fixed widths, explicit padding, sizes asserted, the unit in the field's name. Only userspace/wire reads it
 * besides the kernel programs. Change a layout and OC_WIRE_VERSION changes with it; it is compared once, at
 * load.
 */
#ifndef OOMCAST_WIRE_H
#define OOMCAST_WIRE_H

#define OC_WIRE_VERSION 6u

#define OC_COMM_LEN 16
#define OC_NAME_LEN 256   /* a cgroup directory's name, NAME_MAX + 1 */
#define OC_ARGS_LEN 2048  /* argv as the process shows it, NUL-separated */
#define OC_STACK_DEPTH 64 /* user frames of a dying task */
#define OC_CHAIN_LEN 16   /* memory cgroups from a task's own up to the root */
#define OC_DEEPEST 512    /* as far as a limit's owner is looked for */
#define OC_REGISTERS 17   /* x86-64, in the order of its DWARF numbers: rax … r15, rip */
#define OC_PYTHON_DEPTH 64
#define OC_STACK_BYTES 24576 /* of a user stack, from the stack pointer on */
/* PAGE_COUNTER_MAX is LONG_MAX / PAGE_SIZE: 2^51 or, with 64 KiB pages, 2^47. No machine has half of that. */
#define OC_NO_LIMIT_FROM_PAGES (1ull << 46)
#define OC_UNKNOWN_BYTES (-1ll)
#define OC_NO_CGROUP 0ull

enum oc_record_type {
  /* ring "samples": may drop under a storm, counted */
  OC_CGROUP_SAMPLE = 1,
  OC_PROCESS_SAMPLE = 2,
  OC_FORK = 3,
  OC_EXEC = 4,
  OC_EXIT = 5,
  OC_CGROUP_EVENT = 6,
  OC_CGROUP_ATTACH = 7,
  OC_SCORE_ADJ = 8,
  /* ring "events": small and rare, never pushed out by samples */
  OC_OOM_MARK = 16,
  OC_KERNEL_KILL = 17,
  OC_DYING = 18,
  OC_VICTIM_EXIT = 19,
  OC_REAPER = 21,
  OC_OOM_DECISION = 22,
  OC_DYING_CODE = 23,
  /* ring "user_kills": what anyone can send without end, apart from the events */
  OC_USER_KILL = 20,
  /* ring "gpu_calls", only while an NVIDIA device is in use */
  OC_GPU_CALL = 32,
  /* ring "faults", only while blame runs */
  OC_FAULT = 33,
  OC_ALLOCATION = 35,
  OC_FREED = 36,
  /* ring "gpu_xids", only where the driver tells of them */
  OC_GPU_XID = 34,
};

enum oc_lost_reason {
  OC_LOST_SAMPLES_RING_FULL = 0,
  OC_LOST_EVENTS_RING_FULL = 1,
  OC_LOST_CGROUP_TABLE_FULL = 2, /* a cgroup that ticks cannot follow; it is still polled */
  OC_LOST_PROCESS_TABLE_FULL = 3,
  OC_LOST_VICTIM_TABLE_FULL = 4, /* argv and confirmation of a victim */
  OC_LOST_STALL_TABLE_FULL = 5,  /* reclaim stalls */
  OC_LOST_USER_KILLS_RING_FULL = 6,
  OC_LOST_USER_KILLS_OVER_RATE = 7, /* more than a user may have told in a second */
  OC_LOST_REASONS = 8,
};

enum oc_cgroup_op { OC_CGROUP_MKDIR = 1, OC_CGROUP_RMDIR = 2, OC_CGROUP_RENAME = 3 };
enum oc_reaper_op { OC_REAP_QUEUED = 1, OC_REAP_START = 2, OC_REAP_DONE = 3, OC_REAP_SKIPPED = 4 };

enum oc_task_flags {
  OC_TASK_KTHREAD = 1u << 0,
  OC_TASK_EXITING = 1u << 1,
  OC_TASK_WORKQUEUE = 1u << 2,
};

struct oc_header {
  unsigned short type; /* enum oc_record_type */
  unsigned short size; /* of the whole record, bytes */
  unsigned int cpu;
  unsigned long long time_ns; /* CLOCK_MONOTONIC */
};

struct oc_task {
  unsigned int tgid; /* host pid namespace */
  unsigned int tid;
  unsigned long long start_ns; /* of the thread group's leader, CLOCK_BOOTTIME */
  unsigned int parent_tgid;
  unsigned int ns_tgid; /* as the task's own pid namespace numbers it */
  unsigned long long parent_start_ns;
  unsigned long long cgroup_id; /* the memory controller's, OC_NO_CGROUP if it cannot be read */
  unsigned int uid;             /* init user namespace */
  unsigned int flags;           /* enum oc_task_flags */
  int oom_score_adj;
  unsigned int _pad;
  char comm[OC_COMM_LEN];
};

struct oc_memory {
  long long anon_pages; /* OC_UNKNOWN_BYTES in every field: the task had no mm */
  long long file_pages;
  long long shmem_pages;
  long long swap_entries; /* pages */
  long long total_vm_pages;
  long long pgtables_bytes;
  unsigned long long mm_key; /* equal for tasks that share an mm at that moment; no other meaning */
};

struct oc_memcg {
  unsigned long long id;
  unsigned long long usage_pages;
  unsigned long long limit_pages;     /* OC_NO_LIMIT_FROM_PAGES or more: none */
  unsigned long long watermark_pages; /* the highest usage the kernel has seen */
  unsigned int oom_lock;              /* an OOM kill for it, or for an ancestor, is being decided */
  unsigned int oom_group;             /* memory.oom.group */
};

struct oc_cgroup_sample {
  struct oc_header header;
  struct oc_memcg memcg;
  unsigned long long parent_id;
  unsigned int moved; /* 1: sent at once because usage moved, 0: sent because the interval passed */
  unsigned int _pad;
};

struct oc_process_sample {
  struct oc_header header;
  struct oc_task task;
  struct oc_memory memory;
};

struct oc_fork {
  struct oc_header header;
  struct oc_task child;
};

struct oc_exec {
  struct oc_header header;
  struct oc_task task;
  unsigned int args_bytes; /* valid bytes of args; 0: unreadable */
  unsigned int args_truncated;
  char args[OC_ARGS_LEN];
};

struct oc_exit {
  struct oc_header header; /* OC_EXIT, or OC_VICTIM_EXIT for a process that the kernel killed for memory */
  struct oc_task task;
  int exit_code; /* as wait() gives it: low 7 bits the signal */
  unsigned int _pad;
  unsigned long long max_rss_bytes; /* highest resident size, 0 if the kernel has not kept it */
};

struct oc_cgroup_event {
  struct oc_header header;
  unsigned int op; /* enum oc_cgroup_op */
  unsigned int _pad;
  unsigned long long id;
  unsigned long long parent_id;
  char name[OC_NAME_LEN];
};

struct oc_cgroup_attach {
  struct oc_header header;
  struct oc_task task;
  unsigned long long to_id;
};

struct oc_score_adj {
  struct oc_header header;
  struct oc_task task;
};

struct oc_oom_mark {
  struct oc_header header;
  struct oc_task victim;
  struct oc_memory memory;
  struct oc_task trigger;
  struct oc_memcg chain[OC_CHAIN_LEN]; /* the trigger's cgroup, then its ancestors; id OC_NO_CGROUP ends it */
  struct oc_memcg victim_chain[OC_CHAIN_LEN];
  struct oc_memcg
      owner; /* the topmost above the trigger with oom_lock, at any depth; id OC_NO_CGROUP: none */
};

struct oc_kernel_kill { /* the kernel sent SIGKILL by itself */
  struct oc_header header;
  struct oc_task victim;
  struct oc_memory memory;
  struct oc_task sender; /* the task in whose context it was sent */
};

struct oc_dying { /* in the victim's own context, memory still mapped */
  struct oc_header header;
  struct oc_task task;
  struct oc_memory memory;
  unsigned int args_bytes;
  unsigned int args_truncated;
  unsigned int stack_frames;
  unsigned int _pad;
  unsigned long long stack[OC_STACK_DEPTH];
  char args[OC_ARGS_LEN];
};

struct oc_user_kill {
  struct oc_header header;
  struct oc_task victim;
  struct oc_task sender;
  int si_code;
  unsigned int
      no_siginfo; /* 1: sent by the kernel on behalf of the sender without siginfo, as cgroup.kill does */
};

struct oc_reaper {
  struct oc_header header;
  unsigned int op; /* enum oc_reaper_op */
  unsigned int tid;
};

struct oc_oom_decision { /* only where oom_kill_process can be probed */
  struct oc_header header;
  struct oc_task trigger;
  struct oc_task victim;
  unsigned long long limit_cgroup_id;
  unsigned long long total_pages; /* the limit with its swap allowance, not the victim's memory */
  unsigned int gfp_mask;
  int order;
  unsigned int constraint; /* enum oom_constraint of the running kernel: none, cpuset, mempolicy, memcg */
  unsigned int _pad;
};

/* A system call on one of the NVIDIA driver's files, after it returned: what the program's memory held then,
 * with the driver's answer in it. */
#define OC_GPU_HEAD_LEN 184 /* NVOS32, the largest of interest */
#define OC_GPU_TAIL_LEN 24
#define OC_GPU_PARAMS_LEN 128
#define OC_GPU_UVM_COMMANDS 130 /* plain numbers below 128, then UVM_INITIALIZE and UVM_DEINITIALIZE */
enum oc_gpu_device { OC_GPU_CONTROL = 1, OC_GPU_CARD = 2, OC_GPU_UVM = 3 };
enum oc_gpu_syscall { OC_GPU_IOCTL = 1, OC_GPU_MMAP = 2, OC_GPU_MUNMAP = 3 };

struct oc_gpu_call {
  struct oc_header header;
  struct oc_task task;
  unsigned int syscall; /* enum oc_gpu_syscall */
  unsigned int device;  /* enum oc_gpu_device; 0: munmap */
  unsigned int minor;
  unsigned int command;    /* of an ioctl; of a transfer (0xD3) the one that it carries */
  long long result;        /* of the system call: the driver's own is inside */
  unsigned long long file; /* equal for the same open file at that moment; no other meaning */
  unsigned long long address, length_bytes; /* mmap, munmap */
  unsigned short head_bytes, tail_bytes,
      params_bytes; /* valid bytes of what follows; 0: unreadable, or none */
  unsigned short _pad;
  unsigned char head[OC_GPU_HEAD_LEN]; /* the ioctl's argument */
  unsigned char tail[OC_GPU_TAIL_LEN]; /* of UVM_MAP_EXTERNAL_ALLOCATION, whose middle is of no interest */
  unsigned char params[OC_GPU_PARAMS_LEN]; /* what NV_ESC_RM_ALLOC and NV_ESC_RM_CONTROL point to */
};

/* Where a UVM call's argument is of interest, by the driver's version: set by user space. */
struct oc_gpu_layout {
  unsigned short head_bytes; /* 0: not of interest */
  unsigned short tail_at;
  unsigned short tail_bytes;
  unsigned short _pad;
};

/* A file of a stand-in for the driver, for tests: the file system's device and the inode. */
struct oc_gpu_test_file {
  unsigned long long device;
  unsigned long long inode;
};

/* Whose a va_space of nvidia-uvm is; the value of map "gpu_va_spaces", keyed by its address. */
struct oc_gpu_owner {
  unsigned long long start_ns;
  unsigned int tgid;
  unsigned int _pad;
};

/* What pages of managed memory do. */
enum oc_gpu_page_event {
  OC_GPU_CPU_FAULT = 1,
  OC_GPU_CARD_FAULT = 2,
  OC_GPU_TO_CARD = 3,
  OC_GPU_FROM_CARD = 4,
  OC_GPU_BETWEEN_CARDS = 5,
};
/* Key and value of map "gpu_activity", which has a value for each CPU: sums since load. */
struct oc_gpu_activity_key {
  unsigned long long start_ns; /* with the tgid 0: of a va_space that nobody is known to have */
  unsigned int tgid;
  unsigned short what;  /* enum oc_gpu_page_event */
  unsigned short cause; /* of a move: the driver's number for why; 4 is an eviction */
};
struct oc_gpu_activity {
  unsigned long long count;
  unsigned long long bytes;
};

/* An error that the driver reports of a card. */
#define OC_GPU_BUS_LEN 24
#define OC_GPU_MESSAGE_LEN 208
struct oc_gpu_xid {
  struct oc_header header;
  unsigned int code;
  unsigned int _pad;
  char bus[OC_GPU_BUS_LEN]; /* "0000:01:00.0" */
  char message[OC_GPU_MESSAGE_LEN];
};

enum oc_python_state {
  OC_PYTHON_NONE = 0,      /* not known to be a CPython process */
  OC_PYTHON_READ = 1,      /* frames were read, down to the outermost */
  OC_PYTHON_NO_THREAD = 2, /* this thread runs no Python */
  OC_PYTHON_CUT = 3,       /* unreadable, or deeper than OC_PYTHON_DEPTH: the innermost frames only */
};
enum oc_python_entry {
  OC_PYTHON_ENTRY_EACH = 0, /* up to 3.10: each Python frame has a native one of the interpreter's loop */
  OC_PYTHON_ENTRY_FLAG = 1, /* 3.11: the outermost frame of a native one has a flag */
  OC_PYTHON_ENTRY_OWNER =
      2, /* since 3.12: a frame owned by the C stack follows it, which is no Python code */
};
#define OC_PYTHON_NO_FIELD 0xffffffffu

/* Where CPython keeps what is in its code objects, strings and bytes. Offsets in bytes. */
struct oc_python_objects {
  unsigned int code_first_line,
      code_instructions; /* code_instructions 0: frames have numbers, not addresses */
  unsigned int bytes_size, bytes_data;
  unsigned int text_length, text_state, text_kind_bit, text_ascii, text_compact;
  unsigned int lines; /* the form of its line tables, for user space */
};

/* Where CPython keeps what its threads execute; the value of map "pythons", keyed by tgid. Offsets in bytes.
 */
struct oc_python_layout {
  unsigned long long interpreters; /* address of the pointer to the first interpreter */
  unsigned int interpreter_next, interpreter_threads;
  unsigned int thread_next, thread_id; /* the id is pthread_self() */
  unsigned int thread_frame;           /* the newest frame, or the cframe that points to it */
  unsigned int cframe_frame;           /* OC_PYTHON_NO_FIELD: there is no cframe */
  unsigned int frame_code, frame_previous, frame_instruction;
  unsigned int frame_entry; /* one byte: flag or owner */
  unsigned int entry_kind;  /* enum oc_python_entry */
  unsigned int entry_owner; /* the value for OC_PYTHON_ENTRY_OWNER */
  unsigned int code_file, code_name, code_lines;
  unsigned int _pad;
  struct oc_python_objects objects; /* all 0: only addresses are wanted */
};

/* A freed code object's place may soon be another's. What it refers to tells them apart. */
static inline unsigned long long oc_python_identity(unsigned long long file, unsigned long long name,
                                                    unsigned long long lines) {
  return file * 0x9E3779B97F4A7C15ull + name * 0xC2B2AE3D27D4EB4Full + lines;
}

struct oc_python_frame {
  unsigned long long code;        /* address of the code object */
  unsigned long long instruction; /* address, or up to 3.10 the number in the low 32 bits */
  unsigned long long identity;    /* of what the code object was then: oc_python_identity() */
};

/* What a thread of CPython executes. */
struct oc_python_stack {
  unsigned short state; /* enum oc_python_state */
  unsigned short count;
  unsigned int _pad;
  unsigned long long entries;                     /* bit N: frame N is the outermost of its native frame */
  struct oc_python_frame frames[OC_PYTHON_DEPTH]; /* innermost first */
};

#define OC_CODE_DEPTH 8
#define OC_CODE_TEXT 128
#define OC_CODE_LINES 3072
struct oc_python_text {
  unsigned long long length; /* in characters; ~0: unreadable */
  unsigned int width;        /* bytes of one */
  unsigned int bytes;
  unsigned char data[OC_CODE_TEXT]; /* its end, if it is longer */
};
struct oc_python_code {
  unsigned long long code;        /* 0: there is no such frame */
  unsigned long long instruction; /* as in oc_python_frame */
  unsigned int first_line;
  unsigned int lines_bytes;
  struct oc_python_text file, name;
  unsigned char lines[OC_CODE_LINES]; /* the line table, or its beginning */
};

/* Where a thread of a victim was in its Python code when the kill reached it: read in its own context,
 * because its memory is gone a moment later. */
struct oc_dying_code {
  struct oc_header header;
  struct oc_task task;
  unsigned int lines; /* of oc_python_objects */
  unsigned int code_instructions;
  struct oc_python_code frames[OC_CODE_DEPTH]; /* innermost first */
};

/* Where a thread was in user mode: what it takes to unwind it. Sent as far as `stack` is filled. */
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

/* A block that was allocated, or has grown in realloc(): it stands for `weight_bytes` of them. */
struct oc_allocation {
  struct oc_header header; /* its time: when the block got this size */
  struct oc_task task;
  unsigned long long address;
  unsigned long long bytes;        /* of the block */
  unsigned long long weight_bytes; /* 0: it was there before, and has not grown since it was seen */
  unsigned long long born_ns;      /* when it was seen first: realloc() keeps that */
  unsigned long long replaces;     /* the block's address before realloc(); 0: none that was told of */
  unsigned int function;           /* enum oc_allocator_function */
  unsigned int _pad;
  struct oc_user_stack user; /* of the caller */
};

struct oc_freed {
  struct oc_header header;
  unsigned int tgid;
  unsigned int _pad;
  unsigned long long address;
};

/* Calls of one function of the allocator; a value of map "allocator_calls". */
struct oc_allocator_calls {
  unsigned long long calls;
  unsigned long long bytes;
};

/* A block that was told of, and lives; key and value of map "blocks". */
struct oc_block_key {
  unsigned long long address;
  unsigned long long tgid;
};
struct oc_block {
  unsigned long long born_ns;
  unsigned long long base;  /* bytes that it had when it was seen first, if that was in realloc() */
  unsigned long long scale; /* what a byte of it stands for, in 256ths */
};

/* What a process has grown by; the value of map "growth", keyed by tgid. */
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

enum oc_fault_lost_reason {
  OC_LOST_FAULTS_RING_FULL = 0, /* of allocations, too */
  OC_LOST_ALLOCATIONS_BUSY = 1, /* another thread was interrupted while it told of one on this CPU */
  OC_LOST_BLOCK_TABLE_FULL = 2,
  OC_LOST_FREES_RING_FULL = 3, /* map "blocks" tells at the end */
  OC_FAULT_LOST_REASONS = 4,
};

/* Reclaim stalls of one cgroup since load; the value of map "stalls", keyed by the cgroup's id. */
struct oc_stalls {
  unsigned long long count;
  unsigned long long time_ns;
  unsigned long long reclaimed_pages;
};

#define OC_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#ifdef __cplusplus
#define _Static_assert static_assert
#endif
OC_ASSERT_SIZE(oc_header, 16);
OC_ASSERT_SIZE(oc_task, 72);
OC_ASSERT_SIZE(oc_memory, 56);
OC_ASSERT_SIZE(oc_memcg, 40);
OC_ASSERT_SIZE(oc_cgroup_sample, 72);
OC_ASSERT_SIZE(oc_process_sample, 144);
OC_ASSERT_SIZE(oc_fork, 88);
OC_ASSERT_SIZE(oc_exec, 96 + OC_ARGS_LEN);
OC_ASSERT_SIZE(oc_exit, 104);
OC_ASSERT_SIZE(oc_cgroup_event, 40 + OC_NAME_LEN);
OC_ASSERT_SIZE(oc_cgroup_attach, 96);
OC_ASSERT_SIZE(oc_score_adj, 88);
OC_ASSERT_SIZE(oc_oom_mark, 216 + (2 * OC_CHAIN_LEN + 1) * 40);
OC_ASSERT_SIZE(oc_kernel_kill, 216);
OC_ASSERT_SIZE(oc_dying, 160 + 8 * OC_STACK_DEPTH + OC_ARGS_LEN);
OC_ASSERT_SIZE(oc_user_kill, 168);
OC_ASSERT_SIZE(oc_reaper, 24);
OC_ASSERT_SIZE(oc_oom_decision, 192);
OC_ASSERT_SIZE(oc_stalls, 24);
OC_ASSERT_SIZE(oc_gpu_call, 480);
OC_ASSERT_SIZE(oc_gpu_layout, 8);
OC_ASSERT_SIZE(oc_gpu_test_file, 16);
OC_ASSERT_SIZE(oc_gpu_owner, 16);
OC_ASSERT_SIZE(oc_gpu_activity_key, 16);
OC_ASSERT_SIZE(oc_gpu_activity, 16);
OC_ASSERT_SIZE(oc_gpu_xid, 256);
OC_ASSERT_SIZE(oc_growth, 72);
OC_ASSERT_SIZE(oc_python_objects, 40);
OC_ASSERT_SIZE(oc_python_layout, 112);
OC_ASSERT_SIZE(oc_python_code, 24 + 2 * (16 + OC_CODE_TEXT) + OC_CODE_LINES);
OC_ASSERT_SIZE(oc_dying_code, 96 + OC_CODE_DEPTH * sizeof(struct oc_python_code));
OC_ASSERT_SIZE(oc_python_stack, 16 + 24 * OC_PYTHON_DEPTH);
OC_ASSERT_SIZE(oc_user_stack, 8 * OC_REGISTERS + 8 + sizeof(struct oc_python_stack) + OC_STACK_BYTES);
OC_ASSERT_SIZE(oc_fault, 168 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_allocation, 136 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_freed, 32);
OC_ASSERT_SIZE(oc_allocator_calls, 16);
OC_ASSERT_SIZE(oc_block_key, 16);
OC_ASSERT_SIZE(oc_block, 24);

#endif
