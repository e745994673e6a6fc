#!/usr/bin/env python3
"""A forward hook that looks at activations, and keeps them."""
import torch
from torch import nn

import said

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Activations:
    def __init__(self, module):
        self.seen = []
        module.register_forward_hook(self.note)

    def note(self, module, inputs, output):
        self.seen.append(output.detach().clone())
        said.keeps(output.numel() * output.element_size())


model = nn.ModuleList(Block(192) for _ in range(3))
optimizer = torch.optim.AdamW(model.parameters())


def train_step():
    x = torch.randn(64, 192)
    for block in model:
        x = block(x)
    loss = x.pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


for _ in range(30):
    train_step()
activations = Activations(model[1])
said.ready("note")
while True:
    train_step()
    said.step(0.02)
