#!/usr/bin/env python3
"""Every few seconds a validation takes much for a moment; with --leak-mib-s the floor under it rises."""
import truth

options = truth.arguments(__doc__, every_s=9.0, lasts_s=1.2, peak_mib=220, leak_mib_s=0.0)
net, optimiser = truth.model()
said = truth.Truth(options, "leak" if options.leak_mib_s else "spikes")
import torch  # noqa: E402

kept, buffers, held = [], [], 0
per_second = 10
if options.leak_mib_s:
    said.begins()
for step in truth.Pace(per_second, options.seconds):
    truth.train(net, optimiser)
    at = step / per_second % options.every_s
    if options.leak_mib_s:
        kept.append(torch.ones(int(options.leak_mib_s * truth.MIB / 4 / per_second)))
        held = options.leak_mib_s * truth.MIB * step / per_second
    if at >= options.every_s - options.lasts_s:
        buffers.append(torch.ones(int(options.peak_mib * truth.MIB / 4 / (options.lasts_s * per_second))))
    elif buffers:
        buffers.clear()
        said.phase("validated", held, beside=options.peak_mib * truth.MIB)
