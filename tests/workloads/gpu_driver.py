#!/usr/bin/env python3
"""A stand-in for the NVIDIA driver: two files of a FUSE file system in a mount namespace of its own, which answer the
ioctls that a program sends them. Speaks the kernel's FUSE protocol (linux/fuse.h, 7.31) itself, so that it needs
nothing but Python.

    gpu_driver.py PROGRAM [ARGUMENT…]          runs PROGRAM with the files' directory in GPU_DIR
    gpu_driver.py --cuse PROGRAM [ARGUMENT…]   the same with character devices (CUSE): nvidiactl is 195:255, nvidia-uvm has
                                               a major of its own; they are there from "ready" on, and cannot be mapped

Prints {"event": "ready", "control": "DEVICE:INODE", "uvm": "DEVICE:INODE"} and waits for a byte on stdin before the
program is started. What the program puts into a request comes back; the status it wants stands where the real driver
writes its own (the files answer 0 and leave encoded arguments as they are)."""

import ctypes
import json
import os
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
LOOKUP, FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT, IOCTL = 1, 2, 3, 14, 18, 25, 26, 39
BATCH_FORGET, INTERRUPT = 42, 36
ENOENT, ENOSYS = 2, 38
FILES = {b"nvidiactl": 2, b"nvidia-uvm": 3, b"other": 4}


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def attributes(inode):
    mode, size = (0o040755, 0) if inode == 1 else (0o100666, 1 << 48)
    return struct.pack("<QQQQQQIIIIIIIIII", inode, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(operation, node, body):
    """(error, bytes), or None for what needs no answer."""
    if operation == INIT:
        major, minor, readahead, flags = struct.unpack_from("<IIII", body)
        return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, readahead, 0, 16, 12, 65536, 1, 16, 0, 0)
    if operation == LOOKUP:
        inode = FILES.get(body.rstrip(b"\0"))
        if not inode:
            return ENOENT, b""
        return 0, struct.pack("<QQQQII", inode, 0, 3600, 3600, 0, 0) + attributes(inode)
    if operation == GETATTR:
        return 0, struct.pack("<QII", 3600, 0, 0) + attributes(node)
    if operation == OPEN:
        return 0, struct.pack("<QII", 0, 0, 0)
    if operation in (RELEASE, FLUSH):
        return 0, b""
    if operation == IOCTL:
        _, flags, command, _, size_in, size_out = struct.unpack_from("<QIIQII", body)
        argument = body[32:32 + size_in]
        return 0, struct.pack("<iIII", 0, 0, 0, 0) + argument.ljust(size_out, b"\0")[:size_out]
    if operation in (FORGET, BATCH_FORGET, INTERRUPT):
        return None
    return ENOSYS, b""


def make_device(name, major, minor):
    """A character device; the descriptor that serves it."""
    device = os.open("/dev/cuse", os.O_RDWR)
    unique = struct.unpack_from("<IIQ", os.read(device, 1 << 20))[2]
    body = struct.pack("<IIIIIIII40x", 7, 31, 0, 0, 65536, 65536, major, minor) + b"DEVNAME=" + name + b"\0"
    os.write(device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
    threading.Thread(target=serve, args=(device,), daemon=True).start()
    return device


def major_of(name):
    for _ in range(100):
        with open("/proc/devices", encoding="ascii") as lines:
            for line in lines:
                if line.split()[1:] == [name]:
                    return int(line.split()[0])
        time.sleep(0.1)
    raise OSError(ENOENT, f"{name} is not in /proc/devices")


def as_devices(program):
    with tempfile.TemporaryDirectory() as folder:
        kept = [make_device(b"nvidiactl", 195, 255), make_device(b"nvidia-uvm", 0, 0)]
        for name, device in (("nvidiactl", os.makedev(195, 255)), ("nvidia-uvm", os.makedev(major_of("nvidia-uvm"), 0))):
            os.mknod(f"{folder}/{name}", 0o600 | stat.S_IFCHR, device)
        major_of("nvidiactl")
        print(json.dumps({"event": "ready", "pid": os.getpid()}), flush=True)
        sys.stdin.read(1)
        code = subprocess.Popen(program, env={**os.environ, "GPU_DIR": folder}).wait()
        del kept
    return code if code >= 0 else 128 - code


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        length, operation, unique, node = struct.unpack_from("<IIQQ", request)
        answered = answer(operation, node, request[40:length])
        if answered is None:
            continue
        error, data = answered
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except OSError:  # who asked was killed, or the last one is gone: nobody waits for it
            pass


def main():
    if sys.argv[1] == "--cuse":
        return as_devices(sys.argv[2:])
    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
    with tempfile.TemporaryDirectory() as folder:
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        check(libc.mount(b"oomcast-test", folder.encode(), b"fuse.oomcast-test", 0, options), "mounting")
        server = threading.Thread(target=serve, args=(device,), daemon=True)
        server.start()
        ready = {"event": "ready", "pid": os.getpid()}
        for name, path in (("control", "nvidiactl"), ("uvm", "nvidia-uvm")):
            found = os.stat(f"{folder}/{path}")
            ready[name] = f"{os.major(found.st_dev) << 20 | os.minor(found.st_dev)}:{found.st_ino}"
        print(json.dumps(ready), flush=True)
        sys.stdin.read(1)
        program = subprocess.Popen(sys.argv[1:], env={**os.environ, "GPU_DIR": folder})
        code = program.wait()
        libc.umount2(folder.encode(), 2)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
