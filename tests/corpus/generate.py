#!/usr/bin/env python3
"""Writes the corpus: memory series of training servers whose truth is known, and manifest.csv that states it.

    generate.py OUT_DIR [--split tune|score] [--seed N] [--only SUBCLASS]

The same seed gives the same bytes. `tune` is for adjusting the forecast, `score` for measuring it: other seeds, and
parameters from ranges that do not overlap. What each class means: README.md. Python's standard library only.
"""

import argparse
import bisect
import csv
import math
import pathlib
import sys

import calm, leaks, columns, servers  # noqa: E401, F401 - their recipes, in the manifest's order
from series import Draw, RECIPES, untidy

SEED = 20250
MANIFEST = ["file", "class", "subclass", "split", "limit_bytes", "exhausted_at_s", "exhausts", "leak_starts_s",
            "judge_from_s", "shape", "accepts", "form", "note"]


def number(x):
    return str(int(x)) if x == int(x) else f"{x:.3f}"


def finish(made, draw):
    """Samples as a sampler sees them: (header, lines, exhausted_at_s)."""
    if made.rows:
        form, header, lines, end = made.rows
        grain = made.grain
        return form, header, ([number(v) if name in ("time_s", "pid", "limit_bytes") else str(int(v // grain * grain))
                               for name, v in zip(header, line)] for line in lines), end
    curve, limits, end = made.curve, made.limits or [(0.0, made.limit)], None
    froms = [at for at, _ in limits]
    bound = [limits[bisect.bisect_right(froms, t) - 1][1] for t in curve.t] if made.limits else [made.limit] * len(curve.t)
    grain, last, lines = made.grain, -1.0, []
    for i, (t, y) in enumerate(zip(curve.t, curve.y)):
        over = y >= bound[i]
        if not over and i + 1 < len(curve.t):
            if made.missing and draw.random() < made.missing and i:
                continue
            if made.hole and made.hole[0] <= t < made.hole[1]:
                continue
        if made.jittered and not over:
            t = max(last + 0.001, t + curve.every * min(0.9, draw.expovariate(12))) if i else t
        if over and not made.exhausts:
            raise AssertionError(f"meets its limit at {t} s")
        value = bound[i] if over else min(bound[i] - 1, max(0.0, math.floor(y / grain + 0.5) * grain))
        t = max(t, last + 0.001)
        lines.append((number(t), str(int(value)), str(int(bound[i]))))
        last = t
        if over:
            end = t
            break
    if made.exhausts and end is None:
        raise AssertionError("does not meet its limit")
    return "series", ["time_s", "used_bytes", "limit_bytes"], lines, end


def generate(split, seed, only=None):
    """(manifest row, header, lines) of every series of a split."""
    for function, count in RECIPES:
        if only and function.__name__ != only:
            continue
        for k in range(count):
            name = f"{function.__name__}_{k}"
            draw = Draw(split, seed, name)
            made = function(draw)
            if made.curve and not (made.missing or made.hole or made.jittered) and made.grain == 4096:
                untidy(made, draw)
            try:
                form, header, lines, end = finish(made, draw)
            except AssertionError as why:
                raise AssertionError(f"{split}/{name}: {why}") from None
            final = made.limits[-1][1] if made.limits else made.limit
            yield {"file": f"{split}/{name}.csv", "class": made.verdict, "subclass": function.__name__, "split": split,
                   "limit_bytes": int(final), "exhausted_at_s": "" if end is None else number(end),
                   "exhausts": int(end is not None),
                   "leak_starts_s": "" if made.leak_starts is None else number(round(made.leak_starts)),
                   "judge_from_s": number(round(made.judge_from)), "shape": made.shape, "accepts": made.accepts,
                   "form": form, "note": made.note}, header, lines


def write(folder, splits, seed, only=None):
    rows = []
    for split in splits:
        (folder / split).mkdir(parents=True, exist_ok=True)
        for row, header, lines in generate(split, seed, only):
            with open(folder / row["file"], "w", encoding="ascii", newline="") as file:
                file.write(",".join(header) + "\n")
                file.writelines(",".join(line) + "\n" for line in lines)
            rows.append(row)
    with open(folder / "manifest.csv", "w", encoding="ascii", newline="") as file:
        table = csv.DictWriter(file, MANIFEST, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="OUT_DIR")
    parser.add_argument("--split", choices=["tune", "score"], help="only this half (default: both)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", metavar="SUBCLASS")
    options = parser.parse_args()
    splits = [options.split] if options.split else ["tune", "score"]
    rows = write(options.folder, splits, options.seed, options.only)
    print(f"{len(rows)} series in {options.folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
