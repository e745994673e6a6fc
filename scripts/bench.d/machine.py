"""The machine under measurement: its memory hierarchy, its idle time, and the native driver."""

import contextlib
import json
import os
import pathlib
import platform
import subprocess
import time

from figures import CannotMeasure


def describe():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"kernel": platform.release(), "cpus": os.cpu_count(), "cpu": model, "load_before": os.getloadavg()[0]}


class Cgroups:
    """Memory cgroups of our own; gone, with what was made in them, at the end."""

    def __init__(self):
        self.root, self.v1 = self._memory_hierarchy()
        self.top = self.root / f"oomcast-bench-{os.getpid()}"

    @staticmethod
    def _memory_hierarchy():
        for line in open("/proc/mounts"):
            _, where, kind, options = line.split()[:4]
            if kind == "cgroup" and "memory" in options.split(","):
                return pathlib.Path(where), True
            if kind == "cgroup2" and "memory" in pathlib.Path(where, "cgroup.controllers").read_text().split():
                return pathlib.Path(where), False
        raise CannotMeasure("no mounted cgroup hierarchy has the memory controller")

    def __enter__(self):
        try:
            self.make(self.top)
        except OSError as why:
            raise CannotMeasure(f"making a memory cgroup: {why}") from why
        return self

    def make(self, path, limit_bytes=None):
        if not self.v1:
            (path.parent / "cgroup.subtree_control").write_text("+memory")
        path.mkdir()
        if limit_bytes:
            (path / ("memory.limit_in_bytes" if self.v1 else "memory.max")).write_text(str(limit_bytes))
        return path

    def remove(self, path):
        """With everything below it. What still runs there was ours and was told to end: waits two seconds for it."""
        for child in sorted(path.iterdir() if path.exists() else [], reverse=True):
            if child.is_dir():
                self.remove(child)
        for _ in range(40):
            with contextlib.suppress(FileNotFoundError, OSError):
                path.rmdir()
            if not path.exists():
                return
            time.sleep(0.05)

    def __exit__(self, *_):
        self.remove(self.top)


class Driver:
    """bench_cost: attaches and detaches the kernel programs and runs the loads."""

    def __init__(self, options, cgroup, programs=True):
        self.load_cpu = max(os.sched_getaffinity(0))
        command = [options.driver, "--cpu", str(self.load_cpu), "--cgroup-procs", str(cgroup / "cgroup.procs")]
        if not programs:
            command.append("--loads-only")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        hello = self.process.stdout.readline()
        if not hello:
            self.process.wait()
            raise CannotMeasure("bench_cost did not start (its reason is above)")
        self.realtime = json.loads(hello)["realtime"]

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it ended"}
        if "error" in answer:
            raise CannotMeasure(f"bench_cost {' '.join(str(word) for word in words)}: {answer['error']}")
        return answer

    def slice_ns(self, load, milliseconds):
        """Nanoseconds of one iteration of a load."""
        done = self.ask("slice", load, int(milliseconds * 1000))
        return done["wall_ns"] / done["iterations"]

    def program_counts(self):
        return {p["name"]: (p["runs"], p["run_ns"]) for p in self.ask("programs")["programs"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def non_idle_ns():
    """Time that the CPUs were not idle since boot, interrupts included, as the sum over the CPUs: what the kernel's idle
    loop did not sleep. The kernel brings a CPU's figure up to date when it wakes, so each is read on that CPU. None where
    the kernel does not say (/proc/timer_list)."""
    cpus = sorted(os.sched_getaffinity(0))
    total = 0
    try:
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            now = time.monotonic_ns()
            section = pathlib.Path("/proc/timer_list").read_text().split(f"\ncpu: {cpu}\n")[1].split("\ncpu: ")[0]
            fields = dict(line.strip().split(":", 1) for line in section.splitlines() if ":" in line)
            slept = sum(int(fields[name].split()[0]) for name in map(str, fields)
                        if name.strip() in (".idle_sleeptime", ".iowait_sleeptime"))
            total += now - slept
    except (OSError, IndexError, ValueError):
        return None
    finally:
        os.sched_setaffinity(0, cpus)
    return total


def stop(process):
    """Ends a process of ours as a user would."""
    if process.poll() is None:
        process.send_signal(2)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    process.kill()
    process.wait()


def cpu_ns(pid):
    """CPU time of a process, by the scheduler's own account of each thread."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total


def memory_kib(pid):
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]), int(fields["VmHWM"].split()[0])


def programs_of(pid):
    """What bpftool says of the kernel programs that a process has loaded; None without it. Whose they are is asked of the
    process's files: bpftool's own answer needs a program that not every kernel takes."""
    ids = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            ids.update(int(line.split()[1]) for line in info.read_text().splitlines() if line.startswith("prog_id:"))
    for tool in ("bpftool", "/usr/sbin/bpftool"):
        with contextlib.suppress(OSError, ValueError):
            listed = subprocess.run([tool, "-j", "prog", "show"], capture_output=True, text=True, check=False)
            return [p for p in json.loads(listed.stdout) if p["id"] in ids]
    return None


def program_run_ns(pid):
    """(runs, time) of the kernel programs that a process has loaded, while the kernel counts; None without bpftool. Without
    the iterator: it runs in the thread that reads it, and is in that thread's time."""
    programs = programs_of(pid)
    if programs is None:
        return None
    programs = [p for p in programs if not p.get("name", "").startswith("walk_cgroups")]
    return sum(p.get("run_cnt", 0) for p in programs), sum(p.get("run_time_ns", 0) for p in programs)
