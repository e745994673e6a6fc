"""After all other cases: the long-lived streams, as a whole."""

from collections import Counter

from kills import Scene
from lib import Context, case, one_line

SECOND = 10**9


def named(victims):
    return [f"{comm}[{tid}] {count} times" for (tid, comm), count in sorted(victims.items())]


@case(vm="all", tier="gate", kernel=True)
def every_kill_was_recorded_once(t):
    if not Context.shared:
        t.skip("no case used a long-lived stream")
    t.log.sync(1)
    t.premise(not t.log.overrun, f"the kernel's log ran over {t.log.overrun} times before the witness had read it")
    for tracer in Context.ended:
        t.check(False, f"oomcast {' '.join(tracer.arguments)} ended by itself with {tracer.process.poll()}: "
                f"{one_line(tracer.stderr()[-300:])}")
    # Counted, not only named: a machine that has been through all process ids kills the same id again. The kernel
    # may name a victim twice within one kill of a group.
    last, said = {}, Counter()
    for line in t.log.kills:
        victim = (line.tid, line.comm.decode(errors="backslashreplace"))
        said[victim] += line.time_ns - last.get(victim, -SECOND) >= SECOND
        last[victim] = line.time_ns
    for arguments, tracer in Context.shared.items():
        tracer.stop()
        t.check_stream(tracer)
        recorded = Counter((v["tid"], v["comm"]) for line in tracer.all("oom") for v in line["victims"])
        name = " ".join(arguments)
        t.equal(f"victims recorded more often than the kernel named them with {name}", named(recorded - said), [])
    whole = next((tracer for arguments, tracer in Context.shared.items() if arguments[0] == "--cgroup"), None)
    if whole and not Context.ended:  # else what came between two of them is missing, and that is told above
        recorded = Counter((v["tid"], v["comm"]) for line in whole.all("oom") for v in line["victims"])
        seen = Counter((tid, comm.decode(errors="backslashreplace")) for tid, comm in Scene.scenes)
        t.equal("victims not recorded", named(seen - recorded), [])
