"""`oomcast report`: what it says of real kills, against the kernel log, the cgroup's files and the workload's own word."""

import contextlib
import json
import os
import pathlib
import re
import signal
import sqlite3
import time

import containers
import lib
import witness
from kills import FIGURES, Scene
from lib import MiB, case

SIZE = re.compile(r"[\d.]+ [KMGT]iB")


def scene_with_store(t, whole_machine=False, group=None):
    # One oomcast: of two on one store, the first to tell of a kill is the one whose clock the store has.
    store = t.folder() / "store"
    scope = () if whole_machine else ("--cgroup", (group or lib.base()).path)
    scene = Scene(t, tracer=t.trace("--store", store, *scope))
    scene.store = store
    return scene


def report(t, scene, *arguments):
    code, out, err = t.run_oomcast("report", "--no-kmsg", "--store", scene.store, *arguments)
    t.equal(f"exit code of report {' '.join(arguments)}", code, 0)
    return out if code == 0 else (_ for _ in ()).throw(lib.Failed(f"report failed: {lib.one_line(err)}"))


def complete(t, scene, *arguments):
    """The JSON one, as soon as all of the last kill is in the store: a second after its line."""
    def stored():
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(
                sqlite3.connect(f"file:{scene.store}/oomcast.db?mode=ro", uri=True)) as db:
            which, names = ("WHERE name=?", arguments) if arguments else ("ORDER BY time_ns DESC LIMIT 1", ())
            return db.execute(f"SELECT complete FROM episodes {which}", names).fetchone() == (1,)
        return False
    since = time.monotonic()
    there, stall = lib.wait_until(stored, 3), t.pulse.longest_stall(since)
    t.premise(there or stall < 1, f"the machine stood still for {stall:.1f} s")
    t.check(there, "the kill is not complete in the store after 3 s")
    post = json.loads(report(t, scene, *arguments, "--format", "json"))
    t.equal("complete", post["complete"], True)
    return post


def kernel_lines():
    """The texts of the kernel's log."""
    lines = []
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            with contextlib.suppress(BrokenPipeError):
                lines.append(os.read(log, 16384).partition(b";")[2].split(b"\n")[0].decode(errors="replace"))
    except BlockingIOError:
        return lines
    finally:
        os.close(log)


def kernel_zones():
    """The zones of the newest report of a machine out of memory: free, min, low and high in bytes by node and name."""
    lines = kernel_lines()
    start = max((i for i, line in enumerate(lines) if " invoked oom-killer: " in line), default=0)
    zones = {}
    for line in lines[start:]:
        match = re.match(r"Node (\d+) (\w+) free:(\d+)kB .*?min:(\d+)kB low:(\d+)kB high:(\d+)kB", line)
        if match:
            zones.setdefault(f"{match[1]}/{match[2]}", [int(size) << 10 for size in match.groups()[2:]])
    return zones


def kernel_statistics(group):
    """The kernel's "Memory cgroup stats" of the newest report, as its log has it: a dictionary of bytes."""
    lines = kernel_lines()
    start = max((i for i, line in enumerate(lines) if line == f"Memory cgroup stats for {group.path}:"), default=None)
    if start is None:
        return None
    stats = {}
    for line in lines[start + 1:]:
        match = re.fullmatch(r"(\w+) (\d+)", line)
        if not match:
            break
        stats[match[1]] = int(match[2])
    return stats


def agrees(told, stored):
    """The store has what was told, and what was not known yet then."""
    if isinstance(told, dict) and isinstance(stored, dict):
        return set(told) == set(stored) and all(agrees(told[key], stored[key]) for key in told)
    if isinstance(told, list) and isinstance(stored, list):
        return len(told) == len(stored) and all(map(agrees, told, stored))
    return told is None or told == stored


def check_report(t, scene, limit, owner, victims, cause=None, culprit=None):
    """What holds for every report of one kill, in all formats; the JSON one."""
    kernel = scene.kernel_victims()
    post = complete(t, scene)
    told = next(line for line in reversed(scene.episodes()) if line["id"] == post["id"])
    t.equal("type and schema", [post["type"], post["schema"]], ["report", 1])
    for field in ("time", "scope", "limit_cgroup", "usage_bytes", "limit_bytes", "trigger", "gfp", "order", "group_kill",
                  "victims", "ancestors", "checks"):
        t.check(agrees(told[field], post["oom"][field]),
                f"oom.{field} is {lib.shortened(post['oom'][field])}, told {lib.shortened(told[field])}")
    t.equal("victims", sorted(v["pid"] for v in post["oom"]["victims"]), sorted(victims))
    for victim in post["oom"]["victims"]:
        lines = kernel.get(victim["pid"], [])
        t.check(any(all(victim[f] == getattr(line, f) for f in FIGURES) for line in lines),
                f"victim {victim['pid']} is not as in the kernel's line: {victim}")
        row = next((p for p in post["processes"] if p["process"]["pid"] == victim["pid"]), None)
        t.check(row and row["victim"] and row["anon_bytes"] == victim["anon_bytes"],
                f"the table says {row} of victim {victim['pid']}")
    if owner:
        t.equal("limit", [post["oom"]["limit_bytes"], post["oom"]["limit_cgroup"]["path"]], [limit, owner.path])
    stats = owner and kernel_statistics(owner)
    memory = post["memory"]
    if stats and "anon" in stats and t.check(memory and memory["source"] == "kernel_log", f"memory is {memory}"):
        t.equal("memory by kind", {k: memory[f"{k}_bytes"] for k in ("anon", "file", "shmem")},
                {"anon": stats["anon"], "file": stats["file"] - stats["shmem"], "shmem": stats["shmem"]})
        if "kernel" in stats:
            t.equal("kernel_bytes", memory["kernel_bytes"], stats["kernel"])
        t.equal("slab_bytes", memory["slab_bytes"], stats.get("slab"))
    if memory and memory["unattributed_bytes"] is not None:
        known = sum(memory[f"{k}_bytes"] or 0 for k in ("anon", "file", "shmem", "kernel", "unattributed"))
        t.check(known >= memory["usage_bytes"], f"the kinds do not add up to the usage: {memory}")
    if cause:
        t.equal("cause", post["cause"], cause)
    if culprit:
        got = post["culprit"]
        t.equal(f"culprit, of {len(post['processes'])} processes, {told['grew_most']}, lost {post['lost']}",
                got and [got["process"]["pid"], got["killed"]], [culprit, culprit in victims])
    curve = post["timeline"]["curves"][0] if post["timeline"]["curves"] else None
    if t.check(curve and curve["limit_owner"], "the first curve is not that of the limit's cgroup"):
        t.check(not owner or limit is None or all(v is None or v <= limit for v in curve["total_bytes"]),
                "the curve is above its limit")
    text, markdown = report(t, scene), report(t, scene, "--format", "md")
    lines = text.splitlines()
    wide = [line for line in lines if len(line) > 80 and "oomcast " not in line]
    t.check(not wide, f"wider than 80 columns: {wide[:2]}")
    t.check(len(lines) <= 60, f"the text has {len(lines)} lines")
    for heading in ("WHY", "WHAT WOULD HAVE PREVENTED IT"):
        t.check(heading in lines, f"no {heading} in the text")
    joined = re.sub(r"\s+", " ", text)
    for finding in [post["headline"], *(f["text"] for f in post["findings"] + post["prevention"])]:
        t.check(re.sub(r"\s+", " ", finding) in joined, f"not in the text: {finding}")
        t.check(SIZE.findall(finding) == [] or all(size in markdown for size in SIZE.findall(finding)),
                f"a size of it is not in the Markdown: {finding}")
    t.check("\x1b" not in text + markdown, "escape sequences on a pipe")
    return post


def killed(t, scene, child):
    t.killed(child, 30)
    scene.knows(child)
    scene.wait(1)


@case(vm="never", limit_s=60)
def a_leak_is_called_a_leak(t):
    scene = scene_with_store(t)
    group = t.cgroup().limit(96 * MiB)
    child = t.start(group, "grow", "--rate", "10M", "--anon", "128M")
    killed(t, scene, child)
    post = check_report(t, scene, group.limit_bytes, group, [child.pid], "leak", child.pid)
    said = [line for line in child.truth if line["event"] == "at"]
    t.check(abs(post["rise"]["to_bytes"] - said[-1]["held"]) < 3 * MiB, f"{post['rise']}, truly {said[-1]}")
    words = " ".join(f["text"] for f in post["findings"])
    t.check("It was foreseen" in words, f"no forecast is told: {words}")
    t.check(any("--alert" in e for f in post["prevention"] for e in f["because"]), "no alert rule is proposed")


# Grows to its limit, where reclaim finds something to drop for as long as a child reads; then it goes on.
LEAK_THAT_THRASHES = """
import mmap, os, signal, sys
from time import sleep
limit, stands = int(sys.argv[2]), float(sys.argv[3])
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) << 10
kept = []
while status("RssAnon") < limit - (5 << 19):
    kept.append(b"x" * (1 << 20))
    sleep(0.05)
child = os.fork()
if child == 0:
    read = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 256 << 20, prot=mmap.PROT_READ)
    while True:
        for at in range(0, len(read), 4096):
            read[at]
sleep(stands)
os.kill(child, signal.SIGKILL)
os.wait()
while True:
    kept.append(b"x" * (1 << 20))
"""


@case(vm="never", limit_s=90)
def a_leak_that_thrashes_at_its_limit_before_it_is_killed_is_called_a_leak(t):
    import run_command
    folder = t.folder()
    with open(folder / "holes", "wb") as f:
        f.truncate(256 * MiB)
    for stands in (2, 12):
        home, run = run_command.start(t, "--store", folder / "store", "--memory", "96M", "--", "/usr/bin/python3", "-c",
                                      LEAK_THAT_THRASHES, folder / "holes", 96 * MiB, stands)
        t.equal("exit code", run.finish(60), 137)
        text = b"".join(run.lines.raw).decode()
        t.check("\nverdict: leak (" in text, f"another verdict after {stands} s at the limit: {lib.shortened(text, 3000)}")
        t.check("* A leak: " in text, f"another cause after {stands} s at the limit: {lib.shortened(text, 4000)}")
        t.check("It was foreseen" in text, f"no forecast is told after {stands} s: {lib.shortened(text, 4000)}")


@case(limit_s=90, timing=True)
def the_line_that_grew_is_named(t):
    group = t.cgroup_apart().limit(256 * MiB)
    scene = scene_with_store(t, group=group)
    script = pathlib.Path(__file__).parent.parent / "workloads" / "leak.py"
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if "kept.append" in text)
    truth = t.folder() / "truth"
    t.needs_memory(640 * MiB)  # the leak's 256, as much as a look asks for, and some to spare
    t.premise(lib.wait_until(lib.calm, 30), "processes of this machine wait for memory")
    # A look of ten seconds ends before it is killed; an emulated machine looks once a minute.
    rate = 12 if lib.seconds(1) == 1 else 3
    child = t.start(group, "/usr/bin/python3", script, truth, rate)
    t.killed(child, 90)
    scene.wait(1)
    episode = scene.episodes()[0]
    grown = [[int(word) for word in text.split()] for text in truth.read_text().splitlines()[:-1]]
    truly = grown[-1][1] / (grown[-1][0] - grown[0][0]) * 1e9
    lost = {line["reason"]: line["count"] for line in scene.tracer.all("lost")}
    t.check(episode["grew_from"], f"nothing says from where it grew; lost {lost}: {lib.shortened(json.dumps(episode))}")
    post = complete(t, scene)
    for told in (episode, post["oom"]):
        most = (told["grew_from"] or [{}])[0]
        t.equal("where it grew", most.get("at"), f"<module> (leak.py:{line})")
        t.equal("who grew", most.get("process", {}).get("pid"), child.pid)
        if rate == 12:  # a slow machine's looks end before a list has grown by much
            held = {most.get("held_by")} | {holder["path"] for holder in told["holders"]}
            t.check("kept in __main__" in held, f"what holds it is not told: {held}")
        share = most.get("grown_bytes", 0) / max(1, most.get("of_bytes", 0))
        t.check(share > 0.8, f"{share:.0%} of its growth is there: " +
                lib.shortened(json.dumps([{**site, "process": site["process"]["pid"]} for site in told["grew_from"]])))
        seen = most.get("of_bytes", 0) / most.get("watched_s", 1)
        t.check(0.5 < seen / truly < 1.5, f"{seen / 1e6:.1f} MB/s while it was watched, truly {truly / 1e6:.1f}")
    words = " ".join(f["text"] for f in post["findings"])
    t.check(f"grew in <module> (leak.py:{line})" in words or "held by kept in __main__" in words,
            f"the report does not say where it grew, or what holds it: {words}")


def looks_of(tracer):
    """Pids of what it has started to look at what grows."""
    out = []
    with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children") as f:
        pids = [int(pid) for pid in f.read().split()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"blame" in f.read().split(b"\0"):  # no reader of other processes' memory
                    out.append(pid)
    return out


@case(vm="never", limit_s=60)
def a_look_ends_with_a_tracer_that_is_killed(t):
    tracer = t.trace("--cgroup", lib.base().path)
    group = t.cgroup().limit(256 * MiB)
    t.needs_memory(512 * MiB)
    t.start(group, "grow", "--rate", "20M", "--anon", "96M", "--forever")
    looks = []
    t.check(lib.wait_until(lambda: looks.extend(looks_of(tracer)) or looks, lib.seconds(20)), "it does not look")
    tracer.process.kill()
    tracer.process.wait()
    t.check(lib.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in looks), lib.seconds(2)),
            "it looks on without its tracer")


@case(vm="never", limit_s=60, timing=True)
def a_look_that_takes_too_long_is_given_up_and_counted(t):
    tracer = t.trace("--cgroup", lib.base().path)
    group = t.cgroup().limit(256 * MiB)
    t.needs_memory(512 * MiB)
    child = t.start(group, "grow", "--rate", "20M", "--anon", "96M", "--forever")

    def stopped_one():
        """The pid of a look that was stopped while it went on."""
        for pid in looks_of(tracer):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(pid, signal.SIGSTOP)
                if lib.state_of(pid) in "tT":
                    return pid
        return None

    t.check(lib.wait_until(stopped_one, 20), "it does not look at what grows")
    tracer.wait_for_line("lost", lambda line: line["reason"] == "growth_look_given_up", timeout=30)
    t.check(child.process.poll() is None, "what was looked at has ended")
    tracer.stop()
    t.check_stream(tracer)


# On the host only: an emulated machine may stand still for seconds in the middle of it, and that is no step.
@case(vm="never", limit_s=60, timing=True)
def a_step_is_called_a_step(t):
    scene = scene_with_store(t)
    group = t.cgroup().limit(96 * MiB)
    child = t.start(group, "grow", "--anon", "24M", "--hold", "5000", "--anon", "128M")
    killed(t, scene, child)
    rose = [line["t_ns"] for line in child.truth if line["event"] in ("grows", "at") and line["held"] >= 24 * MiB][1:]
    t.premise(rose[-1] - rose[0] < 0.5e9, f"the step took {(rose[-1] - rose[0]) * 1e-9:.1f} s on this machine")
    post = check_report(t, scene, group.limit_bytes, group, [child.pid], "step", child.pid)
    rise = post["rise"]
    t.check(abs(rise["from_bytes"] - 24 * MiB) < 8 * MiB and rise["took_s"] < 1, f"rise is {rise}")


@case(vm="never", limit_s=60)
def a_spike_is_called_a_spike(t):
    scene = scene_with_store(t)
    group = t.cgroup().limit(128 * MiB)
    spikes = ["--spike", "40M", "--hold", "1500"] * 5
    child = t.start(group, "grow", "--anon", "24M", "--hold", "1000", *spikes, "--spike", "160M")
    killed(t, scene, child)
    ends = [line["t_ns"] for line in child.truth if line["event"] in ("grows", "released")]
    spikes = [b - a for a, b in zip(ends[1::2], ends[2::2])]
    t.premise(len(spikes) == 5 and max(spikes) < 0.5e9, f"the spikes lasted {[s // 10**6 for s in spikes]} ms here")
    # A sampler that had no CPU for a spike's 200 ms cannot know of it.
    high = [lib.epoch_ns(line["time"]) for line in scene.tracer.all("sample")
            if line["cgroup"]["path"] == group.path and (line["usage_bytes"] or 0) > 48 * MiB]
    seen = sum(1 for before, now in zip([0, *high], high) if now - before > 1e9)
    t.premise(seen == 6, f"{seen} of 5 spikes and the last rise were sampled")
    check_report(t, scene, group.limit_bytes, group, [child.pid], "spikes", child.pid)


@case(vm="never", limit_s=40, tier="gate")
def the_culprit_is_named_when_another_dies(t):
    scene = scene_with_store(t)
    outer = t.cgroup().limit(256 * MiB)
    inner = outer.child("inner")
    before = witness.vmstat_oom_kills()
    child = t.start(inner, "culprit", "256M")
    pids = {role: child.wait_for("role", role=role)["pid"] for role in ("culprit", "victim", "trigger")}
    child.wait_for("survived", error=lib.Unfit)
    kills = witness.vmstat_oom_kills() - before
    t.premise(kills == 1, f"the kernel killed {kills}: what the first one had was not free in time")
    scene.knows(child)
    scene.wait(1)
    post = check_report(t, scene, outer.limit_bytes, outer, [pids["victim"]], culprit=pids["culprit"])
    t.equal("trigger", [p["process"]["pid"] for p in post["processes"] if p["trigger"]], [pids["trigger"]])
    words = " ".join(f["text"] for f in post["findings"])
    t.check("NOT killed" in words and outer.path in words, f"neither culprit nor limit in words: {words}")
    child.go()


@case(vm="never", limit_s=60)
def shared_memory_is_called_so(t):
    scene = scene_with_store(t)
    group = t.cgroup().limit(64 * MiB)
    child = t.start(group, "grow", "--rate", "20M", "--shmem", "96M")
    killed(t, scene, child)
    post = check_report(t, scene, group.limit_bytes, group, [child.pid])
    t.check(post["memory"]["shmem_bytes"] > 50 * MiB, f"memory is {post['memory']}")
    t.check(any("shared memory" in f["text"] for f in post["findings"]), "no finding speaks of shared memory")


@case(vm="all", limit_s=40)
def a_group_kill_in_one_report(t):
    group = t.cgroup().limit(48 * MiB).group_kill()
    scene = scene_with_store(t)
    quiet = [t.start(group, "grow", "--anon", "2M", "--forever") for _ in range(3)]
    for child in quiet:
        child.wait_for("holds")
    grower = t.start(group, "grow", "--anon", "96M")
    for child in [*quiet, grower]:
        t.killed(child)
        scene.knows(child)
    scene.wait(4)
    post = check_report(t, scene, group.limit_bytes, group, [c.pid for c in [*quiet, grower]])
    t.check(any("memory.oom.group" in f["text"] for f in post["findings"]), "the group kill is not told")


@case(limit_s=60)
def the_machines_memory(t):
    t.need_vm()
    scene = scene_with_store(t, whole_machine=True)
    group = t.cgroup()
    child = t.start(group, "grow", "--rate", "100M", "--anon", "6G", adj=500)
    t.killed(child, 90)
    scene.knows(child)
    scene.wait(1)
    post = check_report(t, scene, None, None, [child.pid], culprit=child.pid)
    t.equal("scope", post["oom"]["scope"], "global")
    told = [line for line in scene.tracer.all("forecast", scene.mark)
            if line["cgroup"] and line["cgroup"]["path"] == "/" and line["time"] < post["oom"]["time"]]
    if told and told[-1]["eta_s"] is not None:  # as it stood when the kill came
        before = post["oom"]["forecast_before"]
        t.check(before and before["eta_s"] is not None, f"forecast_before is {lib.shortened(before)}")
        t.check(any("It was foreseen" in f["text"] for f in post["findings"]), "it is not said that it was foreseen")
    t.check("the machine ran out of memory" in post["headline"], post["headline"])
    machine = post["oom"]["machine"] or {"zones": []}
    zones = {f"{zone['node']}/{zone['zone']}": [zone[f"{level}_bytes"] for level in ("free", "min", "low", "high")]
             for zone in machine["zones"]}
    t.equal("zones", zones, kernel_zones())
    t.check(zones and machine["ram_bytes"] and machine["free_bytes"], f"machine is {machine}")
    t.check(post["memory"] and post["memory"]["source"] == "kernel_log", f"memory is {post['memory']}")
    t.check(any("zone " in f["text"] for f in post["findings"]), "no finding names the zone")


@case(vm="never", limit_s=60)
def twenty_kills_have_a_report_each(t):
    scene = scene_with_store(t)
    pids = []
    for _ in range(20):
        group = t.cgroup().limit(16 * MiB)
        child = t.start(group, "grow", "--anon", "32M")
        t.killed(child)
        scene.knows(child)
        pids.append(child.pid)
    scene.wait(20)
    kernel = scene.kernel_victims()
    for episode in scene.episodes():
        post = complete(t, scene, episode["id"])
        t.equal("id", post["id"], episode["id"])
        for victim in post["oom"]["victims"]:
            t.check(any(all(victim[f] == getattr(line, f) for f in FIGURES) for line in kernel[victim["pid"]]),
                    f"victim {victim['pid']} is not as in the kernel's line")
        missing = post["memory"] is None or post["memory"]["source"] != "kernel_log"
        t.check(not missing or any("kernel log" in line for line in post["unknown"]),
                f"statistics are missing, and it is not said: {post['unknown']}")
    t.equal("reports", len(scene.episodes()), 20)
    last = json.loads(report(t, scene, "--json"))
    t.check(any("not the first time" in f["text"] for f in last["findings"]), "nothing about the kills before")


@case(vm="never", limit_s=60)
def in_a_container(t):
    name = containers.new_id(t)
    box = containers.Container(t, f"{lib.base().path}/docker/{name}", name,
                               ["/w/grow", "--go", "--rate", "20M", "--anon", "96M"], 64 * MiB).start()
    pid = box.host_pid()
    box.child.wait_for("ready")
    group = box.cgroup()
    scene = scene_with_store(t)
    scene.tids = {pid: pid}
    box.child.go()
    t.killed(box.child, 30)
    scene.wait(1)
    check_report(t, scene, 64 * MiB, group, [pid], culprit=pid)


@case(vm="never", limit_s=60)
def run_prints_it(t):
    import run_command
    home, run = run_command.start(t, "--store", "none", "--memory", "64M", "--", t.workload("grow"), "--rate", "20M", "--anon", "96M")
    t.equal("exit code", run.finish(40), 137)
    text = b"".join(run.lines.raw).decode()
    for words in ("was OOM-killed", "WHY", "memory limit of 64.0 MiB", "WHAT WOULD HAVE PREVENTED IT"):
        t.check(words in text, f"no '{words}' in the output: {lib.shortened(text, 3000)}")
    t.equal("cgroups left behind", run_command.left_behind(home), [])


@case(vm="never", tier="gate")
def what_there_is_no_report_of(t):
    store = t.folder()
    code, out, err = t.run_oomcast("report", "--no-kmsg", "--store", store / "none")
    t.equal("exit code without a store", code, 1)
    t.check(not out and "oomcast" in err, f"it says {out!r} {err!r}")
    scene = scene_with_store(t)
    code, out, err = t.run_oomcast("report", "--no-kmsg", "--store", scene.store)
    t.equal("exit code without a kill", code, 1)
    t.check(not out and "no OOM kill" in err, f"it says {out!r} {err!r}")
    group = t.cgroup().limit(16 * MiB)
    child = t.start(group, "grow", "--anon", "32M")
    killed(t, scene, child)
    code, out, err = t.run_oomcast("report", "--no-kmsg", "--store", scene.store, "nonsense")
    t.equal("exit code of an unknown id", code, 1)
    t.check(not out and scene.episodes()[0]["id"] in err, f"no near match in {err!r}")
    where = t.folder() / "report.md"
    report(t, scene, "-o", str(where))
    t.check(where.read_text().startswith("# "), "a file that ends in .md is no Markdown")
    t.equal("mode of the file", oct(where.stat().st_mode & 0o777), oct(0o640))
    t.equal("exit code of another format", t.run_oomcast("report", "--no-kmsg", "--store", scene.store, "--format", "pdf")[0], 2)
