/* The OOM decision, its victims, their state at death and the return of their memory; SIGKILLs from user space.
 */
#include "emit.bpf.h"
#include "task.bpf.h"

#define OC_SEND_SIG_NOINFO 0
#define OC_SEND_SIG_PRIV 1
#define OC_SIGNAL_DELIVERED 0

static __always_inline void fill_chain(struct oc_memcg* out, u32* levels, struct cgroup_subsys_state* css) {
  for (u32 i = 0; i < OC_CHAIN_LEN; i++) {
    oc_fill_memcg(&out[i], css);
    if (css) *levels = i + 1;
    css = BPF_CORE_READ(css, parent);
  }
}

/* The whole subtree of a limit's owner is locked while its kill is decided. Chosen without a branch, of which
 * the verifier would walk both ways at each level. */
static __always_inline void fill_owner(struct oc_memcg* out, struct cgroup_subsys_state* css) {
  u64 owner = 0;
  for (u32 i = 0; i < OC_DEEPEST && css; i++) {
    u64 locked = oc_has_oom_lock() ? BPF_CORE_READ((struct mem_cgroup*)css, oom_lock) : 0;
    barrier_var(locked);
    owner = ((u64)css & -locked) | (owner & (locked - 1));
    css = BPF_CORE_READ(css, parent);
  }
  oc_fill_memcg(out, (void*)owner);
}

/* All its threads have exited: it is a zombie, and its exit was reported. */
static __always_inline bool is_zombie(struct task_struct* task) {
  return BPF_CORE_READ(task, signal, live.counter) == 0;
}

/* Follows a process from the kernel's SIGKILL to its exit. */
static __always_inline void follow_victim(struct task_struct* task) {
  u32 tgid = BPF_CORE_READ(task, tgid);
  if (is_zombie(task) || oc_victim_of(tgid)) return;
  struct oc_victim victim = {};
  if (bpf_map_update_elem(&victims, &tgid, &victim, BPF_ANY)) oc_count_lost(OC_LOST_VICTIM_TABLE_FULL);
}

/* The mark follows the SIGKILL, and the victim may have shown its last words between them. */
static __always_inline void follow_marked(struct task_struct* task) {
  u32 tgid = BPF_CORE_READ(task, tgid);
  if (is_zombie(task) || bpf_map_lookup_elem(&marked_victims, &tgid)) return;
  struct oc_victim victim = {};
  struct oc_victim* killed = bpf_map_lookup_elem(&victims, &tgid);
  if (killed) victim = *killed;
  if (bpf_map_update_elem(&marked_victims, &tgid, &victim, BPF_ANY))
    oc_count_lost(OC_LOST_VICTIM_TABLE_FULL); /* and is followed as any other */
  else if (killed)
    bpf_map_delete_elem(&victims, &tgid);
}

/* Limits of records per second for one user and for all. Two CPUs that count at once let one more pass. */
#define OC_KILLS_OF_USER 100
#define OC_KILLS_OF_ALL 500
#define OC_ALL_USERS (~0u)
struct oc_killer {
  u64 second;
  u64 sent;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, u32); /* uid */
  __type(value, struct oc_killer);
} killers SEC(".maps");
struct { /* the same of those for which the kernel sends them */
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, u32); /* uid */
  __type(value, struct oc_killer);
} kernel_killers SEC(".maps");

static __always_inline bool is_within_rate(void* of, u32 uid, u64 second, u64 most) {
  struct oc_killer* killer = bpf_map_lookup_elem(of, &uid);
  if (!killer) {
    struct oc_killer first = {.second = second, .sent = 1};
    bpf_map_update_elem(of, &uid, &first, BPF_ANY);
    return true;
  }
  if (killer->second != second) {
    killer->second = second;
    killer->sent = 0;
  }
  if (killer->sent >= most) return false;
  killer->sent++;
  return true;
}

static __always_inline bool may_be_told(void* of, u32 uid, bool trusted) {
  u64 second = bpf_ktime_get_ns() / 1000000000;
  return is_within_rate(of, uid, second, trusted ? OC_KILLS_OF_ALL : OC_KILLS_OF_USER) &&
         (trusted || is_within_rate(of, OC_ALL_USERS, second, OC_KILLS_OF_ALL));
}

/* The SIGKILLs that the kernel sent last, by the thread that was passed. A mark in the same context that
 * follows is of this one. */
struct oc_sent_kill {
  u64 task;
  u32 sender;   /* tid */
  u32 withheld; /* the reason for which it was counted as lost; 0: it was told */
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, u32); /* tid */
  __type(value, struct oc_sent_kill);
} kernel_killed SEC(".maps");

/* Global functions, as sample_cgroup() is. */
__noinline int tell_kernel_kill(u64 task_address) {
  struct task_struct* task = (struct task_struct*)task_address;
  follow_victim(task);
  struct oc_kernel_kill* r = OC_RESERVE_EVENT(OC_KERNEL_KILL, oc_kernel_kill);
  if (!r) return 0;
  oc_fill_task(&r->victim, task);
  oc_fill_memory(&r->memory, task);
  oc_fill_task(&r->sender, (struct task_struct*)bpf_get_current_task());
  oc_submit_now(r);
  return 0;
}

/* The mark of a kill shows that it was for memory. */
__noinline int tell_withheld_kill(u64 task_address) {
  struct task_struct* task = (struct task_struct*)task_address;
  u32 tid = BPF_CORE_READ(task, pid);
  struct oc_sent_kill* sent = bpf_map_lookup_elem(&kernel_killed, &tid);
  if (!sent || sent->task != task_address || sent->sender != (u32)bpf_get_current_pid_tgid()) return 0;
  u32 reason = sent->withheld;
  if (!reason) return 0;
  sent->withheld = 0;
  u64* count = bpf_map_lookup_elem(&lost, &reason);
  if (count) (*count)--; /* maybe another CPU's than it was counted on: their sum is right */
  return tell_kernel_kill(task_address);
}

/* Any user can have the kernel send SIGKILLs without end that are not for memory: to who uses up a limit of
 * CPU time, which may be 0; by reboot() in a pid namespace of its own; to what one who exits traced, or had
 * in such a namespace. Only the mark, which follows at once, tells which are for memory. So all of them have
 * this bound, and a mark has the kill told that was kept back. */
static __always_inline void kernel_sent_kill(struct task_struct* task) {
  struct task_struct* sender = (struct task_struct*)bpf_get_current_task();
  bool exits = BPF_CORE_READ(sender, flags) & OC_PF_EXITING;
  if (exits && is_zombie(task)) return;
  u32 tid = BPF_CORE_READ(task, pid);
  struct oc_sent_kill sent = {.task = oc_as_number(task), .sender = bpf_get_current_pid_tgid()};
  if (!may_be_told(&kernel_killers, bpf_get_current_uid_gid(), false)) {
    sent.withheld = exits ? OC_LOST_EXIT_KILLS_OVER_RATE : OC_LOST_KERNEL_KILLS_OVER_RATE;
    oc_count_lost(sent.withheld);
  }
  bpf_map_update_elem(&kernel_killed, &tid, &sent, BPF_ANY);
  if (!sent.withheld) tell_kernel_kill(sent.task);
}

/* Records are as long as what is in them, so they are built here first. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_oom_mark);
} mark_scratch SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_dying);
} dying_scratch SEC(".maps");

/* Makes the verifier see a bound that the compiler has proved and dropped. */
#define OC_AT_MOST(number, most)    \
  ({                                \
    u32 n_ = (number);              \
    asm volatile("" : "+r"(n_));    \
    n_ > (most) ? (u32)(most) : n_; \
  })

static __always_inline void marked(struct task_struct* victim) {
  tell_withheld_kill(oc_as_number(victim));
  follow_marked(victim);
  u32 zero = 0;
  struct oc_oom_mark* r = bpf_map_lookup_elem(&mark_scratch, &zero);
  if (!r) return;
  struct task_struct* trigger = (struct task_struct*)bpf_get_current_task();
  struct cgroup_subsys_state *of_trigger = oc_memory_css(trigger), *of_victim = oc_memory_css(victim);
  oc_fill_task(&r->victim, victim);
  oc_fill_memory(&r->memory, victim);
  oc_fill_task(&r->trigger, trigger);
  fill_owner(&r->owner, of_trigger);
  r->levels = r->victim_levels = 0;
  fill_chain(r->chains, &r->levels, of_trigger);
  u32 levels = OC_AT_MOST(r->levels, OC_CHAIN_LEN);
  if (of_victim == of_trigger) {
    r->victim_levels = OC_SAME_CHAIN;
  } else {
    fill_chain(&r->chains[levels], &r->victim_levels, of_victim);
    levels += OC_AT_MOST(r->victim_levels, OC_CHAIN_LEN);
  }
  u32 size = __builtin_offsetof(struct oc_oom_mark, chains) + levels * sizeof(struct oc_memcg);
  oc_fill_header(&r->header, OC_OOM_MARK, size);
  oc_send_event(r, OC_AT_MOST(size, sizeof(*r)));
}

SEC("tp_btf/mark_victim")
int BPF_PROG(on_mark_victim, struct task_struct* task) {
  marked(task);
  return 0;
}

/* The form before the task was passed: only a thread id. The SIGKILL just before it left the task's address;
 * without one the victim was exiting by itself and is the trigger. */
SEC("tp_btf/mark_victim")
int BPF_PROG(on_mark_victim_pid, int pid) {
  struct task_struct* current = (struct task_struct*)bpf_get_current_task();
  u32 tid = pid;
  struct oc_sent_kill* killed = bpf_map_lookup_elem(&kernel_killed, &tid);
  struct task_struct* task = killed ? (struct task_struct*)killed->task : 0;
  if (task && BPF_CORE_READ(task, pid) == pid)
    marked(task);
  else if (BPF_CORE_READ(current, pid) == pid)
    marked(current);
  else
    oc_count_lost(OC_LOST_VICTIM_TABLE_FULL);
  return 0;
}

#define OC_CAP_KILL 5

/* User-space OOM killers such as systemd-oomd and earlyoom: the machine's, not a container's. */
static __always_inline bool may_kill_anybody(struct task_struct* task) {
  const struct cred* cred = BPF_CORE_READ(task, real_cred);
  u32 caps = 0; /* the first 32, whatever type the kernel has for all of them */
  bpf_probe_read_kernel(&caps, sizeof(caps), (char*)cred + bpf_core_field_offset(struct cred, cap_effective));
  return (caps & 1u << OC_CAP_KILL) && !BPF_CORE_READ(cred, user_ns, level) &&
         !BPF_CORE_READ(task, thread_pid, level);
}

#define OC_SI_TIMER -2
#define OC_SI_ASYNCIO -4

/* Whether the running task has sent it. Timers and files send theirs in whatever task an interrupt, or a
 * writer to the file, happens to be. A code above 0 is the kernel's alone. One below 0 can be made up, by
 * rt_sigqueueinfo(), and stands on the stack of the system call then. */
static __always_inline bool is_sent_by(struct task_struct* running, u64 info, s32 code) {
  if (code > 0) return false;
  if (code != OC_SI_TIMER && code != OC_SI_ASYNCIO) return true;
  return info - (u64)BPF_CORE_READ(running, stack) < OC_KERNEL_STACK;
}

static __always_inline void user_sent_kill(struct task_struct* task, u64 info) {
  u64 running = bpf_get_current_task();
  if (is_zombie(task)) return;
  bool no_siginfo = info == OC_SEND_SIG_NOINFO;
  s32 code = no_siginfo ? 0 : BPF_CORE_READ((struct kernel_siginfo*)info, si_code);
  bool by_running = no_siginfo || is_sent_by((struct task_struct*)running, info, code);
  /* A timer can only signal the process that made it, and hardly anybody has a file signal another one. */
  struct task_struct* sender = (struct task_struct*)(by_running ? running : oc_as_number(task));
  bool trusted = by_running && may_kill_anybody(sender);
  if (!may_be_told(&killers, BPF_CORE_READ(sender, real_cred, uid.val), trusted)) {
    oc_count_lost(OC_LOST_USER_KILLS_OVER_RATE);
    return;
  }
  struct oc_user_kill* r = OC_RESERVE(user_kills, OC_LOST_USER_KILLS_RING_FULL, OC_USER_KILL, oc_user_kill);
  if (!r) return;
  oc_fill_task(&r->victim, task);
  oc_fill_task(&r->sender, sender);
  r->si_code = code;
  r->no_siginfo = no_siginfo;
  r->may_kill_anybody = trusted;
  r->by_tracer = BPF_CORE_READ(task, ptrace) && (u64)BPF_CORE_READ(task, parent) == running;
  bpf_ringbuf_submit(r, oc_wakeup_soon());
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal_generate, int sig, struct kernel_siginfo* info, struct task_struct* task, int group,
             int result) {
  if (sig != OC_SIGKILL) return 0;
  if ((u64)info == OC_SEND_SIG_PRIV)
    kernel_sent_kill(task);
  else if (result == OC_SIGNAL_DELIVERED)     /* not: ignored, or pending already */
    user_sent_kill(task, oc_as_number(info)); /* newer verifiers take the pointer itself for never null */
  return 0;
}

/* Runs in the victim's context, before it exits: records its argv and where it was. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_deliver, int sig) {
  if (sig != OC_SIGKILL) return 0;
  u32 tgid = bpf_get_current_pid_tgid() >> 32;
  struct oc_victim* victim = oc_victim_of(tgid);
  if (!victim || victim->shown) return 0;
  victim->shown = 1;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct mm_struct* mm = BPF_CORE_READ(task, mm);
  u32 zero = 0;
  struct oc_dying* r = bpf_map_lookup_elem(&dying_scratch, &zero);
  if (!r) return 0;
  oc_fill_task(&r->task, task);
  oc_fill_memory(&r->memory, task);
  long got = bpf_get_stack(ctx, r->words, OC_STACK_DEPTH * sizeof(u64), BPF_F_USER_STACK);
  u32 stack_bytes = OC_AT_MOST(got > 0 ? got : 0, OC_STACK_DEPTH * sizeof(u64));
  r->stack_frames = stack_bytes / sizeof(u64);
  r->args_truncated = 0;
  u32 args_bytes = mm ? oc_read_args((char*)&r->words[stack_bytes], &r->args_truncated, mm) : 0;
  r->args_bytes = OC_AT_MOST(args_bytes, OC_ARGS_LEN);
  u32 size = __builtin_offsetof(struct oc_dying, words) + stack_bytes + r->args_bytes;
  oc_fill_header(&r->header, OC_DYING, size);
  oc_send_event(r, OC_AT_MOST(size, sizeof(*r)));
  return 0;
}

static __always_inline void reaper(u32 op, int tid) {
  struct oc_reaper* r = OC_RESERVE_EVENT(OC_REAPER, oc_reaper);
  if (!r) return;
  r->op = op;
  r->tid = tid;
  oc_submit_now(r);
}

SEC("tp_btf/wake_reaper")
int BPF_PROG(on_wake_reaper, int tid) {
  reaper(OC_REAP_QUEUED, tid);
  return 0;
}

SEC("tp_btf/finish_task_reaping")
int BPF_PROG(on_finish_task_reaping, int tid) {
  reaper(OC_REAP_DONE, tid);
  return 0;
}

SEC("tp_btf/skip_task_reaping")
int BPF_PROG(on_skip_task_reaping, int tid) {
  reaper(OC_REAP_SKIPPED, tid);
  return 0;
}

/* Order, gfp mask, constraint and the limit's owner as the kernel passes them; only where it can be probed.
 */
SEC("kprobe/oom_kill_process")
int BPF_KPROBE(on_oom_kill_process, struct oom_control* oc) {
  struct oc_oom_decision* r = OC_RESERVE_EVENT(OC_OOM_DECISION, oc_oom_decision);
  if (!r) return 0;
  struct mem_cgroup* memcg = BPF_CORE_READ(oc, memcg);
  oc_fill_task(&r->trigger, (struct task_struct*)bpf_get_current_task());
  oc_fill_task(&r->victim, BPF_CORE_READ(oc, chosen));
  r->limit_cgroup_id = memcg ? oc_css_id((struct cgroup_subsys_state*)memcg) : OC_NO_CGROUP;
  r->total_pages = BPF_CORE_READ(oc, totalpages);
  r->gfp_mask = BPF_CORE_READ(oc, gfp_mask);
  r->order = BPF_CORE_READ(oc, order);
  r->constraint = BPF_CORE_READ(oc, constraint);
  r->_pad = 0;
  oc_submit_now(r);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
