#!/usr/bin/env python3
"""A job that leaks, is stopped by its supervisor at --stop-mib, and goes on from its checkpoint, leaking as before; the
second time nobody stops it."""
import os
import subprocess
import sys
import tempfile

import truth

options = truth.arguments(__doc__, mib_s=6.0, stop_mib=420, life=0, checkpoint="")
if not options.life:
    truth.Truth(options, "leak")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "checkpoint.pt")
        for life in (1, 2):
            truth.say(phase="start", life=life)
            done = subprocess.run([sys.executable, "-B", __file__, *sys.argv[1:], "--life", str(life), "--checkpoint", checkpoint],
                                  check=False)
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)

net, optimiser = truth.model()
said = truth.Truth(options, "leak")
import torch  # noqa: E402

if os.path.exists(options.checkpoint):
    net.load_state_dict(torch.load(options.checkpoint))
kept, per_second = [], 8
said.begins()
for step in truth.Pace(per_second, options.seconds):
    truth.train(net, optimiser)
    kept.append(torch.ones(int(options.mib_s * truth.MIB / 4 / per_second)))
    held = options.mib_s * truth.MIB * (step + 1) / per_second
    if step % 40 == 39:
        said.phase("train", held)
    if options.life == 1 and truth.rss() > options.stop_mib * truth.MIB:
        torch.save(net.state_dict(), options.checkpoint)
        break
