#!/usr/bin/env python3
"""How well the end of a made leak can be told at all: its parameters are known, only its noise is not.

Each leak is made again with other noise; the median end of those that still live at a moment is the oracle's answer for
that moment. Its error is about what no forecast can be expected to be below: it has not seen the noise so far. Prints the median and 90th percentile of the
error, in shares of the time left, by share of life and by shape (minutes a seed).
"""

import argparse
import collections
import random
import statistics

import generate
import leaks
from series import Draw, RECIPES

SHARES = [0.5, 0.75, 0.9]


class SameLeak(Draw):
    """The parameters of one series, and noise of its own."""

    def __init__(self, split, seed, name, noise):
        super().__init__(split, seed, name)
        self.noise = random.Random(f"{noise}/{seed}/{split}/{name}")

    def gauss(self, mu=0.0, sigma=1.0):
        return self.noise.gauss(mu, sigma)

    def expovariate(self, lambd):
        return self.noise.expovariate(lambd)


def end_of(made):
    limits = made.limits or [(0.0, made.limit)]
    for t, used in zip(made.curve.t, made.curve.y):
        if used >= [limit for since, limit in limits if since <= t][-1]:
            return t
    return None


def errors_of(recipe, split, seed, name, others):
    """(share of life, shape, error)"""
    made = recipe(SameLeak(split, seed, name, 0))
    end, begin = end_of(made), made.leak_starts or 0.0
    if end is None:
        return
    ends = [at for k in range(1, others + 1) if (at := end_of(recipe(SameLeak(split, seed, name, k)))) is not None]
    for share in SHARES:
        now = begin + share * (end - begin)
        told = statistics.median([at for at in ends if at > now] or ends[-1:])
        yield share, made.shape, abs(told - end) / (end - now)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=generate.SEED)
    parser.add_argument("--split", choices=["tune", "score"], action="append", help="default: both")
    parser.add_argument("--others", type=int, default=24, help="with other noise, of each leak (default: %(default)s)")
    options = parser.parse_args()
    found = collections.defaultdict(list)
    for recipe, count in RECIPES:
        if recipe.__module__ != leaks.__name__:
            continue
        for split in options.split or ["tune", "score"]:
            for k in range(count):
                for share, shape, error in errors_of(recipe, split, options.seed, f"{recipe.__name__}_{k}", options.others):
                    for row in (f"at {share:.0%} of life", f"  {shape} at {share:.0%}", "from half of life on", f"  {shape}"):
                        found[row].append(error)
    for row, errors in sorted(found.items(), key=lambda item: item[0].strip()):
        errors.sort()
        print(f"{row:24} median {statistics.median(errors):6.1%}  90th percentile {errors[int(0.9 * len(errors))]:6.1%}  n={len(errors)}")


if __name__ == "__main__":
    main()
