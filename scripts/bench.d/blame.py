"""scripts/bench cost, the part `blame`: what `oomcast blame` costs the program that it looks at, beside what else finds
the line that allocates."""

import contextlib
import dataclasses
import json
import math
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

import machine
from figures import CannotMeasure, of_median

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # Debian's: it has torch
PYTHON_LOADS = ("torch", "objects", "plain", "plain_torch")
LOADS = {
    "fault": "page-fault-bound: map, touch each 4 KiB page, unmap",
    "malloc": "malloc-heavy: blocks of 16 B to 512 KiB",
    "torch": "PyTorch training loop on one CPU",
    "objects": "Python: lists and strings, built and let go",
}
BARS = {"fault": 1.02, "torch": 1.03, "malloc": 1.05}
SLICE_MS, WARM_MS, SLICES = 300, 300, 3
LOOK_S = 10  # what blame does by itself; it costs most in its first second
# How fast the CPU is by itself: what does nothing that a tool here watches, and works as the load does.
REFERENCES = {"torch": "plain_torch"}
PIECE_MS, REFERENCE_MS = 50, 3
REST = 0.08  # of a piece: a program of real-time priority is stopped for the rest of a second of which it took 95 %


class Loop:
    """A program that runs its load in slices, maybe under a tool that must start it."""

    def __init__(self, options, load, under=()):
        cpu = str(options.load_cpu)
        python = load in PYTHON_LOADS
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
        return self.slice_ns(SLICES * SLICE_MS)

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


@dataclasses.dataclass
class Piece:
    """A short while of the load, and what an iteration of the reference took right before and behind it."""
    wall_ns: int
    iterations: int
    reference_ns: float


def pieces_of(loop, reference, for_s):
    """All of for_s but for some rest: a moment in which the program stands still is in one of them."""
    pieces, before = [], reference.slice_ns(REFERENCE_MS)
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        done = loop.ask("slice", loop.load, int(PIECE_MS * 1000))
        behind = reference.slice_ns(REFERENCE_MS)
        pieces.append(Piece(done["wall_ns"], done["iterations"], (before + behind) / 2))
        before = behind
        time.sleep(REST * done["wall_ns"] / 1e9)
    return pieces


def speed_by(pieces):
    """How much longer an iteration takes where the reference takes longer: the exponent that fits best. 0: it does not."""
    if len(pieces) < 3:
        return 0
    own = [math.log(p.wall_ns / p.iterations) for p in pieces]
    slope, _ = statistics.linear_regression([math.log(p.reference_ns) for p in pieces], own)
    return slope


def iteration_ns(pieces, exponent=0):
    """By the reference's speed: what it took, over what it would have taken had all pieces been as fast."""
    return sum(p.wall_ns for p in pieces) / sum(p.iterations * p.reference_ns ** exponent for p in pieces)


def surrounded(with_it, without):
    """Ratios of each to the mean of the two without around it, and as a control of each without to the mean of those
    before and behind it: the CPU gets slower and faster by itself, for half a minute and by more than is to be seen."""
    def ratios(befores, middles, behinds):
        return [2 * b / (a + c) for a, b, c in zip(befores, middles, behinds)]
    return ratios(without, with_it, without[1:]), ratios(without, without[1:], without[2:])


def own_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_looks(options, group, loop, looks):
    """What looks cost the load. A virtual machine's CPU is a thread of a core whose other thread is anybody's: a loop
    that only counts takes twice as long as a moment before, for a second or for ten. So each piece of the load is
    compared by what the reference says of the CPU's speed just then; as it was is a row beside it."""
    with_it, without, own = [], [], []
    with Loop(options, REFERENCES.get(loop.load, "plain")) as reference:
        reference.slice_ns(WARM_MS)
        without.append(pieces_of(loop, reference, LOOK_S))
        for _ in range(looks):
            used = own_cpu_s()
            command = [options.oomcast, "blame", "--pid", str(loop.process.pid), "--for", f"{LOOK_S}s"]
            with running(command, "watching"):
                with_it.append(pieces_of(loop, reference, LOOK_S))
            own.append(100 * (own_cpu_s() - used) / LOOK_S)
            without.append(pieces_of(loop, reference, LOOK_S))
    exponent = speed_by([piece for block in with_it + without for piece in block])
    ratios, controls = surrounded(*([iteration_ns(block, exponent) for block in some] for some in (with_it, without)))
    as_it_was, _ = surrounded(*([iteration_ns(block) for block in some] for some in (with_it, without)))
    control = of_median(group, "A/A", controls)
    figure = of_median(group, "oomcast blame", ratios, bar=BARS.get(loop.load))
    if figure.bar and control.high > figure.bar:
        figure.resolved, figure.note = False, "the A/A row would miss this bar, too: a quieter machine, more pairs"
    return [control, figure, of_median(group, "oomcast blame, whatever the CPU's speed", as_it_was),
            of_median(group, "its own CPU time, of one core", own, unit="%")]


def measure_load(options, load):
    looks, rival_pairs = (5, 3) if options.quick else (options.blame_pairs, 6)
    group = f"`oomcast blame` and other ways to the line that allocates: {LOADS[load]}"
    figures = []
    with Loop(options, load) as loop:
        pid = loop.process.pid
        figures += measure_looks(options, group, loop, looks)
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
