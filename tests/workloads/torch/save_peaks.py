#!/usr/bin/env python3
"""A healthy loop that saves: the state is copied, pickled into memory and written; the file stays in the page cache."""
import io
import os
import tempfile
import time

import truth

options = truth.arguments(__doc__, every_s=11.0, width=2048)
net, optimiser = truth.model(options.width)
said = truth.Truth(options, "spikes")
import torch  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    for step in truth.Pace(4, options.seconds):
        truth.train(net, optimiser)
        if step % int(options.every_s * 4) == int(options.every_s * 2):
            state = {k: v.clone() for k, v in net.state_dict().items()}
            moments = {k: {n: t.clone() for n, t in s.items()} for k, s in optimiser.state_dict()["state"].items()}
            buffer = io.BytesIO()
            torch.save([state, moments], buffer)
            with open(os.path.join(folder, f"checkpoint-{step % 3}.pt"), "wb") as f:
                f.write(buffer.getvalue())
            time.sleep(0.4)
            said.phase("saved", 3 * buffer.tell())
            del state, moments, buffer
