"""`oomcast history`: kills that logs tell of, each once, and `oomcast report` on them."""

import calendar
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time

import lib
from lib import MiB, case


def kernel_log():
    """The records of the kernel's log as (sequence, microseconds, text)."""
    records = []
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            with contextlib.suppress(BrokenPipeError):
                head, _, rest = os.read(log, 16384).decode(errors="replace").partition(";")
                records.append((int(head.split(",")[1]), int(head.split(",")[2]), head, rest.split("\n")[0]))
    except BlockingIOError:
        return records
    finally:
        os.close(log)


def logs_of(t, pid):
    """The log with the kill of `pid` in three forms: paths by name."""
    records = kernel_log()
    boot = open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", "")
    offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
    folder = t.folder()
    with open(folder / "kmsg", "w") as kmsg, open(folder / "dmesg", "w") as dmesg, open(folder / "journal", "w") as journal:
        for _, us, head, text in records:
            kmsg.write(f"{head};{text}\n")
            dmesg.write(f"[{us // 1_000_000:5d}.{us % 1_000_000:06d}] {text}\n")
            journal.write(json.dumps({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "_BOOT_ID": boot, "MESSAGE": text,
                                      "_SOURCE_MONOTONIC_TIMESTAMP": str(us),
                                      "__REALTIME_TIMESTAMP": str(us + offset_us)}) + "\n")
    t.premise(any(f"Killed process {pid} " in text for *_, text in records), "the kernel's log has no line of the kill")
    return {name: folder / name for name in ("kmsg", "dmesg", "journal")}


def one_kill(t):
    group = t.cgroup().limit(24 * MiB)
    child = t.start(group, "grow", "--anon", "48M")
    t.killed(child)
    return group, child.pid


def history(t, store, *arguments):
    code, out, err = t.run_oomcast("history", "--json", "--store", store, *arguments, timeout=30)
    t.equal(f"exit code of history {arguments}: {lib.one_line(err)}", code, 0)
    return [json.loads(line) for line in out.splitlines()]


def kills_of(store, pid):
    with sqlite3.connect(f"file:{store}/oomcast.db?mode=ro", uri=True) as db:
        return db.execute("SELECT e.name, e.source FROM episodes e JOIN victims v ON v.episode=e.id WHERE v.tid=?",
                          (pid,)).fetchall()


@case(vm="never", limit_s=60, tier="gate")
def a_kill_is_one_however_many_tell_of_it(t):
    store = t.folder() / "store"
    tracer = t.trace("--store", store, "--cgroup", lib.base().path)
    group, pid = one_kill(t)
    told = tracer.wait_for_line("oom", lambda line: (line["limit_cgroup"] or {}).get("id") == group.id)
    tracer.stop()
    logs = logs_of(t, pid)
    for arguments in ((), ("--from", logs["journal"]), ("--from", logs["kmsg"]), ("--from", logs["dmesg"])):
        lines = history(t, store, *arguments)
        mine = [line for line in lines if line["type"] == "oom" and pid in [v["tid"] for v in line["victims"]]]
        t.equal(f"ids that history {arguments} tells", [line["id"] for line in mine], [told["id"]])
        t.equal(f"in the store after it", kills_of(store, pid), [(told["id"], "live")])


@case(vm="never", limit_s=60)
def a_cgroup_may_be_written_as_everywhere_and_a_store_that_is_not_there_is_an_error(t):
    store = t.folder() / "store"
    tracer = t.trace("--store", store, "--cgroup", lib.base().path)
    group, pid = one_kill(t)
    tracer.wait_for_line("oom", lambda line: (line["limit_cgroup"] or {}).get("id") == group.id)
    tracer.stop()
    for typed in (group.path, group.path[1:], group.path + "/", f"/sys/fs/cgroup{group.path}"):
        lines = history(t, store, "--no-kmsg", "--no-import", "--cgroup", typed)
        t.equal(f"kills of {typed}", [line["type"] for line in lines].count("oom"), 1)
    code, out, err = t.run_oomcast("history", "--no-kmsg", "--no-import", "--store", t.folder() / "none")
    t.equal("exit code of a store that is not there", code, 1)
    t.check("none" in err and not out, f"it says {err!r} and {out!r}")


@case(vm="never", limit_s=60, tier="gate")
def a_kill_of_a_log_has_a_report(t):
    _, pid = one_kill(t)
    logs = logs_of(t, pid)
    store = t.folder() / "store"
    for name in ("journal", "dmesg"):
        history(t, store, "--from", logs[name])
    history(t, store)
    kills = kills_of(store, pid)
    if not t.equal("kills in the store", len(kills), 1):
        return
    text = next(text for *_, text in reversed(kernel_log()) if f"Killed process {pid} " in text)
    anon = int(re.search(r"anon-rss:(\d+)kB", text)[1]) << 10
    reports = {}
    for form in ("text", "md", "json", "html"):
        code, reports[form], err = t.run_oomcast("report", "--store", store, kills[0][0], "--format", form)
        t.equal(f"exit code of report --format {form}: {lib.one_line(err)}", code, 0)
    post = json.loads(reports["json"])
    victim = post["oom"]["victims"][0]
    t.equal("the victim", [victim["tid"], victim["anon_bytes"]], [pid, anon])
    t.equal("the limit", post["oom"]["limit_bytes"], 24 * MiB)
    t.check(post["memory"] and post["memory"]["source"] == "kernel_log", f"memory is {post['memory']}")
    t.check(any("oomcast did not run" in line for line in post["unknown"]), f"unknown is {post['unknown']}")
    for form in ("text", "md", "html"):
        t.check("24.0 MiB" in reports[form], f"the {form} does not name the limit")


@case(vm="never", limit_s=40)
def a_kill_of_another_host_is_kept_with_its_host_where_the_store_is_named(t):
    folder = t.folder()
    with open(folder / "syslog", "w") as log:
        for host, pid in (("node-b", 901), (os.uname().nodename, 902)):
            log.write(f"2026-07-01T10:00:0{pid % 10}.000000+00:00 {host} kernel: [ 1000.00000{pid % 10}] Out of memory: Killed "
                      f"process {pid} (job) total-vm:2000kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:0 "
                      "pgtables:8kB oom_score_adj:0\n")
    lines = history(t, folder / "store", "--from", folder / "syslog")
    told = {victim["tid"] for line in lines if line["type"] == "oom" for victim in line["victims"]}
    t.equal("kills that are told", told, {901, 902})
    t.equal("of both in the store", [len(kills_of(folder / "store", pid)) for pid in (901, 902)], [1, 1])
    hosts = {line["victims"][0]["tid"]: line["host"] for line in history(t, folder / "store", "--no-kmsg") if line["type"] == "oom"}
    t.equal("hosts in the store", hosts, {901: "node-b", 902: None})


@case(vm="never", limit_s=40)
def a_kill_without_a_time_of_day_is_not_kept_and_that_is_said(t):
    folder = t.folder()
    (folder / "dmesg").write_text("[    7.000001] Out of memory: Killed process 4194301 (job) total-vm:2000kB, anon-rss:1000kB, "
                                  "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:8kB oom_score_adj:0\n")
    code, _, err = t.run_oomcast("history", "--quiet", "--store", folder / "store", "--from", folder / "dmesg")
    t.equal("exit code", code, 0)
    t.check("1 kill is not kept: a log that only counts from a boot" in err, f"stderr is {err!r}")


def forged(host, minute, pid=902, comm="systemd", anon="99614720kB"):
    """As `logger -t kernel` by any user has it in a syslog."""
    return (f"2026-07-01T10:{minute:02d}:00.000000+00:00 {host} kernel: [ {minute}000.000000] Out of memory: Killed process {pid} "
            f"({comm}) total-vm:199614720kB, anon-rss:{anon}, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:8kB "
            "oom_score_adj:0\n")


@case(vm="never", limit_s=60, tier="gate")
def what_any_user_can_write_to_a_log_is_told_as_that_and_makes_no_history(t):
    folder = t.folder()
    own = os.uname().nodename
    (folder / "syslog").write_text("".join(forged(own, minute, pid=900 + minute) for minute in (1, 11, 21, 31)))
    code, text, err = t.run_oomcast("history", "--from", folder / "syslog")
    t.equal(f"exit code: {lib.one_line(err)}", code, 0)
    t.check("this file cannot show that the kernel wrote it" in text, f"no word of doubt: {text}")
    t.check("doubtful: 95.0 GiB" in text, f"more memory than the machine has is not doubted: {text}")
    lines = history(t, folder / "store", "--from", folder / "syslog")
    kills = [line for line in lines if line["type"] == "oom"]
    t.equal("written_by_kernel", [line["written_by_kernel"] for line in kills], [None] * 4)
    t.check(all("doubtful" in line["doubt"] for line in kills), f"doubt is {[line['doubt'] for line in kills]}")
    again = history(t, folder / "store", "--no-kmsg")
    for told in lines, again:
        t.equal("recurrences", [line for line in told if line["type"] == "recurrence"], [])
    t.equal("kills in the store that are told so", [line["written_by_kernel"] for line in again if line["type"] == "oom"], [None] * 4)
    code, text, err = t.run_oomcast("report", "--no-kmsg", "--store", folder / "store")
    t.check("this file cannot show that the kernel wrote it" in " ".join(text.split()), f"the report says {text}")
    code, text, err = t.run_oomcast("report", "--no-kmsg", "--store", folder / "store", "--format", "json")
    t.equal("written_by_kernel of the report", [json.loads(text)["written_by_kernel"], len(json.loads(text)["earlier"])], [None, 0])


@case(vm="never", limit_s=60)
def a_kill_of_a_text_file_is_confirmed_by_the_kernels_ring_or_the_journal(t):
    _, pid = one_kill(t)
    logs = logs_of(t, pid)
    store = t.folder() / "store"

    def mine(lines):
        return [line["written_by_kernel"] for line in lines if line["type"] == "oom" and pid in [v["tid"] for v in line["victims"]]]
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    text = next(text for *_, text in reversed(kernel_log()) if f"Killed process {pid} " in text)
    syslog = logs["dmesg"].with_name("syslog")
    syslog.write_text(f"{now} {os.uname().nodename} kernel: {text}\n")
    t.equal("by the syslog alone", mine(history(t, store, "--from", syslog)), [None])
    t.equal("its source in the store", [source for _, source in kills_of(store, pid)], ["file"])
    t.equal("by a file of journald's records", mine(history(t, t.folder() / "store", "--from", logs["journal"])), [True])
    t.equal("by the kernel's ring", mine(history(t, store)), [True])
    t.equal("its source in the store", [source for _, source in kills_of(store, pid)], ["kmsg"])
    t.equal("from then on", mine(history(t, store, "--no-kmsg")), [True])


@case(vm="never", limit_s=40)
def a_store_of_a_strange_schema_is_left_alone(t):
    folder = t.folder()
    with sqlite3.connect(folder / "oomcast.db") as db:
        db.executescript("PRAGMA application_id=0x6f6f6d63; PRAGMA user_version=1; CREATE TABLE meta(key, value);")
    before = (folder / "oomcast.db").read_bytes()
    tracer = t.trace("--store", folder, "--cgroup", lib.base().path)
    tracer.stop()
    t.check_stream(tracer)
    t.check("schema 1" in tracer.stderr() and "move it away" in tracer.stderr(), f"stderr is {tracer.stderr()!r}")
    t.equal("the file is as it was", (folder / "oomcast.db").read_bytes() == before, True)


def until_killed(pid):
    """The records of the kernel's log up to the end of the report of `pid`'s kill: another may come at any time."""
    records = kernel_log()
    last = max(i for i, (*_, text) in enumerate(records) if f"rocess {pid} (" in text)
    return records[:last + 1]


def newest_report(t, *arguments, log=None, **options):
    command = [str(t.oomcast_path), "report", *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, input=log, timeout=30, **options)
    t.equal(f"exit code of report {lib.one_line(done.stderr.decode())}", done.returncode, 0)
    return json.loads(done.stdout)


@case(vm="never", limit_s=60, tier="gate")
def a_kill_that_nobody_watched_is_reported_by_the_first_command_ever(t):
    empty = {**os.environ, "STATE_DIRECTORY": str(t.folder() / "none"), "HOME": str(t.folder())}
    group, pid = one_kill(t)
    _, us, _, text = next(record for record in reversed(kernel_log()) if f"Killed process {pid} " in record[3])
    mine = newest_report(t, env=empty)
    t.premise(pid in [v["tid"] for v in mine["oom"]["victims"]], "another was killed meanwhile")
    victim = mine["oom"]["victims"][0]
    t.equal("victim", [victim["tid"], victim["anon_bytes"]], [pid, int(re.search(r"anon-rss:(\d+)kB", text)[1]) << 10])
    t.equal("limit", [mine["oom"]["limit_bytes"], mine["oom"]["limit_cgroup"]["path"]], [24 * MiB, group.path])
    t.equal("who tells", [mine["source"], mine["written_by_kernel"], mine["host"]], ["kmsg", True, None])
    t.check(abs(mine["since_boot_s"] - us / 1e6) < 1e-5, f"since the boot: {mine['since_boot_s']}, truly {us / 1e6}")
    table = mine["memory_table"]
    t.equal("the table is of the usage", [table["of"], table["whole_bytes"]], ["cgroup", mine["oom"]["usage_bytes"]])
    t.check(abs(sum(row["bytes"] for row in table["rows"]) - table["whole_bytes"]) <= 0.02 * table["whole_bytes"],
            f"it does not sum up to it: {table}")
    t.equal("processes of the kernel's table", mine["tasks"]["listed"], len(mine["oom"]["victims"]))
    t.check(mine["prevention"] and mine["next"], f"no advice: {mine['prevention']}, {mine['next']}")
    for form in ("text", "md"):
        code, out, err = t.run_oomcast("report", mine["id"], "--format", form, env=empty)
        t.equal(f"exit code of report --format {form}: {lib.one_line(err)}", code, 0)
        t.check("24.0 MiB" in out and "WHY" in out.upper(), f"the {form} is {lib.shortened(out)}")
    t.check(not os.path.exists(empty["STATE_DIRECTORY"]), "a report made a store")


@case(vm="never", limit_s=60, tier="gate")
def a_report_is_the_same_of_each_form_of_the_log(t):
    group, pid = one_kill(t)
    records = until_killed(pid)
    us, text = next((us, text) for _, us, _, text in reversed(records) if f"Killed process {pid} " in text)
    since_epoch = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def stamp(at, form):
        return time.strftime(form, time.localtime((at + since_epoch) // 1_000_000))
    boot = open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", "")
    forms = {
        "dmesg": [f"[{at // 1_000_000:5d}.{at % 1_000_000:06d}] {line}" for _, at, _, line in records],
        "dmesg -T": [f"[{stamp(at, '%a %b %e %H:%M:%S %Y')}] {line}" for _, at, _, line in records],
        "kmsg": [f"{head};{line}" for *_, head, line in records],
        "journalctl -o json": [json.dumps({
            "_TRANSPORT": "kernel", "_BOOT_ID": boot, "MESSAGE": line, "_SOURCE_MONOTONIC_TIMESTAMP": str(at),
            "__REALTIME_TIMESTAMP": str(at + since_epoch)}) for _, at, _, line in records]}
    anon = int(re.search(r"anon-rss:(\d+)kB", text)[1]) << 10
    folder = t.folder()
    for name, lines in forms.items():
        log = "".join(line + "\n" for line in lines).encode()
        post = newest_report(t, "--from", "-", log=log)
        victim = post["oom"]["victims"][0]
        t.equal(f"victim by {name}", [victim["tid"], victim["anon_bytes"]], [pid, anon])
        t.equal(f"limit by {name}", [post["oom"]["limit_bytes"], post["oom"]["limit_cgroup"]["path"]], [24 * MiB, group.path])
        told = calendar.timegm(time.strptime(post["time"][:19], "%Y-%m-%dT%H:%M:%S"))
        t.check(abs(told - (us + since_epoch) // 1_000_000) <= 2, f"by {name} it was at {post['time']}")
        (folder / name.replace(" ", "")).write_bytes(log)
    post = newest_report(t, "--from", folder, "--store", folder / "store")
    t.equal("victim by the folder", post["oom"]["victims"][0]["tid"], pid)
    t.equal("files that have it", len(post["files"]), len(forms))
    t.equal("kept in the store that was named", len(kills_of(folder / "store", pid)), 1)


@case(vm="never", limit_s=60)
def who_may_not_read_the_kernel_log_is_told_so(t):
    setpriv = shutil.which("setpriv")
    if not setpriv:
        t.skip("no setpriv")
    home = t.folder()
    os.chmod(home, 0o755)
    binary = home / "oomcast"
    shutil.copy(t.oomcast_path, binary)
    closed = t.folder()  # of another user's, as sudo -u leaves it in HOME
    os.chmod(closed, 0o700)
    for command, user_home in (("report", home), ("history", home), ("report", closed)):
        done = subprocess.run([setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", binary, command],
                              capture_output=True, timeout=30, env={"PATH": os.environ["PATH"], "HOME": str(user_home)})
        t.premise(b"kernel log" in done.stderr or done.returncode != 0, "here any user may read the kernel log")
        t.equal(f"exit code of {command}: {lib.one_line(done.stderr.decode())}", done.returncode, 3)
        t.check(b"sudo oomcast report" in done.stderr, f"it says {done.stderr!r}")
