"""Samples are true: each is compared with what the kernel's own files said at that moment.

What moves is compared on the host only: an emulated CPU may stand still between a clock and a counter."""

import bisect
import os
import pathlib
import signal
import subprocess
from collections import Counter

import lib
from lib import MiB, case

NEAR_NS = 2_000_000  # between two polls that witness what was in between


class Witness:
    """`poll` on a file at 1 kHz: its value, or a field's, at any time of CLOCK_MONOTONIC."""

    def __init__(self, t, path, *field):
        self.folder = t.folder()
        self.file = open(self.folder / "polled", "w+")
        self.process = subprocess.Popen([t.workload("poll"), "1000", path, *field], stdout=self.file)
        t.later(self.end)
        self.path = os.path.realpath(path)
        t.premise(lib.wait_until(self.has_begun, 5), f"the witness of {path} does not begin")
        self.begins, self.ends, self.values = [], [], []

    def has_begun(self):
        return self.path in lib.open_files(self.process.pid) or self.process.poll() is not None

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def finish(self):
        self.end()
        self.file.seek(0)
        for line in self.file:
            for column, word in zip((self.begins, self.ends, self.values), line.split()):
                column.append(int(word))
        if len(self.values) < 100:
            raise lib.Unfit(f"the witness read only {len(self.values)} values")
        return self

    def difference(self, when, value):
        """How far a value is from what was read just before until just after; None where nothing was read so close.

        What was being read at that moment may be of before or of after: a reader can be held up between file and clock."""
        before, after = bisect.bisect_right(self.ends, when) - 1, bisect.bisect_left(self.begins, when)
        if before < 0 or after == len(self.begins) or self.begins[after] - self.ends[before] > NEAR_NS:
            return None
        around = self.values[before:after + 1]
        return max(min(around) - value, value - max(around), 0)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def of_cgroup(lines, group):
    return [line for line in lines if line["cgroup"] and line["cgroup"]["id"] == group.id]


def follow(t, limit, load, arguments=()):
    """Runs load(group) under a trace of the run's cgroup; returns (group, its samples, witness, wall − monotonic)."""
    tracer = t.shared_trace(*arguments, "--cgroup", lib.base().path)
    group = t.cgroup().limit(limit)
    mark = tracer.mark()
    witness = Witness(t, group.usage_file)
    load(group)
    t.until_told(tracer, 1.2)
    witness.finish()
    samples = of_cgroup(tracer.all("sample", mark), group)
    return group, samples, witness, lib.realtime_minus_monotonic_ns()


def compare(t, limit, samples, witness, offset, least):
    differences = []
    for sample in samples:
        if sample["usage_bytes"] is None:
            t.check(False, f"a sample without usage_bytes at {sample['time']}")
            continue
        difference = witness.difference(lib.epoch_ns(sample["time"]) - offset, sample["usage_bytes"])
        if difference is not None:
            differences.append(difference)
    if not t.check(len(samples) >= least, f"{len(samples)} samples of the cgroup, expected at least {least}"):
        return
    t.premise(len(differences) >= least, f"only {len(differences)} of {len(samples)} samples were witnessed")
    p99 = percentile(differences, 0.99)
    t.check(p99 <= limit // 100, f"99 % of {len(differences)} samples are within {p99} bytes of the kernel's file, "
            f"1 % of the limit is {limit // 100}; the worst are {sorted(differences)[-5:]}")
    wrong = [sample["limit_bytes"] for sample in samples if sample["limit_bytes"] != limit]
    t.check(not wrong, f"limit_bytes is {wrong[:1]}, expected {limit}")


@case(vm="never", limit_s=40, timing=True)
def usage_while_growing_and_shrinking(t):
    limit = 256 * MiB

    def load(group):
        t.start(group, "grow", "--rate", "60M", "--anon", "80M", "--hold", "300", "--shmem", "60M", "--release",
                "--rate", "200M", "--anon", "90M", "--release-all", "--hold", "300", "--anon", "40M").wait(60)
    _, samples, witness, offset = follow(t, limit, load)
    compare(t, limit, samples, witness, offset, 40)


@case(vm="never", limit_s=40, timing=True)
def usage_of_a_forking_load(t):
    limit = 256 * MiB

    def load(group):
        forker = t.start(group, "forker", 4, 2)
        grower = t.start(group, "grow", "--rate", "20M", "--anon", "40M", "--release", "--anon", "30M")
        for child in (grower, forker):
            child.wait(60)
    _, samples, witness, offset = follow(t, limit, load)
    compare(t, limit, samples, witness, offset, 20)


@case(vm="never", limit_s=40, timing=True)
def usage_without_kernel_programs(t):
    limit = 256 * MiB

    def load(group):
        t.start(group, "grow", "--rate", "30M", "--anon", "90M", "--release", "--hold", "300").wait(60)
    _, samples, witness, offset = follow(t, limit, load, ("--no-bpf",))
    compare(t, limit, samples, witness, offset, 3)


@case(vm="never", limit_s=40, timing=True)
def a_200_ms_spike_with_its_peak(t):
    limit = 512 * MiB

    def load(group):
        child = t.start(group, "grow", "--anon", "60M", "--hold", "700", "--spike-ms", "200", "--spike", "200M",
                        "--hold", "700")
        t.equal("exit code of the load", child.wait(60), 0)
    _, samples, witness, _ = follow(t, limit, load)
    seen, true = max((s["usage_bytes"] for s in samples), default=0), max(witness.values)
    t.premise(true >= 255 * MiB, f"the spike was only {true} bytes high")
    bound = max(limit // 100, 4 * MiB)
    t.check(abs(seen - true) <= bound, f"the highest sample is {seen}, the peak was {true}; {bound} bytes are allowed")


@case(vm="never", timing=True)
def a_small_limit_and_a_spike(t):
    limit = 64 * MiB

    def load(group):
        child = t.start(group, "grow", "--anon", "8M", "--hold", "400", "--spike-ms", "200", "--spike", "32M",
                        "--hold", "400")
        t.equal("exit code of the load", child.wait(60), 0)
    _, samples, witness, _ = follow(t, limit, load)
    seen, true = max((s["usage_bytes"] for s in samples), default=0), max(witness.values)
    t.check(abs(seen - true) <= 4 * MiB, f"the highest sample is {seen}, the peak was {true}; 4 MiB are allowed")


@case(vm="never", timing=True)
def growth_shows_in_steps_of_about_one_percent(t):
    limit = 512 * MiB

    def load(group):
        child = t.start(group, "grow", "--rate", "100M", "--anon", "300M")
        child.wait()
        # Who comes late grows at full speed until it has caught up.
        said = [line for line in child.truth if line["event"] in ("grows", "at")]
        late = [line["t_ns"] - said[0]["t_ns"] - line["held"] * 10**9 // (100 * MiB) for line in said]
        t.premise(percentile(late, 0.95) < 50e6, f"the load came late by {max(late) * 1e-6:.0f} ms")
    _, samples, _, _ = follow(t, limit, load)
    usage = [s["usage_bytes"] for s in samples if s["usage_bytes"]]
    steps = [later - earlier for earlier, later in zip(usage, usage[1:]) if later > earlier]
    high = percentile(steps, 0.95) if steps else None
    t.check(high is not None and high <= limit // 50,
            f"19 of 20 steps between samples are up to {high} bytes, 2 % of the limit are {limit // 50}")


@case(tier="gate", kernel=True)
def idle_cgroups_are_there(t):
    before = t.cgroup()
    held = t.start(before, "grow", "--anon", "6M", "--forever")
    held.wait_for("holds")
    empty = t.cgroup()
    tracer = t.trace("--cgroup", lib.base().path)
    after = t.cgroup()
    sleeper = t.start(after, "sleeper")
    sleeper.wait_for("ready")
    for what, group in (("idle", before), ("empty", empty), ("new", after)):
        line = tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == group.id, timeout=6)
        t.check(line["usage_bytes"] is not None, f"usage_bytes of the {what} cgroup is null")
        t.equal(f"path of the {what} cgroup", line["cgroup"]["path"], group.path)
    usage = before.usage()
    line = of_cgroup(tracer.all("sample"), before)[-1]
    t.check(abs(line["usage_bytes"] - usage) <= MiB, f"the idle cgroup's usage is {line['usage_bytes']}, truly {usage}")
    tracer.stop()
    t.check_stream(tracer)


@case(tier="gate")
def the_tightest_limit_and_whose_it_is(t):
    top = t.cgroup().limit(96 * MiB)
    leaf = top.child("leaf")
    tight = top.child("tight").limit(48 * MiB)
    for group in (leaf, tight):
        t.start(group, "grow", "--anon", "4M", "--forever").wait_for("holds")
    tracer = t.trace("--cgroup", top.path, "--interval", "200ms")
    for group, owner, limit in ((leaf, top, 96 * MiB), (tight, tight, 48 * MiB), (top, top, 96 * MiB)):
        line = tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == group.id, timeout=6)
        t.equal(f"limit_bytes of {group.path}", line["limit_bytes"], limit)
        t.equal(f"limit_cgroup of {group.path}", line["limit_cgroup"] and line["limit_cgroup"]["path"], owner.path)
    mark = tracer.mark()
    top.limit(192 * MiB)
    line = tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == leaf.id and s["limit_bytes"] == 192 * MiB, mark,
                                6)
    t.equal("limit_cgroup after the limit moved", line["limit_cgroup"]["path"], top.path)


@case(vm="never", tier="gate")
def what_others_hold_is_not_left_to_a_cgroup(t):
    """Below a limit of 192 MiB a neighbour holds 96; on the machine, another a gigabyte. No deadline counts on that."""
    t.needs_memory(2 << 30)
    top = t.cgroup().limit(192 * MiB)
    neighbour, grows, alone, giant = top.child("neighbour"), top.child("grows"), t.cgroup(), t.cgroup()
    t.start(neighbour, "grow", "--anon", "96M", "--forever").wait_for("holds")
    t.start(giant, "grow", "--step", "64M", "--anon", "1G", "--forever").wait_for("holds")
    for group in (grows, alone):
        t.start(group, "grow", "--rate", "2M", "--anon", "80M", "--forever")
    with open("/proc/meminfo") as f:
        machine = {name: 1024 * int(rest.split()[0]) for name, rest in (line.split(":") for line in f)}
    of_machine = machine["MemTotal"] + machine["SwapTotal"]
    for scope, group, least, most, owner in ((top, grows, 88 * MiB, 97 * MiB, top.path),
                                             (grows, grows, 88 * MiB, 97 * MiB, top.path),
                                             (alone, alone, 64 * MiB, of_machine - (1 << 30), None)):
        tracer = t.trace("--cgroup", scope.path, "--interval", "300ms")
        line = tracer.wait_for_line("forecast", lambda f: (f["cgroup"] or {}).get("id") == group.id and
                                    least <= (f["limit_bytes"] or 0) <= most, timeout=15)
        t.equal(f"whose limit {group.path} runs into, followed by {scope.path}",
                line["limit_cgroup"] and line["limit_cgroup"]["path"], owner)
        tracer.stop()


@case(tier="gate", kernel=True)
def what_is_throttled_at_memory_high_has_its_deadline_there(t):
    """The kernel does not kill at memory.high: whoever allocates there waits. It may be taken back while it runs."""
    group = t.cgroup().limit(192 * MiB)
    if group.version == 1:
        t.skip("cgroup v1 has no memory.high")
    group.write("memory.high", 96 * MiB)
    t.start(group, "grow", "--rate", "2M", "--anon", "64M", "--forever")
    tracer = t.trace("--cgroup", group.path, "--interval", "300ms")
    told = lambda kind: lambda f: (f["cgroup"] or {}).get("id") == group.id and f["limit_kind"] == kind
    line = tracer.wait_for_line("forecast", told("high"), timeout=20)
    t.equal("limit_bytes", line["limit_bytes"], 96 * MiB)
    t.equal("limit_cgroup", line["limit_cgroup"]["path"], group.path)
    group.write("memory.high", "max")
    line = tracer.wait_for_line("limit_changed", lambda c: c["cgroup"]["id"] == group.id, timeout=30)
    t.equal("the change", [line[k] for k in ("limit_kind", "before_bytes", "limit_bytes")], ["high", 96 * MiB, None])
    line = tracer.wait_for_line("forecast", told("max"), timeout=20)
    t.equal("limit_bytes without it", line["limit_bytes"], 192 * MiB)


@case(tier="gate")
def a_limit_that_is_changed_counts_at_once(t):
    """As a pod is resized in place: of a cgroup that sleeps, too."""
    group = t.cgroup().limit(192 * MiB)
    t.start(group, "grow", "--anon", "24M", "--forever").wait_for("holds")
    tracer = t.trace("--cgroup", group.path, "--interval", "300ms")
    tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == group.id and s["limit_bytes"] == 192 * MiB)
    for before, limit in ((192 * MiB, 96 * MiB), (96 * MiB, 256 * MiB)):
        group.limit(limit)
        line = tracer.wait_for_line("limit_changed", lambda c: c["limit_bytes"] == limit, timeout=10)
        t.equal("the change", [line["cgroup"]["path"], line["limit_cgroup"]["path"], line["limit_kind"], line["before_bytes"]],
                [group.path, group.path, "max", before])
        tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == group.id and s["limit_bytes"] == limit, timeout=10)


@case(vm="all")
def swap_that_a_cgroup_may_not_use_is_no_room(t):
    """What is forecast to: memory of the limit alone where an ancestor may not swap, and where nobody may (only in an
    emulated machine: it is a setting of all of it)."""
    with open("/proc/swaps") as f:
        if len(f.readlines()) < 2:
            t.skip("no swap here")
    def told(group):
        tracer = t.trace("--cgroup", group.path, "--interval", "300ms")
        t.start(group, "grow", "--rate", "4M", "--anon", "24M", "--forever")
        line = tracer.wait_for_line("forecast", lambda f: (f["cgroup"] or {}).get("id") == group.id and f["limit_bytes"],
                                    timeout=20)
        tracer.stop()
        return line["limit_bytes"]
    top = t.cgroup().limit(96 * MiB)
    t.equal("limit_bytes below a cgroup that may not swap", told(top.child("leaf")), 96 * MiB)
    free = t.cgroup().limit(96 * MiB, swap=64 * MiB)
    t.equal("limit_bytes of one that may", told(free), 160 * MiB)
    if not lib.VM or free.version == 1:
        return
    swappiness = pathlib.Path("/proc/sys/vm/swappiness")
    before = swappiness.read_text(encoding="ascii")
    t.later(lambda: swappiness.write_text(before, encoding="ascii"))
    swappiness.write_text("0", encoding="ascii")
    t.equal("limit_bytes of one that may while reclaim for a limit does not swap", told(free), 96 * MiB)


@case(tier="gate")
def what_cannot_be_dropped(t):
    with open("/proc/swaps") as f:
        if len(f.readlines()) > 1:
            t.skip("with swap, anonymous memory can be dropped too")
    group = t.cgroup().limit(128 * MiB)
    t.start(group, "grow", "--file", "24M", "--anon", "12M", "--shmem", "8M", "--forever").wait_for("holds")
    tracer = t.trace("--cgroup", group.path, "--interval", "300ms")
    line = tracer.wait_for_line("sample", lambda s: s["cgroup"]["id"] == group.id and s["pinned_bytes"] is not None)
    stat = dict(word.split() for word in group.read("memory.stat").splitlines())
    number = {key: int(value) for key, value in stat.items()}
    prefix = "total_" if group.version == 1 else ""
    droppable = number[prefix + "active_file"] + number[prefix + "inactive_file"] + number.get("slab_reclaimable", 0)
    pinned = group.usage() - droppable
    t.check(abs(line["pinned_bytes"] - pinned) <= MiB, f"pinned_bytes is {line['pinned_bytes']}, by the formula {pinned}")
    anon, shmem = (number[prefix + ("rss" if group.version == 1 else "anon")], number[prefix + "shmem"])
    for field, true in (("anon_bytes", anon), ("shmem_bytes", shmem)):
        t.check(line[field] is not None and abs(line[field] - true) <= MiB, f"{field} is {line[field]}, truly {true}")


RSS = {"rss_bytes": "VmRSS", "anon_bytes": "RssAnon", "file_bytes": "RssFile", "shmem_bytes": "RssShmem"}


def stated_error(t, line):
    """The line's own bound, if it is one: counters lag by a batch a CPU at the most."""
    cpus = os.sysconf("SC_NPROCESSORS_CONF")
    most = 4 * cpus * max(32, 2 * cpus) * 4096
    error = line.get("rss_error_bytes")
    good = t.check(isinstance(error, int) and 0 <= error <= most, f"rss_error_bytes is {error!r}, at most {most} is due")
    return error if good else 0


@case(vm="never", limit_s=40, timing=True)
def resident_memory_of_a_process_within_its_error(t):
    group = t.cgroup().limit(256 * MiB)
    tracer = t.trace("--cgroup", group.path, "--interval", "200ms")
    # It stays for a while where it turns: what falls and rises within a millisecond, no witness at 1 kHz has seen.
    child = t.start(group, "grow", "--go", "--rate", "50M", "--anon", "60M", "--shmem", "30M", "--file", "20M",
                    "--hold", "20", "--release", "--release", "--hold", "20", "--anon", "40M")
    child.wait_for("ready")
    witnesses = {name: Witness(t, f"/proc/{child.pid}/status", field) for name, field in RSS.items()}
    child.go()
    t.equal("exit code of the load", child.wait(), 0)
    tracer.wait_for_line("exit", lambda line: line["process"]["pid"] == child.pid)
    offset = lib.realtime_minus_monotonic_ns()
    lines = [line for line in tracer.all("process") if line["process"]["pid"] == child.pid]
    t.check(len(lines) >= 4, f"only {len(lines)} process lines in 3 s of growth at an interval of 200 ms")
    for name, witness in witnesses.items():
        witness.finish()
        for line in lines:
            difference = witness.difference(lib.epoch_ns(line["time"]) - offset, line[name])
            t.check(difference is None or difference <= stated_error(t, line),
                    f"{name} is {line[name]}, {difference} away from {RSS[name]} at that moment; the error is said to be "
                    f"{line.get('rss_error_bytes')}")
    tracer.stop(signal.SIGTERM)
    t.check_stream(tracer)


@case(tier="gate")
def a_process_that_grew_and_sleeps_is_shown_as_it_is(t):
    group = t.cgroup().limit(256 * MiB)
    tracer = t.trace("--cgroup", group.path, "--interval", "200ms")
    child = t.start(group, "grow", "--anon", "40M", "--shmem", "30M", "--forever")
    child.wait_for("holds")
    true = {name: lib.status_bytes(child.pid, field) for name, field in RSS.items()}

    def right(line):
        return line["process"]["pid"] == child.pid and all(
            abs(line[name] - value) <= stated_error(t, line) for name, value in true.items())
    if not tracer.lines.wait(lambda: any(map(right, tracer.all("process"))), lib.seconds(4)):
        told = [{name: line[name] for name in (*RSS, "rss_error_bytes")} for line in tracer.all("process")
                if line["process"]["pid"] == child.pid]
        t.check(False, f"none of {len(told)} process lines is right; /proc says {true}, the last says {told[-1:]}")


@case(vm="never", limit_s=40, tier="gate")
def private_memory_of_a_process_is_measured_now_and_then(t):
    group = t.cgroup().limit(256 * MiB)
    tracer = t.trace("--cgroup", group.path, "--interval", "200ms")
    child = t.start(group, "grow", "--anon", "60M", "--forever")
    line = tracer.wait_for_line("process", lambda p: p["process"]["pid"] == child.pid and p["private_bytes"] is not None and
                                p["anon_bytes"] > 59 * MiB, timeout=20)
    with open(f"/proc/{child.pid}/smaps_rollup", encoding="ascii") as rollup:
        kib = {key.rstrip(":"): int(value) for key, value, *_ in map(str.split, list(rollup)[1:])}
    private = 1024 * (kib["Private_Clean"] + kib["Private_Dirty"])
    t.check(abs(line["private_bytes"] - private) <= MiB, f"private_bytes is {line['private_bytes']}, truly {private}")


@case(vm="never", tier="gate")
def samples_are_left_out_in_words_and_where_that_is_asked_for(t):
    group = t.cgroup().limit(64 * MiB)
    words = t.oomcast("trace", "--cgroup", group.path)
    all_words = t.oomcast("trace", "--all", "--cgroup", group.path)
    chosen = t.oomcast("trace", "--json", "--cgroup", group.path, "--only", "start,oom", "--only", "end").started()
    none = t.oomcast("trace", "--json", "--cgroup", group.path, "--samples", "none").started()
    words.wait_for("first line", words.mark)
    all_words.wait_for("first line", all_words.mark)
    child = t.start(group, "grow", "--anon", "128M")
    t.killed(child)
    for tracer in (chosen, none):
        tracer.wait_for_line("oom")
    for tracer in (words, all_words):
        tracer.lines.wait(lambda: any(b" oom " in line for line in tracer.lines.raw), lib.seconds(3))
    kinds = []
    for tracer in (words, all_words, chosen, none):
        tracer.stop()
        kinds.append([line["type"] for line in tracer.lines.items] if "--json" in tracer.arguments else
                     [line.split()[1].decode() for line in tracer.lines.raw if line[:1].isdigit()])
    t.check({"oom", "end"} <= set(kinds[0]) and not {"sample", "process", "exit"} & set(kinds[0]), f"in words: {kinds[0]}")
    t.check({"oom", "end", "sample"} <= set(kinds[1]), f"in all words: {set(kinds[1])}")
    t.equal("types that were chosen", kinds[2], ["start", "oom", "end"])
    t.check({"oom", "end"} <= set(kinds[3]) and not {"sample", "process"} & set(kinds[3]), f"without samples: {set(kinds[3])}")


@case(vm="never", limit_s=120)
def cgroups_beyond_the_table_are_told_in_turn_and_not_in_each_walk(t):
    """The kernel programs remember 16,384; of the others it is not known what was told of them."""
    table, more = 16384, 1600
    t.needs_memory(2048 * MiB)
    parents = [t.cgroup() for _ in range(18)]
    for nr, parent in enumerate(parents):
        for child in range((table + more) // len(parents)):
            (parent.dir / f"idle-{nr}-{child}").mkdir()
    tracer = t.trace("--cgroup", lib.base().path, "--interval", "1s")
    lib.pause(3, "the first walks tell of all that there is room for")
    mark = tracer.mark()
    lib.pause(16, "a round of walks")
    told = Counter(line["cgroup"]["id"] for line in tracer.all("sample", mark) if "/idle-" in line["cgroup"]["path"])
    tracer.stop(timeout=20)
    t.premise(told, "there was room for all")
    t.check(len(told) > more / 4, f"only {len(told)} of some {more} that have no room are told")
    t.check(sum(told.values()) < 4 * more, f"{sum(told.values())} lines of {len(told)} idle cgroups in 16 walks")
