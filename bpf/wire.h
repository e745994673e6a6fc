/* The contract between the kernel programs and user space: with the headers it includes, the only definition of
 * every record.
 *
 * Fixed widths, explicit padding, sizes asserted, the unit in the field's name. Only userspace/wire reads it
 * besides the kernel programs. It has no version: the programs are part of the binary that decodes their records.
 */
#ifndef OOMCAST_WIRE_H
#define OOMCAST_WIRE_H

#include "wire_common.h"
#include "wire_faults.h"
#include "wire_gpu.h"
#include "wire_python.h"

#define OC_NAME_LEN 256   /* a cgroup directory's name, NAME_MAX + 1 */
#define OC_ARGS_LEN 2048  /* argv as the process shows it, NUL-separated */
#define OC_STACK_DEPTH 64 /* user frames of a dying task */
#define OC_CHAIN_LEN 16   /* memory cgroups from a task's own up to the root */
#define OC_DEEPEST 512    /* as far as a limit's owner is looked for */

enum oc_lost_reason {
  OC_LOST_SAMPLES_RING_FULL = 0,
  OC_LOST_EVENTS_RING_FULL = 1,
  OC_LOST_CGROUP_TABLE_FULL = 2, /* looks at a cgroup without a place: it is told in one walk of 16 */
  OC_LOST_PROCESS_TABLE_FULL = 3,
  OC_LOST_VICTIM_TABLE_FULL = 4, /* argv and confirmation of a victim */
  OC_LOST_STALL_TABLE_FULL = 5,  /* reclaim stalls */
  OC_LOST_USER_KILLS_RING_FULL = 6,
  OC_LOST_USER_KILLS_OVER_RATE = 7, /* more than a user may have told in a second */
  OC_LOST_EXIT_KILLS_OVER_RATE = 8, /* of processes that one which exits takes with it, likewise */
  OC_LOST_DYING_CODE_NO_ROOM = 9,   /* Python lines of a victim */
  OC_LOST_KERNEL_KILLS_OVER_RATE =
      10, /* of other SIGKILLs of the kernel that no mark shows to be for memory */
  OC_LOST_REASONS = 11,
};

enum oc_cgroup_op { OC_CGROUP_MKDIR = 1, OC_CGROUP_RMDIR = 2, OC_CGROUP_RENAME = 3 };
enum oc_reaper_op { OC_REAP_QUEUED = 1, OC_REAP_DONE = 2, OC_REAP_SKIPPED = 3 };

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

struct oc_oom_mark {
  struct oc_header header;
  struct oc_task victim;
  struct oc_memory memory;
  struct oc_task trigger;
  struct oc_memcg
      owner;           /* the topmost above the trigger with oom_lock, at any depth; id OC_NO_CGROUP: none */
  unsigned int levels; /* of `chains`: the trigger's cgroup, then its ancestors, */
  unsigned int victim_levels; /* and behind these the victim's; OC_SAME_CHAIN: it has the trigger's */
  struct oc_memcg chains[2 * OC_CHAIN_LEN]; /* sent as far as they are filled */
};
#define OC_SAME_CHAIN (~0u)

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
  unsigned char
      words[8 * OC_STACK_DEPTH + OC_ARGS_LEN]; /* the frames, then argv; sent as far as it is filled */
};

struct oc_user_kill {
  struct oc_header header;
  struct oc_task victim;
  struct oc_task sender;
  int si_code;
  unsigned int no_siginfo;       /* 1: sent by the kernel on behalf of the sender, as cgroup.kill does */
  unsigned int may_kill_anybody; /* the sender, outside of containers */
  unsigned int by_tracer;        /* 1: the sender traces the victim */
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

/* Reclaim stalls of one cgroup since load; the value of map "stalls", keyed by the cgroup's id. */
struct oc_stalls {
  unsigned long long count;
  unsigned long long time_ns;
  unsigned long long reclaimed_pages;
};

OC_ASSERT_SIZE(oc_cgroup_sample, 72);
OC_ASSERT_SIZE(oc_process_sample, 144);
OC_ASSERT_SIZE(oc_fork, 88);
OC_ASSERT_SIZE(oc_exec, 96 + OC_ARGS_LEN);
OC_ASSERT_SIZE(oc_exit, 96);
OC_ASSERT_SIZE(oc_cgroup_event, 40 + OC_NAME_LEN);
OC_ASSERT_SIZE(oc_cgroup_attach, 96);
OC_ASSERT_SIZE(oc_oom_mark, 264 + 2 * OC_CHAIN_LEN * 40);
OC_ASSERT_SIZE(oc_kernel_kill, 216);
OC_ASSERT_SIZE(oc_dying, 160 + 8 * OC_STACK_DEPTH + OC_ARGS_LEN);
OC_ASSERT_SIZE(oc_user_kill, 176);
OC_ASSERT_SIZE(oc_reaper, 24);
OC_ASSERT_SIZE(oc_oom_decision, 192);
OC_ASSERT_SIZE(oc_stalls, 24);

#endif
