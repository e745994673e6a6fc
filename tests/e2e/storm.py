"""Many processes faulting, thousands of forks a second, hundreds of cgroups made and removed: no kill is lost."""

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
        time.sleep(1)
        group = t.cgroup().limit(16 * MiB)
        child = t.start(group, "grow", "--anon", "64M")
        t.equal("exit code of a victim", child.wait(30), 137)
        scene.knows(child)
        expected[child.pid] = Expected(group, group, child.command, "shown")
    most = tracer.rss()
    for load in loads:
        t.equal(f"exit code of {load.command[0]}", load.wait(60), 0)
    scene.check(expected, episodes=len(expected), settle=2.2)
    time.sleep(1)
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
    t.equal("exit code of the victim", child.wait(), 137)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})
    time.sleep(1.2)
    seen = {line["cgroup"]["id"] for line in tracer.all("sample")}
    missing = [g.path for g in many if g.id not in seen]
    t.check(not missing, f"{len(missing)} of {count} cgroups have no sample: {missing[:3]}")
    tracer.stop()
    t.check_stream(tracer)
