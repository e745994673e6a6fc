#!/usr/bin/env python3
"""A healthy loop: nothing grows."""
import truth

options = truth.arguments(__doc__, steps_a_second=20.0)
net, optimiser = truth.model()
said = truth.Truth(options, "stable", accepts=["ramp"])
for step in truth.Pace(options.steps_a_second, options.seconds):
    truth.train(net, optimiser)
    if step % 200 == 0:
        said.phase("train", 0)
