"""Programs with one line that grows: blame names the process and the line, and how much it was."""

import json
import os
import pathlib
import re
import signal
import subprocess

import lib
from lib import MiB, case

PYTHON = "/usr/bin/python3"
GROWTH = 64 * MiB


def blamed(t, scope, child, go=True):
    """(the object of blame --json, what the child said of its growth)."""
    blame = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "60s", *map(str, scope)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.later(blame.kill)
    line = blame.stderr.readline().decode()
    if "watching" not in line:
        raise lib.Failed(f"blame said {line!r}{blame.stderr.read().decode()!r}")
    if go:
        child.go()
    grown = child.wait_for("grown", timeout=30)
    blame.send_signal(signal.SIGINT)
    out, errors = blame.communicate(timeout=lib.seconds(20))
    t.equal("exit code of blame", blame.returncode, 0)
    return json.loads(out), grown


def judge(t, report, grown, is_culprit, what):
    """Right process, right line on top, its bytes within 15 %."""
    top = report["processes"][0]
    t.equal("process on top", top["process"]["pid"], grown["pid"])
    if not top["sites"]:
        raise lib.Failed("no stack was seen")
    sums = {}
    for site in top["sites"]:
        frame = next((f for f in reversed(site["stack"]) if is_culprit(f)), None)
        key = what if frame else json.dumps(site["culprit"])
        sums[key] = sums.get(key, 0) + site["grown_bytes"]
    best = max(sums, key=sums.get)
    t.equal("what is on top", best, what)
    ratio = sums.get(what, 0) / grown["bytes"]
    t.check(0.85 <= ratio <= 1.15, f"{what} is said to hold {ratio:.3f} of what it does, {grown['bytes']} bytes")
    # The top stack's own culprit, as a person sees it, is that line too.
    t.check(is_culprit(top["sites"][0]["culprit"]), f"the culprit shown is {top['sites'][0]['culprit']}")


def python_case(kind, growth=GROWTH, scope_by_cgroup=False, python=PYTHON):
    def run(t):
        script = t.workload("leaks.py")
        if kind in ("numpy", "torch") and subprocess.run([python, "-c", f"import {kind}"], capture_output=True).returncode:
            t.skip(f"{python} has no {kind}")
        lines = script.read_text().splitlines()
        line = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# culprit {kind}"))
        group = t.cgroup() if scope_by_cgroup else None
        child = t.start(group, python, script, kind, growth)
        child.wait_for("ready", timeout=20)
        scope = ("--cgroup", group.path) if group else ("--pid", child.pid)
        report, grown = blamed(t, scope, child)
        judge(t, report, grown, lambda f: f["kind"] == "python" and f["line"] == line and f["file"] == str(script),
              f"line {line}")
    run.__name__ = f"python_{kind}"
    case(vm="never", limit_s=90)(run)


def native_case(kind, program, function=None):
    def run(t):
        child = t.start(None, program, kind, GROWTH)
        child.wait_for("ready")
        report, grown = blamed(t, ("--pid", child.pid), child)
        name = function or f"culprit_{kind}"
        judge(t, report, grown, lambda f: f["kind"] == "native" and re.search(rf"\b{name}\b", f["function"] or ""), name)
    run.__name__ = f"native_{kind}_{'without' if program.endswith('omit') else 'with'}_frame_pointers"
    case(vm="never", limit_s=60)(run)


for kind in ("list", "dict", "closure", "cache", "small", "thread", "ctypes", "mmap", "shm", "numpy", "torch", "generator"):
    python_case(kind)
python_case("child", 32 * MiB, scope_by_cgroup=True)
for kind in ("malloc", "mmap", "huge", "method", "thread", "churn"):
    native_case(kind, "leaks_omit", {"method": "Cache::culprit_method", "churn": "culprit_malloc"}.get(kind))
native_case("malloc", "leaks_keep")
