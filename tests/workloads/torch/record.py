#!/usr/bin/env python3
"""Runs the training programs of this folder, each in a memory cgroup of its own under `oomcast record`, and reduces the
recordings to series with their truth. Root only; needs Debian's python3-torch (scripts/setup --bench).

    record.py OUT_DIR [--oomcast PATH] [--jobs N] [PROGRAM…]

OUT_DIR gets a CSV per program, and manifest.csv as in tests/corpus. tests/corpus/recordings was made so."""

import argparse
import concurrent.futures
import csv
import dataclasses
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path += [str(HERE.parents[1] / "e2e"), str(HERE.parents[1] / "corpus")]

import generate  # noqa: E402
import lib  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's: it has torch
MIB = 1 << 20
LONGEST_S = 400
FINEST_S = 0.2     # of what moves little
UNCHANGED_S = 1.0  # without a sample: it has not changed


@dataclasses.dataclass
class Run:
    name: str
    program: str
    limit_mib: int
    arguments: list
    shape: str = "plain"
    per_process: bool = False


RUNS = [Run(name, f"{program}.py", limit, arguments.split(), **more) for name, program, limit, arguments, more in (
    ("loss_graph", "loss_graph", 640, "--seconds 300", {}),
    ("loss_graph_slow", "loss_graph", 512, "--seconds 300 --batch 32", {}),
    ("list_outputs", "list_outputs", 768, "--seconds 300", {}),
    ("shm_buffers", "shm_buffers", 700, "--seconds 300", {}),
    ("tokenise", "tokenise", 1024, "--seconds 300", {}),
    ("tokenise_fits", "tokenise", 1024, "--seconds 170 --before-s 80 --examples 40000 --examples-a-second 20000", {}),
    ("model_copies", "model_copies", 1024, "--seconds 120", {}),
    ("validation", "validation", 1024, "--seconds 120", {}),
    ("validation_leak", "validation", 900, "--seconds 300 --leak-mib-s 3", {"shape": "spiky"}),
    ("collector", "collector", 512, "--seconds 120", {}),
    ("warm_up", "warm_up", 1024, "--seconds 120", {}),
    ("save_peaks", "save_peaks", 1536, "--seconds 120", {}),
    ("restart", "restart", 640, "--seconds 200", {}),
    ("healthy", "healthy", 512, "--seconds 100", {}),
    ("dataloader_cow", "dataloader_cow", 2048, "--seconds 100", {"per_process": True}),
    ("dataloader_serialised", "dataloader_cow", 2048, "--seconds 100 --serialised 1", {"per_process": True}),
)]


def record(run, oomcast, folder):
    """(recording, what the program said)."""
    recording = folder / f"{run.name}.db"
    group = lib.base().child(run.name).limit(run.limit_mib * MIB)
    with open(folder / f"{run.name}.log", "wb") as log:
        tracer = subprocess.Popen([oomcast, "record", "-o", recording, "--cgroup", group.path], stdout=log, stderr=log)
        try:
            time.sleep(1.5)
            command = [PYTHON, "-B", HERE / run.program, *run.arguments, "--limit-mib", str(run.limit_mib)]
            enter = f'echo $$ > "{group.procs_file}" && exec "$@"'
            with subprocess.Popen(["/bin/sh", "-c", enter, "sh", *map(str, command)], stdout=subprocess.PIPE, stderr=log,
                                  text=True) as process:
                said = [json.loads(line) for line in process.stdout]
                process.wait(LONGEST_S)
            time.sleep(1)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)
            group.remove()
    return recording, said


def thin(rows):
    """Of (time, value, …): what moved by 1/256 of the limit (the last of a row), or 0.2 s after the one before; where
    nothing was sampled for long, the same once more: it has not changed."""
    kept = []
    for row in rows:
        while kept and row[0] - kept[-1][0] > 2 * UNCHANGED_S:
            kept.append((kept[-1][0] + UNCHANGED_S, *kept[-1][1:]))
        if not kept or row[0] - kept[-1][0] >= FINEST_S or abs(row[1] - kept[-1][1]) > row[-1] / 256:
            kept.append(row)
    return kept


def cgroup_series(db, began, ended):
    rows = db.execute("select time_ns / 1e9, pinned, headroom_limit from samples where pinned is not null order by time_ns")
    rows = [(t - began, used, limit) for t, used, limit in rows if began <= t <= ended]
    return ["time_s", "used_bytes", "limit_bytes"], thin(rows)


def process_series(db, began, ended):
    """A moment a second, with the newest figures of every process, while all of them are there and have been measured
    since the last of them was forked."""
    rows = db.execute("""select time_ns / 1e9, pid, rss, private from process_samples
        join processes on processes.id = process_samples.process order by time_ns""").fetchall()
    gone = dict(db.execute("select pid, time_ns / 1e9 from exits join processes on processes.id = exits.process"))
    out, at, known, measured, youngest = [], 0, {}, {}, began
    for second in range(int(ended - began)):
        t = began + second
        while at < len(rows) and rows[at][0] <= t:
            when, pid, rss, private = rows[at]
            youngest = when if pid not in known else youngest
            measured[pid] = when if private is not None else measured.get(pid, began)
            known[pid] = (rss, private if private is not None else known.get(pid, (0, None))[1])
            at += 1
        out.append([(second, pid, rss, private) for pid, (rss, private) in sorted(known.items())
                    if measured[pid] > youngest and gone.get(pid, ended) > t])
    most = max(map(len, out))
    return ["time_s", "pid", "rss_bytes", "uss_bytes"], [row for moment in out if len(moment) == most for row in moment]


def reduce(run, recording, said):
    """(manifest row, header, rows)."""
    db = sqlite3.connect(recording)
    first, begins = said[0], [line["time_s"] for line in said if line.get("phase") == "begins"]
    began = first["time_s"] - 1.0
    kills = [t / 1e9 for (t,) in db.execute("select time_ns from events where type = 'oom' order by time_ns")]
    killed = kills[0] if kills else None
    header, rows = (process_series if run.per_process else cgroup_series)(db, began, killed or said[-1]["time_s"])
    truth = {"file": f"{run.name}.csv", "class": first["class"], "subclass": pathlib.Path(run.program).stem, "split": "recorded",
             "limit_bytes": run.limit_mib * MIB, "exhausts": int(killed is not None), "shape": run.shape,
             "accepts": "|".join(first["accepts"]), "form": "processes" if run.per_process else "series",
             "note": " ".join([run.program, *run.arguments])}
    if killed:
        since = max(begins) - began
        truth |= {"exhausted_at_s": round(killed - began, 3), "leak_starts_s": round(since, 3), "judge_from_s": round(since, 3)}
        own = [(line["time_s"] + line["exhausts_in_s"] - killed) / (killed - line["time_s"]) for line in said
               if line.get("exhausts_in_s") and line["time_s"] > (max(begins) + killed) / 2 and killed - line["time_s"] > 5]
        if own:
            print(f"{run.name}: the program's own deadline is off by {100 * max(own, key=abs):+.1f} % at most, from half of life on")
    return truth, header, rows


def write(folder, row, header, rows):
    with open(folder / row["file"], "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(header)
        out.writerows([f"{r[0]:.2f}".rstrip("0").rstrip("."), *r[1:]] for r in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--oomcast", type=pathlib.Path, default="build/bin/oomcast")
    parser.add_argument("--jobs", type=int, default=4, help="at a time: they mostly sleep (default: 4)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep the recordings and logs there")
    parser.add_argument("run", nargs="*", choices=[[], *(run.name for run in RUNS)], metavar="PROGRAM")
    options = parser.parse_args()
    chosen = [run for run in RUNS if not options.run or run.name in options.run]
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = options.out / "manifest.csv"
    known = {}
    if manifest.exists():
        with open(manifest, newline="", encoding="utf-8") as f:
            known = {row["file"]: row for row in csv.DictReader(f)}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def one(run):
            row, header, rows = reduce(run, *record(run, options.oomcast.resolve(), folder))
            write(options.out, row, header, rows)
            print(f"{run.name}: {row['class']}, {len(rows)} rows" +
                  (f", killed after {row['exhausted_at_s']} s" if row["exhausts"] else ""), flush=True)
            return row
        lib.base()
        try:
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                known |= {row["file"]: row for row in pool.map(one, chosen)}
        finally:
            lib.remove_base()
    with open(manifest, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, generate.MANIFEST, restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(known[name] for name in sorted(known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
