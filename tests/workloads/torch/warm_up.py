#!/usr/bin/env python3
"""A healthy loop that warms up: the cache of decoded samples fills over the first epoch, and has all of them then."""
import math

import truth

options = truth.arguments(__doc__, steps_a_second=10.0, cache_mib=300, tau_s=6.0)
net, optimiser = truth.model()
said = truth.Truth(options, "ramp", accepts=["stable"])
import torch  # noqa: E402

cache = []
for step in truth.Pace(options.steps_a_second, options.seconds):
    truth.train(net, optimiser)
    want = options.cache_mib * 4 * (1 - math.exp(-step / options.steps_a_second / options.tau_s))
    while len(cache) < want:  # by the quarter of a MiB
        cache.append(torch.ones(1 << 16))
    if step % 50 == 0:
        said.phase("train", len(cache) << 18)
