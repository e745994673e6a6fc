/* The parts common to all records. See wire.h. */
#ifndef OOMCAST_WIRE_COMMON_H
#define OOMCAST_WIRE_COMMON_H

#define OC_COMM_LEN 16
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
  OC_GPU_STACK = 37, /* only while blame runs */
  OC_GPU_CODE = 38,  /* only where it does not: struct oc_dying_code */
  /* ring "faults", only while blame runs */
  OC_FAULT = 33,
  OC_ALLOCATION = 35,
  OC_FREED = 36,
  OC_ADDITION = 39,
  /* ring "gpu_xids", only where the driver tells of them */
  OC_GPU_XID = 34,
};

enum oc_task_flags {
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

/* If a size changes unnoticed, the other side misreads the record. */
#define OC_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#ifdef __cplusplus
#define _Static_assert static_assert
#endif
OC_ASSERT_SIZE(oc_header, 16);
OC_ASSERT_SIZE(oc_task, 72);
OC_ASSERT_SIZE(oc_memory, 56);
OC_ASSERT_SIZE(oc_memcg, 40);

#endif
