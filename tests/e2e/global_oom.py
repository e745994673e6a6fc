"""The machine's own limit and sysrq-f: only where the machine is ours to kill in."""

import os

from kills import Expected, Scene, shown
from lib import case


def machine_trace(t, *arguments):
    # One that ends with the case: three of these beside the three that live on starve each other on one CPU.
    return Scene(t, *arguments, tracer=t.trace(*arguments, "--interval", "500ms"))


def out_of_memory(t, *arguments):
    t.need_vm()
    scene = machine_trace(t, *arguments)
    group = t.cgroup()
    child = t.start(group, "grow", "--step", "16M", "--anon", "6G", adj=500)
    child.wait_for("ready")
    t.killed(child, 60)
    scene.knows(child)
    episodes = scene.check({child.pid: Expected(group, None, shown(child), "shown")}, trigger=[], scope="global")
    for episode in episodes:
        t.equal("limit_cgroup", episode["limit_cgroup"], None)
        t.check(episode["limit_bytes"] is None or episode["limit_bytes"] > 256 << 20,
                f"limit_bytes is {episode['limit_bytes']}")
        said = {order for _, _, order in t.log.since(scene.log_mark)["invoked"]}
        t.check(episode["order"] in said | {None}, f"order is {episode['order']}, the kernel says {said}")


@case(vm="all", limit_s=40)
def the_machine_runs_out_of_memory(t):
    out_of_memory(t)


@case(limit_s=40)
def the_machine_runs_out_of_memory_without_the_kernel_log(t):
    out_of_memory(t, "--no-kmsg")


@case(limit_s=40)
def the_machine_runs_out_of_memory_without_kernel_programs(t):
    out_of_memory(t, "--no-bpf")


@case(limit_s=40)
def one_inside_a_limited_cgroup_dies_for_the_machine(t):
    # Its cgroup has a limit, but not the one that fired.
    t.need_vm()
    scene = machine_trace(t)
    group = t.cgroup().limit(8 << 30)
    child = t.start(group, "grow", "--step", "16M", "--anon", "6G", adj=500)
    t.killed(child, 60)
    scene.knows(child)
    for episode in scene.check({child.pid: Expected(group, None, child.command, "shown")}, trigger=[], scope="global"):
        t.equal("limit_cgroup", episode["limit_cgroup"], None)


def by_sysrq(t, *arguments):
    t.need_vm()
    if not os.path.exists("/proc/sysrq-trigger"):
        t.skip("no /proc/sysrq-trigger")
    scene = machine_trace(t, *arguments)
    group = t.cgroup()
    child = t.start(group, "grow", "--anon", "32M", "--forever", adj=1000)
    child.wait_for("holds")
    t.until_told(scene.tracer)
    with open("/proc/sysrq-trigger", "w") as f:
        f.write("f")
    t.killed(child, 20)
    scene.knows(child)
    # Without the kernel log, a kworker as trigger tells it: the machine itself never allocates there.
    for episode in scene.check({child.pid: Expected(group, None, child.command, "shown")}, trigger=[], scope="sysrq"):
        t.equal("limit_cgroup", episode["limit_cgroup"], None)
        if scene.kmsg:
            t.equal("order", episode["order"], -1)


@case(vm="all")
def sysrq_f(t):
    by_sysrq(t)


@case()
def sysrq_f_without_the_kernel_log(t):
    by_sysrq(t, "--no-kmsg")


@case()
def sysrq_f_without_kernel_programs(t):
    by_sysrq(t, "--no-bpf")
