#!/usr/bin/env python3
"""Batches handed over through /dev/shm and shared anonymous memory, and never taken back."""
import mmap

import truth

options = truth.arguments(__doc__, steps_a_second=4.0, mib=1.5)
net, optimiser = truth.model()
said = truth.Truth(options, "leak")
import torch  # noqa: E402

kept, held = [], 0
size = int(options.mib * truth.MIB)
said.begins()
for step in truth.Pace(options.steps_a_second, options.seconds):
    truth.train(net, optimiser)
    if step % 2:
        buffer = mmap.mmap(-1, size)  # shared, anonymous
        buffer.write(bytes(size))
    else:
        buffer = torch.ones(size // 4).share_memory_()  # an unlinked file in /dev/shm
    kept.append(buffer)
    held += size
    if step % 20 == 19:
        said.phase("train", held)
