"""What a busy day takes in the store, and how long a report on it takes to load."""

import pathlib
import subprocess
import sys
import tempfile

from figures import CannotMeasure, Figure, print_table, write_json
import machine

MIB = 1 << 20


def add_arguments(parser):
    parser.add_argument("--build", metavar="DIR", default="build", help="build folder (default: build)")
    parser.add_argument("--hours", type=int, default=24, help="of simulated time (default: 24)")
    parser.add_argument("--cgroups", type=int, default=1000, help="default: 1000")
    parser.add_argument("--busy", type=int, default=25, metavar="PERCENT",
                        help="of the cgroups move each second, three times as many each 10 s (default: 25)")
    parser.add_argument("--json", metavar="FILE", help="write every number there, too")


def run(options):
    folder = options.repository / options.build
    done = subprocess.run(["cmake", "--build", str(folder), "--target", "bench_store"], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"building bench_store in {folder} (configure it first: cmake --preset release):\n"
                            + (done.stdout + done.stderr)[-2000:])
    about = machine.describe()
    print(f"bench: {options.hours} h of {options.cgroups} cgroups", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="oomcast-bench-") as store:
        words = [folder / "bin/bench_store", pathlib.Path(store) / "store", options.hours, options.cgroups, options.busy]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"bench_store: {done.stderr}")
    got = {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}
    rows, reports = "the store", "loading a report"
    figures = [
        Figure(rows, "database and log, at most", got["most_bytes"] / MIB, bar=512, unit="MiB",
               note=f"{got['rows_written'] / 1e6:.1f} million rows were written"),
        Figure(rows, "CPU of writing and thinning", got["cpu_percent"], unit="%", note="of one core, in simulated time"),
        Figure(rows, "RSS of the writer, at most", got["peak_rss_bytes"] / MIB, unit="MiB"),
        Figure(reports, "the last kill", got["last_report_s"], bar=1, unit="s",
               note=f"{got['last_report_samples']:.0f} samples"),
        Figure(reports, "the first kill", got["first_report_s"], bar=1, unit="s",
               note=f"{got['first_report_samples']:.0f} samples"),
        Figure(reports, "the last kill with 24 h before it", got["day_report_s"], bar=1, unit="s",
               note=f"{got['day_report_samples']:.0f} samples"),
        Figure(reports, f"the list of all {got['episodes']:.0f}", got["list_s"], bar=1, unit="s"),
    ]
    print_table(figures)
    judged = [figure for figure in figures if figure.bar is not None]
    met = sum(figure.verdict == "PASS" for figure in judged)
    print(f"\n{met} of {len(judged)} bars met")
    if options.json:
        write_json(options.json, about, figures, {})
    return 0 if met == len(judged) else 1
