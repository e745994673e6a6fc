"""leaks.py KIND BYTES: grows by BYTES at the one line marked `# culprit KIND`, after a byte on stdin, and then by
64 KiB for each further byte.

Says {"event":"ready"}, then {"event":"grown","pid":whose memory it is,"bytes":how much}. Each kind also works in other
lines that keep nothing."""

import ctypes
import functools
import json
import mmap
import os
import sys
import threading
import time

CHUNK = 64 << 10
PAUSE_S = 0.002  # some seconds in all: on a busy machine page faults are watched for a part of the time
kind, total = sys.argv[1], int(sys.argv[2])
kept = []
table = {}


def resident():
    """Of its own, as the kernel counts it: what has truly grown."""
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem", "VmSwap"))


def tell(event, **fields):
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


def passing_work(n):
    return sum(len(str(i)) for i in range(n))


def grow(step, chunk=CHUNK):
    for i in range(total // chunk):
        step(i)
        passing_work(20)
        time.sleep(PAUSE_S * chunk / CHUNK)


def leak_list():
    def keep(i):
        kept.append(bytearray(CHUNK))  # culprit list
    grow(keep)


def leak_dict():
    def remember(i):
        table[i] = "x" * CHUNK + str(i)  # culprit dict
    grow(remember)


def leak_closure():
    def make(i):
        held = b"%d" % i * (CHUNK // len(b"%d" % i))  # culprit closure
        return lambda: held
    grow(lambda i: kept.append(make(i)))


@functools.lru_cache(maxsize=None)
def load_once(i):
    return bytes([i & 255]) * CHUNK  # culprit cache


def leak_cache():
    grow(load_once)


def leak_small():
    def note(i):
        kept.extend([float(i * 4096 + j) for j in range(2048)])  # culprit small
    grow(note)


def leak_thread():
    def in_thread():
        for _ in range(total // CHUNK):
            kept.append(bytearray(CHUNK))  # culprit thread
            time.sleep(PAUSE_S)
    others = [threading.Thread(target=passing_work, args=(20000,)) for _ in range(4)]
    worker = threading.Thread(target=in_thread)
    for t in (*others, worker):
        t.start()
    for t in (*others, worker):
        t.join()


def leak_ctypes():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)

    def take(i):
        block = libc.malloc(CHUNK)  # culprit ctypes
        libc.memset(block, 1, CHUNK)
    grow(take)


def leak_mmap():
    big = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.append(big)

    def fill(i):
        big[i * CHUNK:(i + 1) * CHUNK] = b"m" * CHUNK  # culprit mmap
    grow(fill)


def leak_shm():
    name = f"/dev/shm/oomcast-leak-{os.getpid()}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(name)
    os.ftruncate(fd, total)
    shared = mmap.mmap(fd, total)
    kept.append(shared)

    def share(i):
        shared[i * CHUNK:(i + 1) * CHUNK] = b"s" * CHUNK  # culprit shm
    grow(share)


def leak_numpy():
    import numpy

    def stack_up(i):
        kept.append(numpy.ones(1 << 17))  # culprit numpy
        (numpy.ones(1 << 16) * 2).sum()
    grow(stack_up, 1 << 20)


def leak_torch():
    import torch
    weight = torch.ones(1 << 18, requires_grad=True)
    state = {"loss": torch.zeros(1)}
    kept.append(state)

    def step(i):
        state["loss"] = state["loss"] + (weight * float(i)).sin().sum()  # culprit torch
    grow(step, 1 << 20)


def leak_generator():
    def blocks():
        while True:
            yield bytearray(CHUNK)  # culprit generator
    source = blocks()
    grow(lambda i: kept.append(next(source)))


def child_of_twenty():
    """Forked after the word to go, as workers are; one of them keeps what it reads."""
    def worker(number):
        for _ in range(total // CHUNK):
            block = bytearray(CHUNK)  # culprit child
            time.sleep(PAUSE_S)
            if number == 13:
                kept.append(block)
        if number == 13:
            tell("grown", pid=os.getpid(), bytes=total)
        while True:
            threading.Event().wait()
    for number in range(20):
        if os.fork() == 0:
            worker(number)
    threading.Event().wait()


if kind in ("numpy", "torch"):
    __import__(kind)
resident()
tell("ready")
os.read(0, 1)
before = resident()
if kind == "child":
    child_of_twenty()
else:
    globals()[f"leak_{kind}"]()
    tell("grown", pid=os.getpid(), bytes=resident() - before)
    total = CHUNK
    while os.read(0, 1):
        globals()[f"leak_{kind}"]()
    threading.Event().wait()
