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


def code_before(t, pid):
    """What is at malloc() in a process in which there is no breakpoint yet."""
    before = code_at_malloc(pid)
    t.premise(before is not None and before != BREAKPOINT,
              f"the first byte of its malloc(), if its libc is this one's, is {before}")
    return before


@case(vm="never", limit_s=60, tier="gate")
def no_breakpoint_is_left_when_blame_is_killed(t):
    child = t.start(None, "leaks_omit", "hole", 64 * MiB)
    child.wait_for("ready")
    before = code_before(t, child.pid)
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
    before = code_before(t, child.pid)
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


def maps_allocator(t, group, times):
    child = t.start(group, "maps_allocator", times)
    child.wait_for("ready")
    t.equal("mappings of its allocator's page", child.truth[0]["mapped"], times)
    return child


def copied_in(child):
    """Bytes of the pages that were copied in these mappings: nothing in them is written to by the program."""
    copied, inside = 0, False
    begin, end = child.truth[0]["begin"], child.truth[0]["end"]
    with open(f"/proc/{child.pid}/smaps") as f:
        for line in f:
            first = line.split()[0]
            if "-" in first and not first.endswith(":"):
                inside = begin <= int(first.split("-")[0], 16) < end
            elif inside and first == "Anonymous:":
                copied += int(line.split()[1]) << 10
    return copied


def blamed_without_breakpoints(t, child, why):
    """The report of `blame`, which has set no breakpoint in malloc() and says `why`."""
    before = code_before(t, child.pid)
    blame = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "4s", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.later(blame.kill)
    for line in blame.stderr:
        if "watching" in line:
            break
    child.go()
    seen = lib.wait_until(lambda: code_at_malloc(child.pid) == BREAKPOINT or blame.poll() is not None, lib.seconds(20))
    t.check(seen and code_at_malloc(child.pid) == before, "there is a breakpoint in malloc()")
    out, errors = blame.communicate(timeout=lib.seconds(20))
    t.equal(f"exit code of blame ({errors[-300:]})", blame.returncode, 0)
    process = json.loads(out)["processes"][0]
    t.equal("what was kept", process["kept"], None)
    t.check(why in (process["kept_unknown"] or ""), f"it says why nothing is known to be kept: {process['kept_unknown']}")
    return process


@case(vm="never", limit_s=60, tier="gate")
def a_program_that_maps_its_allocator_thousands_of_times_is_given_no_breakpoint_and_no_copies(t):
    child = maps_allocator(t, t.cgroup().limit(256 * MiB), 4000)
    process = blamed_without_breakpoints(t, child, "has mapped its allocator 400")
    t.equal("bytes of copied pages", copied_in(child), 0)
    t.check(process["grown_bytes"] > 32 * MiB, f"it grew by {process['grown_bytes']}")


@case(vm="never", limit_s=60)
def breakpoints_are_not_set_where_others_have_mapped_the_allocator_ten_thousand_times(t):
    for _ in range(3):
        maps_allocator(t, t.cgroup(), 4000)
    child = t.start(t.cgroup(), "maps_allocator", 0)
    child.wait_for("ready")
    blamed_without_breakpoints(t, child, "is mapped more than 8192 times on this machine")


@case(vm="never", limit_s=60, tier="gate")
def a_profile_that_trace_starts_by_itself_sets_no_breakpoint(t):
    import report
    group = t.cgroup().limit(256 * MiB)
    t.needs_memory(512 * MiB)
    tracer = t.trace("--cgroup", group.path)
    child = maps_allocator(t, group, 0)
    before = code_before(t, child.pid)
    child.go()
    t.check(lib.wait_until(lambda: report.looks_of(tracer), lib.seconds(20)), "what grows is not profiled")
    seen = lib.wait_until(lambda: code_at_malloc(child.pid) == BREAKPOINT or not report.looks_of(tracer), lib.seconds(30))
    t.check(seen and code_at_malloc(child.pid) == before, "there is a breakpoint in malloc()")
