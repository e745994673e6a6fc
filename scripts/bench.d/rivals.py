"""What others would have said of the same series: Prometheus itself, over its API, and the published rules.

A rival answers two questions: `alarms(series, times)`, whether it would alarm at each time, and `deadline(series, t)`,
in how many seconds from t it sees the limit met (None: not in sight). Each sees samples up to the asked time only.
"""

import bisect
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

from figures import CannotMeasure

EPOCH = 1_600_000_000  # where the series begin in Prometheus
HOUR = 3600.0
AHEAD_S = 4 * HOUR     # of the usual rule: predict_linear(used[1h], 4*3600) > limit
MOST_POINTS = 10_000   # of one range query; the server refuses more than 11,000


class Rule:
    """A rule over the samples themselves."""

    def __init__(self, name, alarm, deadline=lambda series, t: None):
        self.name, self.alarm, self.deadline = name, alarm, deadline

    def alarms(self, series, times):
        return [self.alarm(series, t) for t in times]


def window(series, t, span_s):
    first, last = bisect.bisect_left(series.times, t - span_s), bisect.bisect_right(series.times, t)
    return series.times[first:last], series.used[first:last]


def slope(times, used):
    """Least squares, bytes per second; None of fewer than 3 samples."""
    n = len(times)
    if n < 3 or times[-1] <= times[0]:
        return None
    t0, u0 = sum(times) / n, sum(used) / n
    return sum((t - t0) * (u - u0) for t, u in zip(times, used)) / sum((t - t0) ** 2 for t in times)


def above_90_percent(series, t):
    _, used = window(series, t, 600)
    return bool(used) and used[-1] > 0.9 * series.limit_at(t)


def coroot(series, t):
    """Grows by more than 5 % of the limit an hour over the last hour, and has not reached a plateau: the newest
    quarter of it stands above the quarter before."""
    times, used = window(series, t, HOUR)
    rate = slope(times, used)
    if rate is None or rate * HOUR < 0.05 * series.limit_at(t):
        return False
    quarter = max(1, len(used) // 4)
    return sum(used[-quarter:]) > sum(used[-2 * quarter:-quarter])


def first_and_last_ten(series, t):
    """Incident 5: the minimum of the last ten samples against that of the first ten. 6000 -> 6050 is none, 6000 -> 7000
    is a leak; 5 % between them."""
    known = bisect.bisect_right(series.times, t)
    return known >= 20 and min(series.used[known - 10:known]) > 1.05 * min(series.used[:10])


def ten_minima_deadline(series, t):
    """The line through the two minima."""
    known = bisect.bisect_right(series.times, t)
    if known < 20:
        return None
    first, last = min(series.used[:10]), min(series.used[known - 10:known])
    if last <= first:
        return None
    rate = (last - first) / max(1e-9, series.times[known - 5] - series.times[4])
    return max(0.0, (series.limit_at(t) - last) / rate)


RULES = [
    Rule("Coroot's leak rule", coroot),
    Rule("minimum of first against last 10", first_and_last_ten, ten_minima_deadline),
    Rule("level > 90 %", above_90_percent),
]


class PredictLinear:
    """predict_linear(used[WINDOW], 4*3600) > limit, and its line followed to the limit."""

    def __init__(self, server, span, name=None):
        self.server, self.span = server, span
        self.name = f"predict_linear(used[{name or span}])"

    def alarms(self, series, times):
        """Over equally spaced times."""
        step = times[1] - times[0] if len(times) > 1 else 60.0
        firing, key = set(), f'{{series="{series.key}"}}'
        ask = f"predict_linear(used_bytes{key}[{self.span}], {AHEAD_S:.0f}) > on(series) limit_bytes{key}"
        for first in range(0, len(times), MOST_POINTS):
            part = times[first:first + MOST_POINTS]
            firing |= {round((t - times[0]) / step) for t, _ in self.server.query_range(ask, part[0], part[-1], step)}
        return [i in firing for i in range(len(times))]

    def _at(self, series, t, ahead_s):
        return self.server.query(f'predict_linear(used_bytes{{series="{series.key}"}}[{self.span}], {ahead_s:.0f})', t)

    def deadline(self, series, t):
        here, there = self._at(series, t, 0), self._at(series, t, AHEAD_S)
        if here is None or there is None or there <= here:
            return None
        return max(0.0, (series.limit_at(t) - here) * AHEAD_S / (there - here))


class Prometheus:
    """A Prometheus of its own on loopback, filled with the series. A context manager; leaves nothing behind."""

    def __init__(self, all_series, say):
        for tool in ("promtool", "prometheus"):
            if not shutil.which(tool):
                raise CannotMeasure(f"{tool} is not installed: scripts/setup --bench")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oomcast-bench-"))
        self.process = None
        try:
            self._start(all_series, say)
        except BaseException:
            self.close()
            raise

    def _start(self, all_series, say):
        say(f"prometheus: backfilling {len(all_series)} series")
        text, data = self.folder / "series.om", self.folder / "data"
        with open(text, "w", encoding="ascii") as file:
            for metric in ("used", "limit"):
                file.write(f"# TYPE {metric}_bytes gauge\n")
                for series in all_series:
                    head = f'{metric}_bytes{{series="{series.key}"}} '
                    values = series.used if metric == "used" else series.limits
                    at = {f"{EPOCH + t:.3f}": v for t, v in zip(series.times, values)}  # one sample a millisecond
                    file.writelines(f"{head}{v:.0f} {t}\n" for t, v in at.items())
            file.write("# EOF\n")
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "--max-block-duration=8760h", "openmetrics", "--quiet",
                        str(text), str(data)], check=True, stdout=subprocess.DEVNULL)
        text.unlink()
        config = self.folder / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1h}\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=100y",
                 f"--web.listen-address=127.0.0.1:{port}", "--query.max-samples=500000000", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        for _ in range(300):
            if self.process.poll() is not None:
                raise CannotMeasure(f"prometheus ended at once: {(self.folder / 'log').read_text()[-300:].strip()}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise CannotMeasure("prometheus is not ready after 30 s")

    def _ask(self, what, **parameters):
        data = urllib.parse.urlencode(parameters).encode()
        with urllib.request.urlopen(self.url + what, data=data, timeout=120) as answer:
            return json.load(answer)["data"]["result"]

    def query(self, expression, t):
        found = self._ask("query", query=expression, time=f"{EPOCH + t:.3f}")
        return float(found[0]["value"][1]) if found else None

    def query_range(self, expression, first, last, step):
        found = self._ask("query_range", query=expression, start=f"{EPOCH + first:.3f}", end=f"{EPOCH + last:.3f}", step=f"{step:.3f}")
        return [(float(t) - EPOCH, float(v)) for t, v in found[0]["values"]] if found else []

    def close(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
