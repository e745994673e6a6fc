#!/usr/bin/env python3
"""Frames in shared memory segments, for a viewer; the last one is unlinked, but none is closed."""
from multiprocessing import resource_tracker, shared_memory

import said

segments = []
SIZE = 200 * 4096


def show(pixels):
    segment = shared_memory.SharedMemory(create=True, size=SIZE)
    resource_tracker.unregister(segment._name, "shared_memory")
    segment.buf[:] = pixels
    segments.append(segment)
    segment.unlink()
    said.keeps(SIZE)


said.ready("show")
number = 0
while True:
    show(bytes([number % 255 + 1]) * SIZE)
    number += 1
    said.step(0.2)
