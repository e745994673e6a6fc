// SPDX-License-Identifier: GPL-2.0
/* What the real nvidia.ko has of the tracepoint. A module of its own: a program that is attached to it keeps
 * it loaded, while nvidia_uvm comes and goes.
 */
#include <linux/module.h>
#include <linux/pci.h>

#define CREATE_TRACE_POINTS
#include "nvidia_xid.h"

void report_nvidia_xid(struct pci_dev* card, u32 code, const char* message) {
  trace_nvidia_dev_xid(card, code, message);
}
EXPORT_SYMBOL_GPL(report_nvidia_xid);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in for the NVIDIA driver's tracepoint in test machines");
