"""Alerts and their actions: on real leaks, before the kill, and never in the way of the tracing."""

import contextlib
import os
import pathlib
import sys
import time

import lib
from lib import MiB, VM, case
from run_command import left_behind, start

PACE = 0.25 if VM else 0.05  # seconds for each MiB

# Holds 1 MiB more each PACE.
LEAK = f"from time import sleep\nkept = []\nwhile True:\n kept.append(b'x' * {MiB})\n sleep({PACE})\n"

# The trainer of the incidents: on SIGUSR1 it writes a checkpoint and ends. With "worker", what grows is a forked worker.
TRAINER = f"""import json, os, signal, sys
from time import sleep
trainer = os.getpid()
def checkpoint(*_):
    if os.getpid() != trainer:
        os._exit(9)
    with open(sys.argv[1], "w") as f:
        f.write("checkpoint")
    sys.exit(0)
signal.signal(signal.SIGUSR1, checkpoint)
print(json.dumps({{"event": "ready"}}), flush=True)
if sys.argv[2:] == ["worker"] and os.fork() != 0:
    while True:
        sleep(1)
kept = []
while True:
    kept.append(b"x" * {MiB})
    sleep({PACE})
"""

# Holds 64 MiB with three forked workers that share them, and never moves again. The workers end with it.
SHARERS = f"""import json, os, signal
kept = b"x" * (64 * {MiB})
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
print(json.dumps({{"event": "ready"}}), flush=True)
signal.pause()
"""


def index(tracer, kind, matches=lambda line: True):
    return next((i for i, line in enumerate(tracer.lines.items) if line["type"] == kind and matches(line)), None)


def alerts_of(tracer):
    """Each alert as it was told last: one whose action takes more than a second is told again when that ends."""
    return list({(a["time"], a["rule"], (a["cgroup"] or {}).get("path")): a for a in tracer.all("alert")}.values())


def has_acted(alert):
    return alert["action"]["result"] != "running"


def check_alert(t, alert, rule, path):
    t.equal("rule", alert["rule"], rule)
    t.equal("path of the alert's cgroup", (alert["cgroup"] or {}).get("path"), path)
    t.check(alert["message"], "the alert has no message")
    t.check("forecast" in alert and "action" in alert, f"the alert lacks a field: {lib.shortened(alert)}")


def hanging(t, beside=""):
    """A command that never ends, and another beside it. What oomcast leaves of it ends with the case: it is told by its
    environment from what others run."""
    mark = os.fsencode(f"E2E_CASE={os.getpid()}-{time.monotonic_ns()}")

    def end():
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), 9)
    t.later(end)
    return f"export {mark.decode()}; {beside} exec sleep 1234"


@case(vm="never", limit_s=40, tier="gate")
def every_action_runs_before_the_kill(t):
    folder = t.folder()
    stop, said = folder / ".stop", folder / "said"
    command = f'env | grep ^OOMCAST_ > {said}; echo "$OOMCAST_RULE" >> {folder}/rules'
    home, run = start(t, "--json", "--memory", "80M", "--alert", "level>60%", "--touch", stop, "--exec", command,
                      "--signal", "CONT", "--", "python3", "-c", LEAK)
    t.equal("exit code", run.finish(35), 137)
    t.check_stream(run, 137)
    alerts = alerts_of(run)
    if not t.check(len(alerts) == 1, f"not one alert but {[(a['time'], a['message']) for a in alerts]}"):
        return
    alert = alerts[0]
    check_alert(t, alert, "level>60%", run.all("oom")[0]["limit_cgroup"]["path"])
    t.check(index(run, "alert") < index(run, "oom"), "the alert is told after the kill")
    t.check(lib.epoch_ns(alert["time"]) < lib.epoch_ns(run.all("oom")[0]["time"]), "the alert's time is after the kill's")
    action = alert["action"]
    t.equal("result", action["result"], "ok")
    t.equal("touched file", action["touch"]["file"], str(stop))
    t.equal("exit code of the command", action["exec"]["exit_code"], 0)
    t.equal("who got the signal", action["signal"]["process"]["comm"], "python3")
    t.check(stop.is_file() and stop.stat().st_mtime * 1e9 < lib.epoch_ns(run.all("oom")[0]["time"]),
            "the file was not touched before the kill")
    t.equal("rules that were acted on", (folder / "rules").read_text(), "level>60%\n")
    variables = dict(line.split("=", 1) for line in said.read_text().splitlines())
    t.equal("OOMCAST_CGROUP", variables.get("OOMCAST_CGROUP"), alert["cgroup"]["path"])
    t.equal("OOMCAST_LIMIT_BYTES", variables.get("OOMCAST_LIMIT_BYTES"), str(80 * MiB))
    t.check(int(variables["OOMCAST_LEVEL_BYTES"]) > 48 * MiB, f"OOMCAST_LEVEL_BYTES is {variables['OOMCAST_LEVEL_BYTES']}")
    t.equal("OOMCAST_MESSAGE", variables.get("OOMCAST_MESSAGE"), alert["message"])
    t.equal("cgroups left behind", left_behind(home), [])


@case(vm="never", limit_s=40, timing=True)
def a_deadline_comes_near(t):
    folder = t.folder()
    home, run = start(t, "--json", "--memory", "160M", "--alert", "eta<4s", "--exec",
                      f"echo $OOMCAST_ETA_S $OOMCAST_GROWTH_BYTES_PER_S > {folder}/said", "--", "python3", "-c", LEAK)
    t.equal("exit code", run.finish(35), 137)
    alerts = alerts_of(run)
    if not t.equal("number of alerts", len(alerts), 1):
        return
    forecast = alerts[0]["forecast"]
    t.check(forecast and 0 < forecast["eta_s"] < 4, f"the alert's forecast is {lib.shortened(forecast)}")
    eta, growth = map(float, (folder / "said").read_text().split())
    t.check(abs(eta - forecast["eta_s"]) < 0.001, f"OOMCAST_ETA_S is {eta}, eta_s {forecast['eta_s']}")
    t.check(abs(growth - forecast["growth_bytes_per_s"]) <= 1, f"OOMCAST_GROWTH_BYTES_PER_S is {growth}")
    t.check(index(run, "alert") < index(run, "oom"), "the alert is told after the kill")


@case(vm="never", limit_s=40, timing=True)
def growth_must_last_as_long_as_the_rule_says(t):
    group = t.cgroup()
    tracer = t.trace("--cgroup", group.path, "--alert", "growth>5M/s for 3s", "--alert", "growth>5G/s")
    t.start(group, sys.executable, "-c", LEAK)
    alert = tracer.wait_for_line("alert", timeout=20)
    check_alert(t, alert, "growth>5M/s for 3s", group.path)
    begin = next(f for f in tracer.all("forecast") if (f["growth_bytes_per_s"] or 0) > 5 * MiB)
    t.check(lib.epoch_ns(alert["time"]) - lib.epoch_ns(begin["time"]) >= 2.9e9, "it did not wait for 3 s")
    t.equal("action of an alert without one", alert["action"], None)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("number of alert lines", len(tracer.all("alert")), 1)


@case(vm="never", limit_s=40)
def a_hanging_action_holds_nothing_up(t):
    home, run = start(t, "--json", "--memory", "64M", "--alert", "level>50%", "--exec",
                      hanging(t, "yes | cat &"), "--", "python3", "-c", LEAK)
    t.equal("exit code", run.finish(35), 137)
    t.check_stream(run, 137)
    alerts, oom = run.all("alert"), run.all("oom")
    t.equal("number of oom lines", len(oom), 1)
    t.equal("results", [a["action"]["result"] for a in alerts], ["running", "left"])
    first, last = index(run, "alert"), index(run, "alert", lambda a: a["action"]["result"] == "left")
    t.check(first < index(run, "oom") < last, "the kill is not told between the alert and the end of its action")
    t.check(any(line["type"] == "sample" for line in run.lines.items[first:last]), "no sample while the action hangs")


@case(vm="never", limit_s=40, tier="gate")
def too_many_actions_are_counted_as_lost(t):
    stop = t.folder() / ".stop"
    group = t.cgroup()
    tracer = t.trace("--cgroup", group.path, *["--alert", "level>20M"] * 6, "--exec", hanging(t), "--touch", stop)
    t.start(group, sys.executable, "-c", LEAK)
    tracer.wait_for("6 alerts", lambda: len(tracer.all("alert")) == 6, 25)
    results = sorted(a["action"]["exec"]["result"] for a in tracer.all("alert"))
    t.equal("results of the commands", results, ["lost"] * 2 + ["running"] * 4)
    t.equal("results of the touches", [a["action"]["touch"]["result"] for a in tracer.all("alert")], ["ok"] * 6)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("lost", tracer.lines.items[-1]["lost"].get("too_many_actions"), 2)
    t.equal("number of lines at the end", len([a for a in tracer.all("alert") if a["action"]["result"] == "left"]), 4)


@case(vm="never", limit_s=40)
def a_failing_action_is_told_with_its_exit_code(t):
    folder = t.folder()
    (folder / "target").write_text("kept")
    (folder / "link").symlink_to(folder / "target")
    os.utime(folder / "target", (1000, 1000))
    group = t.cgroup().limit(64 * MiB)
    tracer = t.trace("--cgroup", group.path, "--alert", "level>20M", "--exec", "echo noise; exit 3",
                     "--touch", folder / "link", "--signal", "USR1")
    child = t.start(group, sys.executable, "-c", LEAK)
    action = tracer.wait_for_line("alert", has_acted, timeout=20)["action"]
    t.equal("result", action["result"], "failed")
    t.equal("exit code of the command", action["exec"]["exit_code"], 3)
    t.check("symlink" in action["touch"]["error"], f"error of the touch is {action['touch']['error']!r}")
    t.equal("time of the symlink's target", (folder / "target").stat().st_mtime, 1000)
    # Its default would end the process, which is for nobody who only wanted to tell it.
    t.equal("result of the signal", action["signal"]["result"], "failed")
    t.check("handles" in action["signal"]["error"], f"error of the signal is {action['signal']['error']!r}")
    t.equal("exit code of the leak, which no signal may have ended", child.wait(30), 137)
    tracer.wait_for_line("oom")
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=40, tier="gate")
def hostile_names_travel_in_the_environment_only(t):
    folder = t.folder()
    name = f"$(touch {folder}&&x)`id`;'\"\\ \x1b[2J\xff".replace("/", "")
    parent = t.cgroup()
    os.chdir(folder)
    try:
        tracer = t.trace("--cgroup", parent.path, "--alert", "level>20M", "--exec",
                         f'printf %s "$OOMCAST_CGROUP" > {folder}/path; printf %s "$OOMCAST_MESSAGE" > {folder}/message; '
                         'eval_nothing=1')
        child = parent.child(name)
        t.start(child, sys.executable, "-c", LEAK)
        alert = tracer.wait_for_line("alert", has_acted, timeout=20)
        t.equal("result", alert["action"]["result"], "ok")
        t.equal("OOMCAST_CGROUP", (folder / "path").read_bytes(), os.fsencode(child.path))
        t.check(b"\x1b" not in (folder / "message").read_bytes(), "an escape byte is in OOMCAST_MESSAGE")
        t.equal("files in the folder", sorted(os.listdir(folder)), ["message", "path"])
        tracer.stop()
        t.check_stream(tracer)
        t.equal("alerts: the inner cgroup's alone", [a["cgroup"]["id"] for a in alerts_of(tracer)], [child.id])
    finally:
        os.chdir("/")


@case(vm="never", limit_s=40, tier="gate")
def the_trainer_writes_a_checkpoint(t):
    saved = t.folder() / "saved"
    home, run = start(t, "--json", "--memory", "96M", "--alert", "level>50%", "--signal", "USR1", "--", "python3", "-c",
                      TRAINER, saved)
    t.equal("exit code", run.finish(35), 0)
    t.check_stream(run)
    t.equal("what it saved", saved.read_text() if saved.exists() else None, "checkpoint")
    t.equal("number of kills", len(run.all("oom")), 0)
    t.equal("results of the signal", [a["action"]["signal"]["result"] for a in run.all("alert")], ["ok"])
    t.equal("cgroups left behind", left_behind(home), [])


@case(vm="never", limit_s=40)
def a_launcher_is_passed_over_for_its_trainer(t):
    saved = t.folder() / "saved"
    home, run = start(t, "--json", "--memory", "96M", "--alert", "level>50%", "--signal", "USR1", "--", "sh", "-c",
                      'python3 -c "$0" "$1"; exit $?', TRAINER, saved)
    t.equal("exit code", run.finish(35), 0)
    t.equal("what it saved", saved.read_text() if saved.exists() else None, "checkpoint")
    t.equal("who got the signal", [a["action"]["signal"]["process"]["comm"] for a in run.all("alert")], ["python3"])


@case(vm="never", limit_s=40)
def the_trainer_is_told_when_its_worker_grows(t):
    saved = t.folder() / "saved"
    group = t.cgroup().limit(96 * MiB)
    tracer = t.trace("--cgroup", group.path, "--alert", "level>50%", "--signal", "10")
    child = t.start(group, sys.executable, "-c", TRAINER, saved, "worker")
    child.wait_for("ready")
    alert = tracer.wait_for_line("alert", timeout=25)
    t.equal("who got the signal", alert["action"]["signal"]["process"]["pid"], child.pid)
    t.equal("exit code of the trainer", child.wait(), 0)
    t.equal("what it saved", saved.read_text(), "checkpoint")
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=40)
def a_process_is_watched_with_its_descendants(t):
    saved = t.folder() / "saved"
    group = t.cgroup()
    child = t.start(group, sys.executable, "-c", TRAINER, saved, "worker")
    child.wait_for("ready")
    tracer = t.trace("--pid", child.pid, "--alert", "level>60M", "--signal", "SIGUSR1")
    alert = tracer.wait_for_line("alert", timeout=25)
    t.equal("who got the signal", alert["action"]["signal"]["process"]["pid"], child.pid)
    t.equal("exit code of the trainer", child.wait(), 0)
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=40)
def processes_outside_of_any_cgroup_are_watched_too(t):
    stop = t.folder() / ".stop"
    root = lib.Cgroup("/", *lib.memory_mount(), make=False)
    # It stays until it has been seen, however late a slow machine lets it be.
    load = (LEAK.replace("while True", "while len(kept) < 80") +
            f"import os\nwhile not os.path.exists({str(stop)!r}) and time.monotonic() < begin + 15:\n sleep(0.02)\n")
    for words in ([], ["--no-bpf"]):
        run = t.oomcast("run", "--json", *words, "--alert", "level>40M", "--touch", stop, "--", sys.executable, "-c",
                        f"import time\nbegin = time.monotonic()\n{load}",
                        prefix=(t.workload("enter"), root.procs_file, "--"))
        t.equal("exit code", run.finish(30), 0)
        t.check_stream(run)
        alerts = alerts_of(run)
        t.equal("number of alerts", len(alerts), 1)
        t.check(all(a["forecast"]["process"]["cmdline"][1] == "-c" for a in alerts), "the alert is of another process")
        t.check(stop.exists(), "the file was not touched")
        stop.unlink(missing_ok=True)


@case(vm="never", limit_s=40)
def what_a_process_tree_holds_without_moving_counts_and_what_its_workers_share_counts_once(t):
    child = t.start(lib.Cgroup("/", *lib.memory_mount(), make=False), sys.executable, "-c", SHARERS)
    child.wait_for("ready")
    tracer = t.trace("--pid", child.pid, "--interval", "200ms", "--alert", "level>60M", "--alert", "level>120M")
    alert = tracer.wait_for_line("alert")
    t.equal("rule", alert["rule"], "level>60M")
    t.equal("whose tree it is", alert["forecast"]["process"]["pid"], child.pid)
    tracer.wait_for_line("forecast", lambda line: line["process"] and (line["limit_bytes"] or 0) > 64 * MiB)
    tracer.told_until(time.time_ns() + int(3e9))
    tracer.stop()
    t.check_stream(tracer)
    t.equal("rules that came true", [a["rule"] for a in tracer.all("alert")], ["level>60M"])


@case(vm="never", limit_s=40)
def a_parent_and_its_only_child_are_one_alert(t):
    folder = t.folder()
    outer = t.cgroup().limit(96 * MiB)
    inner = outer.child("inner")
    tracer = t.trace("--cgroup", outer.path, "--alert", "level>30M", "--exec", f"echo x >> {folder}/count")
    child = t.start(inner, sys.executable, "-c", LEAK)
    t.killed(child, 30)
    tracer.wait_for_line("oom")
    tracer.stop()
    t.equal("how often the action ran", (folder / "count").read_text(), "x\n")
    t.check(inner.id in [a["cgroup"]["id"] for a in tracer.all("alert")], "the inner cgroup is not told of")


@case(vm="never", limit_s=40)
def without_a_rule_the_forecast_decides(t):
    stop = t.folder() / ".stop"
    home, run = start(t, "--memory", "96M", "--touch", stop, "--", "python3", "-c", LEAK)
    t.equal("exit code", run.finish(35), 137)
    text = b"".join(run.lines.raw).decode()
    t.check(stop.exists(), "the file was not touched")
    t.check("forecast: /" in text and str(stop) in text, f"no line tells of it: {lib.shortened(text)}")
    t.equal("output when nothing grows", t.run_oomcast("run", "--quiet", "--touch", f"{stop}2", "--", "sleep", "2")[0], 0)
    t.check(not pathlib.Path(f"{stop}2").exists(), "it was touched for a process that does nothing")


@case(vm="never", tier="gate")
def wrong_rules_are_2_with_the_forms(t):
    for words, mention in ((["--alert", "swap>1G"], "'swap'"), (["--alert", "eta>20m"], "eta<20m"),
                           (["--alert", "level>lots"], "'lots'"), (["--alert", "growth>5M for 1m"], "'5M'"),
                           (["--signal", "USR9"], "'USR9'"), (["--exec", ""], "--exec")):
        code, out, err = t.run_oomcast("trace", *words)
        t.equal(f"exit code of {' '.join(words)}", code, 2)
        t.check(mention in err, f"{' '.join(words)} does not mention {mention}: {err!r}")
        t.check(not out, f"{' '.join(words)} prints on stdout")
