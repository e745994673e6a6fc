/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvidia

#if !defined(OOMCAST_NVIDIA_XID_H) || defined(TRACE_HEADER_MULTI_READ)
#define OOMCAST_NVIDIA_XID_H

#include <linux/pci.h>
#include <linux/tracepoint.h>

/* What a program attached by name sees are these arguments; what the text form shows does not matter here. */
TRACE_EVENT(nvidia_dev_xid, TP_PROTO(const struct pci_dev* card, u32 error_code, const char* msg),
            TP_ARGS(card, error_code, msg), TP_STRUCT__entry(__field(u32, error_code)),
            TP_fast_assign(__entry->error_code = error_code;), TP_printk("%u", __entry->error_code));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE nvidia_xid
#include <trace/define_trace.h>
