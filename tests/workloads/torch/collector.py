#!/usr/bin/env python3
"""A healthy loop whose activations end in reference cycles: they wait for the collector, which comes now and then."""
import gc

import truth

options = truth.arguments(__doc__, steps_a_second=10.0, collect_every_s=5.0, kib=1024)
net, optimiser = truth.model()
said = truth.Truth(options, "stable", accepts=["spikes"])
import torch  # noqa: E402

gc.disable()


class Step:
    """Points at itself, as a hook on its own output does."""

    def __init__(self, output):
        self.output, self.self = output, self


for step in truth.Pace(options.steps_a_second, options.seconds):
    truth.train(net, optimiser)
    Step(torch.ones(options.kib * 256))
    if step % int(options.collect_every_s * options.steps_a_second) == 0:
        gc.collect()
        said.phase("collected", 0)
