"""What the cases share: memory cgroups of v1 and v2, processes that start inside them, oomcast under observation."""

import calendar
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import witness

VM = os.environ.get("OOMCAST_VM", "")
# "data-breakpoints": oomcast finds them as they are under many hypervisors (run.py sees to it), and so do the cases.
WITHOUT = os.environ.get("OOMCAST_TEST_WITHOUT", "")
SLOW = 8 if VM else 1  # emulated machines are about that much slower
MiB = 1 << 20

cases = []


class Skip(Exception):
    """The case cannot be run here; says why."""


class Failed(Exception):
    """The case cannot go on; says why."""


class Unfit(Exception):
    """A premise of the case does not hold here and now; says which. That says nothing of oomcast: the case is run
    again, alone, after all others."""


TIERS = ("full", "gate")
# What these claim is true at any pace: they may not fail once.
TIMELESS = {"kills", "global_oom", "store", "files", "totals", "input", "recordings", "history", "blame_hostile"}
# Without these nothing is known of kills: unfit to the end is failed.
MUST_BE_FIT = {"kills", "global_oom", "store", "totals"}


@dataclasses.dataclass
class Case:
    name: str
    run: object
    vm: str
    limit_s: float
    tier: str
    kernel: bool
    timing: bool

    @property
    def file(self):
        return self.name.partition(".")[0]

    def in_tier(self, tier):
        """The full tier has every case; the gate's in an emulated machine those that a particular kernel can tell."""
        return tier == "full" or (self.tier == "gate" and (self.kernel or not VM))

    def not_here(self):
        """Why it is not run in this machine; None: it is."""
        if not VM or self.vm == "all" or self.vm == VM:
            return None
        if self.vm == "never":
            return "it needs true timing or no particular kernel; it is run on the host"
        return f"it is run on this kernel's {self.vm} and on the host"


def case(vm="v2", limit_s=30, tier="full", kernel=False, timing=False):
    """Registers a function as the case `file.function`.

    `vm`: the scenario of each emulated kernel in which it is run: all of them, one by name, or never. Emulation is
    slow, so most are run once a kernel. `tier`: the gate's cases are run before each change lands, the full tier has
    all. `kernel`: of the gate's those that a particular kernel can tell. `timing`: its claim is about time or rates;
    if it fails it is run once more, alone."""
    def register(function):
        file, name = function.__module__, f"{function.__module__}.{function.__name__}"
        if tier not in TIERS:
            raise ValueError(f"{name}: tier {tier!r} is none of {', '.join(TIERS)}")
        if kernel and (tier != "gate" or vm == "never"):
            raise ValueError(f"{name}: kernel=True is for cases of the gate that are run in emulated machines")
        if timing and file in TIMELESS:
            raise ValueError(f"{name}: what {file}.py claims is not about time; it may not fail once")
        cases.append(Case(name, function, vm, limit_s * SLOW, tier, kernel, timing))
        return function
    return register


def seconds(value):
    """A time to wait at most, on a machine of this speed."""
    return value * SLOW


def calm():
    """Where processes wait for memory, as those of cases before may have, a look leaves allocations and objects be."""
    pressure = pathlib.Path("/proc/pressure/memory")
    return not pressure.exists() or float(re.search(r"some avg10=([\d.]+)", pressure.read_text())[1]) <= 1


def wait_until(predicate, timeout, every=0.02):
    """What predicate() returns as soon as that is true; after `timeout` seconds of this machine, what it returns then.
    For conditions that no line announces."""
    deadline = time.monotonic() + seconds(timeout)
    while True:
        late = time.monotonic() >= deadline
        found = predicate()
        if found or late:
            return found
        time.sleep(every)


def pause(how_long, why):
    """Where time itself is what a case is about: how far apart two things are, how long a load lasts."""
    assert why
    time.sleep(how_long)


def memory_bytes(name="MemAvailable"):
    """What the machine could still give, or another figure of its memory."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(f"{name}:"))


class Pulse:
    """Whether this machine let programs run: a thread that wakes 100 times a second and notes when it could not."""

    EVERY_S, WORTH_S = 0.01 * SLOW, 0.02

    def __init__(self):
        self._stalls = collections.deque(maxlen=100_000)  # (from, to) of CLOCK_MONOTONIC, seconds
        self._last = time.monotonic()
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        while True:
            time.sleep(self.EVERY_S)
            now = time.monotonic()
            if now - self._last > self.EVERY_S + self.WORTH_S:
                self._stalls.append((self._last, now))
            self._last = now

    def steady(self, for_s=1):
        """Whether it woke in time for so long."""
        since = time.monotonic() - for_s
        return time.monotonic() - self._last < self.EVERY_S + self.WORTH_S and all(end < since for _, end in [*self._stalls])

    def longest_stall(self, since):
        """Seconds, between then and now. Times are those of time.monotonic()."""
        stalls = [*self._stalls, (self._last, time.monotonic())]
        return max((end - max(begin, since) for begin, end in stalls if end > since), default=0)


# ---- cgroups ------------------------------------------------------------------------------------------------------

def memory_mount():
    """(version, where the memory controller's hierarchy is mounted)."""
    v2 = None
    with open("/proc/self/mounts") as f:
        for line in f:
            _, where, kind, options, *_ = line.split()
            if kind == "cgroup" and "memory" in options.split(","):
                return 1, pathlib.Path(where)
            if kind == "cgroup2" and "memory" in pathlib.Path(where, "cgroup.controllers").read_text().split():
                v2 = pathlib.Path(where)
    if v2 is None:
        raise Skip("no memory controller is mounted")
    return 2, v2


class Cgroup:
    """A memory cgroup below the run's own. `path` is what the kernel log calls it."""

    def __init__(self, path, version, mount, make=True):
        self.path, self.version, self.mount = path, version, mount
        self.dir = mount / path.lstrip("/")
        if make:
            self.dir.mkdir()
        self.id = self.dir.stat().st_ino
        self.limit_bytes = None  # as set by limit()

    def child(self, name):
        if self.version == 2:
            self.write("cgroup.subtree_control", "+memory")
        return Cgroup(f"{self.path}/{name}", self.version, self.mount)

    def write(self, file, value):
        # Files of the cgroup file system take a value with one write, and must exist already.
        fd = os.open(self.dir / file, os.O_WRONLY)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def read(self, file):
        return (self.dir / file).read_text()

    def limit(self, size, swap=0):
        """Limits memory; swap is not to be had unless asked for."""
        self.limit_bytes = size
        if self.version == 2:
            self.write("memory.max", size)
            if (self.dir / "memory.swap.max").exists():
                self.write("memory.swap.max", swap)
        else:
            both = self.dir / "memory.memsw.limit_in_bytes"
            raises = both.exists() and int(both.read_text()) < size + swap
            if raises:  # memory with swap may never be limited below memory
                self.write(both.name, size + swap)
            self.write("memory.limit_in_bytes", size)
            if both.exists() and not raises:
                self.write(both.name, size + swap)
        return self

    @property
    def procs_file(self):
        return self.dir / "cgroup.procs"

    @property
    def usage_file(self):
        return self.dir / ("memory.current" if self.version == 2 else "memory.usage_in_bytes")

    def usage(self):
        return int(self.usage_file.read_text())

    def group_kill(self):
        if self.version == 1:
            raise Skip("cgroup v1 has no memory.oom.group")
        self.write("memory.oom.group", 1)
        return self

    def remove(self):
        """Ends what runs in it and below, then removes it."""
        with contextlib.suppress(FileNotFoundError):
            for below in [path for path in self.dir.iterdir() if path.is_dir()]:
                Cgroup(f"{self.path}/{below.name}", self.version, self.mount, make=False).remove()

        def gone():
            try:
                for pid in self.procs_file.read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                self.dir.rmdir()
                return True
            except FileNotFoundError:
                return True
            except OSError:
                return False
        if not wait_until(gone, 10):
            raise Failed(f"{self.dir} cannot be removed")


_base = None


def base():
    """The cgroup of this run; each case makes its own below it."""
    global _base
    if _base is None:
        version, mount = memory_mount()
        if version == 2 and "memory" not in (mount / "cgroup.subtree_control").read_text().split():
            (mount / "cgroup.subtree_control").write_text("+memory")
        remove_left_behind(mount)
        _base = Cgroup(f"/oomcast-e2e-{os.getpid()}", version, mount)
    return _base


def is_ours(path):
    """Whether a cgroup is one of this run's, apart or not."""
    top = f"{path}/".split("/")[1]
    return top.startswith("oomcast-e2e-") and top.endswith(f"-{os.getpid()}")


def remove_left_behind(mount):
    """What a run that was ended from outside left: thousands of cgroups are no premise of the cases here."""
    for top in mount.glob("oomcast-e2e-*"):
        if pathlib.Path("/proc", top.name.rpartition("-")[2]).exists():
            continue
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def remove_base():
    global _base
    if _base is not None:
        _base.remove()
        _base = None


# ---- processes ----------------------------------------------------------------------------------------------------

class Lines:
    """The lines of a stream as they come, each given to `parse`."""

    def __init__(self, stream, parse):
        self.items = []
        self.raw = []
        self.closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream, parse), daemon=True)
        self._thread.start()

    def _read(self, stream, parse):
        for raw in stream:
            item = parse(raw)
            with self._changed:
                self.raw.append(raw)
                self.items.append(item)
                self._changed.notify_all()
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def wait(self, condition, timeout):
        """True once `condition()` holds; tried again when lines came, a tenth of the time: it may look at all of them,
        and of a hundred thousand lines the thread that reads has to go on."""
        end = time.monotonic() + timeout
        while True:
            began, seen, closed = time.monotonic(), len(self.items), self.closed
            if condition():
                return True
            now = time.monotonic()
            if closed or now >= end:
                return False
            time.sleep(min(9 * (now - began), end - now))
            with self._changed:
                self._changed.wait_for(lambda: len(self.items) > seen or self.closed, max(0, end - time.monotonic()))

    def join(self, timeout):
        self._thread.join(timeout)
        return not self._thread.is_alive()


class Child:
    """A workload. `truth` is what it says about itself; `tids` maps each thread it named to its process."""

    def __init__(self, command, lines_in, **options):
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen([str(word) for word in lines_in], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.pid = self.process.pid
        self._errors = []
        self._stderr = threading.Thread(target=lambda: self._errors.append(self.process.stderr.read()), daemon=True)
        self._stderr.start()
        self.lines = Lines(self.process.stdout, self._parse)
        self.exited_ns = None  # CLOCK_MONOTONIC
        threading.Thread(target=self._await_exit, daemon=True).start()

    def _await_exit(self):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.exited_ns = time.monotonic_ns()

    @staticmethod
    def _parse(raw):
        try:
            return json.loads(raw)
        except ValueError:
            return {"event": "?", "text": raw.decode(errors="replace")}

    @property
    def truth(self):
        return list(self.lines.items)

    def stderr(self):
        self._stderr.join(seconds(2))
        return b"".join(self._errors).decode(errors="replace").strip()

    def wait_for(self, event, count=1, timeout=10, error=Failed, **fields):
        """The `count`th line of truth of that kind. `error`: Unfit where the kernel decides whether it comes."""
        def matching():
            return [line for line in list(self.lines.items)
                    if line["event"] == event and all(line.get(k) == v for k, v in fields.items())]
        if not self.lines.wait(lambda: len(matching()) >= count, seconds(timeout)):
            raise error(f"{self.command[0]} did not say '{event}' {count} times; it said "
                        f"{[line['event'] for line in self.truth][-5:]} {self.stderr() if self.lines.closed else ''}")
        return matching()[count - 1]

    def go(self, bytes_=1):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"x" * bytes_)
            self.process.stdin.flush()

    def wait(self, timeout=20):
        """Exit code as a shell gives it."""
        try:
            code = self.process.wait(seconds(timeout))
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(self.command[:3])} still runs after {seconds(timeout)} s") from None
        return 128 - code if code < 0 else code

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # a byte to go that it did not live to read
            self.process.stdin.close()


class Oomcast:
    """A running `oomcast … --json`."""

    def __init__(self, path, arguments, environment=None, prefix=()):
        self.arguments = [str(word) for word in arguments]
        self.stderr_file = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*map(str, prefix), str(path), *self.arguments], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.stderr_file,
                                        env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.bad = []
        self.code = None
        self.lines = Lines(self.process.stdout, self._parse)

    def _parse(self, raw):
        try:
            if not raw.endswith(b"\n"):
                raise ValueError("no newline at the end")
            line = json.loads(raw.decode())
            if not isinstance(line, dict) or "type" not in line or "time" not in line:
                raise ValueError("no object with type and time")
            return line
        except ValueError as problem:
            self.bad.append(f"{problem}: {raw[:200]!r}")
            return {"type": "?", "time": ""}

    def stderr(self):
        self.stderr_file.seek(0)
        return self.stderr_file.read().decode(errors="replace").strip()

    def mark(self):
        return len(self.lines.items)

    def all(self, kind, mark=0):
        return [line for line in self.lines.items[mark:] if line["type"] == kind]

    def wait_for(self, what, condition, timeout=10):
        if not self.lines.wait(condition, seconds(timeout)):
            ended = f"; it ended with {self.process.poll()}" if self.lines.closed else ""
            counts = {}
            for line in self.lines.items:
                counts[line["type"]] = counts.get(line["type"], 0) + 1
            raise Failed(f"no {what} from oomcast {' '.join(self.arguments)}{ended}; lines so far: {counts}; "
                         f"stderr: {one_line(self.stderr()[-500:])}")

    def started(self):
        self.wait_for("start line", lambda: self.lines.items and self.lines.items[0]["type"] == "start", 15)
        return self

    def wait_for_line(self, kind, matches=lambda line: True, mark=0, timeout=10):
        def found():
            return next((line for line in self.lines.items[mark:] if line["type"] == kind and matches(line)), None)
        self.wait_for(f"{kind} line", lambda: found() is not None, timeout)
        return found()

    def told_until(self, moment_ns, timeout=10):
        """Waits for a line about something after that moment, in nanoseconds since the epoch."""
        def told():
            return any(epoch_ns(line["time"]) > moment_ns for line in self.lines.items[-50:])
        self.wait_for("line about later", told, timeout)

    def looks_again(self, times=10):
        """Waits until it has been woken so often: where nothing is left that it could tell of."""
        def woken():
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.pid}/status") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))
            return None  # it has ended
        before = woken()
        if before is not None and not wait_until(lambda: (woken() or before + times) >= before + times, 10):
            raise Failed(f"oomcast {' '.join(self.arguments)} was not woken {times} times")

    def rss(self):
        """VmRSS in bytes."""
        return status_bytes(self.pid, "VmRSS")

    def stop(self, number=signal.SIGINT, timeout=10):
        """Asks it to end and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.finish(timeout)

    def finish(self, timeout=10):
        if self.code is None:
            try:
                self.code = self.process.wait(seconds(timeout))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failed(f"oomcast {' '.join(self.arguments)} does not end within {seconds(timeout)} s") from None
            self.lines.join(seconds(5))
        return self.code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def open_files(pid):
    """Where its descriptors lead."""
    files = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                files.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return files


def status_bytes(pid, field):
    with open(f"/proc/{pid}/status") as f:
        return next((int(line.split()[1]) << 10 for line in f if line.startswith(field + ":")), None)


def stat_of(pid):
    """What stands behind its name in /proc/PID/stat."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()


def state_of(pid):
    return stat_of(pid)[0]


def cpu_seconds(pid):
    return sum(map(int, stat_of(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def one_line(text):
    return " | ".join(text.split("\n"))


def shortened(value, most=600):
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= most else text[:most] + "…"


TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


def epoch_ns(time_text):
    """RFC 3339 with nanoseconds → nanoseconds since the epoch."""
    whole, _, fraction = time_text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def realtime_minus_monotonic_ns():
    best = None
    for _ in range(20):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = after - before, wall - (before + after) // 2
    return best[1]


# ---- a case's context ---------------------------------------------------------------------------------------------

READ_ITS_FILES = """
import ctypes, functools, json, mmap, os, signal, sys, threading, time
for path in {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}:
    with open(path, "rb") as f:
        f.read()
"""


def warm(command):
    """Reads a Python's files before one starts in a limited cgroup. Who reads a file first is charged for it: a
    cgroup that is charged for its program's own code is at its limit kept busy reading that again, and not killed
    for minutes."""
    if pathlib.Path(str(command[0])).name.startswith("python"):
        subprocess.run([command[0], "-c", READ_ITS_FILES], check=True)


class Context:
    """What a case works with. Everything started through it ends with the case."""

    shared = {}  # oomcast processes that live for the whole run, by their arguments
    ended = []   # of those, what did not
    log = None   # the kernel's log, read by the witness
    pulse = None
    oomcast_path = workloads_path = None

    def __init__(self):
        self.failures = []
        self._stack = contextlib.ExitStack()
        self._groups = 0
        self.tids = {}

    # -- verdicts

    def check(self, good, message):
        if not good:
            self.failures.append(message)
        return good

    def equal(self, what, got, expected):
        return self.check(got == expected, f"{what} is {shortened(got)}, expected {shortened(expected)}")

    def skip(self, reason):
        raise Skip(reason)

    def premise(self, holds, why):
        """What the case needs and oomcast has no part in."""
        if not holds:
            raise Unfit(why)

    def needs_memory(self, size):
        """oomcast looks at growth only while the machine has memory to spare."""
        if (total := memory_bytes("MemTotal")) <= size:  # running it again changes nothing
            self.skip(f"the machine has {total >> 20} MiB, more than {size >> 20} are needed")
        left = memory_bytes()
        self.premise(left > size, f"the machine has {left >> 20} MiB left, {size >> 20} are needed")

    def killed(self, child, timeout=20):
        """Waits for the end of what the kernel is to kill. If it did not, there is nothing to see."""
        try:
            code = child.wait(timeout)
        except Failed as late:
            raise Unfit(f"the kernel did not kill it: {late}") from None
        self.premise(code == 137, f"the kernel did not kill {' '.join(child.command[:3])[-80:]}: it ended with {code}")

    def needs_data_breakpoints(self):
        """Who adds to a container is not seen without; what is said then is a case of its own."""
        if WITHOUT == "data-breakpoints":
            self.skip("without data breakpoints, by OOMCAST_TEST_WITHOUT")
        tried = self.start(None, "data_breakpoint").wait_for("tried")
        if tried["seen"] != tried["writes"]:
            self.skip(f"data breakpoints do not fire here: {tried['seen']} of {tried['writes']} writes were seen")

    def need_vm(self, why="it would kill strangers here"):
        if not VM:
            raise Skip(f"only in a virtual machine: {why}")

    # -- things

    def workload(self, name):
        path = self.workloads_path / name
        if not path.exists():
            raise Skip(f"no workload {name}")
        return path

    def cgroup(self, name=None):
        """A fresh cgroup below the run's own."""
        group = base().child(name or f"c{len(cases_run)}-{self._groups}")
        self._groups += 1
        self._stack.callback(group.remove)
        return group

    def cgroup_apart(self):
        """A fresh cgroup that the long-lived streams do not follow: what looks into programs is the case's own alone."""
        base()
        version, mount = memory_mount()
        group = Cgroup(f"/oomcast-e2e-apart{len(cases_run)}x{self._groups}-{os.getpid()}", version, mount)
        self._groups += 1
        self._stack.callback(group.remove)
        return group

    def start(self, cgroup, *command, adj=None, **options):
        """Starts a command that from its exec on is in `cgroup` (None: where the tests are)."""
        if not str(command[0]).startswith("/"):
            command = (self.workload(command[0]), *command[1:])
        words = [self.workload("enter"), "--adj", adj or 0]
        if cgroup is not None:
            words.append(cgroup.procs_file)
            if cgroup.limit_bytes:
                warm(command)
        child = Child(command, [*words, "--", *command], **options)
        self._stack.callback(child.end)
        return child

    def until_told(self, tracer, age_s=0):
        """Waits until `tracer` tells of something that begins only now, in a cgroup of its own: what it had heard of
        before is told by then, but for what it holds back. `age_s`: until it tells of something that much later."""
        moment_ns = time.time_ns() + int(age_s * 1e9)
        group = self.cgroup()
        mark = tracer.mark()
        load = self.start(group, "grow", "--rate", "4M", "--anon", int((age_s + seconds(2)) * 4 * MiB))

        def later(line):
            return line["cgroup"]["id"] == group.id and epoch_ns(line["time"]) > moment_ns
        tracer.wait_for_line("sample", later, mark)
        load.end()

    def oomcast(self, *arguments, **options):
        if "--memory" in arguments:
            warm(arguments[arguments.index("--") + 1:])
        tracer = Oomcast(self.oomcast_path, arguments, **options)
        self._stack.callback(tracer.kill)
        return tracer

    def trace(self, *arguments, **options):
        """A `trace --json` of this case alone, started."""
        return self.oomcast("trace", "--json", *arguments, **options).started()

    def shared_trace(self, *arguments):
        """A `trace --json` of the run's cgroup that lives on: loading programs takes seconds on a slow machine."""
        key = arguments
        tracer = Context.shared.get(key)
        if tracer is None or tracer.process.poll() is not None:
            if tracer is not None and tracer.code is None:  # nobody asked it to
                Context.ended.append(tracer)
            tracer = Oomcast(self.oomcast_path, ["trace", "--json", *arguments])
            Context.shared[key] = tracer
        return tracer.started()

    def run_oomcast(self, *arguments, timeout=20, **options):
        """Runs it to its end: (exit code, stdout, stderr) as text."""
        try:
            done = subprocess.run([str(self.oomcast_path), *map(str, arguments)], capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=seconds(timeout), **options)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"oomcast {' '.join(map(str, arguments))} does not end within {seconds(timeout)} s; stdout "
                         f"{(late.stdout or b'')[-200:]!r} stderr {(late.stderr or b'')[-200:]!r}") from None
        return done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace")

    def folder(self):
        path = tempfile.mkdtemp(prefix="oomcast-e2e-")
        self._stack.callback(shutil.rmtree, path, True)
        return pathlib.Path(path)

    def later(self, function, *arguments):
        self._stack.callback(function, *arguments)

    def close(self):
        self._stack.close()

    # -- streams

    def check_stream(self, tracer, code=0):
        """What holds for every --json stream that has ended."""
        self.equal("exit code", tracer.finish(), code)
        lines = tracer.lines.items
        for bad in tracer.bad[:3]:
            self.check(False, f"a line is not a JSON object of the contract: {bad}")
        if not self.check(lines, f"nothing on stdout; stderr: {one_line(tracer.stderr()[-300:])}"):
            return
        self.equal("first line's type", lines[0]["type"], "start")
        self.equal("last line's type", lines[-1]["type"], "end")
        self.equal("number of start lines", len(tracer.all("start")), 1)
        self.equal("number of end lines", len(tracer.all("end")), 1)
        start, end = lines[0], lines[-1]
        self.equal("start.schema", start.get("schema"), 1)
        for field in ("version", "kernel", "sources"):
            self.check(start.get(field), f"start.{field} is {start.get(field)!r}")
        self.check(isinstance(end.get("records"), int), f"end.records is {end.get('records')!r}")
        lost = end.get("lost")
        self.check(isinstance(lost, dict) and all(type(n) is int and n >= 0 for n in lost.values()),
                   f"end.lost is {lost!r}")
        wrong = [line["time"] for line in lines if not TIME.fullmatch(line["time"])]
        self.check(not wrong, f"time is not RFC 3339, UTC, nanoseconds: {wrong[:2]}")


cases_run = []
