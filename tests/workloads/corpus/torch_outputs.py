#!/usr/bin/env python3
"""A training loop that keeps the outputs of every fourth batch, for a metric that nobody computes."""
import torch

import said

torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
outputs = []


def train_batch():
    loss = net(torch.randn(256, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def collect_outputs():
    with torch.no_grad():
        outputs.append(net[:2](torch.randn(256, 256)).clone())
    said.keeps(outputs[-1].numel() * 4)


for _ in range(30):
    train_batch()
said.ready("collect_outputs")
for batch in range(1 << 40):
    train_batch()
    if batch % 4 == 0:
        collect_outputs()
    said.step(0.01)
