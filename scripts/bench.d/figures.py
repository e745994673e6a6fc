"""Numbers with their intervals and bars, and the table they are printed in."""

import dataclasses
import json
import random
import statistics

RESAMPLES = 2000


class CannotMeasure(Exception):
    """This machine or build lacks something a measurement needs; says what."""


@dataclasses.dataclass
class Figure:
    """A number, its 95 % interval (None: a single reading) and the most that it may be (None: shown for comparison)."""
    group: str
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    bar: float | None = None
    unit: str = ""
    samples: int = 1
    note: str = ""
    resolved: bool = True  # False: the control beside it, which should show nothing, misses the bar by itself

    @property
    def verdict(self):
        if self.bar is None:
            return ""
        if not self.resolved:
            return "NOISE"
        return "PASS" if (self.value if self.high is None else self.high) <= self.bar else "FAIL"


def median_interval(values, seed=1):
    """The median and its 95 % bootstrap interval."""
    middle = statistics.median(values)
    if len(values) < 3:
        return middle, min(values), max(values)
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return middle, medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def of_median(group, name, values, **rest):
    value, low, high = median_interval(values)
    return Figure(group, name, value, low, high, samples=len(values), **rest)


def shown(number, unit):
    if number is None:
        return ""
    if unit == "":
        return f"{number:.4f}"
    return f"{number:.3g}" if abs(number) < 100 else f"{number:.0f}"


def print_table(figures):
    group = None
    for figure in figures:
        if figure.group != group:
            group = figure.group
            print(f"\n{group}", flush=True)
        interval = ""
        if figure.low is not None:
            interval = f"[{shown(figure.low, figure.unit)}, {shown(figure.high, figure.unit)}]"
        bar = f"<= {figure.bar:g}" if figure.bar is not None else ""
        value = f"{shown(figure.value, figure.unit)} {figure.unit}".strip()
        print(f"  {figure.name:<44} {value:>12} {interval:<20} {bar:<8} {figure.verdict:<5} {figure.note}".rstrip(),
              flush=True)


def write_json(path, machine, figures, extra):
    rows = [dict(dataclasses.asdict(figure), verdict=figure.verdict or None) for figure in figures]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "figures": rows, **extra}, file, indent=1)
        file.write("\n")
