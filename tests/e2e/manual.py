"""The man page's scripts for jq do what stands above them."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import lib
from lib import MiB, case

PAGE = pathlib.Path(__file__).parents[2] / "packaging/oomcast.8"


def scripts(t):
    """By the word that its comment has: {"webhook": command, ...}."""
    if not shutil.which("jq"):
        t.skip("jq is not installed")
    section = re.search(r"^\.SS With jq\n\.nf\n(.*?)^\.fi$", PAGE.read_text(), re.M | re.S)[1]
    out = {}
    for block in section.replace("\\-", "-").split("\n\n"):
        comment, _, command = block.strip("\n").partition("\n")
        t.check(len(command.splitlines()) <= 2, f"more than two lines: {command}")
        out[next(word for word in ("webhook", "table", "grows") if word in comment)] = command
    return out


def environment(t, folder):
    """In which `oomcast` is the one to test, its store is of this case, and curl writes what it would send."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "oomcast").symlink_to(pathlib.Path(t.oomcast_path).resolve())
    curl = programs / "curl"
    curl.write_text(f'#!/bin/sh\nfor word; do case $last in -d) echo "$word" >> {folder}/sent;; esac; last=$word; done\n'
                    f'echo "$last" > {folder}/to\n')
    curl.chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "STATE_DIRECTORY": str(folder / "store"),
            "WEBHOOK": "http://localhost:1/hook"}


def table_of(t, command, env):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=lib.seconds(40))
    t.equal(f"exit code, with {lib.one_line(done.stderr[-300:])!r} on stderr", done.returncode, 0)
    return [line.split("\t") for line in done.stdout.splitlines()]


@case(vm="never", limit_s=90, tier="gate")
def the_scripts_of_a_kill_send_it_and_list_it(t):
    command, folder = scripts(t), t.folder()
    env = environment(t, folder)
    hook = subprocess.Popen(["bash", "-c", command["webhook"]], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)
    t.later(lambda: hook.poll() is None and os.killpg(hook.pid, signal.SIGTERM))
    t.check(lib.wait_until((folder / "store/oomcast.db").exists, lib.seconds(20)), "it does not begin")
    group = t.cgroup().limit(16 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    sent = folder / "sent"
    t.check(lib.wait_until(lambda: sent.exists() and f"[{child.pid}]" in sent.read_text(), lib.seconds(10)), "nothing is sent")
    line = next(line for line in sent.read_text().splitlines() if f"[{child.pid}]" in line)
    t.check(re.match(rf'{{"text":"grow\[{child.pid}\] .*was OOM-killed: .* hit its memory limit of 16.0 MiB","id":"', line), line)
    t.equal("sent to", (folder / "to").read_text(), "http://localhost:1/hook\n")
    os.killpg(hook.pid, signal.SIGTERM)
    hook.wait(20)
    rows = [row for row in table_of(t, command["table"], env) if row[2] == str(child.pid)]
    t.equal("rows of the kill", [[row[1], row[4]] for row in rows], [["grow", group.path]])
    t.check(8 * MiB < int(rows[0][3]) <= 16 * MiB and rows[0][0].startswith("20"), f"{rows[0]}")


@case(vm="never", limit_s=90, tier="gate")
def the_script_of_what_grows_names_it(t):
    command, folder = scripts(t), t.folder()
    code = "import time\nkept=[]\nwhile True:\n kept.append(b\"x\" * (1 << 20)); time.sleep(0.05)"
    child = t.start(t.cgroup().limit(768 * MiB), sys.executable, "-c", code)
    rows = table_of(t, command["grows"], environment(t, folder))
    mine = [row for row in rows if row[1] == str(child.pid)]
    t.check(mine and len(rows) <= 5, f"pid {child.pid} is not in {rows}")
    t.check(float(mine[0][0]) > 5 * MiB and mine[0][2].startswith("python3"), f"{mine}")
    t.equal("order", rows, sorted(rows, key=lambda row: -float(row[0])))
