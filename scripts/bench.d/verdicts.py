"""Whether `oomcast run -- CMD` says of a command that ends by itself what it did: leaking ones are told `leak`, healthy
ones never. Programs of tests/workloads, whose truth is known by construction, and some that nobody here made."""

import concurrent.futures
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from figures import CannotMeasure
import machine

PYTHON = "/usr/bin/python3"  # Debian's: it has torch
LIMIT = "4G"
LONGEST_S = 300
SHOWN = {True: "leak", False: "no leak", None: "not judged"}


@dataclasses.dataclass
class Program:
    name: str
    leaks: bool | None  # None: shown, not judged
    words: list
    needs: tuple = ()   # modules of PYTHON


def programs(options, folder):
    workloads = options.workloads.resolve()

    def torch(name, leaks, arguments=""):
        label = " ".join([f"torch/{name}", *arguments.split()])
        return Program(label, leaks, [PYTHON, "-B", options.repository / f"tests/workloads/torch/{name}.py", "--seconds",
                                      options.seconds, *arguments.split()], ("torch",))

    def corpus(name, leaks=True):
        python = (workloads / f"corpus/{name}.py").exists()
        command = [PYTHON, "-B", workloads / f"corpus/{name}.py"] if python else [workloads / f"corpus/{name}"]
        needs = ("torch",) if name.startswith("torch") else ("numpy",) if "numpy" in name else ()
        return Program(f"corpus/{name}", leaks, ["/usr/bin/timeout", options.seconds, *command], needs)

    def other(name, script):
        return Program(name, None, ["/bin/sh", "-c", script])
    text = folder / "text"
    return [
        *(torch(*line) for line in (
            ("loss_graph", True), ("loss_graph", True, "--batch 32"), ("list_outputs", True),
            ("list_outputs", True, "--kib 300"), ("shm_buffers", True), ("validation", True, "--leak-mib-s 3"))),
        *(corpus(name) for name in (
            "torch_outputs", "torch_hook", "torch_loss_graph", "torch_optimizer", "torch_accumulation", "torch_loader",
            "tenth_of_temporaries", "no_destructor", "thread_pool", "tile_maps", "log_list", "journal_realloc",
            "sessions", "index_words", "parse_trees", "responses_dict", "callbacks_closure", "spectra_numpy",
            "aging_sizes")),  # this one keeps little, and its heap grows for ever
        *(torch(*line) for line in (
            ("healthy", False), ("collector", False), ("warm_up", False), ("save_peaks", False), ("model_copies", False),
            ("validation", False), ("tokenise", False, "--before-s 8 --examples 40000 --examples-a-second 20000"))),
        corpus("request_loop", False),
        other("xz", f"xz -T1 -1 -k -c {text} > /dev/null"),
        other("sort", f"sort -S 300M -T {folder} {text} > /dev/null"),
        other("gzip", f"gzip -6 -c {text} > /dev/null"),
        other("compileall", f"{PYTHON} -m compileall -q -f -d x /usr/lib/python3/dist-packages -o 0 > /dev/null; true"),
        other("sqlite", f"{PYTHON} -c \"import sqlite3; d = sqlite3.connect('{folder}/db'); d.execute('create table t(a, b)')\n"
                        "for i in range(40): d.executemany('insert into t values (?, ?)', ((i * k, str(k)) for k in range(100000)))\n"
                        "d.execute('create index i on t(b)'); d.commit()\""),
    ]


def write_text(path):
    """Some 300 MiB of lines that are not in order."""
    with open(path, "w", encoding="ascii") as out:
        value = 1
        for _ in range(60):
            lines = []
            for _ in range(100_000):
                value = value * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
                lines.append(f"{value:020d} the quick brown fox {value >> 40}\n")
            out.write("".join(lines))


def verdict(options, program, own_cgroup):
    """(what it says, the whole last line)."""
    memory = ["--memory", LIMIT] if own_cgroup else []
    words = [options.oomcast.resolve(), "run", "--store", "none", *memory, "--", *program.words]
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace",
                              timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return "", f"no end after {LONGEST_S} s"
    said = [line for line in done.stdout.splitlines() if line.startswith("verdict: ")]
    if not said:
        raise CannotMeasure(f"oomcast run -- {program.name} said no verdict:\n{(done.stdout + done.stderr)[-1000:]}")
    return re.match(r"verdict: (\S+)", said[-1])[1], said[-1]


def missing(program):
    """What it needs and this machine lacks."""
    lacks = [module for module in program.needs
             if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode]
    lacks += [word for word in program.words if isinstance(word, pathlib.Path) and not word.exists()]
    return ", ".join(map(str, lacks))


def add_arguments(parser):
    parser.add_argument("--oomcast", type=pathlib.Path, default="build/bin/oomcast", metavar="FILE")
    parser.add_argument("--workloads", type=pathlib.Path, default="build/tests/workloads", metavar="DIR")
    parser.add_argument("--seconds", type=int, default=25, help="that each program runs (default: 25)")
    parser.add_argument("--jobs", type=int, default=3, help="at a time: they mostly sleep (default: 3)")
    parser.add_argument("--only", metavar="TEXT", default="", help="programs whose name has it")
    parser.add_argument("--json", metavar="FILE", help="write every verdict there, too")


def run(options):
    for path in (options.oomcast, options.workloads):
        if not path.exists():
            raise CannotMeasure(f"{path} is not there: cmake --preset checks && cmake --build --preset checks")
    rows = []
    with tempfile.TemporaryDirectory(prefix="oomcast-bench-") as folder:
        folder = pathlib.Path(folder)
        chosen = [program for program in programs(options, folder) if options.only in program.name]
        if any(program.leaks is None for program in chosen):
            write_text(folder / "text")

        def one(job):
            program, own_cgroup = job
            lacks = missing(program)
            return (program, own_cgroup, *(("", f"needs {lacks}") if lacks else verdict(options, program, own_cgroup)))
        jobs = [(program, own) for program in chosen for own in (True, False)]
        pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        try:
            for program, own_cgroup, said, line in pool.map(one, jobs):
                right = None if program.leaks is None or not said else program.leaks == (said == "leak")
                rows.append({"program": program.name, "own_cgroup": own_cgroup, "truth": SHOWN[program.leaks],
                             "verdict": said, "right": right, "line": line})
                mark = {None: "", True: "PASS", False: "FAIL"}[right]
                print(f"  {program.name:<44} {'--memory' if own_cgroup else '':<9} {SHOWN[program.leaks]:<11} "
                      f"{said or line:<9} {mark}", flush=True)
                if right is False:
                    print(f"      {line}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    judged = [row for row in rows if row["right"] is not None]
    for truth in (SHOWN[True], SHOWN[False]):
        of = [row for row in judged if row["truth"] == truth]
        print(f"{truth}: {sum(row['right'] for row in of)} of {len(of)} runs told right")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine.describe(), "runs": rows}, file, indent=1)
            file.write("\n")
    if not judged:
        print("nothing was judged", file=sys.stderr)
    return 0 if judged and all(row["right"] for row in judged) else 1
