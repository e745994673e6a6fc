"""Prints what a kprobe does on this kernel: fire, silent (attaches and never fires) or refused.

Both ways to attach are tried, perf_event_open and tracefs; refused means that neither is open."""

import ctypes
import os
import struct

FUNCTION = "__x64_sys_getppid"
PERF_EVENT_OPEN = 298
PMU = "/sys/bus/event_source/devices/kprobe/type"
EVENTS = "/sys/kernel/tracing/kprobe_events"
libc = ctypes.CDLL(None, use_errno=True)


def by_perf():
    try:
        with open(PMU) as f:
            pmu = int(f.read())
    except OSError:
        return "refused"
    name = ctypes.create_string_buffer(FUNCTION.encode())
    attr = bytearray(128)
    struct.pack_into("<II", attr, 0, pmu, len(attr))
    struct.pack_into("<QQ", attr, 56, ctypes.addressof(name), 0)  # kprobe_func, probe_offset
    buffer = (ctypes.c_char * len(attr)).from_buffer(attr)
    fd = libc.syscall(PERF_EVENT_OPEN, buffer, 0, -1, -1, 0)
    if fd < 0:
        return "refused"
    for _ in range(100):
        libc.syscall(110)  # getppid
    (count,) = struct.unpack("<Q", os.read(fd, 8))
    return "fire" if count >= 100 else "silent"


def by_tracefs():
    try:
        with open(EVENTS, "a") as f:
            f.write(f"p:oomcast_premise {FUNCTION}\n")
    except OSError:
        return "refused"
    with open(EVENTS, "a") as f:
        f.write("-:oomcast_premise\n")
    return "attaches"


perf, tracefs = by_perf(), by_tracefs()
print(perf if perf != "refused" or tracefs == "refused" else "refused by perf_event_open, open in tracefs")
