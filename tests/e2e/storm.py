"""Many processes faulting, thousands of forks a second, hundreds of cgroups made and removed: no kill is lost."""

import ctypes
import mmap
import os
import pathlib
import random
import re
import signal
import struct
import time

import lib
from kills import Expected, Scene
from lib import MiB, VM, case
from store import ask


# On the host only: an emulated machine is too slow to fill the tables in the warm-up, so that they fill later.
@case(vm="never", limit_s=120)
def kills_in_a_storm(t):
    duration = 4 if VM else 10
    tracer = t.trace("--cgroup", lib.base().path)
    scene = Scene(t, tracer=tracer)
    arena = t.cgroup()

    def storms(how_long):
        started = [t.start(t.cgroup(), "forker", how_long, 3), t.start(None, "cgroup_storm", arena.dir, how_long),
                   t.start(t.cgroup().limit(64 * MiB), "fault_storm", how_long)]
        for load in started:
            load.wait_for("ready", timeout=20)
        return started
    # What is allocated once: the rings' pages, the names of some thousand cgroups that are known at a time, and what
    # waits for the store's disk meanwhile.
    # A busy machine gets there more slowly, so until it stands; a leak does not, and shows below.
    before = 0
    for _ in range(4):
        for load in storms(1 if VM else 8):
            load.wait(60)
        last, before = before, tracer.rss()
        if before - last < MiB:
            break
    loads = storms(duration)
    end = time.monotonic() + duration
    expected = {}
    while time.monotonic() < end - 1:
        lib.pause(1, "a kill each second of the storm")
        group = t.cgroup().limit(16 * MiB)
        child = t.start(group, "grow", "--anon", "64M")
        t.killed(child, 30)
        scene.knows(child)
        expected[child.pid] = Expected(group, group, child.command, "shown")
    most = tracer.rss()
    for load in loads:
        t.equal(f"exit code of {load.command[0]}", load.wait(60), 0)
    scene.check(expected, episodes=len(expected), told_late=True)
    after = tracer.rss()
    t.check(max(most, after) - before < 4 * MiB, f"oomcast's memory went from {before} to {most} and {after} bytes")
    tracer.stop(timeout=20)
    t.check_stream(tracer)
    made = {line["event"]: line["count"] for load in loads for line in load.truth if "count" in line}
    t.check(set(made) == {"forked", "faulted", "made"}, f"the storms say {made}")


@case(vm="never", limit_s=60)
def kills_among_a_thousand_cgroups(t):
    count = 1000
    arena = t.cgroup()
    many = [arena.child(f"idle-{i}") for i in range(count)]
    tracer = t.trace("--cgroup", lib.base().path)
    scene = Scene(t, tracer=tracer)
    group = many[count // 2].limit(16 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})

    def without_sample():
        seen = {line["cgroup"]["id"] for line in tracer.all("sample")}
        return [g.path for g in many if g.id not in seen]
    since = time.monotonic()
    lib.wait_until(lambda: not without_sample(), 1.2)
    missing, stall = without_sample(), t.pulse.longest_stall(since)
    t.premise(not missing or stall < 0.2, f"the machine stood still for {stall:.1f} s")
    t.check(not missing, f"{len(missing)} of {count} cgroups have no sample: {missing[:3]}")
    tracer.stop()
    t.check_stream(tracer)


class SamplesRing:
    """How full the ring is that `tracer` reads samples from, by the positions that the kernel keeps of it."""

    BYTES = 512 << 10            # as bpf/maps.bpf.h has it; its other rings are of other sizes
    BPF, MAP_BY_ID = 321, 14     # bpf(2), BPF_MAP_GET_FD_BY_ID
    LARGEST = 4096               # a record, about

    def __init__(self, t, tracer):
        rings = {found[1] for info in pathlib.Path(f"/proc/{tracer.pid}/fdinfo").iterdir()
                 if (found := re.search(rf"max_entries:\t{self.BYTES}\n(?s:.*)map_id:\t(\d+)", info.read_text()))}
        t.equal("rings of this size", len(rings), 1)
        libc = ctypes.CDLL(None, use_errno=True)
        which = (ctypes.c_uint32 * 4)(int(rings.pop()))
        fd = libc.syscall(self.BPF, self.MAP_BY_ID, which, ctypes.sizeof(which))
        if fd < 0:
            raise lib.Failed(f"the ring cannot be had: {os.strerror(ctypes.get_errno())}")
        self._read = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        self._written = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ, offset=mmap.PAGESIZE)
        os.close(fd)

    def full(self):
        read, written = (struct.unpack_from("<Q", page)[0] for page in (self._read, self._written))
        return written - read > self.BYTES - self.LARGEST


@case(vm="never", limit_s=90, tier="gate")
def what_an_oomcast_that_stands_still_loses_is_counted_and_no_kill(t):
    tracer = t.trace("--cgroup", lib.base().path)
    scene = Scene(t, tracer=tracer)
    group = t.cgroup().limit(16 * MiB)
    ring = SamplesRing(t, tracer)
    os.kill(tracer.pid, signal.SIGSTOP)
    forks = 0
    was_full, until = False, time.monotonic() + 40
    while not was_full and time.monotonic() < until:
        was_full = ring.full()  # and then once more, of which all is lost
        forker = t.start(t.cgroup(), "forker", 1, 3)
        t.equal("exit code of the forker", forker.wait(30), 0)
        forks += sum(line["count"] for line in forker.truth if line["event"] == "forked")
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    os.kill(tracer.pid, signal.SIGCONT)
    tracer.stop(timeout=20)
    t.check_stream(tracer)
    t.equal("recorded victims", [v["pid"] for v in scene.victims()], [child.pid])
    end = tracer.lines.items[-1]
    lost = end["lost"].get("samples_ring_full", 0)
    t.premise(was_full, f"{forks} forks in 40 s did not fill the ring")
    t.check(lost > 0, f"nothing is said to be lost of {forks} forks; {end['records']} records were read")
    # Each fork and each exit is a record, read or lost.
    t.check(lost + end["records"] >= 2 * forks, f"{end['records']} records, {lost} lost, and {forks} forks")


@case(vm="never", limit_s=60, tier="gate")
def whose_lock_is_always_held_holds_up_nobody(t):
    holder = t.start(t.cgroup(), "holds_lock", "512M", 64)
    holder.wait_for("ready")
    tracer = t.trace("--cgroup", lib.base().path, "--interval", "200ms")
    holder.go()
    # Until the reader has wanted the lock, and is gone because of it.
    given_up = lib.wait_until(lambda: any("reader_given_up" in str(line) for line in tracer.all("lost")), 30)
    t.premise(given_up, "nothing had to wait for the lock for 50 ms")
    scene = Scene(t, tracer=tracer)
    for _ in range(3):
        group = t.cgroup().limit(16 * MiB)
        child = t.start(group, "grow", "--anon", "64M")
        t.killed(child)
        scene.knows(child)
        died_ns = time.time_ns()
        tracer.wait_for_line("oom", lambda line: line["victims"][0]["pid"] == child.pid)
        t.check(time.time_ns() - died_ns < 2.5e9, f"told {(time.time_ns() - died_ns) / 1e9:.1f} s after it died")
    holder.end()
    tracer.stop()
    t.check_stream(tracer)


# ---- kills by the hundred: each once, with its own limit, or counted as lost ---------------------------------------------

def kernel_count():
    with open("/proc/vmstat") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("oom_kill "))


def crash_loop(t, kills, at_once=1, period_ms=0, limit=24 * MiB):
    """A cgroup, and in it a supervisor that waits for a byte to begin. 200 of them fit into a machine of 1 GiB with a
    limit of 2 MiB."""
    group = t.cgroup().limit(limit)
    loop = t.start(group, "crash_loop", kills, at_once, period_ms, "64M")
    loop.wait_for("ready", timeout=20)
    return group, loop


def lost_kills(tracer):
    return sum(count for reason, count in tracer.lines.items[-1]["lost"].items() if reason.startswith("oom_kill_"))


def many(t, cgroups, kills, at_once, *arguments, tracer=None):
    tracer = tracer or t.trace("--cgroup", lib.base().path, *arguments)
    loops = [crash_loop(t, kills, at_once, limit=(2 if cgroups > 1 else 24) * MiB) for _ in range(cgroups)]
    before = kernel_count()
    for _, loop in loops:
        loop.go()
    for _, loop in loops:
        t.equal("exit code of a crash loop", loop.wait(100), 0)
    counted = kernel_count() - before
    t.check(counted >= cgroups * kills, f"the kernel counts {counted} kills of {cgroups * kills}")
    tracer.stop(timeout=20)
    t.check_stream(tracer)
    told = tracer.all("oom")
    victims = [(victim["pid"], victim["start_time"] or victim["time"]) for line in told for victim in line["victims"]]
    lost = lost_kills(tracer)
    t.equal("victims that are told twice", len(victims) - len(set(victims)), 0)
    t.equal("kills that are told or counted as lost", len(victims) + lost, counted)
    t.equal("kills in a line with others", [len(line["victims"]) for line in told if len(line["victims"]) != 1], [])
    limits = {loop.pid: group for group, loop in loops}
    for line in told:
        group = limits.get(line["victims"][0]["ppid"])
        if line["limit_cgroup"] is None:  # unknown: the log's own bound on reports
            t.check("--no-bpf" in arguments, f"{line['id']} has no limit")
        elif group:
            t.equal("whose limit", line["limit_cgroup"]["path"], group.path)
            # Of reports that are printed at once the log does not tell whose figures are whose.
            unknown = line["limit_bytes"] is None and "--no-bpf" in arguments
            t.check(unknown or line["limit_bytes"] == group.limit_bytes, f"{line['id']}: limit {line['limit_bytes']}")
        else:
            t.equal("whose limit", line["limit_cgroup"]["path"], line["victims"][0]["cgroup"]["path"])
    return len(victims), counted


@case(vm="v2", limit_s=120)
def a_thousand_kills_in_two_hundred_cgroups(t):
    recorded, counted = many(t, 200, 5, 1)
    t.check(recorded >= (0.95 if VM else 1) * counted, f"{recorded} of {counted} are recorded")


@case(vm="v2", limit_s=120)
def a_thousand_kills_in_two_hundred_cgroups_without_the_kernel_log(t):
    recorded, counted = many(t, 200, 5, 1, "--no-kmsg")
    t.check(recorded >= (0.95 if VM else 1) * counted, f"{recorded} of {counted} are recorded")


@case(vm="v2", limit_s=120)
def a_thousand_kills_in_two_hundred_cgroups_by_the_kernel_log_alone(t):
    many(t, 200, 5, 1, "--no-bpf")


@case(vm="v2", limit_s=120)
def fifteen_hundred_kills_in_one_cgroup(t):
    recorded, counted = many(t, 1, 1500, 4)
    t.check(recorded >= (0.95 if VM else 1) * counted, f"{recorded} of {counted} are recorded")


@case(vm="v2", limit_s=120)
def fifteen_hundred_kills_in_one_cgroup_by_the_kernel_log_alone(t):
    many(t, 1, 1500, 4, "--no-bpf")


@case(vm="v2", limit_s=60, timing=True)
def each_kill_of_a_crash_loop_is_told_within_two_seconds(t):
    folder = t.folder()
    tracer = t.trace("--cgroup", lib.base().path, "--store", folder)
    group, loop = crash_loop(t, 20, period_ms=500)
    loop.go()
    ages = []

    def look():
        lines = tracer.all("oom")
        for line in lines[len(ages):]:
            ages.append((time.time_ns() - lib.epoch_ns(line["time"])) / 1e9)
        return len(lines) >= 20
    t.check(tracer.lines.wait(look, lib.seconds(30)), f"{len(ages)} of 20 kills are told")
    # An emulated machine's own slowness is not oomcast's.
    t.check(max(ages, default=99) < 2 + (lib.seconds(1) if VM else 0.2), f"told after {max(ages, default=99):.2f} s")
    series = [line["series"] and line["series"]["kills"] for line in tracer.all("oom")]
    t.equal("place in the series", series, [None, *range(2, 21)])
    tracer.stop()
    t.check_stream(tracer)
    t.equal("kills in the store", ask(folder, "SELECT count(*), sum(complete) FROM episodes"), [(20, 20)])


@case(vm="never", limit_s=120, timing=True)
def an_end_in_the_middle_of_a_storm_leaves_nothing_untold(t):
    for _ in range(12):
        tracer = t.trace("--cgroup", lib.base().path)
        group, loop = crash_loop(t, 100_000, at_once=2, period_ms=5)
        before = kernel_count()
        loop.go()
        lib.pause(random.uniform(0.1, 1.5), "the end comes at any moment of a storm")
        counted = kernel_count() - before
        asked = time.monotonic()
        tracer.stop(random.choice([signal.SIGINT, signal.SIGTERM]))
        took = time.monotonic() - asked
        loop.end()
        t.check_stream(tracer)
        told = sum(len(line["victims"]) for line in tracer.all("oom")) + lost_kills(tracer)
        t.check(told >= counted, f"{counted} kills before the end was asked for, {told} told or counted")
        t.check(took < 1, f"it took {took:.2f} s to end")
        group.remove()
