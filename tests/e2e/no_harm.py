"""That as many are killed with oomcast as without it: it must not hold what the kernel needs to free."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import sys
import threading
import time
from collections import Counter

import gpu
import lib
import witness
from lib import case
from watch import Terminal

MiB = lib.MiB
IDLE = 25
ROUNDS = 3
KSM = pathlib.Path("/sys/kernel/mm/ksm/run")


def cpuset(group, nodes):
    """Allows a cgroup these nodes alone."""
    for above in (group.mount, lib.base().dir):
        (above / "cgroup.subtree_control").write_text("+cpuset")
    group.write("cpuset.mems", nodes)
    return group


def kills_of(t, hogs, make_group, how, policy):
    """How many the kernel kills of some hogs with idle programs beside them, and which of those do not live."""
    group = make_group()
    idle_group = group if group.limit_bytes else t.cgroup()
    innocents = [t.start(idle_group, "sleeper") for _ in range(IDLE)]
    for one in innocents:
        one.wait_for("ready")
    before = witness.vmstat_oom_kills()
    children = [t.start(group, "memory_hog", how, policy, 64) for _ in range(hogs)]
    for one in children:
        one.wait_for("ready")
    for one in children:
        one.go()
    for one in children:
        t.killed(one, 90)
    dead = [one.pid for one in innocents if one.process.poll() is not None]
    for one in innocents:
        one.end()
    return witness.vmstat_oom_kills() - before, dead


def as_without_it(t, make_group, how, policy="default", hogs=1):
    t.need_vm()
    alone = [kills_of(t, hogs, make_group, how, policy) for _ in range(ROUNDS)]
    t.premise(alone == [(hogs, [])] * ROUNDS, f"without oomcast there are more than the hog's: {alone}")
    tracer = t.trace("--interval", "200ms")
    log_mark = t.log.mark()
    beside = [kills_of(t, hogs, make_group, how, policy) for _ in range(ROUNDS)]
    said = t.log.since(log_mark)
    who = [f"{k.comm.decode(errors='replace')} {k.tid}" for k in said["kills"]]
    t.equal(f"kills and innocents beside oomcast (killed: {', '.join(who)}; the killer was invoked by "
            f"{', '.join(comm.decode(errors='replace') for comm, _, _ in said['invoked'])})", beside, alone)
    victims = hogs * ROUNDS
    tracer.wait_for("record of each victim", lambda: sum(len(o["victims"]) for o in tracer.all("oom")) >= victims, 10)
    t.equal("victims that are told", sum(len(o["victims"]) for o in tracer.all("oom")), victims)
    tracer.stop(timeout=20)
    t.check_stream(tracer)


def each_way(name, hogs):
    """A case for each of the hogs (how, policy), called NAME_HOW and, but for the default, _POLICY."""
    def register(make_group):
        for how, policy in hogs:
            def run(t, how=how, policy=policy):
                as_without_it(t, lambda: make_group(t), how, policy)
            run.__name__ = f"{name}_{how}" + (f"_{policy}" if policy != "default" else "")
            run.__module__ = __name__
            case(vm="numa", limit_s=120)(run)
        return make_group
    return register


@each_way("a_full_machine", [("touch", "default"), ("mlock", "default"), ("touch", "bind"), ("mlock", "bind"),
                             ("touch", "interleave"), ("touch", "preferred")])
def of_the_machine(t):
    return t.cgroup()


@each_way("a_limit", [("touch", "default"), ("mlock", "bind")])
def of_a_limit(t):
    return t.cgroup().limit(160 * MiB)


@each_way("a_cpuset", [("touch", "default"), ("mlock", "default")])
def of_a_cpuset(t):
    return cpuset(t.cgroup(), "1-2")


@each_way("a_limit_in_a_cpuset", [("mlock", "default")])
def of_a_limit_in_a_cpuset(t):
    return cpuset(t.cgroup(), "1-2").limit(160 * MiB)


@case(vm="numa", limit_s=120)
def pages_that_may_be_merged(t):
    t.need_vm()
    if not KSM.exists():
        t.skip("this kernel merges no pages (CONFIG_KSM)")
    KSM.write_text("1")
    t.later(KSM.write_text, "2")  # unmerge
    as_without_it(t, t.cgroup, "merge")


@case(vm="numa", limit_s=120)
def eight_at_once_below_one_limit(t):
    as_without_it(t, lambda: t.cgroup().limit(160 * MiB), "mlock", hogs=8)


# Whoever calls one of these holds another's memory until its mmput().
TAKES = ["pagemap_read", "m_start", "show_smaps_rollup", "get_task_mm", "mm_access", "environ_read"]
ASKS_LOCK = "rwsem_down_read_slowpath"
OWN = {"exit_mm", "exec_mmap", "begin_new_exec", "do_exit", "free_bprm"}
TRACED = re.compile(r"^\s*(\S.*)-(\d+) +\[\d+\] .* (\d+\.\d+): (\w+) <-([\w.]+)")
WOKEN = re.compile(r" (\d+\.\d+): sched_wakeup: .*\bpid=(\d+) ")
SWITCHED = re.compile(r" (\d+\.\d+): sched_switch: .*prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)")


class KernelTrace:
    """The kernel's own trace of the calls by which programs take and give back other processes' memory."""

    def __init__(self, t):
        here = pathlib.Path(tempfile.mkdtemp(prefix="oomcast-tracefs-"))
        t.later(here.rmdir)
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", here], capture_output=True, check=False).returncode:
            t.skip("no tracefs")
        t.later(subprocess.run, ["umount", here])
        self.dir = here / "instances" / f"oomcast-{os.getpid()}"
        try:
            self.dir.mkdir()
            t.later(self.dir.rmdir)
            names = set((here / "available_filter_functions").read_text(encoding="ascii").split())
            (self.dir / "set_ftrace_filter").write_text(" ".join(names & {*TAKES, ASKS_LOCK, "mmput"}), encoding="ascii")
            (self.dir / "buffer_size_kb").write_text("16384", encoding="ascii")
            self.own = threading.get_native_id()
            for event, who in ("sched_switch", ("prev_", "next_")), ("sched_wakeup", ("",)):
                either = " || ".join(f'{one}comm ~ "oomcast*" || {one}pid == {self.own}' for one in who)
                (self.dir / "events" / "sched" / event / "filter").write_text(either, encoding="ascii")
                (self.dir / "events" / "sched" / event / "enable").write_text("1", encoding="ascii")
            (self.dir / "current_tracer").write_text("function", encoding="ascii")
        except OSError as why:
            t.skip(f"functions cannot be traced here: {why}")
        t.later((self.dir / "current_tracer").write_text, "nop")

    def holds(self):
        """(how long, by what, task, from when to when) of each time that oomcast held another's memory, and of each time
        that this thread did, without the time for which others had its CPU although it could run, and for which it
        waited for the memory's lock: one whose lock is taken cannot be freed, whoever looks at it."""
        began, out, own, off, waited, asks = {}, [], [], {}, Counter(), set()
        (self.dir / "tracing_on").write_text("0", encoding="ascii")
        with open(self.dir / "trace", encoding="utf-8", errors="replace") as trace:
            for line in trace:
                if switch := SWITCHED.search(line):
                    at, before, state, after = switch.groups()
                    off.pop(before, None)  # it was woken on its way out
                    if state.startswith("R") or before in asks:
                        off[before] = float(at)
                    if after in off:
                        waited[after] += float(at) - off.pop(after)
                elif woken := WOKEN.search(line):
                    off.setdefault(woken[2], float(woken[1]))
                if not (called := TRACED.match(line)):
                    continue
                comm, task, at, function, caller = called.groups()
                off.pop(task, None)
                (asks.add if function == ASKS_LOCK else asks.discard)(task)
                if function == ASKS_LOCK:
                    continue
                if function != "mmput":
                    began[comm, task] = float(at), function
                    waited[task] = 0
                elif caller not in OWN and (comm, task) in began:
                    since, function = began.pop((comm, task))
                    held = float(at) - since - waited[task], function, task, since, float(at)
                    if comm.startswith("oomcast"):
                        out.append(held)
                    elif int(task) == self.own:
                        own.append(held)
        return out, own

    def lines_of(self, task, since, until):
        """What the trace has of a task in that time."""
        with open(self.dir / "trace", encoding="utf-8", errors="replace") as trace:
            for line in trace:
                at = re.search(r" (\d+\.\d+): ", line)
                if at and since <= float(at[1]) <= until and re.search(rf"(-|_pid=){task}\b", line):
                    yield line.strip()


def looks_itself(pid):
    """One number of its status, and 4 times 2 MiB of its largest mapping: each a look as oomcast has them."""
    lib.status_bytes(pid, "VmRSS")
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps]
    if not ranges:
        raise lib.Unfit("a worker has ended: the machine's memory is not enough for them")
    begin, _ = max(ranges, key=lambda r: r[1] - r[0])
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for piece in range(4):
            os.pread(pagemap.fileno(), 4096, (begin >> 12) * 8 + 4096 * piece)


@case(limit_s=90, timing=True)
def no_ones_memory_is_held_for_more_than_50_ms(t):
    """A server's processes: 200 with 320 MiB of RSS each, of which some write, and one with 4 GiB."""
    t.needs_memory(650 * MiB)
    trace = KernelTrace(t)
    group = t.cgroup()
    tracer = t.trace("--interval", "500ms")
    child = t.start(group, "workers", "320M", 200, 12, "4G")
    child.wait_for("holds", timeout=60, error=lib.Unfit)
    child.wait_for("mapped", timeout=60, error=lib.Unfit)
    told = tracer.wait_for_line("process", lambda p: p["private_bytes"] is not None and p["anon_bytes"] > 300 * MiB,
                                timeout=30)
    t.check(told["private_bytes"] < 160 * MiB, f"private_bytes is {told['private_bytes']}: what it shares is not its own")
    children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
    for _ in range(20):  # more looks at more of them, and the same by this program
        for pid in map(int, children.read_text(encoding="ascii").split()):
            with contextlib.suppress(OSError):
                looks_itself(pid)
        lib.pause(0.2, "between two rounds")
    held, own = trace.holds()
    by = Counter(function for _, function, *_ in held)
    t.premise(by["pagemap_read"] > 200, f"hardly anything was looked at: {by}")
    t.premise(len(own) > 2000, f"this program has looked only {len(own)} times")
    t.premise(max(own)[0] < 0.025,
              f"this machine stands still: {max(own)[1]} by this program held another's memory for {1000 * max(own)[0]:.1f} ms")
    longest, function, *when = max(held)
    t.check(longest < 0.050, f"{function} held another's memory for {1000 * longest:.1f} ms, the longest of {by}: "
            f"{'; '.join(trace.lines_of(*when))[:2000] if longest >= 0.050 else ''}")


def realtime_limit(text):
    return next(line.split()[3] for line in text.splitlines() if line.startswith("Max realtime priority"))


@case(limit_s=60)
def a_look_may_take_pages_from_the_reserve_and_no_command_may(t):
    folder = t.folder()
    group = t.cgroup().limit(400 * MiB)
    tracer = t.trace("--cgroup", group.path, "--alert", "level>20M", "--exec", f"cat /proc/self/limits > {folder}/limits")
    if realtime_limit(pathlib.Path(f"/proc/{tracer.pid}/limits").read_text(encoding="ascii")) == "0":
        t.skip("this program may not raise its own limits (CAP_SYS_RESOURCE)")

    def of_look():
        for pid in pathlib.Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):
                if b"--brief" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    return realtime_limit(pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="ascii"))
        return None

    child = t.start(group, "leaks_omit", "malloc", 300 * MiB)
    child.wait_for("ready")
    child.go()
    t.equal("limit of a look", lib.wait_until(of_look, 20), "1")
    tracer.wait_for("end of the command", lambda: (folder / "limits").exists() and (folder / "limits").stat().st_size, 20)
    t.equal("limit of a command", realtime_limit((folder / "limits").read_text(encoding="ascii")), "0")


HOLDS_LOCK_FOR_30_S = """
import mmap, os, stat, sys
held = b"x" * (100 << 20)
major = next(int(line.split()[0]) for line in open("/proc/devices") if line.split()[1:] == ["nvidia-uvm"])
os.mknod(sys.argv[1], 0o600 | stat.S_IFCHR, os.makedev(major, 0))
file = os.open(sys.argv[1], os.O_RDWR)
print('{"event": "ready"}', flush=True)
sys.stdin.buffer.read(1)
mmap.mmap(file, 4096, offset=30 * 4096)
"""


@case(limit_s=120)
def who_holds_the_lock_of_its_memory_for_30_s_holds_up_neither_kills_nor_the_screen(t):
    gpu.load_driver(t)
    group = t.cgroup()
    tracer = t.trace("--cgroup", lib.base().path, "--interval", "200ms")
    screen = Terminal(t, "watch", "--cgroup", lib.base().path, "--store", "none")
    holder = t.start(group, sys.executable, "-c", HOLDS_LOCK_FOR_30_S, t.folder() / "uvm")
    holder.wait_for("ready")
    screen.wait_for(group.path)
    screen.press("e")
    holder.go()
    t.check(lib.wait_until(lambda: lib.state_of(holder.pid) == "D", 5), "it does not sleep with the lock")
    ages = []
    for _ in range(2):
        child = t.start(t.cgroup().limit(24 * MiB), "grow", "--anon", "64M")
        t.killed(child)
        died = time.monotonic()
        tracer.wait_for_line("oom", lambda line, pid=child.pid: line["victims"][0]["pid"] == pid)
        told = time.monotonic() - died
        t.check(lib.wait_until(lambda pid=child.pid: f"[{pid}]" in screen.redrawn(), 5, every=0.1), "it is not on the screen")
        ages.append((told, time.monotonic() - died))
    t.premise(lib.state_of(holder.pid) == "D", "the lock was let go before all were killed")
    t.check(max(told for told, _ in ages) < lib.seconds(2), f"told, and on the screen, after s: {ages}")
    t.check(max(shown for _, shown in ages) < lib.seconds(2.5), f"told, and on the screen, after s: {ages}")


# A data loader's worker: its rows are its parent's, and it writes to none of them.
WORKER = """import gc, os, time
rows = [[n, str(n)] for n in range(150000)]
gc.collect()
gc.freeze()
if os.fork() == 0:
    for _ in range(2):
        time.sleep(.5)
    print(f'{{"event": "ready", "worker": {os.getpid()}}}', flush=True)
    while True:
        time.sleep(1)
time.sleep(600)
"""


def own_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith(("Private_", "Swap:")))


@case(limit_s=60, tier="gate")
def to_read_a_workers_objects_copies_nothing_that_it_shares(t):
    child = t.start(t.cgroup(), "/usr/bin/python3", "-c", WORKER)
    worker = child.wait_for("ready")["worker"]
    before = own_kb(worker)
    code, out, err = t.run_oomcast("blame", "--json", "--for", "2s", "--pid", worker, timeout=40)
    t.equal(f"exit code ({err})", code, 0)
    process = json.loads(out)["processes"][0]
    t.premise(process["holders"] is not None, f"its objects were not read: {process['additions_unknown']}")
    t.check(own_kb(worker) - before < 2048, f"{own_kb(worker) - before} KiB more are its own, {before} before")
