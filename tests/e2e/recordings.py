"""`oomcast record`, `replay` and `compare`: what was said live is said again, and nothing is lost with the process."""

import array
import contextlib
import fcntl
import json
import signal
import sqlite3
import termios

import lib
from lib import MiB, case


def start(t, file, *arguments, **options):
    group = t.cgroup().limit(64 * MiB)
    return group, t.oomcast("record", "-o", file, "--cgroup", group.path, "--json", *arguments, **options).started()


def same_again(t, tracer, file):
    """What a replay prints is what was printed live, to the byte."""
    code, out, err = t.run_oomcast("replay", file, "--json")
    t.equal("exit code of replay", code, 0)
    t.equal("stderr of replay", err, "")
    live = tracer.lines.raw
    again = out.encode(errors="surrogateescape").splitlines(keepends=True)
    differing = [pair for pair in zip(live, again) if pair[0] != pair[1]]
    t.check(not differing and len(live) == len(again),
            f"{len(live)} lines live, {len(again)} replayed; the first that differ: {lib.shortened(str(differing[:1]), 3000)}")


@case(vm="all", limit_s=40, tier="gate")
def a_replay_says_byte_for_byte_what_the_live_run_said(t):
    file = t.folder() / "run.db"
    group, tracer = start(t, file)
    child = t.start(group, "grow", "--go", "--rate", "20M", "--anon", "128M")
    child.wait_for("ready")
    child.go()
    t.killed(child)
    tracer.wait_for_line("oom")
    tracer.stop()
    t.check_stream(tracer)
    t.check(tracer.all("forecast"), "no forecast was made")
    same_again(t, tracer, file)


@case(vm="never", limit_s=60)
def a_replay_forgets_a_cgroup_when_the_live_run_did(t):
    file = t.folder() / "run.db"
    group, tracer = start(t, file)
    job = group.child("job")
    child = t.start(job, "grow", "--go", "--rate", "4M", "--anon", "56M", "--hold", "20000")
    child.wait_for("ready")
    child.go()
    tracer.wait_for_line("forecast", lambda line: line["verdict"] == "leak" and (line["cgroup"] or {}).get("id") == job.id, timeout=15)
    child.end()
    job.remove()
    # It is forgotten, and its silence would be news. Something beside it that moves shows how far the run has come.
    beside = t.start(group, "grow", "--rate", "512K", "--step", "128K", "--anon", "24M")
    tracer.told_until(lib.time.time_ns() + int(lib.seconds(12) * 1e9), timeout=20)
    beside.end()
    tracer.stop()
    t.check_stream(tracer)
    same_again(t, tracer, file)


@case(vm="never", limit_s=60)
def a_replay_of_the_machine_and_of_a_process_tree_say_the_same_too(t):
    folder = t.folder()
    child = t.start(t.cgroup(), "grow", "--go", "--rate", "9M", "--anon", "100M", "--hold", "30000")
    child.wait_for("ready")
    machine = t.oomcast("record", "-o", folder / "machine.db", "--json", "--for", "16s", "--alert", "level>64M",
                        "--touch", folder / "touched").started()
    tree = t.oomcast("record", "-o", folder / "tree.db", "--json", "--for", "16s", "--pid", child.pid).started()
    child.go()
    for tracer, file in ((machine, folder / "machine.db"), (tree, folder / "tree.db")):
        tracer.finish(timeout=25)
        t.check_stream(tracer)
        same_again(t, tracer, file)
    t.check(machine.all("alert"), "no alert came")
    t.check(tree.all("forecast"), "no forecast was made of the tree")


# Full of what cannot be dropped, and reading again and again what must be: holes in a file, of which a page takes no disk.
# What is left for that are 12 MiB: with 5 the kernel found nothing to drop at times, and killed.
THRASH = f"""
import mmap, os, sys
rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) << 10
held = mmap.mmap(-1, {243 * MiB} - rss)
for at in range(0, len(held), 4096):
    held[at] = 1
with open(sys.argv[1], "r+b") as f:
    read = mmap.mmap(f.fileno(), {256 * MiB}, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
os.fork()
while True:
    for at in range(0, len(read), 4096):
        read[at]
"""


@case(vm="never", limit_s=90)
def a_cgroup_that_thrashes_and_is_not_killed_is_an_alert_live_and_replayed(t):
    folder = t.folder()
    holes = folder / "holes"
    with open(holes, "wb") as f:
        f.truncate(256 * MiB)
    group = t.cgroup().limit(256 * MiB)
    stop = folder / ".stop"
    tracer = t.oomcast("record", "-o", folder / "run.db", "--cgroup", group.path, "--json", "--alert", "eta<20m", "--touch",
                       stop).started()
    child = t.start(group, "/usr/bin/python3", "-c", THRASH, holes)
    # Where the kernel finds nothing to drop any more it kills, and there is nothing to see.
    tracer.wait_for("alert", lambda: tracer.all("alert") or tracer.all("oom"), 40)
    t.log.sync(1)
    t.premise(not any(k.tid == child.pid for k in t.log.kills), "the kernel killed what was to thrash")
    alert = tracer.wait_for_line("alert")
    t.check("thrashed" in alert["message"], f"the message is {alert['message']!r}")
    t.check(stop.exists(), "the file was not touched")
    told = tracer.wait_for_line("forecast", lambda line: line["evidence"]["thrashing"])
    t.equal("alert", told["alert"], True)
    t.check("is not killed" in told["why"], f"why is {told['why']!r}")
    t.check(told["evidence"]["thrashing"]["lasts_s"] >= 5, f"{told['evidence']}")
    t.premise(not any(k.tid == child.pid for k in t.log.kills), "the kernel killed what was to thrash")
    t.equal("kills", tracer.all("oom"), [])
    child.end()
    tracer.stop()
    t.check_stream(tracer)
    same_again(t, tracer, folder / "run.db")


@case(limit_s=40, tier="gate")
def what_a_killed_recorder_saw_is_in_the_file(t):
    file = t.folder() / "run.db"
    group, tracer = start(t, file)
    child = t.start(group, "grow", "--go", "--rate", "10M", "--anon", "32M", "--hold", "20000")
    child.wait_for("ready")
    child.go()
    tracer.wait_for("samples", lambda: len(tracer.all("sample")) >= 5)
    seen, when = len(tracer.all("sample")), lib.time.time_ns()
    tracer.told_until(when + int(lib.seconds(1.5) * 1e9))
    tracer.process.send_signal(signal.SIGKILL)
    tracer.process.wait()
    code, out, err = t.run_oomcast("replay", file, "--json")
    t.equal("exit code of replay", code, 0)
    samples = [line for line in map(json.loads, out.splitlines()) if line["type"] == "sample"]
    t.check(len(samples) >= seen, f"{len(samples)} samples of the {seen} that were told over a second before the end")
    t.check("has no end" in err, f"stderr is {err!r}")
    code, out, err = t.run_oomcast("compare", file, file)
    t.equal("exit code of compare", code, 0)
    t.check("has no end" in err, f"stderr of compare is {err!r}")


@case(tier="gate")
def an_existing_file_is_not_replaced(t):
    file = t.folder() / "run.db"
    file.write_text("precious")
    code, _, err = t.run_oomcast("record", "-o", file, "--for", "1s")
    t.equal("exit code", code, 1)
    t.check("--force" in err, f"stderr is {err!r}")
    t.equal("the file", file.read_text(), "precious")


@case(vm="never", limit_s=60)
def two_runs_are_compared_on_one_time_axis(t):
    files = []
    for rate, hold_ms in (("4M", 500), ("20M", 9000)):
        file = t.folder() / "run.db"
        group, tracer = start(t, file)
        child = t.start(group, "grow", "--rate", rate, "--anon", "40M", "--hold", hold_ms)
        child.wait(30)
        tracer.stop()
        files.append(file)
    code, out, err = t.run_oomcast("compare", *files, "--json")
    t.equal("exit code", code, 0)
    both = json.loads(out)
    t.check(lib.epoch_ns(both["time"]) > 0, "no time")
    for side in ("a", "b"):
        run = both[side]
        t.equal(f"{side}: minutes", [p["minute"] for p in run["points"]], [0, 5, 10, 20, 30, 60])
        t.check(run["points"][0]["level_bytes"] is not None, f"{side}: nothing at the start")
        t.equal(f"{side}: level after five minutes", run["points"][1]["level_bytes"], None)
        t.check(30 * MiB < run["highest_bytes"] < 64 * MiB, f"{side}: highest is {run['highest_bytes']}")
        t.check(run["lasted_s"] > 8, f"{side}: lasted {run['lasted_s']} s: a time without change is one, too")
        t.equal(f"{side}: kills", run["oom_kills"], 0)
    t.check("A" in both["difference"] and "B" in both["difference"], both["difference"])


@case(vm="never")
def a_recording_is_compared_with_a_series(t):
    folder = t.folder()
    group, tracer = start(t, folder / "run.db", "--for", "3s")
    t.start(group, "grow", "--anon", "16M", "--hold", "20000").wait_for("ready")
    tracer.finish()
    (folder / "run.csv").write_text("time_s,used_bytes\n" + "".join(f"{7 + i},{100 * MiB}\n" for i in range(700)))
    code, out, err = t.run_oomcast("compare", folder / "run.db", folder / "run.csv", "--json")
    t.equal("exit code", code, 0)
    a, b = (json.loads(out)[side] for side in ("a", "b"))
    t.equal("series of A", a["series"], group.path)
    t.equal("level of B after ten minutes", b["points"][2]["level_bytes"], 100 * MiB)
    t.equal("verdict of B", b["end"]["verdict"], "stable")
    t.equal("kills of B", b["oom_kills"], None)
    code, _, err = t.run_oomcast("compare", folder / "run.db", folder / "run.csv", "--cgroup", "/nowhere")
    t.equal("exit code for a cgroup that is not in it", code, 1)
    t.check(group.path in err, f"what is in it is not told: {err!r}")


@case(vm="never")
def two_loaders_are_compared_by_the_private_memory_of_their_processes(t):
    files = []
    for grows in (MiB, 0):  # of each worker, every second, while its RSS stays
        file = t.folder() / "loader.csv"
        file.write_text("time_s,pid,rss_bytes,uss_bytes\n" + "".join(
            f"{i},{pid},{900 * MiB},{20 * MiB + i * grows}\n" for i in range(400) for pid in (7, 8, 9)))
        files.append(file)
    code, out, err = t.run_oomcast("compare", *files, "--json")
    t.equal("exit code", code, 0)
    a, b = (json.loads(out)[side] for side in ("a", "b"))
    t.equal("level after five minutes", [run["points"][1]["level_bytes"] for run in (a, b)], [960 * MiB, 60 * MiB])
    t.equal("verdicts", [run["end"]["verdict"] for run in (a, b)], ["cow", "stable"])


@case(vm="never")
def what_happens_is_told_while_it_is_recorded(t):
    file = t.folder() / "run.db"
    group = t.cgroup().limit(48 * MiB)
    text, errors = t.folder() / "out", t.folder() / "err"
    with open(text, "w") as out, open(errors, "w") as err:
        tracer = lib.subprocess.Popen([str(t.oomcast_path), "record", "-o", str(file), "--cgroup", group.path],
                                      stdout=out, stderr=err, stdin=lib.subprocess.DEVNULL)
    t.later(tracer.kill)
    t.check(lib.wait_until(file.exists, 15), "no file is made")
    child = t.start(group, "grow", "--go", "--rate", "8M", "--anon", "128M")
    child.wait_for("ready")
    child.go()
    t.killed(child, 30)
    lib.wait_until(lambda: "OOM kill: " in text.read_text(), 3)
    tracer.send_signal(signal.SIGTERM)
    t.equal("exit code", tracer.wait(lib.seconds(10)), 0)
    told = text.read_text()
    t.equal("OOM kills told", told.count("OOM kill: "), 1)
    t.check("leak" in told, f"no verdict was told: {told!r}")
    t.check("sample" not in told and "reclaim" not in told, f"numbers were told: {told!r}")
    t.check("with 1 OOM kill in" in told.splitlines()[-1], f"the last line is {told.splitlines()[-1]!r}")
    t.equal("stderr", errors.read_text(), "")
    code, out, err = t.run_oomcast("replay", file, "--every", "1m")
    t.equal("exit code for an option that is for CSV", code, 2)
    block = told[told.index("OOM kill: "):told.index(" by its counter")]
    code, out, err = t.run_oomcast("replay", file)
    t.check(block in out, f"a kill of several lines is replayed as it was told: {out!r}")


@case(vm="never", tier="gate")
def a_bad_series_is_2_with_its_line(t):
    folder = t.folder()
    for text, expected in (("time_s,used_bytes\n0,1\n1,x\n", ":3: used_bytes is 'x'"), ("", ":1: the file is empty"),
                           ("time_s,used_bytes\n2,1\n1,1\n", ":3: time runs backwards"),
                           ("time_s,rss\n0,1\n", ":1: column used_bytes is missing"),
                           ("time_s,used_bytes\n0,nan\n", ":2: used_bytes is 'nan'")):
        file = folder / "bad.csv"
        file.write_text(text)
        code, out, err = t.run_oomcast("replay", file, "--json")
        t.equal(f"exit code for {text!r}", code, 2)
        t.check(f"{file}{expected}" in err, f"stderr is {err!r}")
        lines = [json.loads(line)["type"] for line in out.splitlines()]
        t.check(not lines or [lines[0], lines[-1]] == ["start", "end"], f"before the bad line it says {lines}")


@case(vm="never", tier="gate")
def curves_that_other_tools_wrote_are_forecast(t):
    """A leak of 1 MiB/s each: verdict, limit and names as the form has them, and how it was read on stderr."""
    def clock(i):
        return f"2024-03-01 {10 + i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}"
    seconds = range(0, 300, 2)
    prometheus = [[1709287200 + i, str((200 + i) << 20)] for i in seconds]
    forms = {
        "docker stats": "".join(f"{clock(i).replace(' ', 'T')}Z web 1.0% {200 + i}.0MiB / 1GiB 20%\n" for i in seconds),
        "sar -r": "# hostname;interval;timestamp;kbmemfree;kbmemused;%memused;kbbuffers;kbcached\n" + "".join(
            f"box;2;{clock(i)} UTC;{(824 - i) << 10};{(200 + i) << 10};20.00;0;0\n" for i in seconds),
        "free": "".join(f"{clock(i)}\n total used free shared buff/cache available\nMem: 1024 9 9 9 9 {824 - i}\n" for i in seconds),
        "psrecord": "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n" + "".join(
            f"    {i}.000   20.000   {200 + i}.000   7570.000\n" for i in seconds),
        "a table": "timestamp;rss_mb;limit_mb\n" + "".join(f"{clock(i)};{200 + i},0;1024\n" for i in seconds),
        "Prometheus": json.dumps({"data": {"result": [{"metric": {"pod": "a"}, "values": prometheus}]}}),
    }
    for form, text in forms.items():
        file = t.folder() / "curve"
        file.write_text(text)
        code, out, err = t.run_oomcast("replay", file, "--json", "--every", "1m", "--limit", "1G")
        t.equal(f"{form}: exit code", code, 0)
        lines = [json.loads(line) for line in out.splitlines()]
        t.check(f"read as {form}" in err and form in lines[0]["read_as"], f"{form}: stderr is {err!r}")
        last = lines[-2]
        t.equal(f"{form}: verdict", last["verdict"], "leak")
        t.check(abs(last["growth_bytes_per_s"] / MiB - 1) < 0.05, f"{form}: {last['growth_bytes_per_s']} bytes per second")
        t.check(abs(last["eta_s"] - (824 - 298)) < 30, f"{form}: eta_s is {last['eta_s']}, truly {824 - 298}")


@case(vm="never")
def several_curves_of_a_file_are_forecast_each(t):
    file = t.folder() / "gpus.csv"
    file.write_text("timestamp, index, memory.used [MiB], memory.total [MiB]\n" + "".join(
        f"2024/03/01 10:{i // 60:02}:{i % 60:02}.1, {card}, {100 + i * card} MiB, 16384 MiB\n" for i in range(300) for card in (0, 1)))
    code, out, err = t.run_oomcast("replay", file, "--json", "--every", "1m")
    t.equal("exit code", code, 0)
    last = {line["series"]: line for line in map(json.loads, out.splitlines()) if line["type"] == "forecast"}
    t.equal("verdicts", {name: line["verdict"] for name, line in last.items()}, {"GPU 0": "stable", "GPU 1": "leak"})
    t.equal("limit", last["GPU 1"]["limit_bytes"], 16384 * MiB)
    code, out, _ = t.run_oomcast("replay", file)
    t.check("GPU 1: leak" in out, f"it says {out[-500:]!r}")


@case(vm="never", tier="gate")
def a_curve_that_cannot_be_read_names_the_command_that_reads_it(t):
    file = t.folder() / "mem.log"
    file.write_text("".join(f"{1700000000 + i} {200001 + i * 1024}\n" for i in range(200)))
    code, out, err = t.run_oomcast("replay", file)
    t.equal("exit code", code, 2)
    t.check(f"{file}:1: column used_bytes is missing" in err and "the columns are: 1, 2" in err, f"stderr is {err!r}")
    command = err.splitlines()[-1].partition("To read it: oomcast ")[2].split()
    t.equal("command", command, ["replay", str(file), "--column", "2", "--unit", "KiB"])
    code, out, err = t.run_oomcast(*command)
    t.equal("exit code of that command", code, 0)
    t.check("leak" in out.splitlines()[-1], f"it says {out[-300:]!r}")


@case(vm="never")
def two_runs_are_compared_to_an_answer(t):
    def curve(name, seconds, grows):
        file = t.folder() / name
        file.write_text("time,rss_mb\n" + "".join(f"{i},{200 + i * grows}\n" for i in range(seconds)))
        return file
    before = curve("before.csv", 600, 1)
    for after, helped in ((curve("cured.csv", 600, 0), True), (curve("same.csv", 600, 1), False), (curve("short.csv", 4, 0), None)):
        code, out, err = t.run_oomcast("compare", before, after, "--json")
        t.equal("exit code", code, 0)
        fix = json.loads(out)["fix"]
        t.equal(f"{after.name}: helped", fix["helped"], helped)
        t.check((fix["run_for_s"] is None) == (helped is not None), f"{after.name}: {fix}")
        code, out, err = t.run_oomcast("compare", before, after)
        t.equal(f"{after.name}: last line", out.splitlines()[-1], "Did the fix help? " + fix["why"])


@case(vm="never", tier="gate")
def one_forecast_for_each_time_that_was_asked_for(t):
    file = t.folder() / "leak.csv"
    file.write_text("time_s,used_bytes,limit_bytes\n" + "".join(f"{i * 5},{(100 + i) << 20},{1 << 30}\n" for i in range(241)))
    code, out, _ = t.run_oomcast("replay", file, "--json", "--every", "1m")
    t.equal("exit code", code, 0)
    lines = [json.loads(line) for line in out.splitlines()]
    t.equal("first and last", [lines[0]["type"], lines[-1]["type"]], ["start", "end"])
    t.equal("times", [line["time_s"] for line in lines[1:-1]], [60 * i for i in range(21)])
    last = lines[-2]
    t.equal("verdict", last["verdict"], "leak")
    t.check(abs(last["eta_s"] - (924 - 240) * 5) < 100, f"eta_s is {last['eta_s']}, truly {(924 - 240) * 5}")
    t.check(last["eta_low_s"] <= last["eta_s"] <= last["eta_high_s"], f"interval {last['eta_low_s']} {last['eta_high_s']}")


@case(vm="never", tier="gate")
def a_series_that_is_still_written_is_told_as_it_grows_and_a_signal_ends_it_with_an_end(t):
    """Row by row on a pipe; and whoever does not read the output keeps no signal from ending it."""
    pipe = lib.subprocess.PIPE
    tracer = lib.subprocess.Popen([str(t.oomcast_path), "replay", "-", "--json"], stdin=pipe, stdout=pipe)
    t.later(tracer.kill)
    told = lib.Lines(tracer.stdout, json.loads)
    tracer.stdin.write(b"time_s,used_bytes\n")
    for row in range(3):
        tracer.stdin.write(b"%d,%d\n" % (row, (row + 1) << 20))
        tracer.stdin.flush()
        t.check(told.wait(lambda: len(told.items) == row + 2, 10), f"{len(told.items)} lines after {row + 1} rows")
    tracer.send_signal(signal.SIGINT)
    t.equal("exit code", tracer.wait(lib.seconds(5)), 0)
    told.join(5)
    t.equal("types", [line["type"] for line in told.items], ["start"] + 3 * ["forecast"] + ["end"])
    unread = lib.subprocess.Popen([str(t.oomcast_path), "replay", "-", "--json"], stdin=pipe, stdout=pipe,
                                  stderr=lib.subprocess.DEVNULL)
    t.later(unread.kill)
    unread.stdin.write(b"time_s,used_bytes\n" + b"".join(b"%d,1048576\n" % row for row in range(4000)))
    unread.stdin.flush()
    unread_bytes = array.array("i", [0])

    def is_full():
        fcntl.ioctl(unread.stdout, termios.FIONREAD, unread_bytes)
        return unread_bytes[0] > 60_000
    t.check(lib.wait_until(is_full, 10), f"only {unread_bytes[0]} bytes were written")
    unread.send_signal(signal.SIGTERM)
    t.equal("exit code of one whose output nobody reads", unread.wait(lib.seconds(5)), 1)


@case(vm="never")
def lines_that_a_stranger_wrote_into_a_recording_reach_no_terminal(t):
    file = t.folder() / "run.db"
    _, tracer = start(t, file)
    tracer.stop()
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        changed = database.execute("UPDATE events SET text = ?, json = ?",
                                   ("\x1b]0;title\x07\x1b[2J\u202e", '{"type": "\x1b[2J"}\n{}'))
        t.check(changed.rowcount > 0, "no line is in the recording")
    code, out, _ = t.run_oomcast("replay", file)
    t.equal("exit code of replay", code, 0)
    t.check("title" in out and not set(out) & set("\x1b\x07\u202e"), f"it wrote {out[:200]!r}")
    code, out, err = t.run_oomcast("replay", file, "--json")
    t.check("\x1b" not in out and "no JSON" in err, f"it wrote {out[:200]!r} and said {err[-300:]!r}")
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE events SET json = ?", ('{"type":"a\u202e\u009b31m\x7fb"}',))
    code, out, _ = t.run_oomcast("replay", file, "--json")
    t.check(r'"a\u202e\u009b31m\u007fb"' in out and not set(out) & set("\u202e\u009b\x7f"), f"it wrote {out[:200]!r}")
