"""That as many are killed with oomcast as without it: it must not hold what the kernel needs to free."""

import pathlib

import lib
import witness
from lib import case

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
    beside = [kills_of(t, hogs, make_group, how, policy) for _ in range(ROUNDS)]
    t.equal("kills and innocents beside oomcast", beside, alone)
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
