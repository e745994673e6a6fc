#!/usr/bin/env python3
"""A program whose managed memory moves, on the kernel module that stands in for nvidia_uvm (tests/vm/driver).

    gpu_pages.py [--more BYTES] [EVENT…]     EVENT: COUNT×card_fault, COUNT×cpu_fault, COUNT×other, xid:CODE:MESSAGE, or
                              COUNT×move:TO:FROM:BYTES:CAUSE, where processor 0 is the CPU

Begins to use the driver, with 64 MiB of managed memory and more, says so, waits for a byte on stdin, lets the driver report the events, says so, and waits
until stdin is closed. {pid} in a message is its own."""

import argparse
import ctypes
import json
import os
import stat
import struct
import sys
import tempfile
import time

INITIALIZE, REGISTER_GPU_VASPACE, REPORT_PAGES, REPORT_XID = 0x30000001, 25, 120, 121
UUID = bytes(range(0x10, 0x20))
libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def say(event):
    print(json.dumps({"event": event, "pid": os.getpid(), "time_ns": time.monotonic_ns()}), flush=True)


def call(uvm, number, argument):
    buffer = ctypes.create_string_buffer(bytes(argument), len(argument))
    if libc.ioctl(uvm, number, ctypes.addressof(buffer)) != 0:
        raise OSError(ctypes.get_errno(), f"ioctl {number:#x}: {os.strerror(ctypes.get_errno())}")


def open_driver():
    with open("/proc/devices", encoding="ascii") as lines:
        major = next(int(line.split()[0]) for line in lines if line.split()[1:] == ["nvidia-uvm"])
    with tempfile.TemporaryDirectory(dir="/dev") as folder:  # where drivers' files are looked for
        os.mknod(f"{folder}/nvidia-uvm", 0o600 | stat.S_IFCHR, os.makedev(major, 0))
        return os.open(f"{folder}/nvidia-uvm", os.O_RDWR | os.O_CLOEXEC)


def report(uvm, event):
    if event.startswith("xid:"):
        _, code, message = event.split(":", 2)
        call(uvm, REPORT_XID, struct.pack("<I128s", int(code), message.replace("{pid}", str(os.getpid())).encode()))
        return
    count, what = event.split("×")
    kind, processor, to, source, size, cause = 0, 0, 0, 0, 0, 0
    if what == "card_fault":
        processor = 1
    elif what == "other":
        kind = 2
    elif what.startswith("move:"):
        kind = 1
        to, source, size, cause = map(int, what.split(":")[1:])
    call(uvm, REPORT_PAGES, struct.pack("<IIIIIIQ", kind, int(count), processor, to, source, cause, size))


def main():
    uvm = open_driver()
    call(uvm, INITIALIZE, bytes(16))
    call(uvm, REGISTER_GPU_VASPACE, UUID + bytes(16))
    options = argparse.ArgumentParser()
    options.add_argument("--more", type=int, default=0)
    options.add_argument("event", nargs="*")
    chosen = options.parse_args()
    address = 0x7E0000000000
    if libc.mmap(address, (64 << 20) + chosen.more, 3, 0x11, uvm, address) != address:
        raise OSError(ctypes.get_errno(), "mmap")
    say("begin")
    sys.stdin.read(1)
    for event in chosen.event:
        report(uvm, event)
    say("step")
    sys.stdin.read(1)


main()
