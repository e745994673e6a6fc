"""scripts/bench cost: what tracing costs other programs and the machine."""

import contextlib
import json
import os
import pathlib
import random
import select
import shutil
import statistics
import subprocess
import sys
import time

import blame
import machine
from figures import CannotMeasure, Figure, median_interval, of_median, print_table, write_json

# What is attached during an "on" slice. A/A attaches and detaches before the slice, and should come out at 1.
ARMS = {
    "A/A": ("default", False),
    "default": ("default", True),
    "default + rss_stat": ("default,rss", True),
    "empty program on rss_stat": ("floor:rss_stat", True),
}
# Besides, of loads that make system calls: what follows the NVIDIA driver, attached as if there were one.
GPU_ARM, GPU_LOADS, GPU_CALL_BAR_NS = "GPU calls followed", ("getpid", "sparse", "torch"), 35
GPU_FLOOR = "empty program on sys_exit"
GPU_ARMS = {GPU_ARM: ("gpu", True), GPU_FLOOR: ("floor:sys_exit", True)}
GPU_PROGRAMS = ("on_ioctl_return", "on_mmap_return", "on_munmap_return", "on_ioctl_exit", "on_mmap_exit",
                "on_munmap_exit", "on_syscall_return")
# How much slower a load may get; the others are for comparison, getpid as a control that should not move.
BARS = {
    ("fault", "default"): 1.01,
    ("fault", "default + rss_stat"): 1.08,
    ("malloc", "default"): 1.01,
    ("fork", "default"): 1.02,
    ("sparse", GPU_ARM): 1.01,
    ("torch", GPU_ARM): 1.01,
}
LOADS = {
    "fault": "page-fault-bound: map, touch each 4 KiB page, unmap",
    "malloc": "malloc-heavy: blocks of 16 B to 512 KiB",
    "fork": "fork-heavy: fork, exit, wait",
    "exec": "fork, exec, wait",
    "getpid": "control: getpid",
    "sparse": "20,000 getpid a second, among other work",
    "torch": blame.LOADS["torch"],
}
WITHIN = 0.004         # half an interval's width that is aimed at
LOAD_LIMIT = 2 << 30   # of the cgroup that the loads run in
IDLE_CGROUPS = 1000
MANY_CGROUPS = 10_000
IDLE_ENOUGH_PERCENT = 0.1  # half the interval at which enough blocks of an idle machine were compared
RSS_BAR_MIB, PEAK_BAR_MIB, IDLE_BAR_PERCENT, FIRST_EVENT_BAR_MS = 20, 40, 0.4, 300
MANY_BARS = 40, 40, 1.5  # MiB, MiB, % of a core


def add_arguments(parser):
    parser.add_argument("--quick", action="store_true", help="wide intervals, in a few minutes")
    parser.add_argument("--json", metavar="FILE", help="write every number there, too")
    parser.add_argument("--oomcast", metavar="PATH", help="default: bin/oomcast of the build")
    parser.add_argument("--build", metavar="DIR", default="build", help="configured build folder (default: build)")
    parser.add_argument("--only", action="append", metavar="PART",
                        help="programs, observers, blame (or blame-LOAD), idle, start, or a load: " + ", ".join(LOADS) +
                        " (repeatable)")
    parser.add_argument("--pairs", type=int, help="least pairs of slices an arm (default 300, quick 60)")
    parser.add_argument("--most-pairs", type=int,
                        help=f"go on to this many until intervals are within ±{WITHIN} (default 1000, quick: --pairs)")
    parser.add_argument("--blame-pairs", type=int, default=30, help="looks of ten seconds each of the part blame")
    parser.add_argument("--slice-ms", type=float, default=50)
    parser.add_argument("--arm", action="append", default=[], metavar="NAME=PIECES",
                        help="one more row; pieces as in bench.d/programs.h, for example clock=default,clock:1000000")


def wanted(options, *parts):
    return not options.only or any(part in options.only for part in parts)


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- slices: the kernel programs by themselves --------------------------------------------------------------------

@contextlib.contextmanager
def slices_of(options, driver, load):
    """What runs one slice of the load, and says how many ns an iteration took."""
    if load == "torch":
        with blame.Loop(options, load) as loop:
            loop.slice_ns()
            yield lambda: loop.slice_ns(options.slice_ms)
    else:
        yield lambda: driver.slice_ns(load, options.slice_ms)


def one_pair(driver, slice_ns, pieces, attached, draw):
    """on/off: how much longer an iteration takes. Every slice follows an attach, so that both start alike."""
    took = {}
    for on in draw.sample((True, False), 2):
        driver.ask("attach", pieces)
        if not (on and attached):
            driver.ask("detach")
        took[on] = slice_ns()
        driver.ask("detach")
    return took[True] / took[False], took[False]


def measure_load(options, cgroup, load, arms):
    draw = random.Random()
    ratios = {arm: [] for arm in arms}
    base = []
    with machine.Driver(options, cgroup) as driver, slices_of(options, driver, load) as slice_ns:
        if not driver.realtime:
            say("bench: SCHED_FIFO is not allowed here, so other programs disturb the loads")
        for done in range(1, options.most_pairs + 1):
            for arm in draw.sample(list(arms), len(arms)):
                ratio, off_ns = one_pair(driver, slice_ns, *arms[arm], draw)
                ratios[arm].append(ratio)
                base.append(off_ns)
            if done >= options.pairs and done % 50 == 0 and all(
                    spread(ratios[arm]) <= WITHIN for arm in arms if arm == "A/A" or (load, arm) in BARS):
                break
        programs = count_programs(driver, load, arms["default + rss_stat"][0]) if load != "torch" else []
    group = f"{LOADS[load]} ({statistics.median(base):.0f} ns an iteration; on/off)"
    figures = [of_median(group, arm, ratios[arm], bar=BARS.get((load, arm))) for arm in arms]
    for arm, bar in ((GPU_ARM, GPU_CALL_BAR_NS), (GPU_FLOOR, None)):
        if load == "getpid" and arm in arms:
            extra = [(ratio - 1) * statistics.median(base) for ratio in ratios[arm]]
            figures.append(of_median(group, f"{arm}: of each system call", extra, bar=bar, unit="ns"))
    control = figures[0]
    for figure in figures:
        if figure.bar and not figure.unit and control.high > figure.bar:
            figure.resolved, figure.note = False, "the A/A row would miss this bar, too: a quieter machine, more pairs"
    return figures, programs


def spread(ratios):
    _, low, high = median_interval(ratios)
    return (high - low) / 2


def count_programs(driver, load, pieces):
    """The kernel's own count of each program over one second of a load. Counting costs a run about 60 ns, and those are
    in its time."""
    driver.ask("count", "on")
    before, own = driver.program_counts(), driver.ask("own")
    driver.ask("attach", pieces)
    done = driver.ask("slice", load, 1000000)
    driver.ask("detach")
    after, own_after = driver.program_counts(), driver.ask("own")
    driver.ask("count", "off")
    rows = []
    for name, (runs, run_ns) in after.items():
        runs, run_ns = runs - before[name][0], run_ns - before[name][1]
        if runs:
            rows.append({"load": load, "program": name, "runs": runs, "ns_a_run": run_ns / runs,
                         "percent": 100 * run_ns / done["wall_ns"]})
    rows.append({"load": load, "program": "(the rings' reader)", "runs": own_after["records"] - own["records"],
                 "ns_a_run": None, "percent": 100 * (own_after["cpu_ns"] - own["cpu_ns"]) / done["wall_ns"],
                 "lost": own_after["lost"] - own["lost"]})
    return rows


def print_programs(rows):
    print("\nthe kernel's own count, over one second of each load with everything attached (about 60 ns a run are the "
          "counting)")
    for row in rows:
        each = f"{row['ns_a_run']:8.0f} ns each" if row["ns_a_run"] is not None else " records      "
        print(f"  {row['load']:<8} {row['program']:<28} {row['runs']:>8} {each} {row['percent']:7.3f} %")


# ---- blocks: whole observers, which take too long to start for slices ----------------------------------------------

def observers(options):
    found = {}
    if options.oomcast:
        found["oomcast trace --json"] = ([options.oomcast, "trace", "--json"], '"type"')
    if shutil.which("bpftrace"):
        found["bpftrace, count() on rss_stat"] = (
            # It wants tracefs, which is not mounted everywhere; a mount namespace of its own is.
            ["unshare", "--mount", "sh", "-c", "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; "
             "exec bpftrace -e 'tracepoint:kmem:rss_stat { @=count(); }'"], "Attaching")
    else:
        say("bench: bpftrace is not installed; its row is left out")
    return found


def start_observer(command, ready):
    """Starts it and waits until its output shows that it observes. What it prints after that is read by nobody but cat."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 30
    seen = b""
    while ready.encode() not in seen:
        if not select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
            machine.stop(process)
            raise CannotMeasure(f"{command[0]} showed nothing for 30 s")
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            machine.stop(process)
            raise CannotMeasure(f"{command[0]} ended at once")
        seen += piece
    process.reader = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, start_new_session=True)
    process.stdout.close()
    time.sleep(1)
    return process


def stop_observer(process):
    machine.stop(process)
    process.reader.wait()


def measure_observers(options, cgroup, loads):
    figures = []
    blocks, seconds = (4, 1) if options.quick else (12, 3)
    for name, (command, ready) in observers(options).items():
        ratios = {load: [] for load in loads}
        with machine.Driver(options, cgroup, programs=False) as driver:
            def block():
                return {load: driver.slice_ns(load, seconds * 1000) for load in loads}
            before = block()
            for _ in range(blocks):
                process = start_observer(command, ready)
                try:
                    during = block()
                finally:
                    stop_observer(process)
                after = block()
                for load in loads:
                    ratios[load].append(during[load] / statistics.mean((before[load], after[load])))
                before = after
        group = f"whole observers, in blocks of {seconds} s off, on, off, … (wider intervals than slices; for comparison)"
        figures += [of_median(group, f"{name}: {load}", ratios[load]) for load in loads]
    return figures


# ---- the whole program on an idle machine -------------------------------------------------------------------------

def trace_in_background(options):
    return start_observer([options.oomcast, "trace", "--json"], '"type"')


def measure_idle(options, cgroups):
    group = f"oomcast trace --json with {IDLE_CGROUPS} idle cgroups"
    parent = make_idle(cgroups, IDLE_CGROUPS)
    with machine.Driver(options, cgroups.load, programs=True) as driver:
        figures = measure_size_and_own(options, group, driver, (RSS_BAR_MIB, PEAK_BAR_MIB, IDLE_BAR_PERCENT))
    figures += measure_machine(options, group)
    figures += count_gpu_programs(options, group)
    cgroups.remove(parent)
    say(f"bench: making {MANY_CGROUPS} cgroups …")
    parent = make_idle(cgroups, MANY_CGROUPS)
    with machine.Driver(options, cgroups.load, programs=True) as driver:
        figures += measure_size_and_own(options, f"the same with {MANY_CGROUPS}", driver, MANY_BARS)
    cgroups.remove(parent)
    return figures


def make_idle(cgroups, count):
    parent = cgroups.make(cgroups.top / "idle")
    if not cgroups.v1:
        (parent / "cgroup.subtree_control").write_text("+memory")
    for number in range(count):
        (parent / f"job-{number}").mkdir()
    return parent


def measure_size_and_own(options, group, driver, bars):
    rss_bar, peak_bar, cpu_bar = bars
    settle, windows, seconds = (10, 3, 5) if options.quick else (30, 8, 10)
    process = trace_in_background(options)
    try:
        driver.ask("count", "on")
        time.sleep(settle)
        resident, threads, programs = [], [], []
        for _ in range(windows):
            cpu, kernel, begin = machine.cpu_ns(process.pid), machine.program_run_ns(process.pid), time.monotonic_ns()
            time.sleep(seconds)
            elapsed = time.monotonic_ns() - begin
            threads.append(100 * (machine.cpu_ns(process.pid) - cpu) / elapsed)
            if kernel:
                programs.append(100 * (machine.program_run_ns(process.pid)[1] - kernel[1]) / elapsed)
            resident.append(machine.memory_kib(process.pid)[0] / 1024)
        peak = machine.memory_kib(process.pid)[1] / 1024
    finally:
        stop_observer(process)
        driver.ask("count", "off")
    figures = [
        Figure(group, "VmRSS, steady", statistics.median(resident), min(resident), max(resident), rss_bar, "MiB",
               len(resident)),
        Figure(group, "VmHWM", peak, bar=peak_bar, unit="MiB"),
        of_median(group, "CPU of its threads", threads, unit="%", bar=cpu_bar),
    ]
    if programs:
        both = [a + b for a, b in zip(threads, programs)]
        figures += [
            of_median(group, "CPU of its kernel programs", programs, unit="%",
                      note="in interrupts and in what else runs here"),
            of_median(group, "both", both, unit="%", bar=cpu_bar),
        ]
    else:
        say("bench: without bpftool the kernel programs of oomcast cannot be told from others; their rows are left out")
    return figures


def measure_machine(options, group):
    """Everything that is not idle, with oomcast less without it, in blocks that take turns. Beside it the difference of
    two blocks without. What starting and ending it leave to the kernel (commits to disk, maps that are freed) is not
    idling: both have ended before a block begins."""
    if machine.non_idle_ns() is None:
        say("bench: the kernel does not show idle time to the nanosecond (/proc/timer_list); that row is left out")
        return []
    least, most, seconds, settle = (3, 3, 5, 5) if options.quick else (12, 30, 20, 10)
    closed = 15  # more: until the files that it read at its start are closed

    def block():
        begin, clock = machine.non_idle_ns(), time.monotonic_ns()
        time.sleep(seconds)
        return 100 * (machine.non_idle_ns() - begin) / (time.monotonic_ns() - clock)

    def told_apart():
        _, low, high = median_interval(with_it)
        return (high - low) / 2 <= IDLE_ENOUGH_PERCENT

    with_it, without = [], []
    before = block()
    while len(with_it) < least or (len(with_it) < most and not told_apart()):
        process = trace_in_background(options)
        try:
            time.sleep(settle + closed)
            during = block()
        finally:
            stop_observer(process)
        time.sleep(settle)
        after = block()
        with_it.append(during - statistics.mean((before, after)))
        without.append(after - before)
        before = after
    control = of_median(group, "machine not idle, off less off (A/A)", without, unit="%")
    figure = of_median(group, "machine not idle, on less off", with_it, bar=IDLE_BAR_PERCENT, unit="%",
                       note="share of one core, interrupts included")
    if max(abs(control.low), abs(control.high)) > IDLE_BAR_PERCENT:
        figure.resolved, figure.note = False, "the machine is not idle by itself: measure again on a quieter one"
    return [control, figure]


def count_gpu_programs(options, group):
    """None is attached on a machine without the driver."""
    if os.path.exists("/dev/nvidiactl"):
        return []
    process = trace_in_background(options)
    try:
        programs = machine.programs_of(process.pid)
    finally:
        stop_observer(process)
    if not programs:
        say("bench: which kernel programs oomcast has cannot be told; the row of those for a GPU is left out")
        return []
    names = [p.get("name", "") for p in programs]
    found = sum(any(full.startswith(name) for full in GPU_PROGRAMS) for name in names if name)
    return [Figure(group, f"of its {len(names)} kernel programs, for a GPU that is not there", found, bar=0, unit="programs")]


def measure_start(options, cgroups):
    """From the start of the process to the first line about memory, while something grows."""
    leaf = cgroups.make(cgroups.top / "growing", 1 << 30)
    grow = ("import sys, time\nopen(sys.argv[1], 'w').write('0')\nheld = []\nwhile len(held) < 800:\n"
            "    held.append(bytearray(1 << 20)); time.sleep(0.01)\n")
    waits, grown = [], []
    for _ in range(3 if options.quick else 10):
        growing = subprocess.Popen([sys.executable, "-c", grow, str(leaf / "cgroup.procs")])
        try:
            time.sleep(0.2)
            begin = time.monotonic()
            process = subprocess.Popen([options.oomcast, "trace", "--json"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
            try:
                first, first_of_leaf = first_lines(process, begin, leaf.name)
            finally:
                machine.stop(process)
                process.stdout.close()
        finally:
            growing.kill()
            growing.wait()
        waits.append(first)
        grown.append(first_of_leaf)
    group = "oomcast trace --json, from exec"
    return [of_median(group, "first sample or process line", waits, bar=FIRST_EVENT_BAR_MS, unit="ms"),
            of_median(group, "first line about what grows", grown, bar=FIRST_EVENT_BAR_MS, unit="ms")]


def first_lines(process, begin, cgroup_name):
    first, rest = None, b""
    while time.monotonic() - begin < 10:
        if not select.select([process.stdout], [], [], 1)[0]:
            continue
        piece = os.read(process.stdout.fileno(), 65536)
        now = (time.monotonic() - begin) * 1000
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        for line in map(json.loads, lines):
            cgroup = line.get("cgroup") or (line.get("process") or {}).get("cgroup") or {}
            if line["type"] in ("sample", "process"):
                first = first or now
                if (cgroup.get("path") or "").endswith("/" + cgroup_name):
                    return first, now
    raise CannotMeasure("oomcast showed no line about a growing cgroup within 10 s")


# ---- all of it ----------------------------------------------------------------------------------------------------

def build(options):
    folder = options.repository / options.build
    done = subprocess.run(["cmake", "--build", str(folder), "--target", "bench_cost"], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"building bench_cost in {folder} (configure it first: cmake --preset release):\n"
                            + (done.stdout + done.stderr)[-2000:])
    options.driver = folder / "bin/bench_cost"
    oomcast = pathlib.Path(options.oomcast) if options.oomcast else folder / "bin/oomcast"
    options.oomcast = str(oomcast.resolve()) if oomcast.exists() else None
    if not options.oomcast:
        say(f"bench: {oomcast} does not exist; its rows are left out")


def run(options):
    if os.geteuid():
        raise CannotMeasure("attaching kernel programs needs root")
    options.pairs = options.pairs or (60 if options.quick else 300)
    options.most_pairs = max(options.pairs, options.most_pairs or (options.pairs if options.quick else 1000))
    build(options)
    arms = dict(ARMS)
    for extra in options.arm:
        name, _, pieces = extra.partition("=")
        arms[name] = (pieces, True)
    about = machine.describe()
    print(f"kernel {about['kernel']}, {about['cpus']} CPUs, {about['cpu']}, load {about['load_before']:.1f}")
    figures, programs = [], []

    def measured(more):
        figures.extend(more)
        print_table(more)

    failed = None
    try:
        with machine.Cgroups() as cgroups:
            # As deep as a container's usually are.
            cgroups.make(cgroups.top / "pod")
            cgroups.load = cgroups.make(cgroups.top / "pod" / "container", LOAD_LIMIT)
            options.load_cpu = max(os.sched_getaffinity(0))
            for load in LOADS:
                if wanted(options, "programs", load):
                    say(f"bench: {load}")
                    of_load = {**arms, **GPU_ARMS} if load in GPU_LOADS else arms
                    try:
                        more, counts = measure_load(options, cgroups.load, load, of_load)
                    except CannotMeasure as why:
                        if load != "torch":
                            raise
                        say(f"bench: {load}: {why}; its rows are left out")
                        continue
                    measured(more)
                    programs += counts
            if wanted(options, "observers"):
                say("bench: whole observers")
                measured(measure_observers(options, cgroups.load, ["fault", "malloc", "fork"]))
            if options.oomcast and wanted(options, "blame", *(f"blame-{load}" for load in blame.LOADS)):
                for of_load in blame.measure(options, say):
                    measured(of_load)
            if options.oomcast and wanted(options, "start"):
                say("bench: start")
                measured(measure_start(options, cgroups))
            if options.oomcast and wanted(options, "idle"):
                say("bench: idle")
                measured(measure_idle(options, cgroups))
    except CannotMeasure as why:  # what was measured before is written all the same
        failed = why
    about["load_after"] = os.getloadavg()[0]
    if programs:
        print_programs(programs)
    judged = [figure for figure in figures if figure.bar is not None]
    met = sum(figure.verdict == "PASS" for figure in judged)
    print(f"\n{met} of {len(judged)} bars met")
    if options.json:
        write_json(options.json, about, figures, {"programs": programs})
    if failed:
        raise failed
    return 0 if met == len(judged) else 1
