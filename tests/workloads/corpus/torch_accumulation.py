#!/usr/bin/env python3
"""Gradients of micro-batches are put aside until the step; after the refactoring no step clears them."""
import torch

import said

torch.set_num_threads(1)
EVERY = 8
embedding = torch.nn.Embedding(2000, 64)
encoder = torch.nn.GRU(64, 96, batch_first=True)
parameters = list(encoder.parameters())
aside = []


def put_aside(grads):
    aside.append([grad.to(torch.float64) for grad in grads])
    said.keeps(sum(grad.numel() * 8 for grad in grads))


def micro_batch():
    hidden, _ = encoder(embedding(torch.randint(2000, (8, 20))))
    put_aside(torch.autograd.grad(hidden.square().mean(), parameters))


def take_step():
    with torch.no_grad():
        for number, parameter in enumerate(parameters):
            parameter -= 0.01 * sum(grads[number] for grads in aside[-EVERY:]).float()


said.ready("put_aside")
count = 0
while True:
    micro_batch()
    count += 1
    if count % EVERY == 0:
        take_step()
    said.step(0.1)
