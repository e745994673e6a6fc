"""`oomcast daemon`: readers get all that is so and happens, and no kill is lost, whatever becomes of it."""

import itertools
import json
import os
import signal
import socket
import subprocess

import lib
from lib import MiB, case


NUMBERS = itertools.count()


class Daemon:
    """One with a socket, a store and a manager of its own."""

    def __init__(self, t, folder, *options):
        self.socket = folder / "events.sock"
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify = folder / f"notify{next(NUMBERS)}"
        self.manager.bind(str(notify))
        self.manager.settimeout(lib.seconds(20))
        self.stderr = open(folder / "stderr", "a+")
        self.process = subprocess.Popen(
            [str(t.oomcast_path), "daemon", "--store", str(folder / "store"), "--events-socket", str(self.socket),
             *map(str, options)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.stderr,
            env={**os.environ, "NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "4000000"})
        t.later(self.end)
        self.states = []

    def wait_for_state(self, wanted):
        while not any(wanted in state for state in self.states):
            try:
                self.states.append(self.manager.recv(4096).decode())
            except TimeoutError:
                self.stderr.seek(0)
                raise lib.Failed(f"no {wanted} from the daemon, but {self.states}; stderr: {self.stderr.read()[-800:]}") from None
        return self

    def forget_states(self):
        self.states.clear()

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.output = self.process.communicate(timeout=lib.seconds(20))[0]
        return self.process.returncode

    def reader(self, t):
        fd = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fd.connect(str(self.socket))
        t.later(fd.close)
        return lib.Lines(fd.makefile("rb"), json.loads)


def a_kill(t, limit=48 * MiB):
    group = t.cgroup().limit(limit)
    child = t.start(group, "grow", "--go", "--anon", 2 * limit)
    child.wait_for("ready")
    child.go()
    t.killed(child)
    return group, child


def is_of(group):
    return lambda line: line["type"] == "oom" and (line["limit_cgroup"] or {}).get("path") == group.path


def stored(t, folder, group):
    """The kills of that cgroup that are in the store: their victims."""
    code, out, err = t.run_oomcast("history", "--json", "--no-kmsg", "--store", folder / "store", "--cgroup", group.path)
    t.equal(f"exit code of history: {err}", code, 0)
    return [line["victims"][0]["pid"] for line in map(json.loads, out.splitlines()) if is_of(group)(line)]


@case(kernel=True, tier="gate", limit_s=60)
def a_reader_gets_what_is_so_and_then_the_kill_and_it_is_kept(t):
    folder = t.folder()
    calm = t.cgroup()
    child = t.start(calm, "grow", "--go", "--anon", 8 * MiB)
    child.wait_for("ready")
    daemon = Daemon(t, folder).wait_for_state("READY=1")
    lines = daemon.reader(t)
    def is_there():
        return any(line["type"] == "sample" and line["cgroup"]["path"] == calm.path for line in lines.items)
    t.check(lines.wait(is_there, lib.seconds(10)), "no sample of a cgroup that stands still")
    t.equal("the first lines", [line["type"] for line in lines.items[:2]], ["start", "totals"])
    group, victim = a_kill(t)
    def told():
        return [line for line in lines.items if is_of(group)(line)]
    t.check(lines.wait(lambda: bool(told()), lib.seconds(15)), "no oom line for a reader")
    t.equal("victim", told()[0]["victims"][0]["pid"], victim.pid)
    late = daemon.reader(t)
    t.check(late.wait(lambda: len(late.items) > 1, lib.seconds(10)), "no lines for a late reader")
    t.check(late.items[1]["kills"]["memcg"] >= 1, f"a late reader's totals lack the kill: {late.items[1]}")
    daemon.wait_for_state("WATCHDOG=1")
    t.equal("exit code", daemon.end(), 0)
    t.equal("standard output", daemon.output, b"")
    t.check(not daemon.socket.exists(), "the socket is left behind")
    daemon.wait_for_state("STOPPING=1")
    t.equal("kills in the store", stored(t, folder, group), [victim.pid])


@case(kernel=True, tier="gate", limit_s=60)
def a_kill_while_it_is_down_is_kept_once_when_it_is_back(t):
    folder = t.folder()
    daemon = Daemon(t, folder).wait_for_state("READY=1")
    daemon.end(signal.SIGKILL)
    t.check(daemon.socket.exists(), "SIGKILL leaves the socket behind")
    group, victim = a_kill(t)
    for start in (1, 2):
        again = Daemon(t, folder).wait_for_state("READY=1")
        t.equal(f"kills in the store after start {start}", stored(t, folder, group), [victim.pid])
        t.equal("exit code", again.end(), 0)


@case(kernel=True, tier="gate", limit_s=60)
def trace_reads_a_daemon_that_runs_and_says_so(t):
    folder = t.folder()
    daemon = Daemon(t, folder).wait_for_state("READY=1")
    tracer = t.oomcast("trace", "--json", "--events-socket", daemon.socket).started()
    group, _ = a_kill(t)
    tracer.wait_for_line("oom", is_of(group), timeout=15)
    t.check("reading the stream of the oomcast daemon" in tracer.stderr(), f"not said: {tracer.stderr()}")
    t.equal("exit code", tracer.stop(), 0)
    t.equal("the last line", tracer.lines.items[-1]["type"], "end")
    cut_off = t.oomcast("trace", "--json", "--events-socket", daemon.socket).started()
    daemon.end(signal.SIGKILL)
    t.equal("exit code where the daemon was killed", cut_off.finish(), 1)
    t.equal("the last line then", cut_off.lines.items[-1]["type"], "end")


@case(limit_s=60)
def a_configuration_is_read_again_on_sighup_and_a_wrong_one_changes_nothing(t):
    folder = t.folder()
    config = folder / "oomcast.conf"
    config.write_text("# nothing yet\n")
    daemon = Daemon(t, folder, "--config", config).wait_for_state("READY=1")
    daemon.forget_states()
    config.write_text('alert = ["level>1M"]\n')
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for_state("RELOADING=1")
    daemon.wait_for_state("; reloaded")
    lines = daemon.reader(t)
    t.check(lines.wait(lambda: any(line["type"] == "alert" for line in lines.items), lib.seconds(15)), "no alert")
    daemon.forget_states()
    config.write_text("storm = 1\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for_state("'storm' is no setting")
    t.check(daemon.process.poll() is None, "a wrong configuration ended it")
    t.equal("exit code", daemon.end(), 0)


@case(tier="gate")
def a_wrong_configuration_is_named_with_its_key(t):
    folder = t.folder()
    config = folder / "oomcast.conf"
    for text, wanted in (("storemax = \"2G\"\n", "'storemax' is no setting; did you mean --store-max?"),
                         ("store-max = \"much\"\n", "--store-max"), ("[daemon]\nquiet = true\n", "in a section"),
                         ("quiet = maybe\n", "true or false")):
        config.write_text(text)
        code, _, err = t.run_oomcast("daemon", "--config", config, "--events-socket", "none")
        t.equal(f"exit code for {text!r}", code, 2)
        t.check(wanted in err, f"{text!r}: {err}")
    code, _, err = t.run_oomcast("daemon", "--config", folder / "none.conf")
    t.equal(f"exit code for none: {err}", code, 1)
