"""`--store`: no kill that was in it is lost, whatever happens to oomcast, the disk or the file, and tracing goes on."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import lib
from lib import MiB, case

KILLS = 100  # of the writer


def writer(t, *arguments, **options):
    program = t.workloads_path.parent / "store_writer"
    if not program.exists():
        raise lib.Skip("store_writer is not built")
    return [str(program), *map(str, arguments)], options


def listed(t, folder):
    """The kills in a store, by the reader of oomcast itself."""
    words, _ = writer(t, "list", folder)
    done = subprocess.run(words, capture_output=True, text=True, timeout=lib.seconds(20))
    if not t.equal(f"exit code of list: {done.stderr}", done.returncode, 0):
        return set()
    return set(map(int, done.stdout.split()))


def ask(folder, sql):
    with sqlite3.connect(f"file:{folder}/oomcast.db?mode=ro", uri=True, timeout=10) as db:
        return db.execute(sql).fetchall()


def written_until(t, folder, first, seconds, stop=signal.SIGKILL):
    """Writes for so long; the kills that another connection saw before the end."""
    words, _ = writer(t, "write", folder, first)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.later(process.kill)
    if stop == signal.SIGSTOP:  # before, there is nothing to take an image of
        lib.wait_until(lambda: os.path.exists(f"{folder}/oomcast.db-wal"), 20, every=0.01)
    lib.pause(seconds, "it is ended at any moment of writing")
    process.send_signal(stop)
    if stop == signal.SIGSTOP:
        return process, None
    out, err = process.communicate()
    t.equal("stderr of the writer", err, b"")
    return process, [int(line) for line in out.decode().split("\n")[:-1]]


def one_kill(t, tracer, limit=48 * MiB):
    """A process that meets the limit of a cgroup of its own; the line that tells of it."""
    mark = tracer.mark()
    group = t.cgroup().limit(limit)
    child = t.start(group, "grow", "--go", "--anon", 2 * limit)
    child.wait_for("ready")
    child.go()
    t.killed(child)
    tracer.wait_for_line("oom", lambda line: (line["limit_cgroup"] or {}).get("id") == group.id, mark=mark)
    return next(line for line in tracer.all("oom", mark) if (line["limit_cgroup"] or {}).get("id") == group.id)


def small_disk(t):
    """A file system of its own, as a disk has it: space is promised when it is written, and found missing later."""
    image, folder = t.folder() / "image", t.folder() / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(8 * MiB)
    for command in (["mkfs.ext4", "-q", "-m", "0", image], ["mount", "-o", "loop", image, folder]):
        if shutil.which(command[0]) is None:
            raise lib.Skip(f"no {command[0]} here")
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            raise lib.Skip(f"no loop device can be mounted here: {lib.one_line(done.stderr.strip())}")
    t.later(subprocess.run, ["umount", "-l", str(folder)])
    return folder


@case(vm="never", limit_s=150)
def a_hundred_kills_of_the_writer_lose_nothing_that_was_committed(t):
    folder = t.folder() / "store"
    draw = random.Random(1)
    seen, first = set(), 0
    for _ in range(KILLS):
        _, told = written_until(t, folder, first, draw.uniform(0.02, 0.6))
        seen.update(told)
        first = max(seen, default=0) + 1000
        there = listed(t, folder) if folder.exists() else set()  # it may die before it makes one
        if not t.check(seen <= there, f"lost: {sorted(seen - there)[:10]}"):
            return
    t.premise(len(seen) > KILLS, f"only {len(seen)} kills were committed: that shows nothing")
    t.equal("integrity", ask(folder, "PRAGMA integrity_check"), [("ok",)])
    t.equal("files put aside", [f.name for f in folder.iterdir() if "corrupt" in f.name], [])


def image_of(t, folder, first, seconds):
    """The files as they are at one moment of writing, and the kills that were committed by then."""
    process, _ = written_until(t, folder, first, seconds, stop=signal.SIGSTOP)
    image = t.folder() / "image"
    image.mkdir()
    for part in ("", "-wal"):
        shutil.copy(f"{folder}/oomcast.db{part}", image)
    process.kill()
    out, _ = process.communicate()
    return image, {int(line) for line in out.decode().split("\n")[:-1]}


@case(vm="never", limit_s=90)
def a_power_cut_leaves_every_committed_kill(t):
    folder = t.folder() / "store"
    draw = random.Random(2)
    for round_ in range(15):
        image, told = image_of(t, folder, 1000 * round_, draw.uniform(0.2, 0.8))
        there = listed(t, image)
        t.check(told <= there, f"lost in the image: {sorted(told - there)[:10]}")
        _, more = written_until(t, image, 500_000, 0.2)
        t.check(told | set(more) <= listed(t, image), "what was written to the image is not in it")
        t.equal("integrity", ask(image, "PRAGMA integrity_check"), [("ok",)])


def tear_logs(t, rounds, least):
    draw = random.Random(3)
    torn_logs = 0
    for _ in range(rounds):
        image, told = image_of(t, t.folder() / "store", 0, draw.uniform(0.1, 0.4))
        if not told:  # it has just begun
            continue
        there = sorted(listed(t, image))
        without = t.folder() / "without"
        without.mkdir()
        shutil.copy(image / "oomcast.db", without)
        if listed(t, without):  # its log was written back, after it was synced: no power cut tears that
            continue
        log = image / "oomcast.db-wal"
        for _ in range(10):
            os.truncate(log, draw.randrange(log.stat().st_size + 1))
            left = sorted(listed(t, image))
            t.check(left == there[:len(left)], f"{left} is not how {there} began")
            torn_logs += 1
        _, more = written_until(t, image, 500_000, 0.2)
        t.check({*left, *more} <= listed(t, image), "what was written to the torn store is not in it")
        t.equal("integrity", ask(image, "PRAGMA integrity_check"), [("ok",)])
    t.premise(torn_logs > least, f"only {torn_logs} logs were torn: that shows nothing")


@case(vm="never", limit_s=90)
def a_log_that_is_torn_anywhere_leaves_a_moment_before(t):
    tear_logs(t, 10, 20)


@case(vm="never", limit_s=60, tier="gate")
def a_torn_log_leaves_a_moment_before(t):
    tear_logs(t, 2, 0)


@case(limit_s=40, tier="gate")
def a_kill_is_in_the_store_before_it_is_told(t):
    def stored(folder):
        with contextlib.suppress(sqlite3.OperationalError):  # it is being made
            return ask(folder, "SELECT e.usage_limit, v.tid, p.comm, c.path FROM episodes e"
                       " JOIN victims v ON v.episode=e.id JOIN processes p ON p.id=v.process"
                       " JOIN cgroups c ON c.id=e.limit_cgroup")
        return []
    # oomcast is killed when the store has the kill, and when it has been told.
    for moment in ("stored", "told"):
        folder = t.folder() / "store"
        group = t.cgroup().limit(48 * MiB)
        tracer = t.trace("--store", folder, "--cgroup", group.path)
        child = t.start(group, "grow", "--go", "--anon", 96 * MiB)
        child.wait_for("ready")
        began = time.monotonic()
        child.go()
        t.killed(child)
        if moment == "told":
            tracer.wait_for_line("oom")
        else:
            since = time.monotonic()
            there, stall = lib.wait_until(lambda: stored(folder), 0.7), t.pulse.longest_stall(since)
            t.premise(there or stall < 0.2, f"the machine stood still for {stall:.1f} s")
            t.check(there, "the kill is not in the store after 0.7 s")
        tracer.process.send_signal(signal.SIGKILL)
        tracer.process.wait()
        # Nobody waits for a disk for longer than 200 ms beside what a line takes anyway.
        stall = t.pulse.longest_stall(began)
        t.premise(stored(folder) or stall < 0.2, f"the machine stood still for {stall:.1f} s")
        t.equal(f"in the store, of what was {moment}", stored(folder), [(48 * MiB, child.pid, "grow", group.path)])


@case(limit_s=60, tier="gate")
def what_was_told_is_in_the_store(t):
    folder = t.folder() / "store"
    tracer = t.trace("--store", folder)
    told = one_kill(t, tracer)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("mode of the directory", folder.stat().st_mode & 0o777, 0o750)
    t.equal("mode of the file", (folder / "oomcast.db").stat().st_mode & 0o777, 0o640)
    victim = told["victims"][0]
    rows = ask(folder, "SELECT e.name, e.complete, e.scope, e.usage, e.usage_limit, v.tid, v.anon, v.pgtables, p.pid,"
                       " p.comm FROM episodes e JOIN victims v ON v.episode=e.id JOIN processes p ON p.id=v.process"
                       f" WHERE e.name='{told['id']}'")
    t.equal("the episode", rows, [(told["id"], 1, "memcg", told["usage_bytes"], told["limit_bytes"], victim["tid"],
                                   victim["anon_bytes"], victim["pgtables_bytes"], victim["pid"], victim["comm"])])
    highest = ask(folder, "SELECT max(usage) FROM samples JOIN cgroups ON cgroups.id=cgroup WHERE path="
                          f"'{told['limit_cgroup']['path']}'")[0][0]
    t.check(highest and highest >= 0.9 * told["limit_bytes"], f"the highest usage in the store is {highest}")


@case(vm="never", limit_s=60, tier="gate")
def two_on_one_store_count_a_kill_once(t):
    folder = t.folder() / "store"
    tracers = [t.trace("--store", folder), t.trace("--store", folder)]
    told = one_kill(t, tracers[0])
    tracers[1].wait_for_line("oom", lambda line: line["id"] == told["id"])
    for tracer in tracers:
        tracer.stop()
        t.check_stream(tracer)
        # A look of its reader that takes more than its 50 ms on a busy CPU loses no kill.
        lost = {reason: count for reason, count in tracer.all("end")[0]["lost"].items() if reason != "reader_given_up"}
        t.equal("lost", lost, {})
    t.equal("runs", ask(folder, "SELECT count(*) FROM runs WHERE ended_ns IS NOT NULL"), [(2,)])
    t.equal("the kill", ask(folder, f"SELECT complete FROM episodes WHERE name='{told['id']}'"), [(1,)])


@case(vm="never", limit_s=60)
def a_full_disk_is_told_once_and_written_again_when_there_is_room(t):
    disk = small_disk(t)
    tracer = t.trace("--store", disk / "store", "--interval", "200ms", "--quiet")
    full = open(disk / "full", "wb", buffering=0)
    try:
        while True:
            full.write(b"x" * 4096)
    except OSError:
        pass
    told = one_kill(t, tracer)
    t.check(lib.wait_until(lambda: "tracing goes on" in tracer.stderr(), 10), "it does not tell that the disk is full")
    full.close()
    os.unlink(disk / "full")
    t.check(lib.wait_until(lambda: "is written again" in tracer.stderr(), 20), "nothing is written where there is room")
    second = one_kill(t, tracer)
    tracer.stop()
    t.check_stream(tracer)
    errors = tracer.stderr().splitlines()
    t.equal("lines on stderr", len(errors), 2)
    t.check("full" in errors[0] and "tracing goes on" in errors[0], errors[0])
    t.check(tracer.all("end")[0]["lost"].get("not_stored", 0) > 0, f"lost is {tracer.all('end')[0]['lost']}")
    names = {name for name, in ask(disk / "store", "SELECT name FROM episodes")}
    t.check({told["id"], second["id"]} <= names, f"{told['id']} and {second['id']} are not both in {names}")


@case(vm="never", limit_s=40)
def a_disk_that_cannot_be_written_does_not_end_the_tracing(t):
    disk = small_disk(t)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for quiet in [], ["--quiet"]:
        tracer = t.trace("--store", disk / "store", *quiet)
        one_kill(t, tracer)
        tracer.stop()
        t.check_stream(tracer)
        errors = tracer.stderr().splitlines()
        t.equal("lines on stderr", len(errors), 1)
        t.check("nothing is stored" in errors[0] and "Read-only" in errors[0], errors[0])


@case(vm="never", limit_s=60)
def a_damaged_file_is_put_aside_with_its_kills_taken_over(t):
    folder = t.folder() / "store"
    before = []
    for _ in range(20):  # a busy machine writes little in a second
        before += written_until(t, folder, max(before, default=0) + 1000, 1.5)[1]
        if len(before) > 10:
            break
    t.premise(len(before) > 10, f"only {len(before)} kills were written")
    with sqlite3.connect(f"{folder}/oomcast.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name='samples'").fetchone()[0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    with open(folder / "oomcast.db", "r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))
    tracer = t.trace("--store", folder)
    told = one_kill(t, tracer)
    t.check(lib.wait_until(lambda: "was damaged" in tracer.stderr(), 20), "it does not tell that the store was damaged")
    tracer.stop()
    t.check_stream(tracer)
    aside = [f.name for f in folder.iterdir() if f.name.startswith("oomcast.db.corrupt-")]
    t.check(aside, f"nothing was put aside: {os.listdir(folder)}")
    names = {name for name, in ask(folder, "SELECT name FROM episodes")}
    missing = {str(number) for number in before} - names
    t.check(not missing, f"kills that could be read are not taken over: {sorted(missing)[:10]}; {tracer.stderr()}")
    t.check(told["id"] in names, f"{told['id']} is not in the new store")


@case(vm="never", limit_s=40)
def a_file_that_is_no_database_is_put_aside(t):
    folder = t.folder()
    (folder / "oomcast.db").write_bytes(os.urandom(8192))
    tracer = t.trace("--store", folder)
    told = one_kill(t, tracer)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("kills", ask(folder, f"SELECT count(*) FROM episodes WHERE name='{told['id']}'"), [(1,)])
    t.check("was damaged" in tracer.stderr(), f"stderr is {tracer.stderr()!r}")


@case(vm="never", limit_s=40)
def a_store_that_is_removed_meanwhile_is_made_again(t):
    folder = t.folder() / "store"
    tracer = t.trace("--store", folder)
    t.check(lib.wait_until((folder / "oomcast.db").exists, 10), "no store is made")
    shutil.rmtree(folder)
    told = one_kill(t, tracer)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("kills", ask(folder, f"SELECT count(*) FROM episodes WHERE name='{told['id']}'"), [(1,)])


@case(vm="never", limit_s=40)
def no_store_is_written_if_none_is_wanted(t):
    folder = t.folder()
    tracer = t.oomcast("trace", "--json", "--store", "none", environment={"STATE_DIRECTORY": str(folder)}).started()
    tracer.stop()
    t.check_stream(tracer)
    t.equal("files", list(folder.iterdir()), [])
