#!/usr/bin/env python3
"""Writes the corpus: memory series of training servers whose truth is known, and manifest.csv that states it.

    generate.py OUT_DIR [--split tune|score] [--seed N] [--only SUBCLASS]

The same seed gives the same bytes. `tune` is for adjusting the forecast, `score` for measuring it: other seeds, and
parameters from ranges that do not overlap. What each class means: README.md. Python's standard library only.
"""

import argparse
import bisect
import collections
import csv
import dataclasses
import math
import pathlib
import random
import sys

MB, GB, MIB, GIB = 1e6, 1e9, 1 << 20, 1 << 30
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SEED = 20250
MANIFEST = ["file", "class", "subclass", "split", "limit_bytes", "exhausted_at_s", "exhausts", "leak_starts_s",
            "judge_from_s", "shape", "accepts", "form", "note"]


class Draw(random.Random):
    """The random numbers of one series. A range is cut into six; `tune` draws from the first, third and fifth piece,
    `score` from the others: no parameter of one is a parameter of the other, and both span the whole range."""

    def __init__(self, split, seed, name):
        super().__init__(f"{seed}/{split}/{name}")
        self.split = split

    def between(self, low, high):
        piece = 2 * self.randrange(3) + (self.split == "score")
        return low + (high - low) * (piece + self.random()) / 6

    def log_between(self, low, high):
        return math.exp(self.between(math.log(low), math.log(high)))

    def whole(self, low, high):
        return round(self.between(low - 0.5, high + 0.5))

    def one(self, tune, score):
        return self.choice(tune if self.split == "tune" else score)

    def limit(self):
        return self.one([16 * GIB, 32 * GB, 61 * GIB, 128 * GIB], [24 * GIB, 32 * GIB, 61 * GB, 96 * GIB, 251 * GIB])


class Curve:
    """Bytes over a grid of times, in the making; every method adds something and returns the curve."""

    def __init__(self, draw, span_s, every_s, level=0.0):
        self.draw, self.every = draw, every_s
        self.t = [i * every_s for i in range(int(span_s / every_s) + 1)]
        self.y = [level] * len(self.t)

    def add(self, of_time):
        self.y = [y + of_time(t) for t, y in zip(self.t, self.y)]
        return self

    def line(self, per_s, start_s=0.0):
        return self.add(lambda t: per_s * (t - start_s) if t > start_s else 0.0)

    def shift(self, at_s, by, over_s=0.0):
        return self.add(lambda t: 0.0 if t < at_s else by if t >= at_s + over_s else by * (t - at_s) / over_s)

    def approach(self, by, tau_s, start_s=0.0):
        return self.add(lambda t: by * -math.expm1(-(t - start_s) / tau_s) if t > start_s else 0.0)

    def noise(self, sd, tau_s=0.0):
        """Gaussian; correlated over tau_s (an Ornstein-Uhlenbeck process as sampled), white for 0."""
        phi = math.exp(-self.every / tau_s) if tau_s > 0 else 0.0
        fresh, x, gauss, y = sd * math.sqrt(1 - phi * phi), sd * self.draw.gauss(0, 1), self.draw.gauss, self.y
        for i in range(len(y)):
            y[i] += x
            x = phi * x + fresh * gauss(0, 1)
        return self

    def murmur(self, scale):
        """What every process does: allocations come and go, some by the sample, some over minutes."""
        d = self.draw
        if d.random() < 0.7:
            self.noise(scale * d.log_between(0.0005, 0.005), self.every * d.log_between(3, 60))
        return self.noise(scale * d.log_between(0.0002, 0.003))

    def spikes(self, spikes):
        """(start_s, lasts_s, height, form): box, decay or hill; a spike shows in one sample at least."""
        for start, lasts, height, form in spikes:
            first = bisect.bisect_left(self.t, start)
            for i in range(first, max(first + 1, bisect.bisect_left(self.t, start + lasts))):
                if i >= len(self.t):
                    break
                at = (self.t[i] - start) / max(lasts, self.every)
                self.y[i] += height * {"box": 1.0, "decay": math.exp(-3 * at),
                                       "hill": 1 - abs(2 * min(at, 1.0) - 1) if lasts > 2 * self.every else 1.0}[form]
        return self

    def sawtooth(self, height, period_s, irregular=0.0, start_s=0.0, steepness=1.0):
        """A collector's: fills up, falls back."""
        d, edges, at = self.draw, [], start_s
        while at <= self.t[-1]:
            lasts = period_s * max(0.2, d.gauss(1, irregular))
            edges.append((at, lasts, height * max(0.3, d.gauss(1, irregular / 2))))
            at += lasts
        starts = [e[0] for e in edges]
        for i, t in enumerate(self.t):
            k = bisect.bisect_right(starts, t) - 1
            if k >= 0:
                at, lasts, high = edges[k]
                self.y[i] += high * ((t - at) / lasts) ** steepness
        return self

    def peak(self):
        return max(self.y)


def recurring(draw, span_s, period_s, height, lasts_s, jitter=0.15, ragged=0.1, start_s=0.0, forms=("box",), poisson=False):
    """Spikes on a schedule, or at random with poisson."""
    found, at, form = [], start_s + period_s * draw.uniform(0.3, 1), draw.choice(forms)
    while at < span_s:
        found.append((at, lasts_s * max(0.3, draw.gauss(1, ragged)), height * max(0.2, draw.gauss(1, ragged)), form))
        at += max(1.5 * lasts_s, draw.expovariate(1 / period_s) if poisson else period_s * draw.gauss(1, jitter))
    return found


@dataclasses.dataclass
class Made:
    """A series and its truth."""
    verdict: str
    curve: Curve | None
    limit: float
    exhausts: bool = False
    leak_starts: float | None = None
    judge_from: float = 0.0      # from here on, the course that leads to the end is under way
    shape: str = "plain"         # plain, spiky or curved: which row of the deadline's error
    accepts: str = ""            # other verdicts that an expert would not call wrong, joined by |
    note: str = ""
    limits: list | None = None   # (from_s, limit): a limit that changes at run time
    rows: tuple | None = None    # (form, header, lines, exhausted_at_s) of series with more columns
    grain: float = 4096.0
    missing: float = 0.0         # share of samples that are lost
    hole: tuple | None = None    # (from_s, to_s) without any
    jittered: bool = False       # the sampler is late at times: fractional seconds


RECIPES = []


def recipe(count=4):
    def register(function):
        RECIPES.append((function, count))
        return function
    return register


def untidy(made, draw):
    """What samplers do to a series, to every third one: samples lost, whole MiB, late, a hole, few and irregular."""
    kind = draw.randrange(12)
    if kind == 0:
        made.missing = draw.between(0.05, 0.3)
    elif kind == 1:
        made.grain = MIB
    elif kind == 2:
        made.jittered = True
    elif kind == 3:
        span = made.curve.t[-1]
        start = draw.between(0.15, 0.4) * span
        made.hole = (start, start + draw.between(0.02, 0.08) * span)
    elif kind == 4 and len(made.curve.t) > 3000:
        made.missing, made.jittered = draw.between(0.5, 0.7), True
    return made


def steady(draw, span_s, every_s, limit, level=None):
    return Curve(draw, span_s, every_s, limit * (level or draw.between(0.2, 0.75)))


# ---- stable ----------------------------------------------------------------------------------------------------------

@recipe()
def flat(d):
    limit = d.limit()
    return Made("stable", steady(d, d.log_between(20 * MINUTE, 2 * DAY), 10, limit).murmur(limit), limit)


@recipe()
def flat_correlated(d):
    limit = d.limit()
    every = d.one([5, 30], [10, 60])
    c = steady(d, every * d.between(1500, 5000), every, limit)
    return Made("stable", c.noise(limit * d.log_between(0.005, 0.03), every * d.log_between(4, 40)), limit)


@recipe(3)
def constant(d):
    limit = d.limit()
    return Made("stable", steady(d, d.log_between(10 * MINUTE, 8 * HOUR), d.one([1, 10], [2, 30]), limit), limit)


@recipe(3)
def flat_percent(d):
    limit = d.limit()
    c = steady(d, d.between(0.5, 3) * DAY, 60, limit).noise(limit * 0.008, d.between(5, 60) * MINUTE)
    return Made("stable", c, limit, grain=limit / 100, note="whole percents")


@recipe(6)
def collector_small(d):
    limit = d.limit()
    every = d.one([1, 5, 10], [2, 5, 15])
    c = steady(d, every * d.between(800, 4000), every, limit)
    c.sawtooth(c.y[0] * d.log_between(0.02, 0.1), every * d.log_between(3, 120), d.one([0, 0.15], [0.05, 0.25]))
    return Made("stable", c.murmur(limit / 3), limit, note="a healthy collector")


@recipe(6)
def collector_large(d):
    limit = d.limit()
    every = d.one([1, 5, 10], [2, 5, 15])
    c = steady(d, every * d.between(1000, 4000), every, limit, d.between(0.2, 0.6))
    c.sawtooth(c.y[0] * d.log_between(0.1, 0.3), every * d.log_between(5, 100), d.one([0.05, 0.3], [0, 0.2, 0.4]))
    return Made("stable", c.murmur(limit / 3), limit, accepts="spikes", note="a healthy collector, 10-30 % of the level")


@recipe(5)
def epochs(d):
    limit = d.limit()
    every = d.one([5, 10], [2, 10])
    period = every * d.log_between(60, 400)
    c = steady(d, period * d.between(6, 16), every, limit, d.between(0.2, 0.5))
    c.sawtooth(limit * d.between(0.05, 0.35), period, d.one([0.02], [0.04]), steepness=d.one([1], [0.8, 1.2]))
    return Made("stable", c.murmur(limit), limit, accepts="spikes", note="grows through each epoch, falls back at its end")


def restarted(d, limit, lives, every, down_s, shape_of):
    """One series of several lives; shape_of(curve, span) adds what a life does above nothing."""
    whole = Curve(d, sum(lives) + down_s * len(lives), every)
    at, births = 0, []
    for span in lives:
        births.append(whole.t[at])
        life = shape_of(Curve(d, span, every), span)
        for i, y in enumerate(life.y):
            if at + i < len(whole.y):
                whole.y[at + i] = max(0.0, y)
        at += len(life.y)
        for _ in range(int(down_s / every)):
            if at < len(whole.y):
                whole.y[at] = limit * 0.004
                at += 1
    del whole.t[at:], whole.y[at:]
    return whole, births


@recipe(5)
def restarts(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    level, tau = limit * d.between(0.3, 0.75), every * d.between(2, 10)
    lives = [every * d.between(150, 700) for _ in range(d.whole(4, 8))]

    def life(c, span):
        return c.approach(level, tau).murmur(limit)
    c, _ = restarted(d, limit, lives, every, every * d.whole(1, 5), life)
    return Made("stable", c, limit, accepts="ramp|step|spikes", note="a healthy job that is started again")


@recipe(4)
def wander(d):
    limit, every = d.limit(), d.one([10, 60], [30, 60])
    c = steady(d, every * d.between(3000, 6000), every, limit, d.between(0.3, 0.7))
    return Made("stable", c.noise(limit * d.between(0.005, 0.03), every * d.between(80, 250)).murmur(limit / 3), limit,
                note="comes back slowly")


@recipe(5)
def near_limit(d):
    limit, every = d.limit(), d.one([10, 60], [30, 60])
    c = steady(d, every * d.between(2500, 5000), every, limit, d.between(0.9, 0.965))
    c.noise(limit * d.between(0.003, 0.007), every * d.log_between(3, 30))
    c.y = [min(y, limit * 0.988) for y in c.y]
    return Made("stable", c, limit, note="busy and full, and comes back")


@recipe(4)
def diurnal(d):
    limit, every = d.limit(), d.one([60], [60, 120])
    c = steady(d, d.between(3, 7) * DAY, every, limit, d.between(0.3, 0.6))
    high, phase, bend = limit * d.between(0.02, 0.12), d.random() * 6.28, d.between(0, 0.4)
    c.add(lambda t: high * (math.sin(6.2832 * t / DAY + phase) + bend * math.sin(12.566 * t / DAY)))
    return Made("stable", c.noise(limit * 0.006, 20 * MINUTE).murmur(limit), limit, accepts="spikes", note="day and night")


@recipe(3)
def gaps(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1500, 4000), every, limit).murmur(limit)
    start = d.between(0.3, 0.6) * c.t[-1]
    return Made("stable", c, limit, missing=d.between(0.1, 0.3), hole=(start, start + d.between(0.05, 0.25) * c.t[-1]))


@recipe(4)
def limit_changes(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    c = steady(d, every * d.between(800, 3000), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    span = c.t[-1]
    limits = [(0.0, limit), (d.between(0.25, 0.45) * span, limit * d.choice([0.5, 0.6, 1.5, 2])),
              (d.between(0.6, 0.85) * span, limit * d.choice([0.75, 1]))]
    return Made("stable", c, limit, limits=limits, note="the limit is changed twice, the level is not")


@recipe(3)
def drains(d):
    limit, every = d.limit(), d.one([10], [5, 30])
    c = steady(d, every * d.between(1000, 3000), every, limit, d.between(0.5, 0.8))
    c.line(-c.y[0] * d.between(0.2, 0.5) / c.t[-1])
    return Made("stable", c.murmur(limit), limit, note="falls slowly")


@recipe(4)
def one_balloon(d):
    limit, every = d.limit(), d.one([5, 10], [10])
    c = steady(d, d.between(6, 24) * HOUR, every, limit, d.between(0.15, 0.4)).murmur(limit)
    c.spikes([(d.between(0.3, 0.8) * c.t[-1], d.between(20, 60), limit * d.between(0.2, 0.4), d.choice(["box", "hill"]))])
    return Made("stable", c, limit, accepts="spikes", note="half a minute of balloon in a long run, once")


# ---- spikes ----------------------------------------------------------------------------------------------------------

@recipe(6)
def validation(d):
    limit, every = d.one([32 * GB, 61 * GIB], [24 * GIB, 32 * GIB, 61 * GB]), d.one([2, 10], [5, 10])
    c = Curve(d, d.between(1.5, 8) * HOUR, every, d.between(11, 14) * GB).murmur(14 * GB)
    c.spikes(recurring(d, c.t[-1], d.between(4, 9) * MINUTE, d.between(2.5, 5) * GB, d.log_between(every, 90),
                       forms=d.one([("box",), ("decay",)], [("box",), ("hill",)])))
    return Made("spikes", c, limit, note="14 GB, and 4 GB more at every validation")


@recipe(5)
def validation_brief(d):
    c = Curve(d, d.between(0.5, 2) * HOUR, d.one([1], [2]), d.between(4.6, 6.4) * GB).murmur(5 * GB)
    high = d.between(3.8, 5) * GB
    for spike in recurring(d, c.t[-1], d.between(1.5, 6) * MINUTE, high, d.between(5, 12)):
        c.spikes([spike, (spike[0] + spike[1], 3, -0.25 * high, "box")])
    return Made("spikes", c, d.one([32 * GB, 61 * GIB], [32 * GIB, 61 * GB]), note="6.2 -> 10.4 -> 4.8 GB within ten seconds")


@recipe(6)
def random_spikes(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10, 30])
    c = steady(d, every * d.between(1500, 4500), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    c.spikes(recurring(d, c.t[-1], every * d.between(50, 200), limit * d.between(0.1, 0.28), every * d.log_between(1, 8),
                       ragged=0.25, poisson=True, forms=("box", "decay", "hill")))
    return Made("spikes", c, limit)


@recipe(4)
def checkpoints(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, d.between(8, 30) * HOUR, every, limit, d.between(0.3, 0.55)).murmur(limit / 2)
    c.spikes(recurring(d, c.t[-1], d.between(20, 60) * MINUTE, limit * d.between(0.12, 0.3), every * d.between(1, 6), jitter=0.03))
    return Made("spikes", c, limit, note="torch.save gathers the state")


@recipe(4)
def spikes_and_collector(d):
    limit, every = d.limit(), d.one([2, 5], [5, 10])
    c = steady(d, every * d.between(2000, 4500), every, limit, d.between(0.2, 0.45)).murmur(limit / 2)
    c.sawtooth(limit * d.between(0.01, 0.04), every * d.between(8, 30), 0.2)
    c.spikes(recurring(d, c.t[-1], every * d.between(80, 200), limit * d.between(0.15, 0.35), every * d.between(1, 10), ragged=0.15))
    return Made("spikes", c, limit)


@recipe(4)
def spikes_to_the_brim(d):
    limit, every = d.limit(), d.one([5, 10], [5, 10])
    c = steady(d, every * d.between(2000, 4500), every, limit, d.between(0.5, 0.7)).murmur(limit / 4)
    top = limit * d.between(0.9, 0.965)
    c.spikes(recurring(d, c.t[-1], every * d.between(40, 120), top - c.y[0], every * d.between(2, 8), ragged=0.005))
    c.y = [min(y, limit * 0.985) for y in c.y]
    return Made("spikes", c, limit, note="peaks at 90-96 % of the limit, and no higher")


@recipe(3)
def nightly(d):
    limit = d.limit()
    c = steady(d, d.between(5, 8) * DAY, d.one([60], [120]), limit, d.between(0.2, 0.4)).murmur(limit)
    c.spikes(recurring(d, c.t[-1], DAY, limit * d.between(0.25, 0.45), d.between(0.5, 2.5) * HOUR, jitter=0.01, forms=("box", "hill")))
    return Made("spikes", c, limit, accepts="stable", note="a job every night")


@recipe(3)
def tokenisation_returns(d):
    limit, every = d.one([61 * GIB], [61 * GB]), d.one([5, 10], [10, 15])
    c = Curve(d, d.between(1.5, 3) * DAY, every, 6.4 * GB).murmur(20 * GB)
    c.spikes(recurring(d, c.t[-1], d.between(2, 5) * HOUR, d.between(33, 46) * GB, d.between(3, 9) * MINUTE, ragged=0.06, forms=("hill",)))
    return Made("spikes", c, limit, note="a data set is tokenised now and then: 6.4 to 40-55 GB and back")


# ---- step ------------------------------------------------------------------------------------------------------------

@recipe(6)
def model_copies(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 61 * GB]), d.one([1, 5], [2, 10])
    c = Curve(d, every * d.between(600, 2500), every, d.between(6.5, 9) * GB).murmur(10 * GB)
    at = d.between(0.2, 0.4)
    for _ in range(d.whole(1, 2)):
        c.shift(at * c.t[-1], d.between(5.7, 6.3) * GB, every * d.between(0, 4))
        at += d.between(0.1, 0.25)
    return Made("step", c, limit, note="a second (and third) copy of the model")


@recipe(6)
def dataset_loaded(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    c = steady(d, every * d.between(800, 4000), every, limit, d.between(0.1, 0.35)).murmur(limit)
    c.shift(d.between(0.25, 0.65) * c.t[-1], limit * d.between(0.12, 0.45), d.between(0.002, 0.03) * c.t[-1])
    return Made("step", c, limit)


@recipe(4)
def workers_start(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 96 * GIB]), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(800, 2500), every, d.between(6, 9) * GB).murmur(8 * GB)
    at, apart = d.between(0.25, 0.6) * c.t[-1], d.between(0.0005, 0.0015) * c.t[-1]
    for k in range(20):
        c.shift(at + k * apart, d.between(380, 420) * MB)
    return Made("step", c, limit, accepts="ramp", note="20 workers of 400 MB start in the middle of the run")


@recipe(3)
def step_in_collector(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1200, 3000), every, limit, d.between(0.15, 0.35)).murmur(limit)
    c.sawtooth(limit * d.between(0.02, 0.06), every * d.between(8, 40), 0.15)
    c.shift(d.between(0.3, 0.65) * c.t[-1], limit * d.between(0.18, 0.4), 2 * every)
    return Made("step", c, limit)


@recipe(3)
def step_to_the_brim(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1000, 2500), every, limit, d.between(0.4, 0.55)).murmur(limit / 4)
    c.shift(d.between(0.3, 0.65) * c.t[-1], limit * d.between(0.9, 0.95) - c.y[0], 3 * every)
    return Made("step", c, limit, note="a level shift to 90-95 % of the limit that holds")


@recipe(3)
def steps_spread(d):
    limit, every = d.limit(), d.one([10], [30])
    c = steady(d, every * d.between(1500, 4000), every, limit, d.between(0.1, 0.2)).murmur(limit / 2)
    for at in (0.2, 0.4, 0.6):
        c.shift((at + d.between(-0.06, 0.06)) * c.t[-1], limit * d.between(0.1, 0.18), 2 * every)
    return Made("step", c, limit, note="three level shifts, and flat since")


@recipe(3)
def step_down(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1000, 2500), every, limit, d.between(0.5, 0.8)).murmur(limit)
    c.shift(d.between(0.3, 0.7) * c.t[-1], -limit * d.between(0.15, 0.35), 2 * every)
    return Made("step", c, limit, accepts="stable", note="a copy is given back")


# ---- ramp ------------------------------------------------------------------------------------------------------------

@recipe(6)
def warms_up(d):
    limit, every = d.limit(), d.one([1, 5], [2, 10])
    c = Curve(d, every * d.between(600, 3000), every, limit * d.between(0.01, 0.08))
    c.approach(limit * d.between(0.25, 0.7), d.between(0.05, 0.2) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit)


@recipe(6)
def fills_then_holds(d):
    limit, every = d.limit(), d.one([1, 10], [2, 5])
    c = Curve(d, every * d.between(600, 3000), every, limit * d.between(0.01, 0.08))
    c.shift(d.between(0, 0.02) * c.t[-1], limit * d.between(0.25, 0.75), d.between(0.1, 0.45) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit, note="a straight line to a plateau")


@recipe(5)
def staged(d):
    limit, every = d.limit(), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(600, 2500), every, limit * d.between(0.01, 0.05))
    at, stages = d.between(0.01, 0.03), d.whole(3, 6)
    for _ in range(stages):
        c.shift(at * c.t[-1], limit * d.between(0.35, 0.75) / stages, every * d.between(1, 6))
        at += d.between(0.03, 0.07)
    return Made("ramp", c.murmur(limit), limit, note="imports, data, model, optimizer, one after another")


@recipe(4)
def workers_at_start(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 96 * GIB]), d.one([1, 2], [1, 5])
    c = Curve(d, every * d.between(600, 1800), every, d.between(0.3, 1.2) * GB).murmur(8 * GB)
    apart = d.between(0.004, 0.012) * c.t[-1]
    c.shift(apart, d.between(5, 7) * GB, 4 * apart)
    for k in range(20):
        c.shift((3 + k) * apart, d.between(380, 420) * MB)
    return Made("ramp", c, limit, note="20 workers of 400 MB, one after another")


@recipe(6)
def saturates(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    c = Curve(d, every * d.between(1000, 4000), every, limit * d.between(0.1, 0.25))
    c.approach(limit * d.between(0.3, 0.6), d.between(0.12, 0.24) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit, accepts="stable", note="slows down and ends below the limit")


@recipe(4)
def warms_up_in_collector(d):
    limit, every = d.limit(), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(800, 2500), every, limit * d.between(0.01, 0.05))
    c.approach(limit * d.between(0.3, 0.6), d.between(0.05, 0.14) * c.t[-1]).murmur(limit)
    return Made("ramp", c.sawtooth(limit * d.between(0.01, 0.05), every * d.between(5, 30), 0.2), limit)


@recipe(3)
def overshoots(d):
    limit, every = d.limit(), d.one([2, 5], [1, 10])
    c = Curve(d, every * d.between(800, 2500), every, limit * d.between(0.01, 0.05))
    tau, high = d.between(0.05, 0.1) * c.t[-1], limit * d.between(0.3, 0.5)
    c.approach(high, tau)
    c.add(lambda t: 0.5 * high * (t / tau) ** 2 / 4 * math.exp(2 - 2 * t / tau) if t < 40 * tau else 0.0)
    return Made("ramp", c.murmur(limit), limit, accepts="stable", note="start-up needs more than the run")


@recipe(3)
def short_warm_up(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    c = Curve(d, every * d.between(1500, 4000), every, limit * d.between(0.01, 0.08))
    c.shift(0, limit * d.between(0.25, 0.7), d.between(0.01, 0.04) * c.t[-1])
    return Made("stable", c.murmur(limit), limit, accepts="ramp|step", note="up within 1-4 % of the history, flat since")


# ---- leak ------------------------------------------------------------------------------------------------------------

def leak(curve, limit, **rest):
    return Made("leak", curve, limit, exhausts=True, leak_starts=rest.pop("leak_starts", 0.0), **rest)


def straight(d, life_s, every_s, limit=None, growth=None):
    """A floor that meets the limit after life_s, on a grid that goes on a little."""
    limit = limit or d.limit()
    growth = limit * (growth or d.between(0.35, 0.85))
    return limit, Curve(d, 1.3 * life_s, every_s, limit - growth).line(growth / life_s)


@recipe(8)
def fuse(d):
    limit, rate = 32 * GB, d.between(560, 640) * MB / MINUTE
    start = d.between(7.5, 9) * GB
    c = Curve(d, 3600, d.one([1, 10], [5, 30, 1]), start).line(rate).murmur(4 * GB)
    if d.random() < 0.5:
        c.sawtooth(d.between(50, 350) * MB, d.between(20, 90), 0.2)
    return leak(c, limit, note="600 MB a minute on 32 GB: forty minutes")


@recipe(5)
def slow_24_40h(d):
    limit, c = straight(d, d.between(24, 40) * HOUR, d.one([10, 60], [30, 60]))
    return leak(c.murmur(limit), limit)


@recipe(5)
def slow_40_60h(d):
    limit, c = straight(d, d.between(40, 60) * HOUR, d.one([30, 60], [20, 60]))
    return leak(c.murmur(limit), limit)


@recipe(3)
def eight_days(d):
    limit, c = straight(d, d.between(7, 9) * DAY, d.one([120], [180]))
    return leak(c.murmur(limit), limit, note="eight days to the kill")


@recipe(5)
def hours(d):
    every = d.one([1, 10], [5, 15])
    limit, c = straight(d, every * d.between(800, 4000), every)
    return leak(c.murmur(limit), limit)


@recipe(4)
def faint(d):
    every = d.one([10, 60], [30, 60])
    limit, c = straight(d, d.between(12, 50) * HOUR, every, growth=d.between(0.08, 0.2))
    return leak(c.noise(limit * d.between(0.001, 0.004), every * d.log_between(2, 20)), limit, note="on a level of 80-92 %")


@recipe(4)
def noisy(d):
    every = d.one([10, 30], [10, 60])
    limit, c = straight(d, every * d.between(2500, 6000), every, growth=d.between(0.4, 0.8))
    return leak(c.noise(limit * d.log_between(0.005, 0.018), every * d.log_between(2, 30)), limit)


@recipe(5)
def staircase(d):
    limit, every = d.one([32 * GB, 61 * GIB], [24 * GIB, 32 * GIB, 61 * GB]), d.one([2, 5], [5, 10])
    period, up = d.between(150, 330), d.between(0.35, 0.9) * GB
    stairs = int(1.2 * (limit - 8 * GB) / up)
    c = Curve(d, stairs * period, every, 8 * GB)
    for k in range(stairs):
        at = (k + d.gauss(0.5, 0.05)) * period
        c.spikes([(at, d.between(10, 30), up * d.between(1.5, 3), "box")]).shift(at, up * d.gauss(1, 0.1), every)
    return leak(c.murmur(6 * GB), limit, shape="spiky", note="validation spikes that do not fully recover")


@recipe(4)
def steps_of_training(d):
    limit, every = d.one([128 * GIB, 192 * GIB], [96 * GIB, 251 * GB]), d.one([10], [5, 15])
    at, up = d.between(60, 300), d.between(2, 4) * GB
    stairs = int(1.3 * limit / up)
    c = Curve(d, stairs * 700, every, 8 * GB)
    for _ in range(stairs):
        c.shift(at, up * d.gauss(1, 0.12), d.between(5, 40))
        at += d.between(560, 700)
    return leak(c.murmur(8 * GB), limit, note="2-4 GB every 100 steps")


@recipe(6)
def leak_in_collector(d):
    every = d.one([5, 10], [2, 10])
    limit, c = straight(d, every * d.between(1500, 5000), every, growth=d.between(0.3, 0.6))
    high = limit * d.between(0.03, 0.15)
    c.y = [y - high for y in c.y]
    c.sawtooth(high, every * d.log_between(5, 60), d.one([0.05, 0.2], [0.1, 0.3]))
    return leak(c.murmur(limit / 2), limit, shape="spiky", note="the collector's floor rises")


@recipe(8)
def leak_under_validation(d):
    limit, every = d.one([32 * GB], [32 * GIB, 30 * GB]), d.one([5, 10], [2, 10])
    life, high = d.between(6, 20) * HOUR, d.between(3.5, 4.5) * GB
    c = Curve(d, 1.3 * life, every, 14 * GB).line((limit - high - 14 * GB) / life).murmur(10 * GB)
    c.spikes(recurring(d, c.t[-1], 5 * MINUTE, high, d.log_between(every, 80), jitter=d.one([0.02, 0.15], [0.05, 0.25]),
                       ragged=d.one([0.01, 0.05], [0.03, 0.08]), forms=d.one([("box",), ("decay",)], [("box",), ("hill",)])))
    return leak(c, limit, shape="spiky", note="14 GB, 4 GB spikes every 5 min, and a leak under them")


@recipe(5)
def leak_under_random_spikes(d):
    every = d.one([5, 10], [10, 30])
    limit, c = straight(d, every * d.between(3500, 7000), every, growth=d.between(0.3, 0.5))
    high = limit * d.between(0.08, 0.2)
    c.y = [y - high for y in c.y]
    c.spikes(recurring(d, c.t[-1], every * d.between(25, 50), high, every * d.log_between(1, 6), ragged=0.08, poisson=True,
                       forms=("box", "hill")))
    return leak(c.murmur(limit / 2), limit, shape="spiky")


@recipe(8)
def long_under_spikes(d):
    every = d.one([30, 60], [20, 60])
    limit, c = straight(d, d.one([d.between(24, 40)], [d.between(40, 60), d.between(24, 40)]) * HOUR, every, growth=d.between(0.3, 0.6))
    high = limit * d.between(0.06, 0.2)
    c.y = [y - high for y in c.y]
    c.spikes(recurring(d, c.t[-1], d.between(15, 60) * MINUTE, high, d.log_between(every, 300), jitter=0.08, ragged=0.05))
    return leak(c.murmur(limit / 2), limit, shape="spiky", note="checkpoints over a leak of days")


@recipe(6)
def accelerates(d):
    limit, every = d.limit(), d.one([5, 30], [10, 60])
    life = every * d.between(1500, 5000)
    growth, power = limit * d.between(0.45, 0.8), d.between(1.3, 2.2)
    c = Curve(d, 1.3 * life, every, limit - growth).add(lambda t: growth * (t / life) ** power)
    return leak(c.murmur(limit), limit, shape="curved", note=f"growth as time to the power {power:.2f}")


@recipe(6)
def decelerates(d):
    limit, every = d.limit(), d.one([5, 30], [10, 60])
    life = every * d.between(1500, 5000)
    growth, power = limit * d.between(0.5, 0.85), d.between(0.5, 0.8)
    c = Curve(d, 1.6 * life, every, limit - growth).add(lambda t: growth * (t / life) ** power)
    return leak(c.murmur(limit / 2), limit, shape="curved", note=f"growth as time to the power {power:.2f}")


@recipe(4)
def starts_late(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life = every * d.between(2000, 6000)
    begin, growth = d.between(0.2, 0.6) * life, limit * d.between(0.35, 0.7)
    c = Curve(d, 1.3 * life, every, limit - growth).line(growth / (life - begin), begin).murmur(limit)
    return leak(c, limit, leak_starts=begin, judge_from=begin + 0.15 * (life - begin))


@recipe(5)
def ramp_then_leak(d):
    limit, every = d.limit(), d.one([5, 10], [2, 30])
    life = every * d.between(1500, 5000)
    start, growth, tau = limit * 0.02, limit * d.between(0.3, 0.5), d.between(0.01, 0.04) * life
    c = Curve(d, 1.3 * life, every, start).approach(limit - growth - start, tau).line(growth / life).murmur(limit)
    return leak(c, limit, judge_from=6 * tau)


@recipe(4)
def leak_by_day_and_night(d):
    limit, c = straight(d, d.between(4, 8) * DAY, d.one([120], [180]), growth=d.between(0.5, 0.8))
    high, phase = limit * d.between(0.01, 0.03), d.random() * 6.28
    c.add(lambda t: high * math.sin(6.2832 * t / DAY + phase))
    return leak(c.murmur(limit), limit, judge_from=1.5 * DAY, shape="curved", note="a leak under the load of the day")


@recipe(4)
def leak_with_shifts(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life = every * d.between(2000, 5000)
    start, growth = limit * d.between(0.05, 0.15), limit * d.between(0.4, 0.55)
    shifts = [d.between(0.1, 0.25) * life, d.between(0.3, 0.42) * life]
    c = Curve(d, 1.3 * life, every, start).line(growth / life)
    for at in shifts:
        c.shift(at, (limit - start - growth) / 2, every)
    return leak(c.murmur(limit), limit, judge_from=shifts[-1] + 0.06 * life, note="a data set and a model copy are loaded on the way")


@recipe(5)
def restarts_that_leak(d):
    limit, every = d.limit(), d.one([10], [10, 30])
    level, full = limit * d.between(0.15, 0.35), every * d.between(1500, 2500)
    lives = [full * d.between(0.15, 0.5) for _ in range(d.whole(1, 3))] + [1.3 * full]

    def life(c, span):
        return c.approach(level, 4 * every).line((limit - level) / full).murmur(limit)
    c, births = restarted(d, limit, lives, every, every * d.whole(1, 5), life)
    return leak(c, limit, leak_starts=births[-1], judge_from=births[-1] + 0.15 * full, note="started again, and leaks again")


@recipe(5)
def limit_moves_leak(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life, at = every * d.between(1500, 4000), d.between(0.2, 0.45)
    after = limit * d.choice([0.85, 1.2, 1.4])
    start = limit * d.between(0.15, 0.3)
    c = Curve(d, 1.3 * life, every, start).line((after - start) / life).murmur(limit)
    return leak(c, limit, limits=[(0.0, limit), (at * life, after)], judge_from=(at + 0.02) * life, note="the limit is changed on the way")


@recipe(3)
def slope_changes(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life, at = every * d.between(2000, 4500), d.between(0.25, 0.45)
    start, faster = limit * d.between(0.1, 0.3), d.between(2, 4)
    rate = (limit - start) / (life * (at + faster * (1 - at)))
    c = Curve(d, 1.3 * life, every, start).line(rate).line(rate * (faster - 1), at * life).murmur(limit)
    return leak(c, limit, judge_from=(at + 0.1) * life, note="the batch size is raised, and with it the leak")


@recipe(3)
def leak_sampled_badly(d):
    every = d.one([5], [10])
    limit, c = straight(d, every * d.between(2500, 5000), every)
    start = d.between(0.3, 0.4) * c.t[-1]
    return leak(c.murmur(limit), limit, missing=d.between(0.1, 0.3), hole=(start, start + d.between(0.03, 0.08) * c.t[-1]),
                jittered=True, grain=d.choice([4096, MIB]))


@recipe(3)
def leak_percent(d):
    limit, c = straight(d, d.between(10, 50) * HOUR, 60)
    return leak(c.noise(limit * 0.004, 300), limit, grain=limit / 100, note="whole percents")


@recipe(4)
def tokenisation(d):
    limit, every = d.one([61 * GIB], [61 * GB]), d.one([1, 5], [2, 5])
    begin, lasts = d.between(0.5, 3) * HOUR, d.between(4, 10) * MINUTE
    c = Curve(d, begin + 1.5 * lasts, every, 6.4 * GB).murmur(20 * GB).line((limit - 6.4 * GB) / lasts, begin)
    return leak(c, limit, leak_starts=begin, judge_from=begin + 0.5 * lasts, accepts="ramp|step",
                note="a whole data set is tokenised at once: 6.4 GB to the limit within minutes")


# ---- per process: cow ------------------------------------------------------------------------------------------------

PROCESS_HEADER = ["time_s", "pid", "rss_bytes", "pss_bytes", "uss_bytes", "shared_bytes", "shared_file_bytes"]


def workers_over(d, parent_rss, workers, span_s, every_s, private_of, own=6 * MB, parent_leaks=None, before_fork=False):
    """Parent and forked workers; private_of(k, t): the share of the parent's pages that k (0: the parent) has made its
    own at t. PSS as the kernel counts it: what is shared, divided by those who share it. before_fork: the parent is
    seen once while all is its own."""
    lines, pid = [], d.randrange(2000, 4_000_000)
    pids = [pid] + [pid + d.randrange(2, 9) + 9 * k for k in range(workers)]
    files = d.between(15, 25) * MB
    if before_fork:
        lines.append((0, pid, parent_rss, parent_rss, parent_rss - files, files, files))
    for step in range(int(span_s / every_s) + 1):
        t = step * every_s
        grown = parent_leaks(t) if parent_leaks else 0.0
        shares = [min(1.0, max(0.0, private_of(k, t))) for k in range(workers + 1)]
        for k, share in enumerate(shares):
            rss = parent_rss + (grown if k == 0 else 0) + d.gauss(0, 0.2) * MB
            uss = parent_rss * share + own * (1 + 0.05 * d.gauss(0, 1)) + (grown if k == 0 else 0)
            uss = min(uss, rss)
            shared = rss - uss
            lines.append((t, pids[k], rss, uss + shared / (workers + 1), uss, shared, min(shared, files)))
    return lines


def per_process(verdict, limit, lines, **rest):
    return Made(verdict, None, limit, rows=("processes", PROCESS_HEADER, lines, None), **rest)


@recipe(5)
def cow_unshares(d):
    rss, workers, span = d.between(1.5, 4) * GB, d.whole(3, 10), d.between(80, 240)
    done = d.between(0.55, 0.95)
    pace = [d.gauss(1, 0.03) for _ in range(workers + 1)]
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [1, 2]), lambda k, t: done * pace[k] * t / span,
                                    before_fork=True), note="workers read a list, and copy it page by page")


@recipe(5)
def cow_saturates(d):
    rss, workers, span = d.between(1.5, 6) * GB, d.whole(2, 8), d.between(200, 900)
    tau, done = d.between(0.2, 0.4) * span, d.between(0.6, 0.95)
    pace = [d.gauss(1, 0.1) for _ in range(workers + 1)]
    return per_process("cow", 2 * (workers + 1) * rss, workers_over(
        d, rss, workers, span, d.one([1, 2], [2, 5]), lambda k, t: -done * math.expm1(-t * pace[k] / tau)))


@recipe(4)
def cow_uneven(d):
    rss, workers, span = d.between(2, 5) * GB, d.whole(4, 12), d.between(150, 500)
    pace = [0.02] + [d.between(0.3, 0.95) for _ in range(workers)]
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [2]), lambda k, t: pace[k] * t / span),
                       note="the parent does not read, the workers do, each at its pace")


@recipe(4)
def cow_long(d):
    rss, workers, span = d.between(4, 10) * GB, d.whole(2, 6), d.between(2, 6) * HOUR
    done = d.between(0.5, 0.9)
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([10, 30], [20, 30]), lambda k, t: done * (t / span) ** 0.9))


@recipe(4)
def cow_avoided(d):
    rss, workers, span = d.between(1.5, 4) * GB, d.whole(3, 10), d.between(60, 400)
    return per_process("stable", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [2]), lambda k, t: 0.003 if k else 0.006,
                                    before_fork=d.random() < 0.5), note="the same with the data set serialised")


@recipe(4)
def parent_leaks(d):
    limit, every = 32 * GB, d.one([2, 5], [5, 10])
    start, workers, rate = d.between(8.5, 9.2) * GB, 20, 600 * MB / MINUTE
    lines = workers_over(d, 400 * MB, workers, 2700, every, lambda k, t: 0.14, own=4 * MB,
                         parent_leaks=lambda t: start - 400 * MB + rate * t + d.gauss(0, 15) * MB)
    private = collections.Counter()
    for t, _, _, _, uss, _, _ in lines:
        private[t] += uss
    end = next(t for t, total in private.items() if total >= limit)
    return Made("leak", None, limit, exhausts=True, leak_starts=0.0,
                rows=("processes", PROCESS_HEADER, [line for line in lines if line[0] <= end], end),
                note="the parent leaks 600 MB a minute, its twenty workers do not")


# ---- by kind: cache --------------------------------------------------------------------------------------------------

KIND_HEADER = ["time_s", "used_bytes", "limit_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "kernel_bytes"]


def by_kind(verdict, limit, anon, files, shmem=None, **rest):
    """used is all of a cgroup's usage; its page cache gives way to the rest."""
    d, lines, end = anon.draw, [], None
    kernel = limit * d.between(0.002, 0.01)
    for i, t in enumerate(anon.t):
        a, s = max(0.0, anon.y[i]), max(0.0, shmem.y[i]) if shmem else 0.0
        f = max(0.0, min(files.y[i], limit * (0.9995 - 0.003 * d.random()) - a - s - kernel))
        used = min(limit, a + s + f + kernel)
        lines.append((t, used, limit, a, f, s, kernel))
        if a + s + kernel >= limit:
            end = t
            break
    return Made(verdict, None, limit, exhausts=end is not None, rows=("kinds", KIND_HEADER, lines, end), **rest)


@recipe(5)
def cache_grows(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    anon = steady(d, every * d.between(600, 2500), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.02).line(limit * d.between(0.2, 0.42) / anon.t[-1]).murmur(limit / 4)
    return by_kind("cache", limit, anon, files, note="reads a data set; droppable")


@recipe(5)
def cache_fills(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    anon = steady(d, every * d.between(600, 2500), every, limit, d.between(0.2, 0.6)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.05).line(limit * d.between(1, 2.5) / anon.t[-1])
    return by_kind("cache", limit, anon, files, note="page cache up to the limit, and no harm in it")


@recipe(4)
def cache_in_bursts(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(800, 2500), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.05)
    for k in range(7):
        files.shift((0.1 + 0.12 * k + d.between(0, 0.03)) * files.t[-1], limit * d.between(0.05, 0.08), 20 * every)
    return by_kind("cache", limit, anon, files, note="a checkpoint is written now and then")


@recipe(4)
def cache_over_collector(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(800, 2500), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    anon.sawtooth(limit * d.between(0.01, 0.05), every * d.between(6, 40), 0.2)
    files = Curve(d, anon.t[-1], every, limit * 0.04).approach(limit * d.between(0.35, 0.5), 0.5 * anon.t[-1])
    return by_kind("cache", limit, anon, files)


@recipe(4)
def leak_under_cache(d):
    limit, every = d.limit(), d.one([5, 10], [5, 10])
    life = every * d.between(800, 2500)
    anon = Curve(d, 1.3 * life, every, limit * d.between(0.2, 0.4))
    anon.line((limit * 0.994 - anon.y[0]) / life).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit)
    return by_kind("leak", limit, anon, files, leak_starts=0.0, note="usage is at the limit all along; the cache gives way to a leak")


@recipe(3)
def leak_in_shm(d):
    limit, every = d.limit(), d.one([5], [10])
    life = every * d.between(800, 2000)
    anon = steady(d, 1.3 * life, every, limit, d.between(0.2, 0.3)).murmur(limit / 2)
    shmem = Curve(d, 1.3 * life, every).line((limit * 0.99 - anon.y[0]) / life)
    return by_kind("leak", limit, anon, Curve(d, 1.3 * life, every, limit * 0.1), shmem, leak_starts=0.0, note="/dev/shm fills, and cannot be dropped")


@recipe(3)
def cache_steady(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(600, 2000), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    return by_kind("stable", limit, anon, Curve(d, anon.t[-1], every, limit * d.between(0.1, 0.3)).murmur(limit / 4))


# ---- healthy servers -------------------------------------------------------------------------------------------------

@recipe(8)
def server(d):
    """As the real ones are: 85-92 % on average, 3-5 % about it that last an hour, 0.6 % a minute, capped by reclaim,
    whole percents averaged over a minute, holes of hours."""
    limit = 96 * GIB
    c = Curve(d, d.between(5.5, 6.5) * DAY, 60, limit * d.between(0.84, 0.92))
    c.noise(limit * d.between(0.02, 0.04), d.between(40, 110) * MINUTE).noise(limit * d.between(0.005, 0.02), d.between(5, 14) * HOUR)
    high, phase = limit * d.between(0, 0.02), d.random() * 6.28
    c.add(lambda t: high * math.sin(6.2832 * t / DAY + phase)).noise(limit * 0.005, 90)
    cap = limit * d.between(0.974, 0.979)
    c.y = [y if y < cap - limit * 0.01 else cap - limit * 0.01 * math.exp(min(0, (cap - limit * 0.01 - y) / limit * 100)) for y in c.y]
    start = d.between(0.3, 0.7) * c.t[-1]
    return Made("healthy", c, limit, grain=limit / 600, hole=(start, start + d.between(4, 8) * HOUR), missing=d.between(0.005, 0.08))


@recipe(4)
def server_of_jobs(d):
    """A shared box: jobs come, take memory, and go."""
    limit = d.limit()
    c = Curve(d, d.between(5, 7) * DAY, d.one([60], [60, 30]), limit * d.between(0.1, 0.25)).murmur(limit)
    at, running = 0.0, []
    while at < c.t[-1]:
        at += d.expovariate(1 / (d.between(2, 5) * HOUR))
        running = [job for job in running if job[1] > at]
        takes, ends = limit * d.between(0.05, 0.3), at + d.log_between(0.5, 20) * HOUR
        if sum(job[0] for job in running) + takes < 0.62 * limit:
            running.append((takes, ends))
            warm = d.between(2, 15) * MINUTE
            c.shift(at, takes, warm).shift(ends, -takes, 2 * MINUTE)
    return Made("healthy", c, limit)


@recipe(4)
def server_deployed(d):
    """A service that is started anew once or twice a day, warms up, and serves."""
    limit = d.limit()
    level, tau = limit * d.between(0.45, 0.8), d.between(0.3, 1.5) * HOUR
    lives = [d.between(8, 30) * HOUR for _ in range(d.whole(5, 8))]

    def life(c, span):
        return c.shift(0, 0.7 * level, 3 * MINUTE).approach(0.3 * level, tau).murmur(limit).noise(limit * 0.01, HOUR)
    c, _ = restarted(d, limit, lives, 60, 120, life)
    return Made("healthy", c, limit)


# ---- writing ---------------------------------------------------------------------------------------------------------

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
