/* The kernel's types, as far as they are used: fields are found by CO-RE relocation, so only names count
 * here. Suffixes after ___ are flavours: the same type on another kernel.
 */
#ifndef OOMCAST_KERNEL_BPF_H
#define OOMCAST_KERNEL_BPF_H
#define __VMLINUX_H__ /* libbpf: registers by their kernel names */

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
typedef int pid_t;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
#define true 1
#define false 0
#define OC_SIGKILL 9

enum bpf_map_type {
  BPF_MAP_TYPE_HASH = 1,
  BPF_MAP_TYPE_ARRAY = 2,
  BPF_MAP_TYPE_PERCPU_HASH = 5,
  BPF_MAP_TYPE_PERCPU_ARRAY = 6,
  BPF_MAP_TYPE_LRU_HASH = 9,
  BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
  BPF_ANY = 0,
  BPF_NOEXIST = 1,
  BPF_RB_NO_WAKEUP = 1,
  BPF_RB_FORCE_WAKEUP = 2,
  BPF_RB_AVAIL_DATA = 0,
  BPF_F_NO_PREALLOC = 1,
  BPF_F_USER_STACK = 256,
};

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
  int counter;
} atomic_t;
typedef struct {
  s64 counter;
} atomic_long_t;

struct kernfs_node {
  u64 id;
  const char* name;
};
struct cgroup_root {
  int hierarchy_id;
};
struct cgroup_subsys_state;
struct cgroup {
  struct cgroup_subsys_state* subsys[16];
  struct kernfs_node* kn;
  struct cgroup_root* root;
  int level;
};
struct cgroup_subsys_state {
  struct cgroup* cgroup;
  struct cgroup_subsys_state* parent;
};
enum cgroup_subsys_id { memory_cgrp_id = 4 };
struct css_set {
  struct cgroup_subsys_state* subsys[16];
};
struct page_counter {
  atomic_long_t usage;
  unsigned long max;
  unsigned long watermark;
};
struct mem_cgroup {
  struct cgroup_subsys_state css;
  struct page_counter memory;
  bool oom_group;
  bool oom_lock;
};
struct percpu_counter {
  s64 count;
};
struct mm_rss_stat {
  atomic_long_t count[4];
};
struct rb_node {
  unsigned long __rb_parent_color;
  struct rb_node *rb_right, *rb_left;
};
struct rb_root {
  struct rb_node* rb_node;
};
struct rb_root_cached {
  struct rb_root rb_root;
};
struct address_space {
  struct rb_root_cached i_mmap; /* all mappings of a file */
};
struct super_block {
  unsigned int s_dev;
};
struct inode {
  unsigned short i_mode;
  unsigned int i_rdev;
  struct super_block* i_sb;
  unsigned long i_ino;
};
struct file {
  struct inode* f_inode;
  struct address_space* f_mapping;
  void* private_data;
};
struct kobject {
  const char* name;
};
struct device {
  struct kobject kobj;
};
struct pci_dev {
  struct device dev;
};
struct fdtable {
  unsigned int max_fds;
  struct file** fd;
};
struct files_struct {
  struct fdtable* fdt;
};
struct task_struct;
struct mm_struct;
struct vm_area_struct {
  unsigned long vm_start, vm_end, vm_pgoff;
  struct mm_struct* vm_mm;
  struct file* vm_file;
  struct {
    struct rb_node rb;
    unsigned long rb_subtree_last; /* the last page of the file below this node */
  } shared;
};
struct vm_area_struct___list { /* up to 6.0 */
  unsigned long vm_start, vm_end, vm_pgoff;
  struct file* vm_file;
  struct vm_area_struct___list* vm_next;
};
struct rw_semaphore {
  atomic_long_t count;
  atomic_long_t owner; /* who took it last, with flags in the lowest bits */
};
struct mm_struct {
  struct rw_semaphore mmap_lock;
  struct percpu_counter rss_stat[4];
  atomic_long_t pgtables_bytes;
  unsigned long total_vm;
  unsigned long start_stack, arg_start, arg_end;
  int map_count;
  struct task_struct* owner;
};
struct mm_struct___list {
  struct vm_area_struct___list* mmap;
};
struct mm_struct___atomic {
  struct mm_rss_stat rss_stat;
};
struct signal_struct {
  atomic_t live;
  int nr_threads;
  short oom_score_adj;
  int group_exit_code;
  unsigned int flags;
};
typedef struct {
  unsigned int val;
} kuid_t;
typedef struct {
  u32 cap[2];
} kernel_cap_t;
struct user_namespace {
  int level;
};
struct cred {
  kuid_t uid;
  kernel_cap_t cap_effective;
  struct user_namespace* user_ns;
};
struct ns_common {
  unsigned int inum;
};
struct pid_namespace {
  struct ns_common ns;
};
struct upid {
  int nr;
  struct pid_namespace* ns;
};
struct pid {
  unsigned int level;
  struct upid numbers[1];
};
struct thread_struct {
  unsigned long fsbase; /* x86: where the C library finds its thread */
};
struct sched_entity {
  u64 sum_exec_runtime;
};
struct task_struct {
  void* stack;
  struct sched_entity se;
  unsigned long min_flt, maj_flt;
  struct thread_struct thread;
  unsigned int flags;
  pid_t pid, tgid;
  u64 start_boottime;
  struct task_struct* real_parent;
  struct task_struct* parent; /* who traces it, if anybody does */
  unsigned int ptrace;
  struct task_struct* group_leader;
  struct mm_struct* mm;
  struct signal_struct* signal;
  struct css_set* cgroups;
  struct files_struct* files;
  const struct cred* real_cred;
  struct pid* thread_pid;
  int exit_code;
  char comm[16];
};
struct kernel_siginfo {
  int si_code;
};
enum oom_constraint { CONSTRAINT_NONE };
struct oom_control {
  struct mem_cgroup* memcg;
  unsigned int gfp_mask;
  int order;
  unsigned long totalpages;
  struct task_struct* chosen;
  enum oom_constraint constraint;
};
struct bpf_perf_event_data;
struct seq_file;
struct bpf_iter_meta {
  struct seq_file* seq;
};
struct bpf_iter__task {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
};
struct bpf_iter__cgroup {
  struct cgroup* cgroup;
};
/* x86-64 */
struct pt_regs {
  unsigned long r10, r9, r8, dx, si, di; /* a system call's arguments: di, si, dx, r10, r8, r9 */
  unsigned long ax, orig_ax;             /* its result, its number */
  unsigned long sp;
};

#pragma clang attribute pop

#endif
