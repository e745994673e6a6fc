#!/usr/bin/env python3
"""Handles of a C library, through ctypes; the ones for writing are not closed."""
import ctypes

import said

libc = ctypes.CDLL(None)
libc.calloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


class Handle:
    def __init__(self, size):
        self.address = libc.calloc(1, size)
        ctypes.memset(self.address, 1, size)

    def close(self):
        libc.free(self.address)


def read_some():
    handle = Handle(24000)
    handle.close()


def open_for_writing():
    Handle(16000)
    said.keeps(16000)


said.ready("__init__", "open_for_writing")
while True:
    for _ in range(3):
        read_some()
    open_for_writing()
    said.step(0.005)
