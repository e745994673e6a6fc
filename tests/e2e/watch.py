"""The live screen, on a terminal of its own."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import sqlite3
import struct
import subprocess
import termios
import threading
import time

import lib
from lib import MiB, case

CONTROL = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")


class Terminal:
    """120 columns, 40 rows; what a program wrote to it since the last redraw that was asked for."""

    def __init__(self, t, *command):
        self.here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen([t.oomcast_path, *map(str, command)], stdin=there, stdout=there,
                                        stderr=subprocess.PIPE, start_new_session=True,
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(there)
        t.later(self.process.kill)
        self.raw, self.lock = b"", threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                written = os.read(self.here, 65536)
            except OSError:
                return
            with self.lock:
                self.raw += written

    def press(self, keys):
        os.write(self.here, keys.encode())

    def text(self):
        return CONTROL.sub(b" ", self.raw).decode(errors="replace")

    def redrawn(self):
        with self.lock:
            self.raw = b""
        self.press("\x0c")
        lib.pause(0.1, "it draws")
        return self.text()

    def wait_for(self, words, timeout=10):
        """Has it drawn anew, twice a second, until the words are there."""
        deadline = time.monotonic() + lib.seconds(timeout)
        while time.monotonic() < deadline:
            with self.lock:
                self.raw = b""
            self.press("\x0c")
            if lib.wait_until(lambda: words in self.text(), 0.5):
                return self.text()
        raise lib.Failed(f"no '{words}' on the screen: {lib.shortened(self.text(), 2000)}")


@case(vm="never", limit_s=60, timing=True)
def a_key_tells_from_which_line_a_cgroup_grows(t):
    group = t.cgroup().limit(512 * MiB)
    script = pathlib.Path(__file__).parent.parent / "workloads" / "leak.py"
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if "kept.append" in text)
    t.needs_memory(768 * MiB)
    t.start(group, "/usr/bin/python3", script, t.folder() / "truth", "10")
    screen = Terminal(t, "watch", "--cgroup", group.path, "--store", "none")
    screen.wait_for(group.path)
    screen.press("b")
    screen.wait_for("IT GREW FROM")
    screen.wait_for(f"(leak.py:{line})")
    screen.press("q")
    t.equal("exit code of watch", screen.process.wait(10), 0)
    t.check(lib.wait_until(lambda: "records, lost: " in screen.text(), 5), f"no summary: {screen.text()[-300:]!r}")


@case(vm="never", limit_s=60, timing=True)
def kills_of_a_crash_loop_come_onto_the_screen_and_alerts_go_on(t):
    """Two a second: each is there within two seconds of its victim's end, and so is what an alert does."""
    touched = t.folder() / "touched"
    group = t.cgroup().limit(24 * MiB)
    loop = t.start(group, "crash_loop", 20, 1, 500, "64M")
    loop.wait_for("ready")
    screen = Terminal(t, "watch", "--cgroup", lib.base().path, "--store", "none", "--alert", "level>16M", "--touch",
                      touched)
    screen.wait_for(group.path)
    screen.press("e")
    loop.go()
    ages, began = [], time.time()
    for nth in range(1, 21):
        kill = loop.wait_for("kill", nth, timeout=20)
        seen = lib.wait_until(lambda: f"[{kill['victim']}]" in screen.redrawn(), 10, every=0.1)
        ages.append((time.monotonic_ns() - kill["t_ns"]) / 1e9)
        t.check(seen, f"no kill of {kill['victim']} on the screen: {lib.shortened(screen.text(), 500)}")
    t.check(max(ages) < 2.3, f"they came onto the screen after {' '.join(f'{age:.2f}' for age in ages)} s")
    t.check(lib.wait_until(touched.exists, 2), "no alert on the level")
    if touched.exists():
        t.check(touched.stat().st_mtime - began < 2.3, f"the alert came after {touched.stat().st_mtime - began:.2f} s")
    screen.press("q")
    t.equal("exit code of watch", screen.process.wait(10), 0)


@case(vm="never", limit_s=60)
def a_screen_that_is_paused_and_a_stream_of_json_stand_still(t):
    terminal = Terminal(t, "watch", "--cgroup", lib.base().path)
    terminal.wait_for("quit")
    terminal.press(" ")
    stream = t.oomcast("watch", "--json", "--cgroup", lib.base().path).started()
    for what, pid in (("screen", terminal.process.pid), ("stream", stream.pid)):
        before = lib.cpu_seconds(pid)
        lib.pause(3, "what it takes of a CPU meanwhile")
        took = lib.cpu_seconds(pid) - before
        t.check(took < 1, f"the {what} took {took:.1f} s of a CPU in 3 s in which nothing is to do")
    terminal.press("q")
    stream.stop()


@case(vm="never", limit_s=60)
def a_terminal_that_was_stopped_holds_up_neither_the_tracing_nor_its_end(t):
    group, store = t.cgroup().limit(24 * MiB), t.folder() / "store"
    screen = Terminal(t, "watch", "--cgroup", group.path, "--store", store)
    screen.wait_for(group.path)
    screen.press("\x13")  # Ctrl-S: from now on a write to it does not return
    t.start(group, "grow", "--anon", "64M").wait()

    def kills():
        with contextlib.suppress(sqlite3.OperationalError), \
                sqlite3.connect(f"file:{store}/oomcast.db?mode=ro", uri=True, timeout=10) as db:
            return db.execute("select count(*) from episodes").fetchone()[0]
    t.check(lib.wait_until(lambda: kills() == 1, 10), "the kill is not in the store")
    screen.process.terminate()
    t.equal("exit code of watch", screen.process.wait(lib.seconds(10)), 0)


@case(vm="never", limit_s=60, tier="gate")
def a_kill_stays_on_the_screen_and_enter_opens_its_post_mortem_there_and_among_the_events(t):
    group = t.cgroup().limit(24 * MiB)
    screen = Terminal(t, "watch", "--cgroup", group.path, "--store", t.folder() / "store")
    screen.wait_for(group.path)
    victim = t.start(group, "grow", "--anon", "64M")
    victim.wait()
    screen.wait_for(f"[{victim.pid}]")
    lib.pause(3, "a kill must not be gone from the screen by then")
    t.check("was OOM-killed" in screen.redrawn() and " s ago: Enter" in screen.text(),
            f"no line of the kill: {lib.shortened(screen.text(), 1500)}")
    for way in ("\r", "e\r"):
        screen.press(way)
        page = screen.wait_for("WHY")
        t.check(f"[{victim.pid}]" in page and "Esc: back" in page, f"not its post-mortem: {lib.shortened(page, 1500)}")
        screen.press("\x1b")
        screen.wait_for("? help")
    screen.press("q")
    t.equal("exit code of watch", screen.process.wait(lib.seconds(10)), 0)


@case(vm="never", limit_s=60, tier="gate")
def of_the_whole_machine_the_process_that_grows_is_shown_while_it_is_small(t):
    group = t.cgroup().limit(200 * MiB)
    t.needs_memory(256 * MiB)
    script = pathlib.Path(__file__).parent.parent / "workloads" / "leak.py"
    screen = Terminal(t, "watch", "--store", "none")
    screen.wait_for("? help")
    leak = t.start(group, "/usr/bin/python3", script, t.folder() / "truth", "2")
    seen = lib.wait_until(lambda: f"python3[{leak.pid}]" in screen.redrawn(), 30, every=0.2)
    t.check(seen, f"no line of {leak.pid}: {lib.shortened(screen.text(), 2000)}")
    t.check(lib.status_bytes(leak.pid, "VmRSS") < 64 * MiB, "it was shown only once it was large")
    screen.press("q")
    t.equal("exit code of watch", screen.process.wait(lib.seconds(10)), 0)
