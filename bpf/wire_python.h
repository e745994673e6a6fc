/* The contract's part for CPython. See wire.h. */
#ifndef OOMCAST_WIRE_PYTHON_H
#define OOMCAST_WIRE_PYTHON_H

#include "wire_common.h"

#define OC_PYTHON_DEPTH 64

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

/* The address of a freed code object may soon be reused. The objects it refers to tell them apart. */
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

#define OC_CODE_DEPTH 16
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
  struct oc_python_code frames[OC_CODE_DEPTH]; /* of each function its innermost, innermost first */
};

OC_ASSERT_SIZE(oc_python_objects, 40);
OC_ASSERT_SIZE(oc_python_layout, 112);
OC_ASSERT_SIZE(oc_python_stack, 16 + 24 * OC_PYTHON_DEPTH);
OC_ASSERT_SIZE(oc_python_code, 24 + 2 * (16 + OC_CODE_TEXT) + OC_CODE_LINES);
OC_ASSERT_SIZE(oc_dying_code, 96 + OC_CODE_DEPTH * sizeof(struct oc_python_code));

#endif
