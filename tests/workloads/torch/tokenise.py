#!/usr/bin/env python3
"""Trains, then tokenises a whole data set at once: raw text, formatted copy and tokens all held together. It meets the
limit, or with --examples so few that they fit, stays on the higher level."""
import truth

options = truth.arguments(__doc__, before_s=40.0, examples=0, examples_a_second=4000.0)
net, optimiser = truth.model()
fits = options.examples > 0
said = truth.Truth(options, "step" if fits else "leak")
for step in truth.Pace(8, options.before_s):
    truth.train(net, optimiser)
    if step % 40 == 0:
        said.phase("train", 0)

raw, formatted, tokens, began = [], [], [], truth.rss()
if not fits:
    said.begins()
count = options.examples or 1 << 40
for step in truth.Pace(10, options.seconds - options.before_s):
    if len(raw) < count:
        for k in range(int(options.examples_a_second / 10)):
            text = f"example {len(raw)} " + "the quick brown fox " * 10
            raw.append(text)
            formatted.append(f"<s>[INST] {text} [/INST]</s>")
            tokens.append([hash(word) % 32000 + 257 for word in text.split()])
    else:
        truth.train(net, optimiser)
    if step % 40 == 39:
        said.phase("tokenise" if len(raw) < count else "train", truth.rss() - began)
