"""scripts/bench cost, the part `blame`: what `oomcast blame` costs the program that it looks at, beside what else finds
the line that allocates."""

import contextlib
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import machine
from figures import CannotMeasure, of_median

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # Debian's: it has torch
LOADS = {
    "fault": "page-fault-bound: map, touch each 4 KiB page, unmap",
    "malloc": "malloc-heavy: blocks of 16 B to 512 KiB",
    "torch": "PyTorch training loop on one CPU",
    "objects": "Python: lists and strings, built and let go",
}
BARS = {"fault": 1.02, "torch": 1.03, "malloc": 1.05}
SLICE_MS, WARM_MS, SLICES = 300, 300, 3
LOOK_S = 10  # what blame does by itself; it costs most in its first second


class Loop:
    """A program that runs its load in slices, maybe under a tool that must start it."""

    def __init__(self, options, load, under=()):
        cpu = str(options.load_cpu)
        python = load in ("torch", "objects")
        command = [PYTHON, HERE / "python_loop.py", cpu] if python else [options.driver, "--here", "--cpu", cpu]
        self.load = load
        self.process = subprocess.Popen([*map(str, under), *map(str, command)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        hello = self._answer()
        if python and load not in hello["loads"]:
            self.close()
            raise CannotMeasure(f"{PYTHON} has no {load}")

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # tools that start it write there, too
                return json.loads(line)
        raise CannotMeasure(f"the load {self.load} ended")

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        return self._answer()

    def slice_ns(self, ms=SLICE_MS):
        done = self.ask("slice", self.load, int(ms * 1000))
        return done["wall_ns"] / done["iterations"]

    def slices_ns(self):
        self.slice_ns(WARM_MS)
        return self.whole_ns(SLICES * SLICE_MS / 1000)

    def whole_ns(self, for_s):
        """What an iteration took of all this time: a moment in which the program stands still counts."""
        wall = iterations = 0
        while wall < for_s * 1e9:
            done = self.ask("slice", self.load, int(SLICE_MS * 1000))
            wall += done["wall_ns"]
            iterations += done["iterations"]
        return wall / iterations

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@contextlib.contextmanager
def running(command, ready):
    """The tool, from when it says that it observes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if ready in line:
                break
        else:
            raise CannotMeasure(f"{command[0]} ended: {''.join(seen)[-300:]}")
        yield
    finally:
        machine.stop(process)
        process.stderr.close()


def interleaved(on, off, pairs):
    """on() / off(), in random order each time."""
    draw = random.Random()
    ratios = []
    for _ in range(pairs):
        took = {way: way() for way in draw.sample((on, off), 2)}
        ratios.append(took[on] / took[off])
    return ratios


def surrounded(on, off, times):
    """on() between two off() each. Ratios of on() to the mean of these, and as a control of off() to the mean of those
    before and behind it: a load gets slower and faster by itself, for half a minute and by more than is to be seen."""
    offs, ratios = [off()], []
    for _ in range(times):
        took = on()
        offs.append(off())
        ratios.append(2 * took / (offs[-2] + offs[-1]))
    return ratios, [2 * b / (a + c) for a, b, c in zip(offs, offs[1:], offs[2:])]


def measure_load(options, load):
    pairs, rival_pairs = (5, 3) if options.quick else (options.blame_pairs, 6)
    group = f"`oomcast blame` and other ways to the line that allocates: {LOADS[load]}"
    figures = []
    with Loop(options, load) as loop:
        pid = loop.process.pid

        def blamed():
            with running([options.oomcast, "blame", "--pid", str(pid), "--for", f"{LOOK_S}s"], "watching"):
                return loop.whole_ns(LOOK_S)

        def control():
            return loop.whole_ns(LOOK_S)

        ratios, controls = surrounded(blamed, control, pairs)
        figures.append(of_median(group, "A/A", controls))
        figure = of_median(group, "oomcast blame", ratios, bar=BARS.get(load))
        if figure.bar and figures[0].high > figure.bar:
            figure.resolved, figure.note = False, "the A/A row would miss this bar, too: a quieter machine, more pairs"
        figures.append(figure)
        if shutil.which("bpftrace"):
            libc = "uprobe:/lib/x86_64-linux-gnu/libc.so.6"
            probes = f"{libc}:malloc {{ @[ustack(16)] = sum(arg0); }} {libc}:free {{ @freed = count(); }}"
            # It wants tracefs, which is not mounted everywhere; a mount namespace of its own is. Its "Attaching" goes to
            # stdout.
            command = ["unshare", "--mount", "sh", "-c", "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; "
                       f"exec bpftrace -p {pid} -e '{probes}' 1>&2"]

            def probed():
                with running(command, "Attaching"):
                    loop.slice_ns(1000)
                    return loop.slices_ns()
            figures.append(of_median(group, "bpftrace, malloc and free uprobes", interleaved(probed, loop.slices_ns, rival_pairs)))
        if load in ("torch", "objects"):
            def traced():
                loop.ask("tracemalloc", "on")
                took = loop.slices_ns()
                loop.ask("tracemalloc", "off")
                return took
            figures.append(of_median(group, "tracemalloc", interleaved(traced, loop.slices_ns, rival_pairs)))
        if shutil.which("heaptrack"):
            with tempfile.TemporaryDirectory(prefix="oomcast-bench-") as folder:
                under = ["heaptrack", "-o", f"{folder}/out"]
                with Loop(options, load, under) as other:
                    figures.append(of_median(group, "heaptrack", interleaved(other.slices_ns, loop.slices_ns, rival_pairs)))
    return figures


def measure(options, say):
    """The figures of one load after the other: each takes some minutes."""
    for load in LOADS:
        if options.only and not {"blame", f"blame-{load}"} & set(options.only):
            continue
        say(f"bench: blame, {load}")
        try:
            yield measure_load(options, load)
        except CannotMeasure as why:
            say(f"bench: blame, {load}: {why}; its rows are left out")
