/* The NVIDIA driver's memory as every program must ask for it: the ioctls of nvidiactl, nvidiaN and
 * nvidia-uvm, and the mappings of nvidia-uvm. All of it is read when the call returns: both drivers copy the
 * whole argument back, so that the question and its answer stand side by side in the program's memory (and
 * its pages were touched a moment ago, so that a read which may not sleep finds them).
 *
 * An object of its own, loaded and attached only while such a device is in use. What a call means, and its
 * layout by driver version, is user space's to know: only what must be known to read a few bounded pieces is
 * here.
 */

#include "gpu_maps.bpf.h"
#include "python_code.bpf.h"
#include "record.bpf.h"
#include "task.bpf.h"
#include "user_stack.bpf.h"

#define SYSCALL_MMAP 9
#define SYSCALL_MUNMAP 11
#define SYSCALL_IOCTL 16

#define NVIDIA_MAJOR 195
#define NVIDIA_CONTROL_MINOR 255
#define NVIDIA_LAST_CARD_MINOR 247
#define S_IFMT 0170000
#define S_IFCHR 0020000

/* Functions of OC_RM_VID_HEAP_CONTROL, told at this offset, that ask for memory. */
#define HEAP_FUNCTION_AT 8
#define HEAP_ALLOC_SIZE 2
#define HEAP_ALLOC_SIZE_RANGE 14

const volatile bool oc_gpu_has_test_files = false;
const volatile bool oc_gpu_wants_stacks = false; /* of calls that ask for memory, */
const volatile bool oc_gpu_wants_code = false;   /* or the Python lines that made them */
volatile unsigned int oc_uvm_major = 0;          /* 0: the driver is not loaded yet */
/* The low bits of a uvm file's private_data where the rest is its va_space; -1: nobody asks whose they are.
 */
volatile int oc_uvm_tag = -1;
unsigned long long oc_gpu_lost = 0;      /* the ring was full; sum over all CPUs */
unsigned long long oc_gpu_code_lost = 0; /* Python lines of calls: there was no room */
unsigned long long oc_gpu_untracked = 0; /* processes and va_spaces that found no room in their tables */

struct { /* a context is about 250 records of 480 bytes; a pool that is freed, thousands within milliseconds
          */
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4 * 1024 * 1024);
} gpu_calls SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, OC_GPU_UVM_COMMANDS);
  __type(key, u32);
  __type(value, struct oc_gpu_layout);
} gpu_layouts SEC(".maps");

enum gpu_process { GPU_USER = 1, GPU_MAKES_CONTEXT = 2, GPU_HAS_CONTEXT = 3 };
struct { /* processes that use nvidia-uvm, so that nobody else's munmap is told; user space removes the dead
          */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, u32);   /* tgid */
  __type(value, u32); /* enum gpu_process */
} gpu_processes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16);
  __type(key, struct oc_gpu_test_file);
  __type(value, u32);
} gpu_test_files SEC(".maps");

struct { /* made only where stacks are wanted */
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_gpu_stack);
} gpu_stack_buffer SEC(".maps");

struct { /* made only where Python lines are wanted */
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct oc_python_stack);
} gpu_python_stack SEC(".maps");

struct target {
  u32 device, minor;
  u64 file;
};

/* What the running task's descriptor leads to; device 0: not the driver. */
static __always_inline struct target target_of(u32 fd) {
  struct target out = {};
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct fdtable* table = BPF_CORE_READ(task, files, fdt);
  if (!table || fd >= BPF_CORE_READ(table, max_fds)) return out;
  struct file** files = BPF_CORE_READ(table, fd);
  struct file* file = 0;
  bpf_probe_read_kernel(&file, sizeof(file), files + fd);
  if (!file) return out;
  struct inode* inode = BPF_CORE_READ(file, f_inode);
  out.file = (u64)file;
  if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFCHR) {
    u32 device = BPF_CORE_READ(inode, i_rdev);
    u32 major = device >> 20;
    out.minor = device & 0xfffff;
    if (major == NVIDIA_MAJOR && out.minor == NVIDIA_CONTROL_MINOR) out.device = OC_GPU_CONTROL;
    if (major == NVIDIA_MAJOR && out.minor <= NVIDIA_LAST_CARD_MINOR) out.device = OC_GPU_CARD;
    if (oc_uvm_major && major == oc_uvm_major && out.minor == 0) out.device = OC_GPU_UVM;
  } else if (oc_gpu_has_test_files) {
    struct oc_gpu_test_file key = {.device = BPF_CORE_READ(inode, i_sb, s_dev),
                                   .inode = BPF_CORE_READ(inode, i_ino)};
    u32* kind = bpf_map_lookup_elem(&gpu_test_files, &key);
    if (kind) out.device = *kind;
  }
  return out;
}

static __always_inline struct oc_gpu_call* reserve(u32 syscall, const struct target* target, long result) {
  struct oc_gpu_call* r = bpf_ringbuf_reserve(&gpu_calls, sizeof(*r), 0);
  if (!r) {
    __sync_fetch_and_add(&oc_gpu_lost, 1);
    return 0;
  }
  oc_fill_header(&r->header, OC_GPU_CALL, sizeof(*r));
  oc_fill_task(&r->task, (struct task_struct*)bpf_get_current_task());
  r->syscall = syscall;
  r->device = target->device;
  r->minor = target->minor;
  r->command = 0;
  r->result = result;
  r->file = target->file;
  r->address = r->length_bytes = 0;
  r->head_bytes = r->tail_bytes = r->params_bytes = r->_pad = 0;
  return r;
}

static __always_inline void submit(struct oc_gpu_call* r) {
  bpf_ringbuf_submit(r, 0);
}

/* `user`: what the thread came into the kernel with. */
static __always_inline void send_stack(const struct pt_regs* user) {
  u32 zero = 0;
  u64 saved[SAVED];
  struct oc_gpu_stack* r = bpf_map_lookup_elem(&gpu_stack_buffer, &zero);
  if (!r || bpf_probe_read_kernel(saved, sizeof(saved), user)) return;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  fill_registers(&r->user, saved);
  oc_fill_task(&r->task, task);
  copy_stack(&r->user, task, r->user.registers[7]);
  oc_read_python(&r->user.python, task);
  u32 size = __builtin_offsetof(struct oc_gpu_stack, user.stack) + r->user.stack_bytes;
  if (size > sizeof(*r)) return;
  oc_fill_header(&r->header, OC_GPU_STACK, size);
  if (bpf_ringbuf_output(&gpu_calls, r, size, 0)) __sync_fetch_and_add(&oc_gpu_lost, 1);
}

/* 54 KiB: calls matter more than where they were made. */
#define ROOM_FOR_CALLS 0x200000
static __always_inline void send_code(void) {
  u32 zero = 0;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct oc_python_layout* layout = oc_python_layout_of(task);
  struct oc_python_stack* stack = bpf_map_lookup_elem(&gpu_python_stack, &zero);
  if (!layout || !stack) return;
  if (bpf_ringbuf_query(&gpu_calls, BPF_RB_AVAIL_DATA) > ROOM_FOR_CALLS) {
    __sync_fetch_and_add(&oc_gpu_code_lost, 1);
    return;
  }
  oc_read_python(stack, task);
  if (!stack->count) return;
  struct oc_dying_code* r = bpf_ringbuf_reserve(&gpu_calls, sizeof(*r), 0);
  if (!r) {
    __sync_fetch_and_add(&oc_gpu_code_lost, 1);
    return;
  }
  oc_fill_header(&r->header, OC_GPU_CODE, sizeof(*r));
  oc_fill_task(&r->task, task);
  oc_copy_code(r, stack, layout);
  bpf_ringbuf_submit(r, 0);
}

/* How many bytes were read: all or none. The barrier keeps the compiler from folding the bound into another
 * compare that the verifier does not follow. */
static __always_inline u16 read_argument(void* to, u32 room, u32 bytes, u64 from) {
  barrier_var(bytes);
  if (bytes > room) return 0;
  return bpf_probe_read_user(to, bytes, (void*)from) ? 0 : (u16)bytes;
}

static __always_inline void remember_process(bool makes_context) {
  u32 tgid = bpf_get_current_pid_tgid() >> 32, now = makes_context ? GPU_MAKES_CONTEXT : GPU_USER;
  if ((makes_context || !bpf_map_lookup_elem(&gpu_processes, &tgid)) &&
      bpf_map_update_elem(&gpu_processes, &tgid, &now, BPF_ANY))
    __sync_fetch_and_add(&oc_gpu_untracked, 1);
}

/* Whether the answer is of interest. Memory is registered at each allocation: the first behind a context says
 * that it is complete. */
static __always_inline bool is_wanted(u32 command) {
  if (command == OC_RM_MEMORY_INFO || command == OC_RM_CARD_ID) return true;
  if (command != OC_RM_REGISTER_MEMORY) return false;
  u32 tgid = bpf_get_current_pid_tgid() >> 32;
  u32* process = bpf_map_lookup_elem(&gpu_processes, &tgid);
  if (!process || *process != GPU_MAKES_CONTEXT) return false;
  *process = GPU_HAS_CONTEXT;
  return true;
}

/* So that later work in the driver's own threads can be attributed to the caller. A process that was there before
 * is added at its next call. A new va_space replaces an earlier one with the same address.
 */
static __always_inline void remember_va_space(const struct target* target, bool is_new) {
  int tag = oc_uvm_tag;
  if (tag < 0) return;
  struct file* file = (struct file*)target->file;
  u64 space = (u64)BPF_CORE_READ(file, private_data);
  if ((space & 7) != (u32)tag) return;
  space &= ~7ull;
  if (!space || (!is_new && bpf_map_lookup_elem(&gpu_va_spaces, &space))) return;
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct oc_gpu_owner owner = {.start_ns = BPF_CORE_READ(task, group_leader, start_boottime),
                               .tgid = bpf_get_current_pid_tgid() >> 32};
  if (bpf_map_update_elem(&gpu_va_spaces, &space, &owner, BPF_ANY))
    __sync_fetch_and_add(&oc_gpu_untracked, 1);
}

static __always_inline void uvm_call(u32 command, u64 argument, const struct target* target, long result) {
  u32 at = command == OC_UVM_INITIALIZE ? 128 : command == OC_UVM_DEINITIALIZE ? 129 : command;
  struct oc_gpu_layout* layout = bpf_map_lookup_elem(&gpu_layouts, &at);
  remember_process(command == OC_UVM_REGISTER_VASPACE);
  remember_va_space(target, command == OC_UVM_INITIALIZE);
  if (!layout || !layout->head_bytes) return;
  u32 head = layout->head_bytes, tail = layout->tail_bytes;
  u64 tail_at = layout->tail_at;
  struct oc_gpu_call* r = reserve(OC_GPU_IOCTL, target, result);
  if (!r) return;
  r->command = command;
  r->head_bytes = read_argument(r->head, OC_GPU_HEAD_LEN, head, argument);
  if (tail) r->tail_bytes = read_argument(r->tail, OC_GPU_TAIL_LEN, tail, argument + tail_at);
  submit(r);
}

static __always_inline bool is_memory_class(u32 class) {
  return class == OC_RM_MEMORY_SYSTEM || class == OC_RM_MEMORY_DEVICE || class == OC_RM_MEMORY_DESCRIPTOR ||
         class == OC_RM_MEMORY_FABRIC;
}

/* Whether the call asks for memory, by its argument. */
static __always_inline bool asks_for_memory(u32 number, const struct oc_gpu_call* r) {
  if (number == OC_RM_ALLOC || number == OC_RM_ALLOC_MEMORY) return true;
  u32 function = *(const u32*)&r->head[HEAP_FUNCTION_AT];
  return number == OC_RM_VID_HEAP_CONTROL && r->head_bytes &&
         (function == HEAP_ALLOC_SIZE || function == HEAP_ALLOC_SIZE_RANGE);
}

static __always_inline void rm_call(u32 number, u32 size, u64 argument, const struct target* target,
                                    long result, const struct pt_regs* user) {
  /* Most calls of these two are irrelevant: check before reserving a record. */
  u64 pointer = 0;
  u32 params = 0;
  if (number == OC_RM_CONTROL) {
    u32 command = 0;
    if (bpf_probe_read_user(&command, sizeof(command), (char*)argument + 8) || !is_wanted(command)) return;
    if (bpf_probe_read_user(&pointer, sizeof(pointer), (char*)argument + 16) ||
        bpf_probe_read_user(&params, sizeof(params), (char*)argument + 24))
      return;
  } else if (number == OC_RM_ALLOC) {
    u32 class = 0;
    if (bpf_probe_read_user(&class, sizeof(class), (char*)argument + 12) || !is_memory_class(class)) return;
    if (bpf_probe_read_user(&pointer, sizeof(pointer), (char*)argument + 16)) return;
    params = 72; /* as far as the size */
  }
  struct oc_gpu_call* r = reserve(OC_GPU_IOCTL, target, result);
  if (!r) return;
  r->command = 0xC0000000u | size << 16 | 'F' << 8 | number;
  if (size) r->head_bytes = read_argument(r->head, OC_GPU_HEAD_LEN, size, argument);
  if (params > OC_GPU_PARAMS_LEN) params = OC_GPU_PARAMS_LEN;
  if (pointer && params) r->params_bytes = read_argument(r->params, OC_GPU_PARAMS_LEN, params, pointer);
  /* The call was reserved earlier, so it is read first; submit it last, so that its reader finds the stack. */
  if ((oc_gpu_wants_stacks || oc_gpu_wants_code) && asks_for_memory(number, r)) {
    if (oc_gpu_wants_stacks)
      send_stack(user);
    else
      send_code();
  }
  submit(r);
}

static __always_inline bool is_rm_number(u32 number) {
  return number == OC_RM_ALLOC_MEMORY || number == OC_RM_FREE || number == OC_RM_CONTROL ||
         number == OC_RM_ALLOC || number == OC_RM_DUP_OBJECT || number == OC_RM_VID_HEAP_CONTROL ||
         number == OC_RM_CHECK_VERSION || number == OC_RM_TRANSFER;
}

/* Cheapest first: two compares turn away the ioctls of terminals, sockets and other drivers. */
static __always_inline void on_ioctl(u32 fd, u32 command, u64 argument, long result,
                                     const struct pt_regs* user) {
  bool uvm = command < 128 || command == OC_UVM_INITIALIZE || command == OC_UVM_DEINITIALIZE;
  u32 number = command & 0xff, size = command >> 16 & 0x3fff;
  bool rm = command >> 30 == 3 && (command >> 8 & 0xff) == 'F' && is_rm_number(number);
  if (!uvm && !rm) return;
  struct target target = target_of(fd);
  if (!target.device || uvm != (target.device == OC_GPU_UVM)) return;
  if (uvm) {
    uvm_call(command, argument, &target, result);
    return;
  }
  if (number == OC_RM_TRANSFER) { /* an ioctl in an envelope: opened once */
    struct {
      u32 command, size;
      u64 pointer;
    } inside = {};
    if (bpf_probe_read_user(&inside, sizeof(inside), (void*)argument)) return;
    if (inside.command == OC_RM_TRANSFER || inside.size > 0x3fff || !is_rm_number(inside.command)) return;
    number = inside.command;
    size = inside.size;
    argument = inside.pointer;
  }
  rm_call(number, size, argument, &target, result, user);
}

static __always_inline void on_mmap(u64 length, u32 fd, u64 offset, long result) {
  if ((u64)result != offset || !offset) return; /* managed memory is mapped where its offset says */
  struct target target = target_of(fd);
  if (target.device != OC_GPU_UVM) return;
  remember_process(false);
  remember_va_space(&target, false);
  struct oc_gpu_call* r = reserve(OC_GPU_MMAP, &target, 0);
  if (!r) return;
  r->address = (u64)result;
  r->length_bytes = length;
  submit(r);
}

static __always_inline void on_munmap(u64 address, u64 length, long result) {
  u32 tgid = bpf_get_current_pid_tgid() >> 32;
  if (result || !bpf_map_lookup_elem(&gpu_processes, &tgid)) return;
  struct target none = {};
  struct oc_gpu_call* r = reserve(OC_GPU_MUNMAP, &none, result);
  if (!r) return;
  r->address = address;
  r->length_bytes = length;
  submit(r);
}

/* Where the kernel can trace functions, other system calls cost nothing extra. */
SEC("fexit/__x64_sys_ioctl")
int BPF_PROG(on_ioctl_return, struct pt_regs* regs, long result) {
  on_ioctl((u32)regs->di, (u32)regs->si, regs->dx, result, regs);
  return 0;
}
SEC("fexit/__x64_sys_mmap")
int BPF_PROG(on_mmap_return, struct pt_regs* regs, long result) {
  on_mmap(regs->si, (u32)regs->r8, regs->r9, result);
  return 0;
}
SEC("fexit/__x64_sys_munmap")
int BPF_PROG(on_munmap_return, struct pt_regs* regs, long result) {
  on_munmap(regs->di, regs->si, result);
  return 0;
}

/* Where they cannot: behind the kernel's own tracepoints of the three calls. Each system call takes the slow
 * way out, but only these run a program. Since 5.15, and where tracefs tells their numbers. */
static __always_inline struct pt_regs* own_registers(void) {
  return (struct pt_regs*)bpf_task_pt_regs(bpf_get_current_task_btf());
}
SEC("tracepoint/syscalls/sys_exit_ioctl")
int on_ioctl_exit(void* ctx) {
  struct pt_regs* regs = own_registers();
  on_ioctl((u32)regs->di, (u32)regs->si, regs->dx, (long)regs->ax, regs);
  return 0;
}
SEC("tracepoint/syscalls/sys_exit_mmap")
int on_mmap_exit(void* ctx) {
  struct pt_regs* regs = own_registers();
  on_mmap(regs->si, (u32)regs->r8, regs->r9, (long)regs->ax);
  return 0;
}
SEC("tracepoint/syscalls/sys_exit_munmap")
int on_munmap_exit(void* ctx) {
  struct pt_regs* regs = own_registers();
  on_munmap(regs->di, regs->si, (long)regs->ax);
  return 0;
}

/* Elsewhere each system call pays a program, for a compare. */
SEC("tp_btf/sys_exit")
int BPF_PROG(on_syscall_return, struct pt_regs* regs, long result) {
  u64 number = regs->orig_ax;
  if (number == SYSCALL_IOCTL)
    on_ioctl((u32)regs->di, (u32)regs->si, regs->dx, result, regs);
  else if (number == SYSCALL_MMAP)
    on_mmap(regs->si, (u32)regs->r8, regs->r9, result);
  else if (number == SYSCALL_MUNMAP)
    on_munmap(regs->di, regs->si, result);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
