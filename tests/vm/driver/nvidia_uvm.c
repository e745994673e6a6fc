// SPDX-License-Identifier: GPL-2.0
/* A stand-in for the NVIDIA driver's nvidia_uvm in test machines: what the page-event program and the Xid
 * program attach to, with the structures of four generations of drivers. It has no memory and no card; a
 * program tells it which events there were, and a thread of the kernel reports them, as with the real one.
 *
 * ioctls beside UVM_INITIALIZE: 120 reports page events, 121 an Xid; all others succeed and change nothing.
 */
#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

void report_nvidia_xid(struct pci_dev* card, u32 code, const char* message); /* nvidia_xid.c */

#define UVM_INITIALIZE 0x30000001
#define REPORT_PAGES 120
#define REPORT_XID 121

static char* driver = "550.54.14";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "the version that it says it has");
static int generation = 2;
module_param(generation, int, 0444);
MODULE_PARM_DESC(generation, "of its structures: 515, 530, 550, 580 are 0 to 3");

/* Where each generation has its fields, and what marks the private data of an initialized file. */
static const struct {
  u32 fault_id, move_id, processor, to, from, bytes, cause;
  unsigned long tag;
} generations[] = {
    {5, 6, 16, 16, 20, 32, 44, 0},
    {6, 7, 16, 16, 20, 32, 44, 2},
    {6, 7, 16, 16, 20, 40, 52, 2},
    {6, 7, 8, 16, 20, 40, 56, 2},
};

struct space {
  u64 before[100];
  struct events {
    u64 lock_and_lists[21];
    struct space* space;
  } events;
};

struct pages {
  u32 kind; /* 0: a fault, 1: a move, 2: another event */
  u32 count;
  u32 processor, to, from, cause;
  u64 bytes;
};

struct report {
  struct work_struct work;
  struct space* space;
  struct pages what;
};

struct xid {
  u32 code;
  char message[128];
};

void uvm_perf_event_notify(struct events* events, u32 id, void* data);
noinline __noclone void uvm_perf_event_notify(struct events* events, u32 id, void* data) {
  asm volatile("" : : "r"(events), "r"(id), "r"(data) : "memory");
}

static void report_pages(struct work_struct* work) {
  struct report* report = container_of(work, struct report, work);
  const struct pages* what = &report->what;
  u8 data[96];
  u32 i, id = what->kind == 0 ? generations[generation].fault_id : generations[generation].move_id;

  memset(data, 0xee, sizeof(data));
  if (what->kind == 0) {
    memcpy(data + generations[generation].processor, &what->processor, 4);
  } else if (what->kind == 1) {
    memcpy(data + generations[generation].to, &what->to, 4);
    memcpy(data + generations[generation].from, &what->from, 4);
    memcpy(data + generations[generation].bytes, &what->bytes, 8);
    memcpy(data + generations[generation].cause, &what->cause, 4);
  } else {
    id = 3;
  }
  for (i = 0; i < what->count; ++i) uvm_perf_event_notify(&report->space->events, id, data);
}

static struct space* space_of(struct file* file) {
  unsigned long data = (unsigned long)file->private_data;
  return (data & 7) == generations[generation].tag ? (struct space*)(data & ~7ul) : NULL;
}

static int initialize(struct file* file) {
  struct space* space = kvzalloc(sizeof(*space), GFP_KERNEL);
  if (!space) return -ENOMEM;
  space->events.space = space;
  file->private_data = (void*)((unsigned long)space | generations[generation].tag);
  return 0;
}

static int open_file(struct inode* inode, struct file* file) {
  file->private_data = NULL;
  /* Up to 525 a file is a va_space from the beginning. */
  return generations[generation].tag ? 0 : initialize(file);
}

static int close_file(struct inode* inode, struct file* file) {
  kvfree(space_of(file));
  return 0;
}

static long do_xid(const void __user* from) {
  struct xid xid;
  struct pci_dev* card;

  if (copy_from_user(&xid, from, sizeof(xid))) return -EFAULT;
  xid.message[sizeof(xid.message) - 1] = 0;
  card = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, NULL);
  if (!card) return -ENODEV;
  report_nvidia_xid(card, xid.code, xid.message);
  pci_dev_put(card);
  return 0;
}

static long do_ioctl(struct file* file, unsigned int command, unsigned long argument) {
  struct report report;

  if (command == UVM_INITIALIZE) return space_of(file) ? 0 : initialize(file);
  if (command == REPORT_XID) return do_xid((const void __user*)argument);
  if (command != REPORT_PAGES) return 0;
  report.space = space_of(file);
  if (!report.space) return -EINVAL;
  if (copy_from_user(&report.what, (const void __user*)argument, sizeof(report.what))) return -EFAULT;
  INIT_WORK_ONSTACK(&report.work, report_pages);
  schedule_work(&report.work);
  flush_work(&report.work);
  destroy_work_on_stack(&report.work);
  return 0;
}

/* Address space alone: nobody touches it. At page 1 to 60 of the file it takes as many seconds, for which the
 * lock of the address space is held: as where a file's server does not answer. */
static int map_file(struct file* file, struct vm_area_struct* area) {
  if (area->vm_pgoff && area->vm_pgoff <= 60) ssleep(area->vm_pgoff);
  return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = open_file,
    .release = close_file,
    .unlocked_ioctl = do_ioctl,
    .mmap = map_file,
};

static int show_version(struct seq_file* to, void* unused) {
  seq_printf(to, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  a stand-in for tests\n", driver);
  return 0;
}

static int show_card(struct seq_file* to, void* unused) {
  seq_puts(to, "Model: \t\t a stand-in\nGPU UUID: \t GPU-10111213-1415-1617-1819-1a1b1c1d1e1f\n");
  return 0;
}

static dev_t device;
static struct cdev uvm;
static struct proc_dir_entry* folder;

static int __init begin(void) {
  struct pci_dev* card;
  struct proc_dir_entry *cards, *one;
  int err;

  if (generation < 0 || generation >= ARRAY_SIZE(generations)) return -EINVAL;
  err = alloc_chrdev_region(&device, 0, 1, "nvidia-uvm");
  if (err) return err;
  cdev_init(&uvm, &operations);
  uvm.owner = THIS_MODULE;
  err = cdev_add(&uvm, device, 1);
  if (err) {
    unregister_chrdev_region(device, 1);
    return err;
  }
  folder = proc_mkdir("driver/nvidia", NULL);
  proc_create_single("version", 0444, folder, show_version);
  card = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, NULL);
  if (card) {
    cards = proc_mkdir("gpus", folder);
    one = proc_mkdir(pci_name(card), cards);
    proc_create_single("information", 0444, one, show_card);
    pci_dev_put(card);
  }
  return 0;
}

static void __exit end(void) {
  proc_remove(folder);
  cdev_del(&uvm);
  unregister_chrdev_region(device, 1);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a stand-in for the NVIDIA driver in tests");
