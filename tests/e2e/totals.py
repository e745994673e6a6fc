"""After all other cases: the long-lived streams, as a whole."""

from kills import Scene
from lib import Context, case


@case(vm="all")
def every_kill_was_recorded_once(t):
    if not Context.shared:
        t.skip("no case used a long-lived stream")
    t.log.sync(1)
    said = {(line.tid, line.comm.decode(errors="backslashreplace")) for line in t.log.kills}
    for arguments, tracer in Context.shared.items():
        tracer.stop()
        t.check_stream(tracer)
        recorded = [(v["tid"], v["comm"]) for line in tracer.all("oom") for v in line["victims"]]
        name = " ".join(arguments)
        t.equal(f"victims recorded twice with {name}", sorted({v for v in recorded if recorded.count(v) > 1}), [])
        t.equal(f"victims the kernel did not name with {name}", sorted(set(recorded) - said), [])
        t.equal(f"log overruns of the witness", t.log.overrun, 0)
    whole = next((tracer for arguments, tracer in Context.shared.items() if arguments[0] == "--cgroup"), None)
    if whole:
        recorded = {(v["tid"], v["comm"]) for line in whole.all("oom") for v in line["victims"]}
        missing = {(tid, comm.decode(errors="backslashreplace")) for tid, comm in Scene.scenes} - recorded
        t.equal("victims not recorded", sorted(missing), [])
