"""Many processes faulting, thousands of forks a second, hundreds of cgroups made and removed: no kill is lost."""

import os
import signal
import time

import lib
from kills import Expected, Scene
from lib import MiB, VM, case


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


@case(vm="never", limit_s=60, tier="gate")
def what_an_oomcast_that_stands_still_loses_is_counted_and_no_kill(t):
    tracer = t.trace("--cgroup", lib.base().path)
    scene = Scene(t, tracer=tracer)
    group = t.cgroup().limit(16 * MiB)
    os.kill(tracer.pid, signal.SIGSTOP)
    forker = t.start(t.cgroup(), "forker", 2, 3)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    t.equal("exit code of the forker", forker.wait(30), 0)
    os.kill(tracer.pid, signal.SIGCONT)
    tracer.stop(timeout=20)
    t.check_stream(tracer)
    t.equal("recorded victims", [v["pid"] for v in scene.victims()], [child.pid])
    forks = sum(line["count"] for line in forker.truth if line["event"] == "forked")
    end = tracer.lines.items[-1]
    lost = end["lost"].get("samples_ring_full", 0)
    t.premise(lost > 0 or forks > 10_000, f"only {forks} forks: the ring may not be full")
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
