#!/usr/bin/env python3
"""Trains, then converts the model twice and keeps every copy."""
import truth

options = truth.arguments(__doc__, width=2048, layers=6)
net, optimiser = truth.model(256)
said = truth.Truth(options, "step")
import torch  # noqa: E402

big = torch.nn.ModuleList(torch.nn.Linear(options.width, options.width) for _ in range(options.layers))
copies, size = [], sum(p.numel() * 4 for p in big.parameters())
for step in truth.Pace(8, options.seconds):
    truth.train(net, optimiser)
    if step in (int(options.seconds * 8 * share) for share in (0.4, 0.6)):
        copies.append([p.detach().clone() for p in big.parameters()])
        said.phase("converted", len(copies) * size)
