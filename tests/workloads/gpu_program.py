#!/usr/bin/env python3
"""Sends the NVIDIA driver (of gpu_driver.py) what CUDA programs send it, and says what it holds after each step, one
JSON object a line: device, managed and pinned bytes, and what should have been told.

    gpu_program.py SEQUENCE
"""

import ctypes
import fcntl
import json
import mmap
import os
import pty
import socket
import struct
import sys
import threading
import time

MiB = 1 << 20
CLIENT, DEVICE, SUBDEVICE = 0xC1D00000 | os.getpid() & 0xFFFF, 0x5C000001, 0x5C000003
UUID = bytes(range(0x10, 0x20))
OK, NO_MEMORY, NOTHING_TO_DO, INVALID_ADDRESS = 0, 0x51, 0x10006, 0x1E
RM_FREE, RM_ALLOC, HEAP_CONTROL, ALLOC_MEMORY, XFER = 0xC0104629, 0xC030462B, 0xC0B8464A, 0xC0384627, 0xC01046D3
RM_CONTROL = 0xC020462A

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]

held = {"device": 0, "managed": 0, "pinned": 0}
handles = {}


def say(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), "time_ns": time.monotonic_ns(), **held, **more})
    os.write(1, f"{line}\n".encode())  # at once: other programs write to the same pipe


def open_driver():
    global control, uvm
    folder = os.environ["GPU_DIR"]
    control = os.open(f"{folder}/nvidiactl", os.O_RDWR | os.O_CLOEXEC)
    uvm = os.open(f"{folder}/nvidia-uvm", os.O_RDWR | os.O_CLOEXEC)


def image(size, *fields):
    out = bytearray(size)
    for offset, form, value in fields:
        struct.pack_into("<" + form, out, offset, value)
    return out


def call(fd, number, argument):
    buffer = (ctypes.c_char * len(argument)).from_buffer(argument)
    if libc.ioctl(fd, number, ctypes.addressof(buffer)) != 0:
        raise OSError(ctypes.get_errno(), f"ioctl {number:#x}")


def ask(command, size, *answer):
    """A question about the card; the stand-in leaves the answer as it is."""
    answer = image(size, *answer)
    pointer = (ctypes.c_char * size).from_buffer(answer)
    call(control, RM_CONTROL, image(32, (0, "I", CLIENT), (4, "I", SUBDEVICE), (8, "I", command),
                                    (16, "Q", ctypes.addressof(pointer)), (24, "I", size), (28, "I", OK)))


def context(memory=None):
    """As libcuda makes it (580.159): with `memory`, it asks for the card's name and memory first."""
    if memory:
        ask(0x2080014A, 268, (4, "I", 2), (8, "I", 16), (12, "16s", UUID))
        ask(0x20801303, 1028, (0, "I", 3), (4, "I", 0x16), (8, "I", memory >> 10), (12, "I", 9), (16, "I", memory >> 10),
            (20, "I", 0x10))
    call(uvm, 0x30000001, image(16))
    call(uvm, 25, image(32, (0, "16s", UUID), (20, "I", CLIENT), (28, "I", OK)))


def heap_alloc(handle, size, status=OK, attributes=0):
    call(control, HEAP_CONTROL, image(184, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", 2), (20, "I", status),
                                      (44, "I", handle), (56, "I", attributes), (88, "Q", size)))
    if status in (OK, NOTHING_TO_DO):
        kind = "pinned" if attributes >> 25 & 3 else "device"
        held[kind] += size
        handles[handle] = (kind, size)


def rm_alloc(handle, size, rm_class=0x40, status=OK):
    parameters = image(128, (64, "Q", size))
    pointer = (ctypes.c_char * len(parameters)).from_buffer(parameters)
    call(control, RM_ALLOC, image(48, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", handle), (12, "I", rm_class),
                                  (16, "Q", ctypes.addressof(pointer)), (32, "I", 128), (40, "I", status)))
    if status == OK:
        kind = "device" if rm_class == 0x40 else "pinned"
        held[kind] += size
        handles[handle] = (kind, size)


def pin(handle, size):
    call(control, ALLOC_MEMORY, image(56, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", handle), (12, "I", 0x71),
                                      (24, "Q", 0x7F0000000000), (32, "Q", size - 1), (40, "I", OK)))
    held["pinned"] += size
    handles[handle] = ("pinned", size)


def rm_free(handle, status=OK, envelope=False):
    argument = image(16, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", handle), (12, "I", status))
    if envelope:
        inside = (ctypes.c_char * len(argument)).from_buffer(argument)
        call(control, XFER, image(16, (0, "I", 0x29), (4, "I", 16), (8, "Q", ctypes.addressof(inside))))
    else:
        call(control, RM_FREE, argument)
    if status == OK and handle in handles:
        kind, size = handles.pop(handle)
        held[kind] -= size


def map_external(handle, base, size):
    call(uvm, 73, image(24, (0, "Q", base), (8, "Q", size), (16, "I", OK)))
    call(uvm, 33, image(1200, (0, "Q", base), (8, "Q", size), (24, "16s", UUID), (1188, "I", CLIENT),
                        (1192, "I", handle), (1196, "I", OK)))


def managed(address, size, status=OK):
    got = libc.mmap(address, size, 3, 0x11, uvm, address)  # MAP_SHARED | MAP_FIXED
    if got != address:
        raise OSError(ctypes.get_errno(), "mmap")
    call(uvm, 72, image(24, (0, "Q", address), (8, "Q", size), (16, "I", status)))
    if status == OK:
        held["managed"] += size


def unmap(address, size, of_it):
    libc.munmap(address, size)
    held["managed"] -= of_it


def malloc_and_free():
    context()
    time.sleep(0.3)
    heap_alloc(1, 64 * MiB)
    map_external(1, 0x700000000000, 64 * MiB)
    rm_alloc(2, 32 * MiB)
    say("step")
    rm_free(1)
    say("step")
    rm_free(2, envelope=True)
    say("step")


def kinds():
    context()
    time.sleep(0.3)
    heap_alloc(1, 16 * MiB, attributes=1 << 25)
    pin(2, 4 * MiB)
    rm_alloc(3, 2 * MiB, rm_class=0x3E)
    heap_alloc(4, 8 * MiB, status=NOTHING_TO_DO)
    say("step")
    rm_free(2, status=0x1B)
    say("step")
    rm_free(DEVICE)
    for handle in list(handles):
        kind, size = handles.pop(handle)
        held[kind] -= size
    say("step")


def managed_memory():
    context()
    managed(0x7E0000000000, 8 * MiB)
    managed(0x7E0001000000, 4 * MiB)
    call(uvm, 51, image(80, (0, "Q", 0x7E0000000000), (8, "Q", 8 * MiB), (16, "16s", UUID), (72, "I", OK)))
    say("step")
    unmap(0x7E0000000000 + 2 * MiB, 2 * MiB, 2 * MiB)
    say("step")
    managed(0x7E0002000000, 4 * MiB, status=INVALID_ADDRESS)
    say("step")
    unmap(0x7E0000000000, 64 * MiB, held["managed"])
    say("step")


def ends_holding():
    context()
    heap_alloc(1, 512 * MiB)
    pin(2, 8 * MiB)
    say("step")


def late():
    """Holds some before anybody looks, and takes more."""
    context()
    heap_alloc(1, 128 * MiB)
    say("step")
    time.sleep(6)
    rm_free(1)
    heap_alloc(2, 32 * MiB)
    time.sleep(3)


def managed_memory_held():
    context()
    managed(0x7E0000000000, 64 * MiB)
    say("step")
    time.sleep(30)


def all_but_mappings():
    """What character devices without mmap can be asked."""
    call(control, 0xC04846D2, image(72, (8, "64s", b"535.183.01")))
    time.sleep(1)
    malloc_and_free()
    kinds()
    call(uvm, 51, image(80, (0, "Q", 0x7E0000000000), (8, "Q", 8 * MiB), (16, "16s", UUID), (72, "I", OK)))
    out_of_memory()
    child = os.fork()
    if child == 0:
        rm_free(1)
        os._exit(0)
    os.waitpid(child, 0)
    kind, size = handles.pop(1)
    held[kind] -= size
    say("step")


def out_of_memory():
    context()
    time.sleep(0.3)
    heap_alloc(1, 256 * MiB, status=NO_MEMORY)
    say("step")
    heap_alloc(1, 256 * MiB)
    say("step")
    rm_alloc(2, 512 * MiB, status=NO_MEMORY)
    say("step")


def copies():
    context()
    time.sleep(0.3)
    for handle in range(3):
        rm_alloc(handle + 1, 128 * MiB)
    say("step")
    time.sleep(2.5)
    for handle in range(3):
        rm_alloc(handle + 11, 128 * MiB)
    say("step")


def dies():
    heap_alloc(1, 128 * MiB)
    say("step")
    os.kill(os.getpid(), 9)


def grows():
    """A leak on a card of 4 GiB: 64 MiB each half second."""
    context(memory=4 << 30)
    time.sleep(0.3)
    for handle in range(1, 25):
        heap_alloc(handle, 64 * MiB)
        map_external(handle, 0x700000000000 + handle * 64 * MiB, 64 * MiB)
        time.sleep(0.5)
    time.sleep(2.5)  # what it holds is looked at once a second
    say("step")


def pool_that_grows():
    """Ten times a second, for longer than anyone looks: takes and keeps 8 MiB at one line and 2 MiB at another; a third
    one gives back what it takes, and a fourth one is refused."""
    context()
    for step in range(1, 1200):
        heap_alloc(3 * step, 8 * MiB)  # kept
        rm_alloc(3 * step + 1, 2 * MiB)  # kept, too
        heap_alloc(3 * step + 2, 16 * MiB)  # given back
        rm_free(3 * step + 2)
        heap_alloc(100000 + step, 32 * MiB, status=NO_MEMORY)  # refused
        time.sleep(0.1)


def killed_by_its_limit():
    """Holds memory of a card, and pinned host memory, and then more host memory than it may."""
    context()
    time.sleep(0.3)
    heap_alloc(1, 512 * MiB)
    map_external(1, 0x700000000000, 512 * MiB)
    pinned = mmap.mmap(-1, 8 * MiB)  # shared and anonymous, as cudaHostAlloc takes it
    pinned.write(b"x" * (8 * MiB))
    pin(2, 8 * MiB)
    say("step")
    time.sleep(2)
    eaten = []
    while True:
        eaten.append(b"x" * MiB)
        time.sleep(0.005)


def shared_descriptors():
    heap_alloc(1, 32 * MiB)
    say("step")
    child = os.fork()
    if child == 0:
        rm_free(1)
        os._exit(0)
    os.waitpid(child, 0)
    kind, size = handles.pop(1)
    held[kind] -= size
    say("step")


def hostile():
    """None of this is GPU memory."""
    folder = os.environ["GPU_DIR"]
    other = os.open(f"{folder}/other", os.O_RDWR)
    call(other, HEAP_CONTROL, image(184, (8, "I", 2), (44, "I", 1), (88, "Q", 64 * MiB)))
    terminal = pty.openpty()
    sockets = socket.socketpair()
    framebuffer = (0x4600, 0x4601, 0x4602, 0x4604, 0x4605, 0x4606, 0xC0584610)  # type 'F', too
    allocation = image(184, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", 2), (12, "I", 0x40), (44, "I", 1), (88, "Q", 64 * MiB))
    for fd in (0, *terminal, *os.pipe(), *(s.fileno() for s in sockets), os.open("/dev/null", os.O_RDWR), other, 9999, -1):
        for number in (HEAP_CONTROL, RM_ALLOC, ALLOC_MEMORY, RM_FREE, XFER, 33, 73, 0x30000001, *framebuffer):
            libc.ioctl(fd, number, ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation)))
    for number in framebuffer:
        libc.ioctl(control, number, ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation)))
    # Numbers of the one file on the other.
    libc.ioctl(control, 33, ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation)))
    libc.ioctl(uvm, HEAP_CONTROL, ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation)))
    # A descriptor that was the driver's, and is another file's when another thread uses it.
    again = os.open(f"{folder}/nvidiactl", os.O_RDWR)
    os.dup2(other, again)
    thread = threading.Thread(target=libc.ioctl, args=(again, HEAP_CONTROL, ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation))))
    thread.start()
    thread.join()
    # The envelope in itself, and one of another size than it says.
    inside = image(16, (0, "I", 0xD3), (4, "I", 16))
    struct.pack_into("<Q", inside, 8, ctypes.addressof((ctypes.c_char * 16).from_buffer(inside)))
    call(control, XFER, inside)
    call(control, XFER, image(16, (0, "I", 0x4A), (4, "I", 1 << 31), (8, "Q", ctypes.addressof((ctypes.c_char * 184).from_buffer(allocation)))))
    for pointer in (0, 1, 0x7FFFFFFFF000, 0xFFFF888000000000):
        libc.ioctl(control, HEAP_CONTROL, pointer)
        libc.ioctl(control, RM_ALLOC, pointer)
        libc.ioctl(uvm, 33, pointer)
    heap_alloc(1, 1 << 62)
    held["device"] = 0
    handles.clear()
    rm_alloc(2, 1 << 63)
    held["device"] = 0
    handles.clear()
    say("step")
    # Changed when the call is over.
    late = image(184, (0, "I", CLIENT), (4, "I", DEVICE), (8, "I", 2), (44, "I", 3), (88, "Q", 2 * MiB))
    call(control, HEAP_CONTROL, late)
    struct.pack_into("<Q", late, 88, 1 << 40)
    held["device"] = 2 * MiB
    say("step")


def many():
    for handle in range(2000):
        heap_alloc(handle + 1, 2 * MiB)
    say("step")


def main():
    open_driver()
    say("begin")
    globals()[sys.argv[1]]()
    say("end")
    time.sleep(0.3)


main()
