"""What happens to a program while its allocator is watched, or by its own doing: it goes on as it would, and no line is
named that is not the one."""

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import subprocess

import lib
from blame_corpus import blamed, by_line, judge
from blame_hostile import functions, of_pid, python
from blame_kept import BREAKPOINT, code_at_malloc
from lib import case

SEIZE, INTERRUPT = 0x4206, 0x4207  # of ptrace(), include/uapi/linux/ptrace.h
FREEZE, THAW = 0xC0045877, 0xC0045878  # FIFREEZE and FITHAW, include/uapi/linux/fs.h
POPULATE_WRITE = 23  # of madvise()
BYTES_A_THREAD = 48 << 10  # its stack's pages, and what the kernel has of it: about 35 KiB


def watched_at_malloc(pid):
    return code_at_malloc(pid) == BREAKPOINT


@case(vm="never", limit_s=60)
def a_program_that_forks_while_it_is_watched_has_children_that_run_and_keeps_its_line(t):
    child, path = python(t, None, """
import time
bad = 0
tell('ready')
os.read(0, 1)
while True:
    culprit(1)
    child = os.fork()
    if child == 0:
        for i in range(50):
            bytearray(65536)
        os._exit(0)
    bad += os.waitpid(child, 0)[1] != 0
    tell('forked', bad=bad)
    time.sleep(.02)
""")
    child.go()
    child.wait_for("forked")
    report, begin, end = blamed(t, ("--pid", str(child.pid)))
    process = of_pid(report, child.pid)
    t.check(process and "culprit" in functions(process), "its function is not named")
    top = next(iter(by_line(process)), None)
    t.check(top and top[0] == "culprit", f"on top is {top}")
    told = [line for line in child.truth if line["event"] == "forked"]
    t.check(len(told) > 50, f"it forked {len(told)} times")
    t.equal("children that ended badly", told[-1]["bad"], 0)
    t.check(not watched_at_malloc(child.pid), "a breakpoint is left")


@case(vm="never", limit_s=60)
def a_program_under_a_debugger_is_given_no_breakpoint_and_that_is_said(t):
    child, path = python(t, None, "import time\ntell('ready')\nos.read(0, 1)\n"
                         "while True:\n    culprit(1)\n    time.sleep(.01)\n")
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    t.premise(libc.ptrace(SEIZE, child.pid, None, None) == 0, os.strerror(ctypes.get_errno()))
    child.go()
    blame = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "4s", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.later(blame.kill)
    lib.wait_until(lambda: watched_at_malloc(child.pid) or blame.poll() is not None, lib.seconds(20))
    t.check(not watched_at_malloc(child.pid), "malloc() is watched")
    out, _ = blame.communicate(timeout=lib.seconds(20))
    t.equal("exit code of blame", blame.returncode, 0)
    process = of_pid(json.loads(out), child.pid)
    t.equal("what was kept", process["kept"], None)
    t.check("debugger" in (process["kept_unknown"] or ""), f"why it is not known: {process['kept_unknown']}")
    t.check("culprit" in functions(process), "who touched is not named")
    # Stopped by the debugger, it answers nothing.
    libc.ptrace(INTERRUPT, child.pid, None, None)
    done = subprocess.run([t.oomcast_path, "blame", "--json", "--for", "1s", "--pid", str(child.pid)],
                          capture_output=True, timeout=lib.seconds(20))
    t.equal("exit code of blame beside a stopped program", done.returncode, 0)


@case(vm="never", limit_s=60)
def a_program_whose_libraries_an_upgrade_has_replaced_keeps_its_line(t):
    root = t.folder()
    program = t.workload("corpus/contained")
    libraries = [line.split("=> ")[-1].split()[0] for line in
                 subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines() if "/" in line]
    inside = {file: root / file.lstrip("/") for file in libraries}
    for file, copy in inside.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (root / "app").mkdir()
    shutil.copy(program, root / "app/program")
    group = t.cgroup()
    child = t.start(group, "/usr/bin/unshare", "--mount", "--", "/usr/sbin/chroot", root, "/app/program")
    child.wait_for("ready", timeout=30)
    for copy in [*inside.values(), root / "app/program"]:  # what was there is deleted, and still mapped
        new = copy.with_suffix(".new")
        new.write_bytes(b"not what it was\n" * 4096)
        new.rename(copy)
    judge(t, child, ("--cgroup", group.path))


@case(vm="never", limit_s=60)
def an_allocator_that_lies_is_believed_nothing(t):
    child = t.start(None, "corpus/lying_malloc")
    child.wait_for("ready")
    report, begin, end = blamed(t, ("--pid", str(child.pid)))
    lines = by_line(of_pid(report, child.pid))
    wrong = {culprit: line.share for culprit, line in lines.items() if culprit[0] != "map_tile" and line.share > 0.5}
    t.equal("lines that are said to have more than half", wrong, {})
    t.check(child.exited_ns is None, "the program has ended")


def of_threads_the_line_that_keeps(t, count):
    most = {name: int(pathlib.Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max")}
    few = [f"kernel.{name} is {value}" for name, value in most.items() if value < count * 1.05]
    memory = lib.memory_bytes()
    if memory < count * BYTES_A_THREAD:
        few.append(f"{memory >> 20} MiB are available")
    if few:
        t.skip(f"no room for {count:,} threads: {', '.join(few)}")
    child = t.start(None, "corpus/many_threads", count)
    judge(t, child, ("--pid", str(child.pid)))


@case(vm="never", limit_s=60)
def of_four_thousand_threads_the_line_that_keeps(t):
    of_threads_the_line_that_keeps(t, 4000)


@case(vm="never", limit_s=120)
def of_a_hundred_thousand_threads_the_line_that_keeps(t):
    of_threads_the_line_that_keeps(t, 100_000)


def cgroup_of_tasks(t, most):
    """procs file of a cgroup in which there can be `most` processes and threads."""
    hierarchy = pathlib.Path("/sys/fs/cgroup/pids")
    if hierarchy.is_dir():
        folder = hierarchy / f"oomcast-e2e-tasks-{os.getpid()}"
        folder.mkdir()
        t.later(folder.rmdir)
    else:
        group = t.cgroup()
        folder = group.dir
        for above in reversed(folder.parents):
            if above.is_relative_to(group.mount):
                (above / "cgroup.subtree_control").write_text("+pids")
    (folder / "pids.max").write_text(str(most))
    return folder / "cgroup.procs"


@case(vm="never", limit_s=60)
def where_it_may_start_no_thread_it_looks_without_breakpoints_and_says_why(t):
    child = t.start(None, "corpus/journal_realloc")
    child.wait_for("ready")
    # Two processes it needs: the tracer, and the reader of others' memory.
    blame = subprocess.run([t.workload("enter"), cgroup_of_tasks(t, 2), "--", t.oomcast_path, "blame", "--json", "--for",
                            "2s", "--pid", str(child.pid)], capture_output=True, timeout=lib.seconds(30))
    t.equal("exit code of blame", blame.returncode, 0)
    report = json.loads(blame.stdout)
    unknown = of_pid(report, child.pid)["kept_unknown"]
    t.check("no thread can be started" in (unknown or ""), f"why it does not know what stays: {unknown}")


class Disk:
    """A file system that can be frozen, as for a snapshot: who writes into a mapping of it then sleeps with the lock of
    his memory until it is thawed."""

    def __init__(self, t):
        folder = t.folder()
        image, self.mounted = folder / "image", folder / "mounted"
        self.mounted.mkdir()
        with open(image, "wb") as f:
            f.truncate(16 << 20)
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, self.mounted]):
            if not shutil.which(command[0]) or subprocess.run(command, capture_output=True).returncode:
                t.skip("no file system can be made and mounted here")
        t.later(subprocess.run, ["umount", self.mounted])
        self.fd = os.open(self.mounted, os.O_RDONLY)
        t.later(os.close, self.fd)
        # Nothing that this process does may be left to free what it froze.
        guard = subprocess.Popen(["sh", "-c", 'sleep 40; exec fsfreeze --unfreeze "$0"', self.mounted],
                                 stderr=subprocess.DEVNULL)
        t.later(guard.wait)
        t.later(guard.kill)

    def freeze(self):
        fcntl.ioctl(self.fd, FREEZE, 0)

    def thaw(self):
        try:
            fcntl.ioctl(self.fd, THAW, 0)
        except OSError:  # it is not frozen
            pass

    def writer(self, t, name):
        child, _ = python(t, None, f"file = os.open({str(self.mounted / name)!r}, os.O_RDWR | os.O_CREAT)\n"
                          "os.ftruncate(file, 1 << 20)\nmapped = mmap.mmap(file, 1 << 20)\ntell('ready')\n"
                          f"os.read(0, 1)\nmapped.madvise({POPULATE_WRITE})\ntell('written')\n")
        t.later(self.thaw)  # before it is waited for
        return child

    def freeze_with(self, t, writer):
        self.freeze()
        writer.go()
        sleeps = lib.wait_until(lambda: lib.state_of(writer.pid) == "D", 10)
        t.premise(sleeps, "who writes to a frozen file system does not wait")


@case(vm="never", limit_s=90)
def who_sleeps_with_the_lock_of_his_memory_keeps_no_fork_waiting(t):
    disk = Disk(t)
    child, _ = python(t, None, "import time\ntell('ready')\nos.read(0, 1)\n"
                      "while True:\n    culprit(1)\n    time.sleep(.01)\n")
    forks, _ = python(t, None, "import time\ntell('ready')\nos.read(0, 1)\nlongest = 0\nwhile True:\n"
                      "    began = time.monotonic()\n    child = os.fork()\n    if child == 0:\n        os._exit(0)\n"
                      "    os.waitpid(child, 0)\n    longest = max(longest, time.monotonic() - began)\n"
                      "    tell('forked', longest_s=longest)\n    time.sleep(.05)\n")
    first, second = disk.writer(t, "first"), disk.writer(t, "second")
    report = t.folder() / "report"

    def blame():
        command = [t.oomcast_path, "blame", "--json", "--for", "4s", "--pid", str(child.pid), "-o", report]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        t.later(process.kill)
        return process

    def answer():
        return of_pid(json.loads(report.read_text()), child.pid)

    child.go()
    forks.go()
    disk.freeze_with(t, first)
    looks = blame()
    t.equal("exit code of blame", looks.wait(lib.seconds(30)), 0)
    t.equal("what was kept", answer()["kept"], None)
    why = answer()["kept_unknown"]
    t.check(why and "lock of its memory" in why, f"why it is not known: {why}")
    disk.thaw()
    first.wait_for("written")
    report.unlink()

    looks = blame()
    t.check(lib.wait_until(lambda: watched_at_malloc(child.pid), 10), "malloc() is not watched")
    disk.freeze_with(t, second)
    said = next((line for line in looks.stderr if "lock of its memory" in line), "")
    t.check(f"process {second.pid} sleeps with" in said, f"it said: {said}")
    t.check(answer()["kept"] is not None, f"what was kept is not known: {answer()['kept_unknown']}")
    t.check(watched_at_malloc(child.pid), "the breakpoint is gone")
    t.check(looks.poll() is None, "blame has ended")
    disk.thaw()
    second.wait_for("written")
    t.equal("exit code of blame", looks.wait(lib.seconds(30)), 0)
    t.check(not watched_at_malloc(child.pid), "a breakpoint is left")
    longest = [line["longest_s"] for line in forks.truth if line["event"] == "forked"][-1]
    t.check(longest < 3, f"a fork took {longest:.1f} s")
