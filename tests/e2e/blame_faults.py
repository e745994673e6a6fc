"""What happens to a program while its allocator is watched, or by its own doing: it goes on as it would, and no line is
named that is not the one."""

import ctypes
import json
import os
import shutil
import subprocess

import lib
from blame_corpus import blamed, by_line, judge
from blame_hostile import functions, of_pid, python
from blame_kept import BREAKPOINT, code_at_malloc
from lib import case

SEIZE, INTERRUPT = 0x4206, 0x4207  # of ptrace(), include/uapi/linux/ptrace.h


def watched_at_malloc(pid):
    return code_at_malloc(pid) == BREAKPOINT


@case(vm="never", limit_s=60)
def a_program_that_forks_while_it_is_watched_has_children_that_run_and_keeps_its_line(t):
    child, path = python(t, None, """
import time
bad = 0
tell('ready')
os.read(0, 1)
while True:
    culprit(1)
    child = os.fork()
    if child == 0:
        for i in range(50):
            bytearray(65536)
        os._exit(0)
    bad += os.waitpid(child, 0)[1] != 0
    tell('forked', bad=bad)
    time.sleep(.02)
""")
    child.go()
    child.wait_for("forked")
    report, begin, end = blamed(t, ("--pid", str(child.pid)))
    process = of_pid(report, child.pid)
    t.check(process and "culprit" in functions(process), "its function is not named")
    top = next(iter(by_line(process)), None)
    t.check(top and top[0] == "culprit", f"on top is {top}")
    told = [line for line in child.truth if line["event"] == "forked"]
    t.check(len(told) > 50, f"it forked {len(told)} times")
    t.equal("children that ended badly", told[-1]["bad"], 0)
    t.check(not watched_at_malloc(child.pid), "a breakpoint is left")


@case(vm="never", limit_s=60)
def a_program_under_a_debugger_is_given_no_breakpoint_and_that_is_said(t):
    child, path = python(t, None, "import time\ntell('ready')\nos.read(0, 1)\n"
                         "while True:\n    culprit(1)\n    time.sleep(.01)\n")
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    t.premise(libc.ptrace(SEIZE, child.pid, None, None) == 0, os.strerror(ctypes.get_errno()))
    child.go()
    blame = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "4s", "--pid", str(child.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.later(blame.kill)
    lib.wait_until(lambda: watched_at_malloc(child.pid) or blame.poll() is not None, lib.seconds(20))
    t.check(not watched_at_malloc(child.pid), "malloc() is watched")
    out, _ = blame.communicate(timeout=lib.seconds(20))
    t.equal("exit code of blame", blame.returncode, 0)
    process = of_pid(json.loads(out), child.pid)
    t.equal("what was kept", process["kept"], None)
    t.check("debugger" in (process["kept_unknown"] or ""), f"why it is not known: {process['kept_unknown']}")
    t.check("culprit" in functions(process), "who touched is not named")
    # Stopped by the debugger, it answers nothing.
    libc.ptrace(INTERRUPT, child.pid, None, None)
    done = subprocess.run([t.oomcast_path, "blame", "--json", "--for", "1s", "--pid", str(child.pid)],
                          capture_output=True, timeout=lib.seconds(20))
    t.equal("exit code of blame beside a stopped program", done.returncode, 0)


@case(vm="never", limit_s=60)
def a_program_whose_libraries_an_upgrade_has_replaced_keeps_its_line(t):
    root = t.folder()
    program = t.workload("corpus/contained")
    libraries = [line.split("=> ")[-1].split()[0] for line in
                 subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines() if "/" in line]
    inside = {file: root / file.lstrip("/") for file in libraries}
    for file, copy in inside.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (root / "app").mkdir()
    shutil.copy(program, root / "app/program")
    group = t.cgroup()
    child = t.start(group, "/usr/bin/unshare", "--mount", "--", "/usr/sbin/chroot", root, "/app/program")
    child.wait_for("ready", timeout=30)
    for copy in [*inside.values(), root / "app/program"]:  # what was there is deleted, and still mapped
        new = copy.with_suffix(".new")
        new.write_bytes(b"not what it was\n" * 4096)
        new.rename(copy)
    judge(t, child, ("--cgroup", group.path))


@case(vm="never", limit_s=60)
def an_allocator_that_lies_is_believed_nothing(t):
    child = t.start(None, "corpus/lying_malloc")
    child.wait_for("ready")
    report, begin, end = blamed(t, ("--pid", str(child.pid)))
    lines = by_line(of_pid(report, child.pid))
    wrong = {culprit: line.share for culprit, line in lines.items() if culprit[0] != "map_tile" and line.share > 0.5}
    t.equal("lines that are said to have more than half", wrong, {})
    t.check(child.exited_ns is None, "the program has ended")


@case(vm="never", limit_s=60)
def of_four_thousand_threads_the_line_that_keeps(t):
    child = t.start(None, "corpus/many_threads", 4000)
    judge(t, child, ("--pid", str(child.pid)))
