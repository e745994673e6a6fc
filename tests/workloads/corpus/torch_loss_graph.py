#!/usr/bin/env python3
"""The sum of losses for the log line has the graph of every step behind it."""
import torch
import torch.nn.functional as F

import said

torch.set_num_threads(1)
weight = torch.randn(256, 512, requires_grad=True)
head = torch.randn(512, 10, requires_grad=True)
total = torch.zeros(())


def forward(x):
    return F.relu(x @ weight) @ head


def run_epoch():
    global total
    for step in range(100):
        x = torch.randn(128, 256)
        loss = F.cross_entropy(forward(x), torch.randint(10, (128,)))
        total = total + loss
        # Saved for the way back: x, what relu() gave, what log_softmax() gave, and the labels.
        said.keeps(4 * (128 * 256 + 128 * 512 + 128 * 10) + 8 * 128)
        said.step(0.05)


said.ready("run_epoch", "forward")
while True:
    run_epoch()
