"""Programs with one line that grows: blame names the process and the line, and how much it was."""

import contextlib
import ctypes
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import lib
from lib import MiB, case

PYTHON = "/usr/bin/python3"
GROWTH = 64 * MiB
STEP, MOST_GROWTH = MiB // 2, 160 * MiB


def blamed(t, scope, child, go=True, more=("--json",), meanwhile=lambda pid: None, **options):
    """(what blame wrote to stdout, an object with --json; what the child said of its growth)."""
    lib.wait_until(lib.calm, 60)
    blame = subprocess.Popen([t.oomcast_path, "blame", "--for", "60s", *map(str, (*more, *scope))],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    t.later(blame.kill)
    said = ""
    while "watching" not in said:
        line = blame.stderr.readline().decode()
        if not line:
            raise lib.Failed(f"blame said {said!r}")
        said += line
    meanwhile(blame.pid)
    if go:
        child.go()
    grown = child.wait_for("grown", timeout=30)
    blame.send_signal(signal.SIGINT)
    out, errors = blame.communicate(timeout=lib.seconds(20))
    # An emulated machine beside others may not read its files in the time that a reader has, up to the end.
    late = lib.VM and blame.returncode == 1 and b"could not be looked at" in errors
    t.premise(not late, f"this machine was too slow for a process to be read: {lib.one_line(errors.decode()[-200:])}")
    if blame.returncode != 0:
        raise lib.Failed(f"blame ended with {blame.returncode}: {lib.one_line((said + errors.decode())[-500:])}")
    return (json.loads(out) if "--json" in more else out), grown


def premise_of_budget(t, report, right):
    """What other programs fault counts against the budget of the machine, and is not seen of ours."""
    t.premise(right or report["watched_share"] == 1, f"other programs spend the budget of faults: "
              f"{report['watched_share']:.2f} of the time was watched")


def judge(t, report, grown, is_culprit, what, beyond_budget=False, moved=0):
    """Right process, right line on top, its bytes within 15 %. `beyond_budget`: it alone faults more than that has.
    `moved`: bytes of it that realloc() moves with their pages, which may be told as unseen, but as nobody else's."""
    top = report["processes"][0]
    t.equal("process on top", top["process"]["pid"], grown["pid"])
    t.check(top["process"]["cgroup"] and top["process"]["cgroup"]["path"], "its cgroup is not told")
    if not top["sites"]:
        premise_of_budget(t, report, False)
        raise lib.Failed("no stack was seen")
    sums = {}
    for site in top["sites"]:
        frame = next((f for f in reversed(site["stack"]) if is_culprit(f)), None)
        key = what if frame else json.dumps(site["culprit"])
        sums[key] = sums.get(key, 0) + site["grown_bytes"]
    best = max(sums, key=sums.get)
    t.equal("what is on top", best, what)
    ratio = (sums.get(what, 0) + min(top["unseen_bytes"], moved)) / grown["bytes"]
    right = 0.85 <= ratio <= 1.15
    if not beyond_budget:
        premise_of_budget(t, report, right)
    t.check(right, f"{what} is said to hold {ratio:.3f} of what it does, {grown['bytes']} bytes")
    # The top stack's own culprit, as a person sees it, is that line too.
    t.check(is_culprit(top["sites"][0]["culprit"]), f"the culprit shown is {top['sites'][0]['culprit']}")


def judge_holder(t, report, path):
    """Who holds what stays, and that the line on top leads there."""
    top = report["processes"][0]
    t.check(top["holders"], f"no container is said to have grown: {top['holders']}")
    t.equal("who holds most", top["holders"][0]["path"], path)
    if top["holders"][0]["kept_blocks"] >= 5:
        t.equal("who holds what the line on top keeps", top["sites"][0]["held_by"], path)


# What leaks.py's kinds are held by, as it would write it.
HELD_BY = {"list": "kept in __main__", "dict": "table in __main__", "closure": "kept in __main__",
           "cache": "load_once.<dict> in __main__", "small": "kept in __main__", "thread": "kept in __main__",
           "numpy": "kept in __main__", "generator": "kept in __main__"}
# One of each way to see growth; the others differ in user space only. Native: without frame pointers.
IN_GATE = {"python": ("list", "child", "mmap"), "native": ("malloc", "huge", "churn", "hole")}


def python_case(kind, growth=GROWTH, scope_by_cgroup=False, python=PYTHON):
    def run(t):
        script = t.workload("leaks.py")
        if kind in ("numpy", "torch") and subprocess.run([python, "-c", f"import {kind}"], capture_output=True).returncode:
            t.skip(f"{python} has no {kind}")
        if kind == "small":  # no blocks of the allocator's
            t.needs_data_breakpoints()
        lines = script.read_text().splitlines()
        line = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# culprit {kind}"))
        group = t.cgroup() if scope_by_cgroup else None
        child = t.start(group, python, script, kind, growth)
        child.wait_for("ready", timeout=20)
        scope = ("--cgroup", group.path) if group else ("--pid", child.pid)
        report, grown = blamed(t, scope, child)
        if kind == "torch":  # what each step frees leaves holes around what it keeps, which is no line's
            holes = report["processes"][0]["free_in_heap_bytes"] + growth
            t.check(0.85 <= holes / grown["bytes"] <= 1.15, f"{holes} bytes kept or free of {grown['bytes']}")
            grown["bytes"] = growth
        moved = growth // 4 if kind == "small" else 0  # the list of its floats: 8 bytes of 32 for each
        judge(t, report, grown, lambda f: f["kind"] == "python" and f["line"] == line and f["file"] == str(script),
              f"line {line}", moved=moved)
        if kind in HELD_BY:
            judge_holder(t, report, HELD_BY[kind])
    run.__name__ = f"python_{kind}"
    case(vm="never", limit_s=90, tier="gate" if kind in IN_GATE["python"] else "full")(run)


def native_case(kind, program, function=None):
    def run(t):
        child = t.start(None, program, kind, GROWTH)
        child.wait_for("ready")
        report, grown = blamed(t, ("--pid", child.pid), child)
        name = function or f"culprit_{kind}"
        judge(t, report, grown,
              lambda f: f["kind"] == "native" and re.search(rf"\b{name}\b", f["function"] or ""), name,
              beyond_budget=kind == "churn")
        if kind == "churn":
            t.premise(report["watched_share"] < 1, "half a million faults are within the budget on this machine")
    run.__name__ = f"native_{kind}_{'without' if program.endswith('omit') else 'with'}_frame_pointers"
    gate = program == "leaks_omit" and kind in IN_GATE["native"]
    case(vm="never", limit_s=60, tier="gate" if gate else "full")(run)


# Of each kernel, which may refuse page faults and breakpoints; how much it was tells a machine with true timing.
def shows_the_line(t, child, is_culprit):
    """Grows until blame has ended: of a process that an emulated machine beside others is too slow for, blame begins
    anew, and what grew before that is not seen."""
    child.wait_for("ready", timeout=20)
    # A look has 50 ms. Where the emulator itself waits for a CPU of the host's, none of four may end in them.
    lib.wait_until(t.pulse.steady, 10)
    blame = subprocess.Popen([t.oomcast_path, "blame", "--for", "5s", "--json", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.later(blame.kill)
    reports, said = lib.Lines(blame.stdout, json.loads), lib.Lines(blame.stderr, bytes.decode)
    # The first looks, which read its libraries, have the CPU for themselves.
    said.wait(lambda: any("watching" in line for line in said.items), lib.seconds(20))
    for _ in range(MOST_GROWTH // STEP):
        child.go(STEP // (64 << 10))
        with contextlib.suppress(subprocess.TimeoutExpired):
            blame.wait(0.1)
            break
    blame.wait(lib.seconds(20))
    reports.join(lib.seconds(5))
    said.join(lib.seconds(5))
    t.equal(f"blame's exit code, which says {lib.one_line(''.join(said.items)[-500:])}", blame.returncode, 0)
    report = reports.items[0]
    t.check(not report["no_stacks"], f"no stacks: {report['no_stacks']}")
    process = report["processes"][0]
    t.equal("process on top", process["process"]["pid"], child.pid)
    # It may not read its files in the time that a reader has: then it says so.
    unread = lib.VM and any(f"[{child.pid}]" in who for who in report["unread"])
    t.premise(process["sites"] and not unread, f"this machine was too slow for stacks to be read, {report['samples']} "
              f"were seen, {report['watched_share']} of the time; not looked at: {report['unread']}")
    top = process["sites"][0]["culprit"]
    t.check(top and is_culprit(top), f"the line on top is {top}; not looked at: {report['unread']}")


@case(limit_s=60, tier="gate", kernel=True)
def a_kernel_shows_the_line_that_grows(t):
    shows_the_line(t, t.start(None, "leaks_omit", "malloc", 0), lambda f: "culprit_malloc" in (f["function"] or ""))


@case(vm="v2", limit_s=90)
def a_kernel_shows_the_python_line_that_grows(t):
    script = t.workload("leaks.py")
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# culprit list"))
    shows_the_line(t, t.start(None, PYTHON, script, "list", 0), lambda f: f["line"] == line)


ADDS_SMALL = """import time
kept = []
def step(n):
    words = [str(n) + str(i) for i in range(50)]
    return len(words)
def keep(n):
    kept.append({"n": n * 1.5})
print('{"event": "ready"}', flush=True)
n = 0
while True:
    for _ in range(20):
        n += 1
        step(n)
        keep(n)
    time.sleep(.01)
"""


@case(vm="v2", limit_s=90)
def a_kernel_shows_who_adds_to_a_container(t):
    t.needs_data_breakpoints()
    child = t.start(None, PYTHON, "-c", ADDS_SMALL)
    child.wait_for("ready", timeout=30)
    blame = subprocess.Popen([t.oomcast_path, "blame", "--for", "8s", "--json", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    t.later(blame.kill)
    out, _ = blame.communicate(timeout=lib.seconds(40))
    t.equal("exit code", blame.returncode, 0)
    process = json.loads(out)["processes"][0]
    t.premise(process["holders"], f"this machine was too slow for its objects to be read: {process['holders']}")
    t.equal("why nobody watched who adds", process["additions_unknown"], None)
    holder = process["holders"][0]
    t.equal("who holds", holder["path"], "kept in __main__")
    t.check(holder["additions"], "nobody was seen to add to it")
    top = holder["additions"][0]["culprit"]
    t.equal("who adds", (top["function"], top["line"]), ("keep", 7))


@case(limit_s=60, tier="gate")
def without_data_breakpoints_blame_says_that_the_line_that_adds_is_not_known(t):
    child = t.start(None, PYTHON, "-c", ADDS_SMALL)
    child.wait_for("ready", timeout=30)
    holder = "kept in __main__"
    lib.wait_until(lib.calm, 60)

    def blame(*arguments):
        code, out, errors = t.run_oomcast("blame", "--for", "4s", "--pid", child.pid, *arguments,
                                          "--test-without-data-breakpoints", timeout=40)
        t.equal(f"blame's exit code, which says {lib.one_line(errors[-500:])}", code, 0)
        return out
    process = json.loads(blame("--json"))["processes"][0]
    t.premise(process["holders"], f"this machine was too slow for its objects to be read: {process['holders']}")
    t.check("do not fire" in (process["additions_unknown"] or ""), f"additions_unknown is {process['additions_unknown']}")
    t.equal("who holds", process["holders"][0]["path"], holder)
    t.equal("who was seen to add", [each["additions"] for each in process["holders"] if each["additions"]], [])
    small = [site for site in process["sites"] if site["small_objects"]]
    t.equal("who holds small objects", [site["held_by"] for site in small], [holder])
    t.equal("lines that they are of", [site["culprit"]["line"] for site in small if site["culprit"]], [None])
    t.equal("sites that are said to add", [site["stack"] for site in process["sites"] if site["adds"]], [])
    text = blame()
    t.check(f"held by {holder}" in text and "added by a line that is not known (see below)" in text, text)
    t.check("is not known: hardware breakpoints do not fire on this machine" in text, text)


@case(limit_s=60, tier="gate")
def the_doctor_tries_what_opens_and_may_not_fire(t):
    def row(*arguments, what="hardware breakpoints"):
        _, out, _ = t.run_oomcast("doctor", "--json", *arguments)
        return next(f for f in json.loads(out)["findings"] if f["what"] == what)
    tried = t.start(None, "data_breakpoint").wait_for("tried")
    fire = tried["seen"] == tried["writes"] and not lib.WITHOUT
    here = row()
    t.equal(f"its word where {tried['seen']} of {tried['writes']} writes are seen", here["state"], "ok" if fire else "degraded")
    t.equal("whether it says what is lost", here["cost"] is None, fire)
    without = row("--test-without-data-breakpoints")
    t.equal("its word where they never fire", without["state"], "degraded")
    t.check("do not fire" in without["detail"] and "container" in without["cost"],
            f"it says {without}")
    blind = row("--test-without-page-faults", what="blame")
    t.check(blind["state"] == "degraded" and "does not fire" in blind["detail"], f"of page-fault events it says {blind}")


@case(limit_s=60, tier="gate")
def of_the_whole_machine_who_looks_is_nobody(t):
    looks = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "2s"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    t.later(looks.kill)
    out, _ = looks.communicate(timeout=40)
    t.equal("exit code", looks.returncode, 0)
    own = [p["process"] for p in json.loads(out)["processes"] if looks.pid in (p["process"]["pid"], p["process"]["ppid"])]
    t.equal("processes of its own that it tells of", own, [])


GENERATORS = """import time
def rows(n):
    yield n
    yield n + 1
cursors = []
print('{"event": "ready"}', flush=True)
while True:
    for n in range(150):
        cursors.append(rows(n))
        next(cursors[-1])
    time.sleep(.01)
"""


@case(limit_s=60, tier="gate")
def what_a_list_of_generators_holds_is_no_more_than_there_is(t):
    child = t.start(None, PYTHON, "-c", GENERATORS)
    child.wait_for("ready")
    code, out, err = t.run_oomcast("blame", "--json", "--for", "3s", "--pid", child.pid, timeout=40)
    t.equal(f"exit code ({err})", code, 0)
    process = json.loads(out)["processes"][0]
    t.premise(process["holders_cut"] is False, "this machine had no time for the program's objects")
    held = {h["path"]: h["bytes_at_least"] for h in process["holders"]}
    t.check(any("cursors" in path for path in held), f"holders are {held}")
    t.check(all(size <= 1 << 30 for size in held.values()), f"it has a few tens of MiB: {held}")


INSTANCES = """import os, time
class Record:
    def __init__(self):
        self.data = os.urandom(30000)  # culprit
kept = []
print('{"event": "ready"}', flush=True)
while True:
    kept.append(Record())
    time.sleep(.004)
"""


@case(limit_s=60, tier="gate")
def a_list_holds_what_attributes_of_its_objects_lead_to(t):
    script = t.folder() / "instances.py"
    script.write_text(INSTANCES)
    child = t.start(None, PYTHON, script)
    child.wait_for("ready")
    code, out, err = t.run_oomcast("blame", "--json", "--for", "3s", "--pid", child.pid, timeout=40)
    t.equal(f"exit code ({err})", code, 0)
    top = json.loads(out)["processes"][0]
    line = INSTANCES.splitlines().index("        self.data = os.urandom(30000)  # culprit") + 1
    t.equal("line on top", top["sites"][0]["culprit"]["line"], line)
    t.equal("who holds what it keeps", top["sites"][0]["held_by"], "kept in __main__")


# 160 MiB in 16 s.
GROWS = """import time
kept = []
def culprit():
    kept.append(bytearray(1 << 20))
while len(kept) < 160:
    culprit()
    time.sleep(.1)
time.sleep(60)
"""


@case(limit_s=60, tier="gate")
def in_a_pid_namespace_lines_are_told_by_its_own_numbers(t):
    script = t.folder() / "grows.py"
    script.write_text(GROWS)
    inside = f'{PYTHON} {script} & "$0" blame --json --for 4s --pid $!; status=$?; kill -9 $!; exit $status'
    ran = subprocess.run(["unshare", "-p", "-f", "--mount-proc", "sh", "-c", inside, t.oomcast_path],
                         capture_output=True, timeout=lib.seconds(50))
    t.equal(f"blame's exit code, which says {lib.one_line(ran.stderr.decode()[-500:])}", ran.returncode, 0)
    report = json.loads(ran.stdout)
    process = report["processes"][0]
    t.check(1 < process["process"]["pid"] < 9, f"its number is {process['process']['pid']}, in a namespace of four")
    unread = lib.VM and report["unread"]
    t.premise(process["sites"] and not unread, f"this machine was too slow for stacks to be read, {report['samples']} "
              f"were seen, {report['watched_share']} of the time; not looked at: {report['unread']}")
    top = process["sites"][0]
    t.equal("line on top", (top["culprit"] or {}).get("line"), 4)
    premise_of_budget(t, report, top["grown_bytes"] >= process["grown_bytes"] / 2)
    t.check(top["grown_bytes"] >= process["grown_bytes"] / 2, f"it has {top['grown_bytes']} of {process['grown_bytes']}")


for kind in ("list", "dict", "closure", "cache", "small", "thread", "ctypes", "mmap", "shm", "numpy", "torch", "generator"):
    python_case(kind)
python_case("child", 32 * MiB, scope_by_cgroup=True)
for kind in ("malloc", "mmap", "huge", "method", "thread", "churn", "returns", "hole", "realloc"):
    native_case(kind, "leaks_omit", {"method": "Cache::culprit_method", "churn": "culprit_malloc", "returns": "culprit_malloc",
                                      "hole": "culprit_malloc"}.get(kind))
native_case("malloc", "leaks_keep")


@case(vm="never", limit_s=60)
def a_stack_that_is_shorter_than_a_piece_of_it_is_read_whole(t):
    # Without an environment and without a random distance a few hundred bytes lie below the function that grows.
    child = t.start(None, "/usr/bin/env", "-i", "/usr/bin/setarch", "-R", t.workload("leaks_omit"), "malloc", GROWTH)
    child.wait_for("ready")
    report, grown = blamed(t, ("--pid", child.pid), child)
    judge(t, report, grown, lambda f: f["kind"] == "native" and f["function"] == "culprit_malloc", "culprit_malloc")


def grown_sites(report):
    return {(s["culprit"] or {}).get("function"): s["grown_bytes"] for p in report["processes"] for s in p["sites"]}


@case(vm="never", limit_s=60)
def growth_without_faults_is_told_as_unseen(t):
    child = t.start(None, "leaks_omit", "populate", GROWTH)
    child.wait_for("ready")
    report, grown = blamed(t, ("--pid", child.pid), child)
    top = report["processes"][0]
    ratio = top["unseen_bytes"] / grown["bytes"]
    premise_of_budget(t, report, 0.85 <= ratio <= 1.15)  # else it cannot be told from what nobody saw
    t.check(0.85 <= ratio <= 1.15, f"{ratio:.3f} of what MAP_POPULATE brought is told as unseen: {grown_sites(report)}")


@case(vm="never", limit_s=60)
def what_is_written_to_tmpfs_is_the_difference_to_the_cgroup(t):
    group = t.cgroup()
    child = t.start(group, "leaks_omit", "tmpfs", GROWTH)
    child.wait_for("ready")
    report, grown = blamed(t, ("--cgroup", group.path), child)
    ratio = (report["cgroup_grown_bytes"] - report["grown_bytes"]) / grown["bytes"]
    t.check(0.85 <= ratio <= 1.15, f"the cgroup grew by {ratio:.3f} of it more than its processes")


@case(vm="v2", limit_s=60)
def huge_pages_of_the_pool_are_told_beside_what_counters_have(t):
    t.need_vm("it takes memory for a pool")
    pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if not pool.exists():
        t.skip("this kernel has no huge pages of a pool")
    before = pool.read_text()
    t.later(pool.write_text, before)
    # In a machine that has run for long there may be few places for such a page.
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    pathlib.Path("/proc/sys/vm/compact_memory").write_text("1")
    pool.write_text(str(int(before) + GROWTH // (2 * MiB)))
    pages = int(pool.read_text()) - int(before)
    if pages < 4:
        t.skip(f"memory is in too small pieces: a pool of {pages} huge pages")
    child = t.start(None, "leaks_omit", "hugetlb", pages * 2 * MiB)
    child.wait_for("ready")
    report, grown = blamed(t, ("--pid", child.pid), child)
    top = report["processes"][0]
    t.equal("the process and its huge pages", (top["process"]["pid"], top["grown_hugetlb_bytes"]), (child.pid, grown["bytes"]))
    t.check(abs(report["grown_bytes"]) < 4 * MiB, f"{report['grown_bytes']} bytes are said to have grown beside")


def fields_of(message):
    """[(field, int or bytes)] of a protocol buffer."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not message[at - 1] & 128:
                return value, at
    at, out = 0, []
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 2:
            size, at = varint(at)
            value, at = message[at:at + size], at + size
        else:
            raise lib.Failed(f"wire type {key & 7} is not of profile.proto")
        out.append((key >> 3, value))
    return out


def numbers(packed):
    return [value for _, value in fields_of(b"".join(b"\x08" + piece for piece in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", packed)))]


def read_pprof(data):
    """[({name of kind: value}, [(function, file, line)], innermost first)]"""
    profile = fields_of(gzip.decompress(data))
    every = lambda field: [value for number, value in profile if number == field]  # noqa: E731
    strings = [value.decode() for value in every(6)]
    kinds = [strings[dict(fields_of(kind))[1]] for kind in every(1)]
    functions = {f[1]: (strings[f[2]], strings[f[4]]) for f in (dict(fields_of(each)) for each in every(5))}
    locations = {}
    for each in map(dict, map(fields_of, every(4))):
        line = dict(fields_of(each[4]))
        locations[each[1]] = (*functions[line[1]], line.get(2))
    out = []
    for sample in map(fields_of, every(2)):
        first = dict(reversed(sample))
        out.append((dict(zip(kinds, numbers(first[2]))), [locations[i] for i in numbers(first[1])]))
    return out


@case(vm="never", limit_s=90, tier="gate")
def pprof_and_html_hold_what_grew_and_rights_are_dropped(t):
    script = t.workload("leaks.py")
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# culprit list"))
    rights = []

    def note_rights(pid):
        def effective():
            return int(re.search(r"CapEff:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1], 16)
        lib.wait_until(lambda: not effective() >> 21 & 1, 5)
        rights.append(effective())
    folder = t.folder()
    for form in ("pprof", "html"):
        child = t.start(None, PYTHON, script, "list", GROWTH)
        child.wait_for("ready", timeout=20)
        file = folder / f"out.{form}"
        out, grown = blamed(t, ("--pid", child.pid), child, more=("--format", form, "-o", file), meanwhile=note_rights)
        t.equal("stdout", out, b"")
        t.equal("mode of the file", oct(file.stat().st_mode & 0o777), "0o640")
        child.end()
        if form == "pprof":
            sums, objects = {}, {}
            for values, frames in read_pprof(file.read_bytes()):
                on_top = next((f for f in frames if f[1] == str(script)), None)
                sums[on_top] = sums.get(on_top, 0) + values["inuse_space"]
                objects[on_top] = objects.get(on_top, 0) + values["inuse_objects"]
            best = max(sums, key=sums.get)
            t.equal("line on top", best, ("leak_list.<locals>.keep" if best and "." in best[0] else "keep", str(script), line))
            ratio = sums[best] / grown["bytes"]
            spent = b"of the time was watched" in gzip.decompress(file.read_bytes())
            t.premise(0.85 <= ratio <= 1.15 or not spent, "other programs spend the budget of faults")
            t.check(0.85 <= ratio <= 1.15, f"{ratio:.3f} of the growth is in the profile")
            blocks = objects[best] * (64 << 10) / grown["bytes"]  # 0: its allocator could not be watched
            t.check(not blocks or 0.7 <= blocks <= 1.3, f"{blocks:.3f} of its blocks are in the profile")
        else:
            text = file.read_text()
            t.check(text.startswith("<!doctype html>") and f"{script}:{line}" in text, "the page does not hold the line")
    CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_DAC_OVERRIDE = 21, 12, 1
    for cap in (CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_DAC_OVERRIDE):
        t.check(not any(r >> cap & 1 for r in rights), f"capability {cap} is kept while it watches")


@case(vm="never", limit_s=60)
def two_moments_differ_by_what_grew_faster(t):
    folder = t.folder()
    reports, watched = [], []
    for size in (16 * MiB, 64 * MiB):
        child = t.start(None, "leaks_keep", "malloc", size)
        child.wait_for("ready")
        report, _ = blamed(t, ("--pid", child.pid), child)
        child.end()
        watched.append(report["watched_share"])
        report["window_s"] = 10.0  # how long the program was waited for is not what is tested
        reports.append(folder / f"{size}.json")
        reports[-1].write_text(json.dumps(report))
    code, out, errors = t.run_oomcast("blame", "--diff", *reports, "--json")
    t.equal("exit code", code, 0)
    top = json.loads(out)["sites"][0]
    t.equal("function that grew faster", top["culprit"]["function"], "culprit_malloc")
    ratio = json.loads(out)["difference_bytes_per_s"] * 10 / (48 * MiB)
    premise_of_budget(t, {"watched_share": min(watched)}, 0.85 <= ratio <= 1.15)
    t.check(0.85 <= ratio <= 1.15, f"the difference is {ratio:.3f} of the truth")
    code, out, errors = t.run_oomcast("blame", "--diff", reports[0], "/etc/passwd")
    t.check(code == 1 and "/etc/passwd" in errors, f"exit {code}: {errors}")


def refuse_perf_events():
    """For this process and what it executes, as a container's seccomp policy does."""
    perf_event_open, allow, refuse = 298, 0x7fff0000, 0x00050000 | 1
    code = b"".join(struct.pack("HBBI", *each) for each in
                    ((0x20, 0, 0, 0), (0x15, 0, 1, perf_event_open), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)))
    buffer = ctypes.create_string_buffer(code)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(4, ctypes.cast(buffer, ctypes.c_void_p))
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        os._exit(99)


@case(vm="never", limit_s=60)
def without_perf_events_the_process_that_grows_is_still_named(t):
    child = t.start(None, "leaks_keep", "malloc", GROWTH)
    child.wait_for("ready")
    report, grown = blamed(t, ("--pid", child.pid), child, preexec_fn=refuse_perf_events)
    t.check("page-fault event" in (report["no_stacks"] or ""), f"no_stacks is {report['no_stacks']}")
    top = report["processes"][0]
    t.equal("process on top", top["process"]["pid"], grown["pid"])
    t.check(0.85 <= top["grown_bytes"] / grown["bytes"] <= 1.15, f"it grew by {top['grown_bytes']}, not {grown['bytes']}")
    code, _, errors = t.run_oomcast("blame", "--pid", child.pid, "--format", "folded", preexec_fn=refuse_perf_events)
    t.equal("exit code where only stacks were asked for", code, 3)
    code, out, _ = t.run_oomcast("doctor", "--json", preexec_fn=refuse_perf_events)
    row = next(f for f in json.loads(out)["findings"] if f["what"] == "blame")
    t.equal("doctor's word on blame", row["state"], "degraded")


@case(vm="never", limit_s=60)
def heaptrack_names_the_same_function(t):
    if not shutil.which("heaptrack"):
        t.skip("heaptrack is not installed (scripts/setup --bench)")
    child = t.start(None, "leaks_keep", "method", GROWTH)
    child.wait_for("ready")
    report, grown = blamed(t, ("--pid", child.pid), child)
    ours = report["processes"][0]["sites"][0]["stack"]
    file = t.folder() / "out"
    subprocess.run(["heaptrack", "-o", file, t.workload("leaks_keep"), "method", str(GROWTH), "end"], input=b"x",
                   capture_output=True, timeout=lib.seconds(40), check=True)
    printed = subprocess.run(["heaptrack_print", f"{file}.zst"], capture_output=True, text=True,
                             timeout=lib.seconds(40), check=True).stdout
    theirs = re.search(r"culprit_\w+", printed[printed.index("PEAK MEMORY CONSUMERS"):])
    t.check(theirs, "heaptrack names no culprit")
    t.check(any(theirs[0] in (f["function"] or "") for f in ours), f"heaptrack: {theirs[0]}, blame: {ours[-6:]}")


TRACEMALLOC = """
import runpy, sys, threading, tracemalloc
def end(self, timeout=None):
    top = tracemalloc.take_snapshot().statistics("lineno")[0]
    print("top", top.traceback[0].lineno, flush=True)
    raise SystemExit
threading.Event.wait = end
sys.argv = sys.argv[1:]
tracemalloc.start()
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@case(vm="never", limit_s=90)
def tracemalloc_names_the_same_line(t):
    script = t.workload("leaks.py")
    for kind in ("cache", "dict"):
        child = t.start(None, PYTHON, script, kind, GROWTH)
        child.wait_for("ready", timeout=20)
        report, grown = blamed(t, ("--pid", child.pid), child)
        child.end()
        ours = report["processes"][0]["sites"][0]["culprit"]["line"]
        out = subprocess.run([PYTHON, "-c", TRACEMALLOC, script, kind, str(GROWTH)], input=b"x", capture_output=True,
                             timeout=lib.seconds(60)).stdout.decode()
        t.equal(f"line of {kind}, by tracemalloc and by blame", f"top {ours}", next(l for l in out.splitlines() if l.startswith("top")))
