"""What the training programs of this folder share: their options, their pace, and the truth that they print.

Every line on stdout is a JSON object with `time_s` of CLOCK_MONOTONIC. The first one has `class` (what an expert says at
the end), the others `phase` and `holds_bytes` (what the program keeps on purpose), and where it is headed for the limit
`exhausts_in_s`, by its own arithmetic from its RSS, its rate and the limit it was told."""

import argparse
import json
import os
import time

MIB = 1 << 20


def arguments(doc, **defaults):
    parser = argparse.ArgumentParser(description=doc)
    for name, value in {"seconds": 90.0, "limit_mib": 0, **defaults}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value, help=f"default: {value}")
    return parser.parse_args()


def rss():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def say(**what):
    line = json.dumps({"time_s": round(time.monotonic(), 3), "pid": os.getpid(), **what})
    os.write(1, f"{line}\n".encode())  # at once: forked workers write to the same pipe


class Truth:
    """What grows since begins() goes on at its own pace; the deadline is when that takes the room that is left."""

    def __init__(self, options, verdict, accepts=()):
        self.limit, self.began = options.limit_mib * MIB, None
        say(**{"class": verdict, "accepts": list(accepts), "limit_bytes": self.limit})

    def begins(self):
        """What leads to the end is under way from here on."""
        self.began = time.monotonic()
        say(phase="begins")

    def phase(self, name, holds, beside=0):
        """`beside`: what a peak takes on top."""
        left = None
        if self.began and holds > 0 and self.limit:
            left = round((self.limit - rss() - beside) / holds * (time.monotonic() - self.began), 1)
        say(phase=name, holds_bytes=int(holds), exhausts_in_s=left)


class Pace:
    """Steps at a fixed rate, however busy the machine is."""

    def __init__(self, steps_a_second, seconds):
        self.every, self.began, self.steps = 1 / steps_a_second, time.monotonic(), int(seconds * steps_a_second)

    def __iter__(self):
        for step in range(self.steps):
            time.sleep(max(0.0, self.began + step * self.every - time.monotonic()))
            yield step
        say(phase="ends")


def model(width=512, layers=3):
    """(network, optimiser), small."""
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(*[m for _ in range(layers) for m in (torch.nn.Linear(width, width), torch.nn.ReLU())])
    return net, torch.optim.Adam(net.parameters())


def train(net, optimiser, batch=32):
    """One healthy step; the loss, its graph gone."""
    import torch
    x = torch.randn(batch, net[0].in_features)
    loss = (net(x) - x).pow(2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()
