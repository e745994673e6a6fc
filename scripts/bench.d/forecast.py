"""scripts/bench forecast: how often the forecast is right, on series whose end is known."""

import bisect
import collections
import concurrent.futures
import csv
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import rivals
from figures import CannotMeasure

VERDICTS = ["stable", "leak", "spikes", "step", "ramp", "cow", "cache"]
OTHER = "unknown"
SHARES = [0.25, 0.5, 0.75, 0.9]                          # of a leak's life, at which the deadline is judged
FINE_SHARES = [k / 40 for k in range(10, 39)]            # 25 % to 95 %, for the intervals
LINES = 240                                              # forecasts asked of a series
HOUR, DAY = 3600.0, 86400.0
SHAPES = ["plain", "spiky", "curved"]


def add_arguments(parser):
    parser.add_argument("folder", nargs="*", type=pathlib.Path, metavar="DIR",
                        help="more series: CSV files, with their truth in a manifest.csv")
    parser.add_argument("--data", action="append", default=[], type=pathlib.Path, metavar="DIR",
                        help="real series, scored set by set (each folder in DIR); default: ../shared/data/real")
    parser.add_argument("--oomcast", type=pathlib.Path, metavar="PATH", help="default: bin/oomcast of the build")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR", default="build", help="build folder (default: build)")
    parser.add_argument("--split", choices=["tune", "score", "both", "none"], default="score",
                        help="which half of tests/corpus (default: score)")
    parser.add_argument("--seed", type=int, help="of the corpus (default: its own)")
    parser.add_argument("--only", metavar="TEXT", help="only files whose path holds this")
    parser.add_argument("--json", metavar="FILE", help="write every number there, too")
    parser.add_argument("--details", metavar="FILE", help="write every judgement there, as CSV")
    parser.add_argument("--no-rivals", action="store_true", help="oomcast alone")
    parser.add_argument("--jobs", type=int, default=2, help="replays at a time (default: 2)")


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- series and forecasts ----------------------------------------------------------------------------------------------

class Series:
    """One file and what the manifest says of it."""

    def __init__(self, folder, row):
        def truth(name):
            return float(row[name]) if row.get(name) else None
        self.path = folder / row["file"]
        self.file = row["file"]
        self.truth = {"cow_growth": "cow", "flat": "stable"}.get(row.get("class", ""), row.get("class", ""))
        self.subclass = row.get("subclass") or pathlib.PurePath(row["file"]).parent.name
        self.accepts = {self.truth, *filter(None, row.get("accepts", "").split("|"))}
        self.shape = row.get("shape") or "plain"
        self.limit = truth("limit_bytes")
        self.exhausted = truth("exhausted_at_s")
        self.leak_starts = truth("leak_starts_s") or truth("onset_s") or 0.0
        self.set = None  # of the real series: what is scored by itself
        self.judge_from = truth("judge_from_s") or 0.0
        self.key = None
        try:
            self._read()
        except (KeyError, IndexError, ValueError, StopIteration, OSError) as why:
            raise CannotMeasure(f"{self.path} is no series: {type(why).__name__}: {why}") from None
        if not self.times:
            raise CannotMeasure(f"{self.path} has no samples")

    def _read(self):
        """Times, bytes and limits; of processes, the sum of their private memory at each time."""
        with open(self.path, newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            names = {name: i for i, name in enumerate(next(rows))}
            at, pid = names["time_s"], names.get("pid")
            self.per_process, self.by_kind = pid is not None, "file_bytes" in names
            self.has_limit = "limit_bytes" in names
            if self.per_process:
                of = {}
                for row in rows:
                    of.setdefault(float(row[at]), {})[row[pid]] = float(row[names["uss_bytes"]])
                self.times, self.used = list(of), [sum(each.values()) for each in of.values()]
                self.samples = sum(len(each) for each in of.values())
                self.limits = [self.limit or 0.0] * len(self.times)
                return
            used, limit = names["used_bytes"], names.get("limit_bytes")
            self.times, self.used, self.limits = [], [], []
            for row in rows:
                self.times.append(float(row[at]))
                self.used.append(float(row[used]))
                self.limits.append(float(row[limit]) if limit is not None else self.limit or math.inf)
            self.samples = len(self.times)

    @property
    def plain_columns(self):
        return not self.per_process and not self.by_kind

    @property
    def exhausts(self):
        return self.exhausted is not None

    @property
    def life(self):
        return self.exhausted - self.leak_starts

    @property
    def span(self):
        return self.times[-1] - self.times[0]

    @property
    def days(self):
        """Machine-days that were seen: a hole counts an hour at most."""
        return sum(min(b - a, HOUR) for a, b in zip(self.times, self.times[1:])) / DAY

    def limit_at(self, t):
        return self.limits[max(0, bisect.bisect_right(self.times, t) - 1)]

    def moment(self, share):
        """The time at this share of the leak's life; None while its course is not decided."""
        t = self.leak_starts + share * self.life
        return t if t >= self.judge_from else None

    @property
    def verdict_time(self):
        """Leaks are judged at 75 % of their life, the others at the end, over the whole history."""
        return max(self.moment(0.75) or 0.0, self.judge_from) if self.exhausts else self.times[-1]


@dataclasses.dataclass
class Said:
    """One forecast, of the whole of a series."""
    time: float
    verdict: str
    alert: bool
    eta: float | None
    low: float | None
    high: float | None
    why: str


@dataclasses.dataclass
class Judgement:
    """A forecast of a deadline, beside the truth."""
    series: Series
    share: float
    said: Said

    @property
    def left(self):
        return self.series.exhausted - self.said.time

    @property
    def error(self):
        return None if self.said.eta is None else abs(self.said.eta - self.left) / self.left

    @property
    def holds(self):
        return self.said.low <= self.left <= (math.inf if self.said.high is None else self.said.high)

    @property
    def width(self):
        return None if self.said.high is None else (self.said.high - self.said.low) / self.left


class Replayed:
    """What oomcast said of a series, as often as it was asked."""

    def __init__(self, oomcast, series):
        self.series = series
        command = [str(oomcast), "replay", "--json"]
        every = series.span / LINES
        if series.truth != "healthy" and not series.per_process and every > 0:
            command += ["--every", f"{math.ceil(every * 1000)}ms"]
        if not series.has_limit and series.limit:
            command += ["--limit", str(int(series.limit))]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command + [str(series.path)], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                err.seek(0)
                raise CannotMeasure(f"{' '.join(command)} {series.path}: exit {process.returncode}: "
                                    f"{err.read()[-300:].decode(errors='replace').strip()}")
            self.cpu_s = usage.ru_utime + usage.ru_stime
            out.seek(0)
            self.whole, self.processes = [], {}
            for line in out:
                record = json.loads(line)
                if record["type"] != "forecast":
                    continue
                said = Said(record["time_s"], record["verdict"], record["alert"], record["eta_s"], record["eta_low_s"],
                            record["eta_high_s"], record["why"])
                of = record["process"]
                (self.processes.setdefault(of["pid"], []) if of else self.whole).append(said)
        self.times = [said.time for said in self.whole]

    def at(self, t):
        """The newest forecast at t."""
        return self.whole[max(0, bisect.bisect_right(self.times, t + 1e-6) - 1)]

    def judgements(self, shares):
        moments = [(share, self.series.moment(share)) for share in shares]
        return [Judgement(self.series, share, self.at(t)) for share, t in moments if t is not None]

    @property
    def final(self):
        return self.at(self.series.verdict_time)

    @property
    def verdict(self):
        """As counted: what an expert would accept, too, counts as the truth."""
        return self.series.truth if self.final.verdict in self.series.accepts else self.final.verdict

    @property
    def alerts(self):
        return [said.alert for said in self.whole]

    @property
    def false_alarms(self):
        """Alerts that came while nothing grew: of what exhausts, before that began."""
        if self.series.exhausts:
            return rises([said.alert for said in self.whole if said.time < self.series.leak_starts])
        return rises(self.alerts)


def rises(flags):
    return sum(now and not before for before, now in zip([False, *flags], flags))


def load(options):
    """All series of the run."""
    generator = options.repository / "tests" / "corpus" / "generate.py"
    folders = list(options.folder)
    scratch = tempfile.TemporaryDirectory(prefix="oomcast-corpus-")
    if options.split != "none":
        command = [sys.executable, str(generator), scratch.name]
        command += ["--split", options.split] if options.split != "both" else []
        command += ["--seed", str(options.seed)] if options.seed is not None else []
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        folders.insert(0, pathlib.Path(scratch.name))
        folders.append(generator.with_name("recordings"))
    shared = options.repository.parent / "shared" / "data"
    if (shared / "manifest.csv").exists() and shared.resolve() not in [f.resolve() for f in folders]:
        folders.append(shared)
    elif not (shared / "manifest.csv").exists():
        say(f"skipped: real servers, soak runs and copy-on-write logs ({shared} is not here)")
    found = []
    real = options.data or [shared / "real"] * (shared / "real" / "manifest.csv").exists()
    for folder in folders + real:
        if not folder.is_dir():
            raise CannotMeasure(f"{folder} is no folder")
        manifest = folder / "manifest.csv"
        if manifest.exists():
            with open(manifest, newline="", encoding="utf-8-sig") as file:
                rows = list(csv.DictReader(file))
        else:
            rows = [{"file": str(path.relative_to(folder))} for path in sorted(folder.rglob("*.csv"))]
        chosen = [Series(folder, row) for row in rows
                  if row["file"].endswith(".csv") and (not options.only or options.only in row["file"])]
        for series in chosen if folder in real else []:
            series.set = pathlib.PurePath(series.file).parts[0]
        found += chosen
    for k, series in enumerate(found):
        series.key = f"s{k}"
        series.real = not str(series.path).startswith(scratch.name)
    return found, scratch


# ---- the table -----------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Row:
    """A number of the table, and its bar."""
    group: str
    name: str
    value: float | None
    unit: str = ""               # % shows a share as such
    least: float | None = None
    most: float | None = None
    count: int | None = None     # of what it rests on
    note: str = ""

    @property
    def verdict(self):
        if self.least is None and self.most is None:
            return ""
        if self.value is None:
            return "" if self.count == 0 else "FAIL"
        met = (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)
        return "PASS" if met else "FAIL"


def shown(value, unit):
    if value is None:
        return "-"
    if unit == "%":
        return f"{100 * value:.1f} %"
    return f"{value:.4g} {unit}".strip()


def print_rows(rows):
    group = None
    for row in rows:
        if row.group != group:
            group = row.group
            print(f"\n{group}")
        bar = " ".join(f"{sign} {shown(bound, row.unit)}" for sign, bound in ((">=", row.least), ("<=", row.most)) if bound is not None)
        count = f"n={row.count}" if row.count is not None else ""
        print(f"  {row.name:<52} {shown(row.value, row.unit):>12}  {bar:<20} {row.verdict:<5} {count:<8} {row.note}".rstrip())


def print_matrix(title, head, lines):
    print(f"\n{title}")
    widths = [max(len(str(line[k])) for line in [head, *lines]) for k in range(len(head))]
    for line in [head, *lines]:
        print("  " + "  ".join(str(cell).ljust(w) if k == 0 else str(cell).rjust(w) for k, (cell, w) in enumerate(zip(line, widths))))


def quantile(values, q):
    """Linear between the order statistics."""
    if not values:
        return None
    values = sorted(values)
    at = q * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def ratio(part, whole):
    return part / whole if whole else None


# ---- what is measured ----------------------------------------------------------------------------------------------------

def confusion(runs):
    counted = collections.Counter((run.series.truth, run.verdict) for run in runs if run.series.truth in VERDICTS)
    strict = collections.Counter((run.series.truth, run.final.verdict) for run in runs if run.series.truth in VERDICTS)
    lines, rows, classes = [], [], []
    for truth in VERDICTS:
        total = sum(n for (t, _), n in counted.items() if t == truth)
        named = sum(n for (_, v), n in counted.items() if v == truth)
        right = counted[truth, truth]
        recall, precision = ratio(right, total), ratio(right, named)
        classes.append({"class": truth, "series": total, "precision": precision, "recall": recall,
                        "recall_strict": ratio(strict[truth, truth], total),
                        "said": {v: counted[truth, v] for v in [*VERDICTS, OTHER]}})
        lines.append([truth, *(counted[truth, v] or "." for v in [*VERDICTS, OTHER]), total, shown(precision, "%"),
                      shown(recall, "%"), shown(ratio(strict[truth, truth], total), "%")])
        if total:
            rows.append(Row("verdicts", f"recall of {truth}", recall, "%", least=0.85, count=total))
            rows.append(Row("verdicts", f"precision of {truth}", precision, "%", count=named))
    return lines, rows, classes


def exhaustion(runs, group, judged, least=None):
    """judged(run) -> will it exhaust, as said at the moment of the verdict; soak runs have no truth."""
    known = [run for run in runs if run.series.truth and run.series.truth != "soak"]
    said = [(run.series.exhausts, judged(run)) for run in known]
    hits = sum(truth and word for truth, word in said)
    return [Row(group, "precision", ratio(hits, sum(word for _, word in said)), "%", least=least, count=sum(word for _, word in said)),
            Row(group, "recall", ratio(hits, sum(truth for truth, _ in said)), "%", least=least, count=sum(truth for truth, _ in said))]


def false_alarms(runs, group, rises_of, bar=None):
    rows = []
    for name, chosen in (("real servers", [r for r in runs if r.series.truth == "healthy" and r.series.real]),
                         ("made servers", [r for r in runs if r.series.truth == "healthy" and not r.series.real]),
                         ("other series that do not exhaust", [r for r in runs if not r.series.exhausts and
                                                                r.series.truth in VERDICTS])):
        days = sum(run.series.days for run in chosen)
        alarms = sum(rises_of(run) for run in chosen)
        if days:
            rows.append(Row(group, name, alarms / days, "a day", most=bar if "servers" in name else None, count=len(chosen),
                            note=f"{alarms} in {days:.0f} machine-days"))
    return rows


def lead_times(runs, group, first_of, bars=True):
    """first_of(run): the time of the first alarm after the leak began, or None."""
    rows = []
    for low, high, enough, unit in ((24, 40, 0.5, "of life"), (40, 60, 20.0, "h")):
        chosen = [r for r in runs if r.series.exhausts and low * HOUR <= r.series.life < high * HOUR]
        if not chosen:
            continue
        leads = []
        for run in chosen:
            first = first_of(run)
            ahead = 0.0 if first is None else run.series.exhausted - first
            leads.append(ahead / run.series.life if unit == "of life" else ahead / HOUR)
        name = f"leaks of {low}-{high} h"
        rows.append(Row(group, f"{name}: alert ahead, median", quantile(leads, 0.5), unit, count=len(chosen)))
        rows.append(Row(group, f"{name}: least", min(leads), unit, count=len(chosen)))
        rows.append(Row(group, f"{name}: at least {enough:g} {unit}", ratio(sum(x >= enough for x in leads), len(leads)), "%",
                        least=0.95 if bars else None, count=len(chosen)))
    return rows


def real_sets(runs):
    """What was recorded by others, each set by itself."""
    rows, sets = [], collections.defaultdict(list)
    for run in runs:
        sets[run.series.set].append(run)
    for name, chosen in [*sorted(sets.items()), *([("all sets", runs)] if len(sets) > 1 else [])]:
        group = f"real data: {name}"
        growths = [run for run in chosen if run.series.exhausts]
        seen = [run for run in growths if any(said.alert and said.time >= run.series.leak_starts for said in run.whole)]
        days, alarms = sum(run.series.days for run in chosen), sum(run.false_alarms for run in chosen)
        rows.append(Row(group, "false alarms", alarms / days, "a day", most=0.03 if "pods" in name else 0.02, count=len(chosen),
                        note=f"{alarms} in {days:.1f} machine-days"))
        if not growths:
            continue
        rows.append(Row(group, "growths that had an alert", len(seen) / len(growths), "%", least=0.7, count=len(growths)))
        lead = [(run.series.exhausted - first_alert(run)) / run.series.life for run in seen]
        rows.append(Row(group, "  with so much of their life left, median", quantile(lead, 0.5), "%", count=len(lead)))
        late = [j for run in growths for j in run.judgements(SHARES) if j.share >= 0.5]
        errors = [j.error for j in late if j.error is not None]
        rows.append(Row(group, "deadline error from half of life on: median", quantile(errors, 0.5), "%", most=0.4, count=len(errors)))
        rows.append(Row(group, "  90th percentile", quantile(errors, 0.9), "%", count=len(errors)))
        rows.append(Row(group, "  abstained", ratio(sum(j.error is None for j in late), len(late)), "%", count=len(late)))
        given = [j for run in growths for j in run.judgements(FINE_SHARES) if j.said.low is not None]
        rows.append(Row(group, "90 % intervals hold the truth", ratio(sum(j.holds for j in given), len(given)), "%", least=0.8, most=0.97,
                        count=len(given), note=f"too late {sum(j.left < j.said.low for j in given)}, too early "
                                               f"{sum(j.said.high is not None and j.left > j.said.high for j in given)}"))
        rows.append(Row(group, "  width (of the time left), median", quantile([j.width for j in given if j.width is not None], 0.5), "%",
                        count=len(given)))
    return rows


def first_alert(run):
    # One before the leak began is not about it.
    return next((said.time for said in run.whole if said.alert and said.time >= run.series.leak_starts), None)


def deadline_errors(runs):
    rows, every = [], collections.defaultdict(list)
    for run in runs:
        if run.series.exhausts:
            for judgement in run.judgements(SHARES):
                every[run.series.shape, judgement.share].append(judgement)

    def of(judgements, name, bars):
        errors = [j.error for j in judgements if j.error is not None]
        rows.append(Row("deadline error (of the time left)", f"{name}: median", quantile(errors, 0.5), "%",
                        most=0.08 if bars else None, count=len(errors)))
        rows.append(Row("deadline error (of the time left)", f"{name}: 90th percentile", quantile(errors, 0.9), "%",
                        most=0.20 if bars else None, count=len(errors)))
    for share in SHARES:
        at = [j for shape in SHAPES for j in every[shape, share]]
        if at:
            of(at, f"at {share:.0%} of life", share >= 0.5)
            for shape in SHAPES:
                if every[shape, share]:
                    of(every[shape, share], f"  {shape} at {share:.0%}", False)
    late = [j for (_, share), js in every.items() if share >= 0.5 for j in js]
    if late:
        of(late, "from half of life on", True)
        for shape in SHAPES:
            chosen = [j for j in late if j.series.shape == shape]
            if chosen:
                of(chosen, f"  {shape}", shape == "spiky")
        rows.append(Row("deadline error (of the time left)", "abstained from half of life on",
                        ratio(sum(j.said.eta is None for j in late), len(late)), "%", most=0.05, count=len(late)))
    return rows


def intervals(runs):
    group, judgements = "90 % intervals", [j for run in runs if run.series.exhausts for j in run.judgements(FINE_SHARES)]
    given = [j for j in judgements if j.said.low is not None]
    if not judgements:
        return []
    rows = [Row(group, "judgements", float(len(given)), least=2000, note=f"{len(judgements) - len(given)} abstentions besides")]

    def covered(chosen, name, bars=False):
        if chosen:
            rows.append(Row(group, f"{name}: hold the truth", ratio(sum(j.holds for j in chosen), len(chosen)), "%",
                            least=0.88 if bars else None, most=0.94 if bars else None, count=len(chosen),
                            note=f"too late {sum(j.left < j.said.low for j in chosen)}, too early "
                                 f"{sum(j.said.high is not None and j.left > j.said.high for j in chosen)}"))
    covered(given, "all", True)
    for low, high in ((0.25, 0.5), (0.5, 0.75), (0.75, 1)):
        covered([j for j in given if low <= j.share < high], f"  {low:.0%}-{high:.0%} of life")
    for shape in SHAPES:
        covered([j for j in given if j.series.shape == shape], f"  {shape}")
    rows.append(Row(group, "median width (of the time left)", quantile([j.width for j in given if j.width is not None], 0.5), "%",
                    most=0.6, count=len(given)))
    rows.append(Row(group, "open upper end", ratio(sum(j.said.high is None for j in given), len(given)), "%", most=0.1, count=len(given)))
    return rows


def fuses(runs):
    group, chosen = "forty-minute fuse, two minutes in", [r for r in runs if r.series.subclass == "fuse"]
    if not chosen:
        return []
    judged = [Judgement(run.series, 0.0, run.at(120)) for run in chosen]
    held = [j for j in judged if j.said.low is not None and j.holds]
    narrow = [j for j in held if j.width is not None and j.width <= 0.6]
    return [Row(group, "the interval holds the truth", ratio(len(held), len(judged)), "%", count=len(judged)),
            Row(group, "and is no wider than ±30 %", ratio(len(narrow), len(judged)), "%", least=0.95, count=len(judged))]


def copy_on_write(runs):
    """At which share of the growth of the private memory `cow` was first named."""
    rows, shares = [], []
    for run in (r for r in runs if r.series.per_process and r.series.truth in ("cow", "stable")):
        if run.series.truth == "stable":
            if run.series.real:
                wrong = {said[-1].verdict for said in [run.whole, *run.processes.values()]} - {"stable"}
                rows.append(Row("copy-on-write", f"{run.series.file}: stable to the end", float(not wrong), "%", least=1,
                                note=" ".join(sorted(wrong))))
            continue
        used = run.series.used
        after_fork = min(used[:max(1, len(used) // 10)])
        named = min((said.time for each in [run.whole, *run.processes.values()] for said in each if said.verdict == "cow"), default=None)
        share = 1.0  # not named at all
        if named is not None:
            share = (used[max(0, bisect.bisect_right(run.series.times, named) - 1)] - after_fork) / (max(used) - after_fork)
        if run.series.real:
            rows.append(Row("copy-on-write", f"{run.series.file}: named at", share, "%", most=0.25, note="of the growth"))
        else:
            shares.append(share)
    if shares:
        rows.append(Row("copy-on-write", "made series: named at, median", quantile(shares, 0.5), "%", count=len(shares), note="of the growth"))
        rows.append(Row("copy-on-write", "made series: named at, 90th percentile", quantile(shares, 0.9), "%", most=0.25, count=len(shares)))
    return rows


def cost(runs, oomcast):
    samples, cpu = sum(run.series.samples for run in runs), sum(run.cpu_s for run in runs)
    rows = [Row("cost", "CPU per sample, all replays of this table", cpu / samples * 1e9, "ns", count=samples,
                note="with the start of the process and the lines written")]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("time_s,used_bytes,limit_bytes\n")
        for k in range(400_000):  # 46 days at 10 s, with a spike every 5 minutes
            file.write(f"{10 * k},{14_000_000_000 + 40_000 * k + (k * 7919 % 1000) * 50_000 + (k % 30 < 3) * 4_000_000_000},64000000000\n")
        file.flush()
        for name, more, least in (("samples a second, --every 1m", ["--every", "1m"], 200_000), ("samples a second, a line each", [], 50_000)):
            started = time.monotonic()
            with open(os.devnull, "wb") as nowhere:
                subprocess.run([str(oomcast), "replay", "--json", *more, file.name], check=True, stdout=nowhere, stderr=nowhere)
            rows.append(Row("cost", name, 400_000 / (time.monotonic() - started), "/s", least=least))
    return rows


def rivals_table(runs, all_rivals):
    """oomcast and the others on the same series: those with one column of bytes."""
    chosen = [run for run in runs if run.series.plain_columns and run.series.truth]
    late = [0.5, 0.75, 0.9]
    leaks, servers = [r for r in chosen if r.series.exhausts], [r for r in chosen if r.series.truth == "healthy"]
    slow = [r for r in leaks if 24 * HOUR <= r.series.life < 60 * HOUR]
    days = sum(run.series.days for run in servers)
    lines, records = [], []

    def line(name, exhausts, rise_count, first_of, errors_of):
        said = exhaustion(chosen, "", exhausts)
        lead = {row.name: row.value for row in lead_times(slow, "", first_of, bars=False)}
        asked = [(run.series.shape, errors_of(run, share)) for run in leaks for share in late if run.series.moment(share) is not None]
        record = {"name": name, "precision": said[0].value, "recall": said[1].value,
                  "false_alarms_a_day": ratio(sum(map(rise_count, servers)), days),
                  "leaks_24_40h_warned_half_a_life_ahead": lead.get("leaks of 24-40 h: at least 0.5 of life"),
                  "leaks_40_60h_warned_20h_ahead": lead.get("leaks of 40-60 h: at least 20 h")}
        for shape in ["all", "spiky"]:
            errors = [e for s, e in asked if e is not None and shape in ("all", s)]
            record[f"error_median_{shape}"], record[f"error_p90_{shape}"] = quantile(errors, 0.5), quantile(errors, 0.9)
        record["abstained"] = ratio(sum(e is None for _, e in asked), len(asked))
        records.append(record)
        values = list(record.values())[1:]
        lines.append([name, *(shown(v, "" if k == 2 else "%") for k, v in enumerate(values))])

    line("oomcast", lambda r: r.final.eta is not None, lambda r: rises(r.alerts), first_alert,
         lambda r, share: r.judgements([share])[0].error)
    for rival in all_rivals:
        say(f"asking {rival.name}")

        def grid(series, step):
            return [series.times[0] + k * step for k in range(int(series.span / step) + 1)]

        def first_of(run, rival=rival):
            times = [t for t in grid(run.series, run.series.span / LINES) if t >= run.series.leak_starts]
            return next((t for t, on in zip(times, rival.alarms(run.series, times)) if on), None)

        def error_of(run, share, rival=rival):
            t = run.series.moment(share)
            deadline, left = rival.deadline(run.series, t), run.series.exhausted - t
            return None if deadline is None else abs(deadline - left) / left
        line(rival.name, lambda r, rival=rival: rival.alarms(r.series, [r.series.verdict_time])[0],
             lambda r, rival=rival: rises(rival.alarms(r.series, grid(r.series, 60.0))), first_of, error_of)
    head = ["", "exhausts: precision", "recall", "false alarms/day", "24-40 h: half ahead", "40-60 h: 20 h ahead", "error: median",
            "90th pct", "spiky: median", "90th pct", "abstained"]
    return head, lines, records, len(chosen)


def write_details(path, runs):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["file", "class", "subclass", "shape", "judged", "share_of_life", "time_s", "verdict", "right", "alert", "alarms",
                      "first_alert_s", "true_left_s", "eta_s", "eta_low_s", "eta_high_s", "error", "holds", "width", "why"])

        def cell(value):
            return "" if value is None else f"{value:.4f}" if isinstance(value, float) else value
        for run in runs:
            series, alarms = run.series, rises([s.alert for s in run.whole])
            head = [series.file, series.truth, series.subclass, series.shape]

            judged = [("verdict", None, run.final)]
            judged += [("deadline", j.share, j.said) for j in run.judgements(FINE_SHARES)] if series.exhausts else []
            for what, share, said in judged:
                j = Judgement(series, share, said) if series.exhausts else None
                given = j and said.low is not None
                out.writerow(map(cell, [*head, what, share, said.time, said.verdict, int(said.verdict in series.accepts), int(said.alert),
                                        alarms, first_alert(run), j and j.left, said.eta, said.low, said.high, j and j.error,
                                        int(j.holds) if given else None, j.width if given else None, said.why]))


def everything_else(runs, oomcast):
    """(rows, verdicts) of made series, of the corpus's recordings and of what else was named."""
    lines, rows, classes = confusion(runs)
    print_matrix("what it is (down) and what was said (across)",
                 ["", *VERDICTS, OTHER, "series", "precision", "recall", "strict"], lines)
    rows += exhaustion(runs, "will exhaust: a deadline is in sight", lambda r: r.final.eta is not None, 0.95)
    rows += exhaustion(runs, "will exhaust: an alert is up", lambda r: r.final.alert)
    rows += false_alarms(runs, "false alarms", lambda r: rises(r.alerts), 0.02)
    rows += lead_times(runs, "lead time", first_alert)
    rows += deadline_errors(runs) + intervals(runs) + fuses(runs) + copy_on_write(runs)
    soak = [r for r in runs if r.series.truth == "soak"]
    if soak:
        rows.append(Row("soak runs (not exhausted, no verdict known)", "alarms", float(sum(rises(r.alerts) for r in soak)),
                        count=len(soak), note=" ".join(r.final.verdict for r in soak)))
    rows += cost(runs, oomcast)
    print_rows(rows)
    return rows, classes


def run(options):
    oomcast = options.oomcast or options.build / "bin" / "oomcast"
    if not oomcast.exists():
        raise CannotMeasure(f"{oomcast} is not there: cmake --preset release && cmake --build build, or --oomcast PATH")
    started = time.monotonic()
    all_series, scratch = load(options)
    with scratch:
        if not all_series:
            raise CannotMeasure("no series")
        say(f"replaying {len(all_series)} series, {sum(s.samples for s in all_series)} samples")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = list(pool.map(lambda series: Replayed(oomcast.resolve(), series), all_series))
        say(f"replayed after {time.monotonic() - started:.0f} s")
        if options.details:
            write_details(options.details, runs)
        recorded, runs = [r for r in runs if r.series.set], [r for r in runs if not r.series.set]
        rows = real_sets(recorded) if recorded else []
        print_rows(rows)
        records = {"real": None, "others": None}
        if recorded and not options.no_rivals:
            records["real"] = compare(recorded)
        classes = []
        if runs:
            others, classes = everything_else(runs, oomcast)
            rows += others
            if not options.no_rivals:
                records["others"] = compare(runs)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"series": len(all_series), "split": options.split, "verdicts": classes,
                           "rows": [dict(dataclasses.asdict(row), verdict=row.verdict or None) for row in rows],
                           "rivals": records}, file, indent=1)
                file.write("\n")
    missed = [row for row in rows if row.verdict == "FAIL"]
    met = sum(row.verdict == "PASS" for row in rows)
    print(f"\n{met} bars met, {len(missed)} missed; {len(all_series)} series, {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


def compare(runs):
    def table(all_rivals):
        head, lines, records, count = rivals_table(runs, all_rivals)
        print_matrix(f"the same {count} series (one column of bytes), deadlines from half of life on", head, lines)
        return records
    try:
        server = rivals.Prometheus([r.series for r in runs if r.series.plain_columns], say)
    except CannotMeasure as why:
        print(f"\nPrometheus: skipped: {why}")
        return table(rivals.RULES)
    with server:
        return table([rivals.PredictLinear(server, "1h"), rivals.PredictLinear(server, "30d", "life so far"), *rivals.RULES])
