"""That as many are killed with oomcast as without it: it must not hold what the kernel needs to free."""

import lib
import witness
from lib import case

ROUNDS = 3


def kills_of_a_hog(t):
    """How many the kernel kills, of a hog with idle programs beside it, and whether all of those live."""
    innocents = [t.start(t.cgroup(), "sleeper") for _ in range(25)]
    for one in innocents:
        one.wait_for("ready")
    before = witness.vmstat_oom_kills()
    hog = t.start(t.cgroup(), "mlock_hog", 64)
    hog.wait_for("ready")
    hog.go()
    t.killed(hog, 60)
    dead = [one.pid for one in innocents if one.process.poll() is not None]
    for one in innocents:
        one.end()
    return witness.vmstat_oom_kills() - before, dead


@case(vm="numa", limit_s=120)
def as_many_are_killed_as_without_it(t):
    t.need_vm()
    alone = [kills_of_a_hog(t) for _ in range(ROUNDS)]
    t.premise(alone == [(1, [])] * ROUNDS, f"without oomcast there are more than the hog's: {alone}")
    tracer = t.trace("--interval", "200ms")
    beside = [kills_of_a_hog(t) for _ in range(ROUNDS)]
    t.equal("kills and innocents beside oomcast", beside, alone)
    tracer.wait_for("record of each victim", lambda: sum(len(o["victims"]) for o in tracer.all("oom")) >= ROUNDS, 10)
    tracer.stop(timeout=20)
    t.check_stream(tracer)
