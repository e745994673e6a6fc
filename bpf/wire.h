/* The contract between the kernel programs and user space: the only definition of every record.
 *
 * Fixed widths, explicit padding, sizes asserted, the unit in the field's name. Only userspace/wire reads it
 * besides the kernel programs. Change a layout and OC_WIRE_VERSION changes with it; it is compared once, at
 * load.
 */
#ifndef OOMCAST_WIRE_H
#define OOMCAST_WIRE_H

#define OC_WIRE_VERSION 1u

#define OC_COMM_LEN 16
#define OC_NAME_LEN 256   /* a cgroup directory's name, NAME_MAX + 1 */
#define OC_ARGS_LEN 2048  /* argv as the process shows it, NUL-separated */
#define OC_STACK_DEPTH 64 /* user frames of a dying task */
#define OC_CHAIN_LEN 16   /* memory cgroups from a task's own up to the root */
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
  OC_USER_KILL = 20,
  OC_REAPER = 21,
  OC_OOM_DECISION = 22,
  /* ring "gpu_calls", only while an NVIDIA device is in use */
  OC_GPU_CALL = 32,
};

enum oc_lost_reason {
  OC_LOST_SAMPLES_RING_FULL = 0,
  OC_LOST_EVENTS_RING_FULL = 1,
  OC_LOST_CGROUP_TABLE_FULL = 2, /* a cgroup that ticks cannot follow; it is still polled */
  OC_LOST_PROCESS_TABLE_FULL = 3,
  OC_LOST_VICTIM_TABLE_FULL = 4, /* argv and confirmation of a victim */
  OC_LOST_STALL_TABLE_FULL = 5,  /* reclaim stalls */
  OC_LOST_REASONS = 6,
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
OC_ASSERT_SIZE(oc_oom_mark, 216 + 2 * OC_CHAIN_LEN * 40);
OC_ASSERT_SIZE(oc_kernel_kill, 216);
OC_ASSERT_SIZE(oc_dying, 160 + 8 * OC_STACK_DEPTH + OC_ARGS_LEN);
OC_ASSERT_SIZE(oc_user_kill, 168);
OC_ASSERT_SIZE(oc_reaper, 24);
OC_ASSERT_SIZE(oc_oom_decision, 192);
OC_ASSERT_SIZE(oc_stalls, 24);
OC_ASSERT_SIZE(oc_gpu_call, 480);
OC_ASSERT_SIZE(oc_gpu_layout, 8);
OC_ASSERT_SIZE(oc_gpu_test_file, 16);

#endif
