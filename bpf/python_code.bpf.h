/* Names and lines of the Python code that a thread executes, read in its own context, for cases where they cannot
 * be read later. */
#ifndef OOMCAST_PYTHON_CODE_BPF_H
#define OOMCAST_PYTHON_CODE_BPF_H

#include "python.bpf.h"

static __always_inline void read_text(struct oc_python_text* to, u64 text, struct oc_python_objects* o) {
  u32 state = 0;
  to->length = ~0ull;
  to->bytes = 0;
  if (bpf_probe_read_user(&state, sizeof(state), (void*)(text + o->text_state))) return;
  u32 kind = state >> (o->text_kind_bit & 31);
  u64 length = oc_user_word(text + o->text_length);
  to->width = kind & 7;
  if (!(kind & 8) || (to->width != 1 && to->width != 2 && to->width != 4) || length > 65536) return;
  u64 data = text + (kind & 16 ? o->text_ascii : o->text_compact);
  u64 size = length * to->width;
  if (size > OC_CODE_TEXT) {
    data += size - OC_CODE_TEXT;
    size = OC_CODE_TEXT;
  }
  u32 bytes = size;
  barrier_var(bytes); /* or the compiler, which knows, spares the mask that older verifiers need to know */
  bytes &= 2 * OC_CODE_TEXT - 1;
  if (bytes > OC_CODE_TEXT) return;
  if (bytes && bpf_probe_read_user(to->data, bytes, (void*)data)) return;
  to->bytes = bytes;
  to->length = length;
}

static __always_inline void read_lines(struct oc_python_code* to, u64 lines, struct oc_python_objects* o) {
  to->lines_bytes = 0;
  u64 size = oc_user_word(lines + o->bytes_size);
  if (size > OC_CODE_LINES) size = OC_CODE_LINES;
  u32 bytes = size;
  barrier_var(bytes);
  bytes &= 4095;
  if (bytes > OC_CODE_LINES) return; /* alone: with a check for 0 it becomes one that they do not follow */
  if (bpf_probe_read_user(to->lines, bytes, (void*)(lines + o->bytes_data)) == 0) to->lines_bytes = bytes;
}

/* Moves to the front the innermost frames that are each of another function; behind them code is 0. A layer
 * of a model is three frames, two of them always the same, and between them are slots that are no Python
 * code: the program's own line lies far below. */
static __noinline int oc_choose_frames(struct oc_python_stack* stack) {
  u64 chosen = 0;
  for (u32 i = 0; i < OC_PYTHON_DEPTH; ++i) {
    u64 code = stack->frames[i].code, known = oc_is_negative((s64)code - 1) | oc_is_negative((s64)code);
    for (u32 k = 0; k < OC_CODE_DEPTH; ++k) {
      u64 other = stack->frames[k].code ^ code;
      known |= oc_is_negative((s64)k - (s64)chosen) & ~oc_is_negative((s64)(other | -other));
    }
    stack->frames[chosen & (OC_PYTHON_DEPTH - 1)] = stack->frames[i];
    chosen += oc_is_negative((s64)i - stack->count) & ~known & 1;
  }
  for (u32 k = 0; k < OC_CODE_DEPTH; ++k) stack->frames[k].code &= -oc_is_negative((s64)k - (s64)chosen);
  return 0;
}

/* The innermost functions of `stack`, which was read of this thread and is spoilt. */
static __always_inline void oc_copy_code(struct oc_dying_code* r, struct oc_python_stack* stack,
                                         struct oc_python_layout* layout) {
  r->lines = layout->objects.lines;
  r->code_instructions = layout->objects.code_instructions;
  oc_choose_frames(stack);
  for (u32 i = 0; i < OC_CODE_DEPTH; ++i) {
    struct oc_python_code* to = &r->frames[i];
    u64 code = stack->frames[i].code;
    to->code = code;
    if (!code) continue;
    to->instruction = stack->frames[i].instruction;
    to->first_line = 0;
    bpf_probe_read_user(&to->first_line, sizeof(to->first_line),
                        (void*)(code + layout->objects.code_first_line));
    read_text(&to->file, oc_user_word(code + layout->code_file), &layout->objects);
    read_text(&to->name, oc_user_word(code + layout->code_name), &layout->objects);
    read_lines(to, oc_user_word(code + layout->code_lines), &layout->objects);
  }
}

#endif
