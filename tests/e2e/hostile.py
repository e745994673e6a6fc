"""A tenant without any privilege, who wants to blind, bloat or stop whoever watches: every OOM kill meanwhile is told and
stays in the store, and oomcast's memory stays below 64 MiB."""

import collections
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import lib
from kills import Expected, Scene
from lib import MiB, case
from store import ask

MOST = 64 * MiB


class Watched:
    """A trace with a store of the least size, and an OOM kill before, in the middle of and after what happens to it."""

    def __init__(self, t, *arguments):
        self.t = t
        self.store = t.folder()
        self.tracer = t.trace("--cgroup", lib.base().path, "--store", self.store, "--store-max", "8M", *arguments)
        self.scene = Scene(t, tracer=self.tracer)
        self.expected, self.most = {}, 0
        self.kill()

    def kill(self):
        group = self.t.cgroup().limit(16 * MiB)
        child = self.t.start(group, "grow", "--anon", "64M")
        self.t.killed(child)
        self.scene.knows(child)
        self.expected[child.pid] = Expected(group, group, child.command, "shown")

    def until(self, done, timeout):
        """Watches its memory, and has somebody killed, while that goes on. `done`: when it is over."""
        end = time.monotonic() + timeout
        last = time.monotonic()
        while not done() and time.monotonic() < end:
            self.most = max(self.most, self.tracer.rss() or 0)
            if time.monotonic() - last > 2:
                self.kill()
                last = time.monotonic()
            lib.pause(0.05, "its memory over time")

    def end(self):
        self.kill()
        self.scene.check(self.expected, episodes=len(self.expected), told_late=True)
        self.most = max(self.most, self.tracer.rss() or 0)
        self.tracer.stop()
        self.t.check_stream(self.tracer)
        self.t.check(self.most < MOST, f"oomcast's memory was {self.most / MiB:.0f} MiB")
        self.t.equal("kills in the store", ask(self.store, "SELECT count(*) FROM episodes"), [(len(self.expected),)])
        size = sum(path.stat().st_size for path in self.store.iterdir())
        self.t.check(size <= 8 * MiB, f"the store has {size} bytes, 8 MiB are its limit")
        return self.tracer.lines.items[-1]["lost"]


def as_tenant(t, *command, group=None):
    """Of a copy that everybody may run."""
    folder = t.folder()
    folder.chmod(0o755)
    program = folder / "program"
    shutil.copy(t.workload(command[0]), program)
    program.chmod(0o755)
    setpriv = shutil.which("setpriv")
    if not setpriv:
        t.skip("no setpriv")
    return t.start(group or t.cgroup(), setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", program,
                   *command[1:])


def flood(t, what, *words, count=1, arguments=()):
    watched = Watched(t, *arguments)
    children = [as_tenant(t, "hostile", what, 8, *words) for _ in range(count)]
    for child in children:
        child.wait_for("ready")
    watched.until(lambda: all(child.process.poll() is not None for child in children), 30)
    did = sum(child.wait_for("did")["count"] for child in children)
    return did, watched.end()


@case(vm="never", limit_s=90)
def sigkills_to_ones_own_zombie_are_nothing(t):
    did, lost = flood(t, "kills_zombie", *[""] * 2000, count=2)
    t.premise(did > 100_000, f"only {did} SIGKILLs")
    t.check("events_ring_full" not in lost, f"lost is {lost}")


def told_up_to_a_rate(t, reason, least, *load, count):
    did, lost = flood(t, *load, count=count)
    t.premise(did > least, f"only {did} SIGKILLs")
    t.check("events_ring_full" not in lost, f"lost is {lost}")
    t.check(lost.get(reason, 0) > 0, f"lost is {lost}")


@case(vm="never", limit_s=90)
def sigkills_to_ones_own_children_are_told_up_to_a_rate_and_counted_beyond(t):
    told_up_to_a_rate(t, "user_kills_over_rate", 2000, "kills_living", *[""] * 2000, count=2)


@case(vm="never", limit_s=90)
def sigkills_of_the_kernel_to_what_one_who_exits_traced_are_told_up_to_a_rate_and_counted_beyond(t):
    told_up_to_a_rate(t, "exit_kills_over_rate", 1000, "exit_kills_living", count=2)


@case(vm="never", limit_s=90)
def sigkills_of_the_kernel_at_a_limit_of_cpu_time_are_told_up_to_a_rate_and_counted_beyond(t):
    told_up_to_a_rate(t, "kernel_kills_over_rate", 1200, "cpu_limit_kills", count=4)


@case(vm="never", limit_s=90)
def calls_to_the_gpu_without_end_keep_no_kill_from_being_told(t):
    folder = t.folder()
    folder.chmod(0o755)
    stand_in = folder / "uvm"
    stand_in.touch(mode=0o644)
    file = stand_in.stat()
    device = os.major(file.st_dev) << 20 | os.minor(file.st_dev)  # the kernel's own form of its number
    did, lost = flood(t, "gpu_calls", stand_in, count=2, arguments=(
        "--gpu-test", f"uvm={device}:{file.st_ino}", "--gpu-test", "version=535.183.01"))
    t.premise(did > 200_000, f"only {did} calls")
    t.check("events_ring_full" not in lost, f"lost is {lost}")


@case(vm="never", limit_s=90)
def zombies_that_the_kernel_kills_take_no_victims_place(t):
    did, lost = flood(t, "exit_kills")
    t.premise(did > 4500, f"only {did} zombies")
    t.check("victim_table_full" not in lost, f"lost is {lost}")


@case(vm="never", limit_s=90)
def who_renames_himself_makes_no_rows_by_it(t):
    watched = Watched(t)
    tenants = [as_tenant(t, "hostile", "renames", 8, "x" * 1900) for _ in range(4)]
    for tenant in tenants:
        tenant.wait_for("ready")
    watched.until(lambda: all(tenant.process.poll() is not None for tenant in tenants), 30)
    did = sum(tenant.wait_for("did")["count"] for tenant in tenants)
    t.premise(did > 1000, f"only {did} names")
    watched.end()
    pids = ", ".join(str(tenant.pid) for tenant in tenants)
    rows = ask(watched.store, f"SELECT count(*) FROM processes WHERE pid IN ({pids})")[0][0]
    # That of the start, and one when it is seen after its last name; of those that a kill names, one more.
    t.check(rows <= 8 * len(tenants), f"{rows} rows of {did} names")


@case(vm="never", limit_s=90)
def cgroups_nested_with_long_names_are_not_followed_for_ever(t):
    watched = Watched(t)
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(t.cgroup().dir)
        depth = 0
        for depth in range(1000):
            try:
                os.mkdir("n" * 255)
            except OSError:
                break
            os.chdir("n" * 255)
        t.premise(depth > 100, f"{depth} levels were made")
        watched.until(lambda: False, 5)
        for _ in range(depth + 1):
            os.chdir("..")
            if os.path.isdir("n" * 255):
                os.rmdir("n" * 255)
    finally:
        os.fchdir(before)
        os.close(before)
    lost = watched.end()
    t.check(lost.get("model_full", 0) > 0, f"what is not followed is not counted: {lost}")


@case(vm="never", limit_s=120)
def twenty_thousand_cgroups_that_come_and_go_are_no_memory_of_ours(t):
    watched = Watched(t)
    top = t.cgroup()
    top.child("first")  # what is below is counted from now on
    paths = (top.dir / f"tenant-pod-{i:05d}-with-some-longer-name" for i in itertools.count())
    there = collections.deque()

    def make(count):
        for path in itertools.islice(paths, count):
            path.mkdir()
            there.append(path)

    def come_and_go():
        for _ in range(20):
            there.popleft().rmdir()
        make(20)

    try:
        make(20_000)
        watched.until(come_and_go, 20)
    finally:
        for path in there:
            path.rmdir()
    lost = watched.end()
    t.equal("cgroups that hold nothing among the losses", lost.get("model_full", 0), 0)


@case(vm="never", limit_s=180)
def all_of_them_at_once_leave_it_below_its_ceiling(t):
    t.needs_memory(2048 * MiB)
    watched = Watched(t)
    words = [""] * 2000
    floods = [["kills_zombie", *words], ["kills_living", *words], ["exit_kills"], ["renames", "x" * 1900], ["children", "y" * 1900]]
    tenants = [as_tenant(t, "hostile", what, 20, *with_words) for what, *with_words in floods]
    for tenant in tenants:
        tenant.wait_for("ready")
    top = t.cgroup()
    there = collections.deque()
    paths = (top.dir / f"tenant-pod-{i:05d}-with-some-longer-name" for i in itertools.count())

    def come_and_go():
        for path in itertools.islice(paths, 400 if len(there) < 8000 else 40):
            path.mkdir()
            there.append(path)
        while len(there) > 8000:
            there.popleft().rmdir()
        return all(tenant.process.poll() is not None for tenant in tenants)

    try:
        watched.until(come_and_go, 40)
    finally:
        for path in there:
            path.rmdir()
    did = {what: tenant.wait_for("did")["count"] for tenant, (what, *_) in zip(tenants, floods)}
    t.premise(did["children"] > 1000 and did["kills_zombie"] > 50_000 and len(there) == 8000, f"only {did}, {len(there)} cgroups")
    watched.end()


@case(vm="never", limit_s=120)
def forty_thousand_idle_cgroups_keep_no_other_from_being_followed(t):
    tenant = t.cgroup()
    for i in range(40_000):
        (tenant.dir / f"pod-{i:05d}").mkdir()
    t.later(lambda: [path.rmdir() for path in tenant.dir.glob("pod-*")])
    store = t.folder()
    tracer = t.trace("--store", store)
    group = t.cgroup().limit(64 * MiB)
    child = t.start(group, "grow", "--go", "--rate", "16M", "--anon", "96M")
    child.wait_for("ready")
    child.go()
    t.killed(child)
    told = tracer.wait_for_line("oom", lambda line: (line["limit_cgroup"] or {}).get("id") == group.id)
    t.equal("who was killed", [victim["pid"] for victim in told["victims"]], [child.pid])
    usage = [line["usage_bytes"] for line in tracer.all("sample") if line["cgroup"]["id"] == group.id]
    t.check(len([bytes for bytes in usage if bytes and bytes > 8 * MiB]) >= 10, f"of its growth was seen: {usage}")
    tracer.stop()
    t.check_stream(tracer)
    rows = ask(store, f"SELECT count(*), max(usage) FROM samples JOIN cgroups ON cgroups.id=cgroup WHERE path="
                      f"'{group.path}' AND usage > {8 * MiB}")[0]
    t.check(rows[0] >= 10 and rows[1] > 56 * MiB, f"in the store are (samples, highest usage) {rows}")


def elf(size, *, entsize=24, symbols=1):
    """A shared object with a table of symbols that is as large as it says, or has no size of an entry at all."""
    names = b"\0.symtab\0.strtab\0_PyRuntime\0"
    header = 64
    table = header + 3 * 64
    body = bytearray(header + 3 * 64 + 64 + len(names))
    body[0:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 0, header, 0, 64, 0, 0,
                             64, 3, 2)

    def section(index, name, kind, offset, length, link, entry):
        body[header + index * 64:header + (index + 1) * 64] = struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, length,
                                                                         link, 0, 8, entry)
    section(1, 1, 2, table, symbols * 24, 2, entsize)
    section(2, 9, 3, table + 48, len(names), 0, 0)
    body[table + 48:table + 48 + len(names)] = names
    return bytes(body), size


MAPS_IT = """
import ctypes, mmap, os, sys, time
f = os.open(sys.argv[1], os.O_RDONLY)
code = mmap.mmap(f, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
held = bytearray(100 << 20)
print('{"event":"ready"}', flush=True)
while True:
    held.extend(bytes(1 << 20))
    time.sleep(.2)
"""


def maps(t, body, size):
    watched = Watched(t, "--interval", "200ms")
    folder = t.folder()
    folder.chmod(0o755)
    path = folder / "libpython3.so"
    with open(path, "wb") as f:
        f.write(body)
        f.truncate(max(size, len(body)))
    path.chmod(0o755)
    child = t.start(t.cgroup(), shutil.which("setpriv"), "--reuid", "65534", "--regid", "65534", "--clear-groups",
                    "/usr/bin/python3", "-c", MAPS_IT, path)
    child.wait_for("ready")
    watched.until(lambda: False, 6)
    t.check(child.process.poll() is None, "what maps the file has ended")
    child.end()
    watched.end()


@case(vm="never", limit_s=60)
def an_elf_whose_symbols_have_no_size_divides_nothing(t):
    maps(t, *elf(8192, entsize=0))


@case(vm="never", limit_s=60)
def an_elf_of_two_gigabytes_on_twelve_kilobytes_is_no_memory_of_ours(t):
    maps(t, *elf(2 << 30, symbols=(2 << 30) // 24))


@case(vm="never", limit_s=60)
def a_reader_that_does_not_read_holds_up_neither_store_nor_end(t):
    store = t.folder()
    read, write = os.pipe()
    process = subprocess.Popen([t.oomcast_path, "trace", "--json", "--cgroup", lib.base().path, "--store", store],
                               stdout=write, stderr=subprocess.DEVNULL)
    t.later(process.kill)
    os.close(write)
    t.later(os.close, read)
    # As many lines as no pipe holds.
    group = t.cgroup().limit(24 * MiB)
    loop = t.start(group, "crash_loop", 100, 1, 0, "64M")
    loop.wait_for("ready")
    lib.wait_until(lambda: (store / "oomcast.db").exists(), 10)
    lib.pause(1, "it has begun to follow")
    loop.go()
    t.equal("exit code of the crash loop", loop.wait(60), 0)
    kept = lib.wait_until(lambda: ask(store, "SELECT count(*) FROM episodes") == [(100,)], 10)
    t.check(kept, f"in the store: {ask(store, 'SELECT count(*) FROM episodes')}")
    asked = time.monotonic()
    process.terminate()
    process.wait(lib.seconds(10))
    took = time.monotonic() - asked
    t.check(took < 3, f"it took {took:.1f} s to end")


# What the tracer may name to the kernel: the system's own files, the kernel's own of processes that wait for nobody's
# memory, memory cgroups' own, and its store.
ITS_OWN = re.compile(
    r"/(usr|lib|lib64|etc/(localtime|ld\.so\.(cache|preload|nohwcap)))(/.*)?$|/dev/(null|kmsg|urandom|nvidia\w*)$"
    r"|/sys/(?!fs/cgroup).*|/events/syscalls/sys_exit_\w+/id$"  # below tracefs, which has no path here
    r"|/proc/(self|thread-self|sys|driver|pressure)(/.*)?$"
    r"|/proc$|/proc/(stat|cgroups|devices|meminfo|vmstat|version|version_signature|zoneinfo|mounts|kallsyms"
    r"|uptime|swaps|modules|filesystems)?$"
    r"|/proc/\d+(/(task(/\d+)?/)?(stat|statm|status|cgroup|comm|oom_score_adj)|/task|/ns/\w+)?$")
CALL = re.compile(r"(\d+) +(\w+)\((.*)")
NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')


def named_paths(log, main):
    """(call, path) of each path that the tracer's threads name, until a child of it is another program."""
    others, threads = set(), {main}
    for line in log.read_text(errors="surrogateescape").splitlines():
        match = CALL.match(line)
        if not match:
            continue
        pid, call, rest = int(match[1]), match[2], match[3]
        if pid in others:
            continue
        if call == "execve" and pid not in threads:
            others.add(pid)
            continue
        found = NAMED.match(rest)
        if found and call != "execve":
            yield call, os.path.normpath(os.path.join(found[1] or "/", found[2]))


@case(vm="never", limit_s=90)
def the_tracer_names_no_path_that_a_tenant_can_choose(t):
    """By strace's word, among programs that offer it all that they can."""
    strace = shutil.which("strace")
    if not strace:
        t.skip("no strace")
    folder, store, log = t.folder(), t.folder(), t.folder() / "log"
    folder.chmod(0o777)
    body, size = elf(8192)
    path = folder / "libpython3.so"
    path.write_bytes(body + bytes(size - len(body)))
    path.chmod(0o755)
    tracer = t.oomcast("trace", "--json", "--cgroup", lib.base().path, "--store", store, "--interval", "200ms",
                       prefix=[strace, "-D", "-f", "-qq", "-y", "-s", "4096", "-o", log,
                               "-e", "trace=%file,process_vm_readv,process_vm_writev,execve"]).started()
    children = [t.start(t.cgroup(), shutil.which("setpriv"), "--reuid", "65534", "--regid", "65534", "--clear-groups",
                        "/usr/bin/python3", "-c", MAPS_IT, path) for _ in range(3)]
    for child in children:
        child.wait_for("ready")
        os.symlink("/etc/shadow", folder / f"perf-{child.pid}.map")
    group = t.cgroup().limit(16 * MiB)
    victim = t.start(group, "grow", "--anon", "64M")
    t.killed(victim)
    tracer.wait_for_line("oom", lambda line: line["victims"][0]["pid"] == victim.pid)
    # Until somebody else has read them.
    t.premise(lib.wait_until(lambda: "libpython3.so" in log.read_text(errors="replace") or
                             "/maps" in log.read_text(errors="replace"), 15), "no process was looked into")
    tracer.stop()
    mounts = (str(lib.memory_mount()[1]), str(store), "/sys/fs/cgroup")
    own = {str(t.oomcast_path), *map(str, store.parents)}
    calls, wrong = 0, set()
    for call, path in named_paths(log, tracer.pid):
        calls += 1
        # Of a cgroup the tenant chooses the name; it is a directory of the kernel's all the same.
        below = any(path == mount or path.startswith(mount + "/") for mount in mounts)
        if not below and not ITS_OWN.match(path) and path not in own:
            wrong.add(f"{call} {path}")
    t.premise(calls > 100, f"strace saw {calls} calls")
    t.equal("paths beyond its own", sorted(wrong)[:10], [])


def nice_limits(pid, file=None):
    text = pathlib.Path(file or f"/proc/{pid}/limits").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Max nice priority"))
    return tuple(map(int, line.split()[3:5]))


@case(vm="never", limit_s=60)
def who_reads_others_memory_has_oomcasts_priority_and_nobody_else_has(t):
    """It holds another's memory while it waits for a CPU."""
    tracer = t.trace("--cgroup", lib.base().path, "--interval", "200ms")
    t.premise(os.getpriority(os.PRIO_PROCESS, tracer.pid) == -10, "the tracer itself has no priority")

    def readers():
        found = []
        for pid in pathlib.Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if b"--reader" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
        return found
    t.check(lib.wait_until(readers, 10), "it has started no reader")
    # One that is started after the privileges were dropped has it, too.
    first = readers()[0]
    t.equal("priority of the reader", os.getpriority(os.PRIO_PROCESS, first), -10)
    os.kill(first, signal.SIGKILL)
    child = t.start(t.cgroup(), "grow", "--anon", "64M", "--forever")
    t.check(lib.wait_until(lambda: [pid for pid in readers() if pid != first], 15), "it has started no other reader")
    may = nice_limits(tracer.pid)[1] == 30  # CAP_SYS_RESOURCE raises it
    for pid in readers():
        t.equal("priority of the next reader", os.getpriority(os.PRIO_PROCESS, pid), -10 if may else 0)
    child.end()
    tracer.stop()
    said = t.folder() / "said"
    code, _, _ = t.run_oomcast("run", "--", "sh", "-c", f"nice > {said}; cat /proc/self/limits >> {said}")
    t.equal("exit code", code, 0)
    t.equal("priority of a command", said.read_text().split()[0], str(os.nice(0)))
    t.equal("its limits", nice_limits("self", said), nice_limits("self"))
