/* Reads which Python code the running thread executes, if user space has provided the layout of its CPython. */
#ifndef OOMCAST_PYTHON_BPF_H
#define OOMCAST_PYTHON_BPF_H

#include "numbers.bpf.h"

struct { /* by tgid, written by user space */
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, u32);
  __type(value, struct oc_python_layout);
} pythons __weak SEC(".maps");

#define OC_PF_FORKNOEXEC 0x00000040
/* A child that has not executed anything has its parent's memory, at the same addresses. */
static __always_inline struct oc_python_layout* oc_python_layout_of(struct task_struct* task) {
  for (int level = 0; level < 4; ++level) {
    u32 tgid = oc_seen_tgid(task);
    struct oc_python_layout* layout = bpf_map_lookup_elem(&pythons, &tgid);
    if (layout) return layout;
    task = BPF_CORE_READ(task, group_leader);
    if (!(BPF_CORE_READ(task, flags) & OC_PF_FORKNOEXEC)) return 0;
    task = BPF_CORE_READ(task, real_parent);
  }
  return 0;
}

static __always_inline u64 oc_user_word(u64 address) {
  u64 word = 0;
  bpf_probe_read_user(&word, sizeof(word), (void*)address);
  return word;
}

#define OC_PYTHON_STEPS 128 /* threads and interpreters looked at */
static __always_inline u64 oc_python_thread(struct oc_python_layout* l, u64 thread_id) {
  u64 interpreter = oc_user_word(l->interpreters);
  u64 thread = interpreter ? oc_user_word(interpreter + l->interpreter_threads) : 0;
  for (int step = 0; step < OC_PYTHON_STEPS; ++step) {
    if (thread) {
      if (oc_user_word(thread + l->thread_id) == thread_id) return thread;
      thread = oc_user_word(thread + l->thread_next);
    } else {
      if (!interpreter) return 0;
      interpreter = oc_user_word(interpreter + l->interpreter_next);
      if (!interpreter) return 0;
      thread = oc_user_word(interpreter + l->interpreter_threads);
    }
  }
  return 0;
}

/* 1 if x is negative, else 0; without a branch, because the verifier would explore both sides of each. */
static __always_inline u64 oc_is_negative(s64 x) {
  barrier_var(x);
  return (u64)x >> 63;
}

static __noinline int oc_walk_python(struct oc_python_stack* r, struct oc_python_layout* l, u64 thread_id) {
  u64 thread = oc_python_thread(l, thread_id);
  if (!thread) return OC_PYTHON_NO_THREAD;
  u64 frame = oc_user_word(thread + l->thread_frame);
  if (frame && l->cframe_frame != OC_PYTHON_NO_FIELD) frame = oc_user_word(frame + l->cframe_frame);
  s64 kind = l->entry_kind;
  u64 each = oc_is_negative(kind - OC_PYTHON_ENTRY_FLAG), owned = oc_is_negative(OC_PYTHON_ENTRY_FLAG - kind);
  u32 depth = 0;
  u64 entries = 0;
  while (depth < OC_PYTHON_DEPTH && frame) {
    u8 mark = 0;
    u64 code = 0;
    if (bpf_probe_read_user(&code, sizeof(code), (void*)(frame + l->frame_code))) break;
    code &= ~7ull; /* since 3.14 the pointer has marks in its low bits */
    bpf_probe_read_user(&mark, sizeof(mark), (void*)(frame + l->frame_entry));
    /* The shim between two native frames counts as a step, so that the loop ends; its slot says nothing. */
    u64 shim = owned & (oc_is_negative((s64)mark - l->entry_owner) ^ 1);
    u64 entry = each | (oc_is_negative(-(s64)mark) & (owned ^ 1));
    entries |= entry << (depth & 63) | shim << (depth & 63) >> 1; /* of the frame before the shim */
    struct oc_python_frame* out = &r->frames[depth & 63];
    out->code = code & (shim - 1);
    out->instruction = oc_user_word(frame + l->frame_instruction) & (shim - 1);
    out->identity = oc_python_identity(oc_user_word(code + l->code_file), oc_user_word(code + l->code_name),
                                       oc_user_word(code + l->code_lines)) &
                    (shim - 1);
    ++depth;
    frame = oc_user_word(frame + l->frame_previous);
  }
  r->count = depth;
  r->entries = entries;
  return frame ? OC_PYTHON_CUT : OC_PYTHON_READ;
}

static __always_inline void oc_read_python(struct oc_python_stack* r, struct task_struct* task) {
  r->state = OC_PYTHON_NONE;
  r->count = 0;
  r->entries = 0;
  struct oc_python_layout* layout = oc_python_layout_of(task);
  if (layout) r->state = oc_walk_python(r, layout, BPF_CORE_READ(task, thread.fsbase));
}

#endif
