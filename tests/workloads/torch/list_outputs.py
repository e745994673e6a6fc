#!/usr/bin/env python3
"""A list of outputs for a metric that is computed at the end, under a healthy training loop."""
import truth

options = truth.arguments(__doc__, steps_a_second=8.0, kib=768)
net, optimiser = truth.model()
said = truth.Truth(options, "leak")
import torch  # noqa: E402

outputs, rows = [], options.kib * 1024 // (512 * 4)
said.begins()
for step in truth.Pace(options.steps_a_second, options.seconds):
    truth.train(net, optimiser)
    with torch.no_grad():
        outputs.append(net(torch.randn(rows, 512)))
    if step % 40 == 39:
        said.phase("train", len(outputs) * options.kib * 1024)
