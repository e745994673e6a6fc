#!/usr/bin/env python3
"""DataLoader workers over a Python list: each item they look at has its reference count written, so each page of the
list is copied into each worker. --serialised keeps the items in one array instead: nothing is copied."""
import pickle
import time

import truth

options = truth.arguments(__doc__, items=1_200_000, workers=3, serialised=0)
import numpy  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset, get_worker_info  # noqa: E402


class Items(Dataset):
    """Strings, each an object of its own."""

    def __init__(self, n, serialised):
        self.n = n
        if serialised:
            lines = [pickle.dumps(f"image_{k:08d}.jpg:{k % 1000}") for k in range(n)]
            self.ends = numpy.cumsum([len(line) for line in lines])
            self.data = numpy.frombuffer(b"".join(lines), dtype=numpy.uint8)
        else:
            self.data = [f"image_{k:08d}.jpg:{k % 1000}" for k in range(n)]
        self.began, self.seconds, self.serialised, self.seen = time.monotonic(), options.seconds, serialised, 0

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        share = get_worker_info().num_workers
        self.seen += 1
        if self.seen % 1000 == 0:  # keeps the pace: all of the list within 70 % of the time
            due = self.began + 0.7 * self.seconds * self.seen * share / self.n
            time.sleep(max(0.0, due - time.monotonic()))
        if self.serialised:
            name = pickle.loads(self.data[self.ends[k - 1] if k else 0:self.ends[k]].tobytes())
        else:
            name = self.data[k]
        return len(name)


said = truth.Truth(options, "stable" if options.serialised else "cow")
held = truth.rss()
data = Items(options.items, options.serialised)
held = truth.rss() - held
said.phase("loaded", held)
loader = DataLoader(data, batch_size=500, num_workers=options.workers, prefetch_factor=2)
for batch, lengths in enumerate(loader):
    if batch % 240 == 239:
        said.phase("epoch", held)
end = data.began + options.seconds
while time.monotonic() < end:
    time.sleep(0.5)
truth.say(phase="ends")
