/* The contract's part for NVIDIA GPUs. See wire.h. */
#ifndef OOMCAST_WIRE_GPU_H
#define OOMCAST_WIRE_GPU_H

#include "wire_faults.h"

/* The driver's own numbers that both sides know: of calls to the resource manager (the low byte of an ioctl),
 * of its classes of memory, of UVM's calls outside of the plain ones. */
enum oc_rm_call {
  OC_RM_ALLOC_MEMORY = 0x27,
  OC_RM_FREE = 0x29,
  OC_RM_CONTROL = 0x2A,
  OC_RM_ALLOC = 0x2B,
  OC_RM_DUP_OBJECT = 0x34,
  OC_RM_VID_HEAP_CONTROL = 0x4A,
  OC_RM_CHECK_VERSION = 0xD2,
  OC_RM_TRANSFER = 0xD3
};
/* Questions to it (OC_RM_CONTROL), at offset 8 of the argument: what memory a card has, which card an object
 * stands for; and that memory may be read by other devices, which CUDA says of what a program asked for and
 * not of what a context takes. */
enum oc_rm_control {
  OC_RM_MEMORY_INFO = 0x20801303,
  OC_RM_CARD_ID = 0x2080014A,
  OC_RM_REGISTER_MEMORY = 0x503C0104
};
enum oc_rm_class {
  OC_RM_MEMORY_SYSTEM = 0x3E,
  OC_RM_MEMORY_DEVICE = 0x40,
  OC_RM_MEMORY_DESCRIPTOR = 0x71,
  OC_RM_MEMORY_FABRIC = 0xF8
};
#define OC_UVM_REGISTER_VASPACE 25u /* a context */
#define OC_UVM_INITIALIZE 0x30000001u
#define OC_UVM_DEINITIALIZE 0x30000002u

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

/* Behind the OC_GPU_CALL of the same thread that asked for memory: where that was. Sent as far as the stack
 * is filled. */
struct oc_gpu_stack {
  struct oc_header header;
  struct oc_task task;
  struct oc_user_stack user;
};

/* Which parts of a UVM call's argument matter, by driver version: set by user space. */
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

/* Events of managed memory's pages. */
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

/* An error of a card reported by the driver. */
#define OC_GPU_BUS_LEN 24
#define OC_GPU_MESSAGE_LEN 208
struct oc_gpu_xid {
  struct oc_header header;
  unsigned int code;
  unsigned int _pad;
  char bus[OC_GPU_BUS_LEN]; /* "0000:01:00.0" */
  char message[OC_GPU_MESSAGE_LEN];
};

OC_ASSERT_SIZE(oc_gpu_call, 480);
OC_ASSERT_SIZE(oc_gpu_stack, 88 + sizeof(struct oc_user_stack));
OC_ASSERT_SIZE(oc_gpu_layout, 8);
OC_ASSERT_SIZE(oc_gpu_test_file, 16);
OC_ASSERT_SIZE(oc_gpu_owner, 16);
OC_ASSERT_SIZE(oc_gpu_activity_key, 16);
OC_ASSERT_SIZE(oc_gpu_activity, 16);
OC_ASSERT_SIZE(oc_gpu_xid, 256);

#endif
