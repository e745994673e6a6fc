"""What the corpus is made of: random numbers by split, curves, a series with its truth."""

import bisect
import dataclasses
import math
import random

MB, GB, MIB, GIB = 1e6, 1e9, 1 << 20, 1 << 30
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


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

    def wandering_line(self, per_s, sd, tau_s):
        """A line whose pace follows the load of its machine: log-normal around per_s, correlated over tau_s."""
        phi = math.exp(-self.every / tau_s)
        fresh, x, done, y = sd * math.sqrt(1 - phi * phi), sd * self.draw.gauss(0, 1), 0.0, self.y
        for i in range(len(y)):
            y[i] += done
            done += per_s * math.exp(x - sd * sd / 2) * self.every
            x = phi * x + fresh * self.draw.gauss(0, 1)
        return self

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
