"""python_loop.py CPU: Python programs whose speed scripts/bench measures, on one CPU. Speaks as bench_cost does.

  slice torch MICROSECONDS     steps of a small training loop (Debian's python3-torch)
  slice objects MICROSECONDS   rounds that build lists and strings and let them go
  slice plain MICROSECONDS     rounds that count, and copy memory that they have
  slice plain_torch MICROSECONDS  products and sums of tensors in place
  tracemalloc on|off"""

import json
import os
import sys
import time
import tracemalloc

os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    realtime = True
except OSError:
    realtime = False


def objects():
    kept = [[float(j) for j in range(100)] for _ in range(50)]
    return len({str(row[0]) + "x" * 1000 for row in kept})


def plain():
    data, copy = bytes(4 << 20), bytearray(4 << 20)

    def round_of_it():
        total = 0
        for i in range(5000):
            total += i
        copy[:] = data
        return total
    return round_of_it


def plain_torch():
    import torch
    torch.set_num_threads(1)
    batch, out = torch.rand(16, 512), torch.empty(16, 1024)
    weight, gradient = torch.rand(512, 1024), torch.rand(512, 1024)

    def step():
        torch.mm(batch, weight, out=out)
        weight.add_(gradient, alpha=1e-9)
        weight.addcmul_(gradient, gradient, value=1e-9)
    return step


def torch_step():
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        batch, labels = torch.randn(64, 512), torch.randint(10, (64,))  # as a loader would bring it
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
    return step


loads = {"objects": lambda: objects, "plain": plain}
try:
    import torch  # noqa: F401
    loads.update(torch=torch_step, plain_torch=plain_torch)
except ImportError:
    pass
made = {}
print(json.dumps({"realtime": realtime, "loads": list(loads)}), flush=True)
for line in sys.stdin:
    verb, what, *rest = line.split()
    if verb == "tracemalloc":
        tracemalloc.start() if what == "on" else tracemalloc.stop()
        print("{}", flush=True)
        continue
    step = made.get(what) or made.setdefault(what, loads[what]())
    begin = now = time.monotonic_ns()
    iterations = 0
    while now < begin + int(rest[0]) * 1000:
        step()
        iterations += 1
        now = time.monotonic_ns()
    print(json.dumps({"iterations": iterations, "wall_ns": now - begin}), flush=True)
