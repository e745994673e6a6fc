#!/usr/bin/env python3
"""total += loss: the sum keeps every step's graph, and the graph its activations."""
import truth

options = truth.arguments(__doc__, steps_a_second=4.0, batch=128)
net, optimiser = truth.model()
said = truth.Truth(options, "leak")
import torch  # noqa: E402

# The backward pass needs each step's input, three outputs of ReLU, and what was squared.
kept_a_step = 5 * options.batch * 512 * 4
total = torch.zeros(())
said.begins()
for step in truth.Pace(options.steps_a_second, options.seconds):
    x = torch.randn(options.batch, 512)
    total = total + (net(x) - x).pow(2).mean()
    if step % 20 == 19:
        said.phase("train", (step + 1) * kept_a_step)
