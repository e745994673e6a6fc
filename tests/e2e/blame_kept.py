"""Blocks that stay, and the breakpoints by which blame learns of them."""

import ctypes
import json
import os
import re
import signal
import subprocess

import lib
from lib import MiB, case

BREAKPOINT = 0xCC  # int3


def code_at_malloc(pid):
    """The first byte of malloc() in this process, if its libc is ours. None too while it cannot be read: the kernel may
    be putting another page in the place of that one."""
    def libc_of(whose):
        with open(f"/proc/{whose}/maps") as maps:
            return next(((int(line.split("-")[0], 16), line.split()[4]) for line in maps if "/libc.so.6" in line), None)
    ours, theirs = libc_of("self"), libc_of(pid)
    if not ours or not theirs or ours[1] != theirs[1]:
        return None
    # Not the program's own word for it: in Debian's python3, which is loaded at a fixed place, that is a jump.
    place = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value - ours[0]
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return os.pread(memory, 1, theirs[0] + place)[0]
    except (OSError, IndexError):
        return None
    finally:
        os.close(memory)


@case(vm="never", limit_s=60, tier="gate")
def no_breakpoint_is_left_when_blame_is_killed(t):
    child = t.start(None, "leaks_omit", "hole", 64 * MiB)
    child.wait_for("ready")
    before = code_at_malloc(child.pid)
    t.premise(before is not None and before != BREAKPOINT,
              f"the first byte of its malloc(), if its libc is this one's, is {before}")
    blame = subprocess.Popen([t.oomcast_path, "blame", "--for", "60s", "--pid", str(child.pid)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    t.later(blame.kill)
    child.go()
    t.check(lib.wait_until(lambda: code_at_malloc(child.pid) == BREAKPOINT, lib.seconds(10)), "malloc() is not watched")
    blame.send_signal(signal.SIGKILL)
    blame.wait()
    t.check(lib.wait_until(lambda: code_at_malloc(child.pid) == before, lib.seconds(10)), "a breakpoint is left")
    child.wait_for("grown", timeout=30)


# Of 64 MiB.
HOLDS_ALL_BUT_3_MIB = """
import time
def anon_kb():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
kept = []
while anon_kb() < 61 << 10:
    kept.append(b"x" * (1 << 18))
print('{"event": "holds"}', flush=True)
time.sleep(600)
"""


@case(vm="never", limit_s=60, tier="gate")
def a_program_that_has_no_room_left_is_given_no_breakpoint(t):
    group = t.cgroup().limit(64 * MiB)
    child = t.start(group, "/usr/bin/python3", "-c", HOLDS_ALL_BUT_3_MIB)
    child.wait_for("holds")
    before = code_at_malloc(child.pid)
    t.premise(before is not None and before != BREAKPOINT,
              f"the first byte of its malloc(), if its libc is this one's, is {before}")
    blame = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "3s", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.later(blame.kill)
    seen = lib.wait_until(lambda: code_at_malloc(child.pid) == BREAKPOINT or blame.poll() is not None, lib.seconds(20))
    t.check(seen and code_at_malloc(child.pid) == before, "malloc() is watched")
    out, _ = blame.communicate(timeout=lib.seconds(20))
    t.equal("exit code of blame", blame.returncode, 0)
    t.equal("what was kept", json.loads(out)["processes"][0]["kept"], None)


@case(vm="never", limit_s=60)
def a_program_that_ends_or_executes_another_while_its_allocator_is_watched_is_told_as_such(t):
    for words in (["kill -9 $$"], ["exec sleep 60"]):
        child = subprocess.Popen(["/bin/sh", "-c", f"sleep 2; {words[0]}"])
        t.later(child.kill)
        done = subprocess.run([t.oomcast_path, "blame", "--for", "4s", "--pid", str(child.pid)], capture_output=True,
                              text=True, timeout=lib.seconds(30))
        t.equal(f"exit code beside {words[0]}", done.returncode, 0)
        child.kill()
        child.wait()


@case(vm="never", limit_s=60, tier="gate")
def an_allocator_that_is_asked_without_end_is_watched_for_a_moment_and_that_is_said(t):
    child = t.start(None, "allocates")
    child.wait_for("ready")
    done = subprocess.run([t.oomcast_path, "blame", "--for", "5s", "--pid", str(child.pid)], capture_output=True,
                          text=True, timeout=lib.seconds(40))
    t.equal("exit code of blame", done.returncode, 0)
    t.check(re.search(r"calls its allocator \d+ times a second: all of it was watched for ", done.stdout),
            f"it does not say for how long: {done.stdout}")
    top = next((line for line in done.stdout.splitlines() if "%  " in line and "[" not in line), "")
    t.check("culprit_cache" in top and "kept: " in top, f"the line on top is {top!r}")
