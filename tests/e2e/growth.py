"""What a kill's line and its report say of where memory came from, and how sure they are: what was kept or is held by
its part, what was only touched as that."""

import json
import pathlib

import lib
from kills import Scene
from lib import MiB, case
from report import complete, scene_with_store

WORKLOADS = pathlib.Path(__file__).parent.parent / "workloads"


def line_of(script, mark):
    return next(n for n, text in enumerate(script.read_text().splitlines(), 1) if mark in text)


@case(vm="never", limit_s=120, timing=True)
def a_temporary_that_touches_pages_is_not_told_to_have_grown(t):
    """Its line is where new pages are touched first; the container that holds what stays is the answer."""
    group = t.cgroup_apart().limit(256 * MiB)
    scene: Scene = scene_with_store(t, group=group)
    script = WORKLOADS / "tracebacks.py"
    temporary = f"job (tracebacks.py:{line_of(script, '# temporary')})"
    t.needs_memory(640 * MiB)
    t.premise(lib.wait_until(lib.calm, 30), "processes of this machine wait for memory")
    child = t.start(group, "/usr/bin/python3", script, t.folder() / "truth")
    t.killed(child, 90)
    scene.wait(1)
    episode = scene.episodes()[0]
    post = complete(t, scene)
    sites = [{key: site[key] for key in ("at", "basis", "share", "kept_unknown")} for site in episode["grew_from"]]
    t.premise(sites, f"no profile had ended when it was killed: {lib.shortened(json.dumps(episode))}")
    for told in (episode, post["oom"]):
        for site in told["grew_from"]:
            if site["at"] == temporary:
                t.equal("what the temporary's line rests on", site["basis"], "touched")
                t.equal("its part of the growth", site["share"], None)
        held = {holder["path"] for holder in told["holders"]} | {site["held_by"] for site in told["grew_from"]}
        t.check("supervisor.failures in __main__" in held, f"nothing says who holds it: {sites}, {held}")
    words = " ".join(" ".join([f["text"], *f["because"]]) for f in post["findings"])
    t.check(f"grew in {temporary}" not in words, f"the temporary is told to have grown: {words}")
    t.check("supervisor.failures in __main__" in words, f"the report does not say who holds it: {words}")
