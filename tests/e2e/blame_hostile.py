"""Processes that end, change or lie while blame looks at them: it goes on, and says nothing that is not so."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import containers
import lib
from blame import GROWTH, PYTHON, judge, premise_of_budget
from lib import MiB, case


class Blame:
    """`blame --json` until it is asked for its report."""

    def __init__(self, t, *scope):
        self.t = t
        self.process = subprocess.Popen([t.oomcast_path, "blame", "--json", "--for", "60s", *map(str, scope)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        t.later(self.process.kill)
        said = []
        while not said or "watching" not in said[-1]:
            said.append(self.process.stderr.readline().decode())
            if not said[-1]:
                raise lib.Failed(f"blame said {said}")

    def report(self):
        self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=lib.seconds(20))
        self.late = b"took too long: once more" in errors
        self.t.equal("exit code of blame", self.process.returncode, 0)
        if self.process.returncode:
            raise lib.Failed(errors.decode(errors="replace")[-500:])
        return json.loads(out)


def of_pid(report, pid):
    return next((p for p in report["processes"] if p["process"]["pid"] == pid), None)


def names_culprit(t, report, process, what="its Python function is not named"):
    named = process and "culprit" in functions(process)
    premise_of_budget(t, report, named)
    t.check(named, what)


def check_names_culprit(t, blame, child):
    report = blame.report()
    names_culprit(t, report, of_pid(report, child.pid))


def functions(process):
    return {frame["function"] for site in process["sites"] for frame in site["stack"]}


def python(t, group, text):
    """A script that may use what leaks.py does: says ready, waits for the word to go."""
    path = t.folder() / "hostile.py"
    path.write_text("import ctypes, json, mmap, os, sys\nkept = []\ndef tell(e, **f): os.write(1, (json.dumps({'event': e, **f}) + '\\n').encode())\n"
                    "def culprit(n=1024):\n    for i in range(n):\n        kept.append(bytearray(65536))\n" + text)
    child = t.start(group, PYTHON, path)
    child.wait_for("ready", timeout=20)
    return child, path


@case(vm="never", limit_s=60, tier="gate")
def a_process_that_has_ended_keeps_its_names(t):
    child, path = python(t, None, "tell('ready')\nos.read(0, 1)\nculprit()\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait()
    report = blame.report()
    process = of_pid(report, child.pid)
    t.premise(process or not blame.late, "this machine was too slow for it to be looked at before it ended")
    t.check(process and process["exited"], f"it is shown as {process and process['exited']}")
    names_culprit(t, report, process)


@case(vm="never", limit_s=60)
def a_process_that_executes_another_program(t):
    second = ("from time import sleep\nkept = [bytearray(65536) for i in range(1024)]\n"
              "print('{\"event\":\"grown\"}', flush=True)\nsleep(60)")
    child, path = python(t, None, "tell('ready')\nos.read(0, 1)\nculprit(256)\n"
                         f"os.execv('/usr/bin/python3', ['python3', '-c', {second!r}])\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown", timeout=20)
    process = of_pid(blame.report(), child.pid)
    t.check(process and 0.8 < process["grown_bytes"] / (64 * MiB) < 1.4, f"it grew by {process and process['grown_bytes']}")
    t.check(process and "culprit" not in functions(process), "stacks of the first program are shown for the second")


@case(vm="never", limit_s=120)
def a_python_that_executes_another_program_while_its_objects_are_looked_at(t):
    """At one of these moments it has been looked at, and the window has not begun."""
    for tenths in range(8):
        child, _ = python(t, None, "import time\nmany = [[n] for n in range(400000)]\ntell('ready')\nos.read(0, 1)\n"
                                   f"time.sleep({tenths / 10})\nos.execv('/bin/sleep', ['sleep', '60'])\n")
        child.go()
        done = subprocess.run([t.oomcast_path, "blame", "--json", "--for", "1s", "--pid", str(child.pid)],
                              capture_output=True, timeout=lib.seconds(20))
        t.equal("exit code of blame", done.returncode, 0)
        t.check(b"could not be looked at" not in done.stderr, f"after {tenths / 10} s: {done.stderr.decode(errors='replace')[-300:]}")


@case(vm="never", limit_s=60)
def a_shell_that_executes_a_python_before_it_has_touched_anything(t):
    path = t.folder() / "late.py"
    path.write_text("import time\nkept = []\ndef culprit():\n    kept.append(bytearray(65536))\n"
                    "for i in range(1024):\n    culprit()\nprint('{\"event\":\"grown\"}', flush=True)\ntime.sleep(60)\n")
    child = t.start(None, "/bin/sh", "-c", f"echo '{{\"event\":\"ready\"}}'; head -c 1 >/dev/null; exec {PYTHON} {path}")
    child.wait_for("ready")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown", timeout=20)
    check_names_culprit(t, blame, child)


@case(vm="never", limit_s=60)
def a_library_whose_name_is_a_fifo_by_now(t):
    """Opening it would wait for ever for somebody who writes to it."""
    library = t.folder() / "library.so"
    shutil.copy(next(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("libstdc++.so.6")), library)
    child, path = python(t, None, f"mapped = mmap.mmap(os.open({str(library)!r}, os.O_RDONLY), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, "
                         f"flags=mmap.MAP_PRIVATE)\nos.unlink({str(library)!r})\nos.mkfifo({str(library)!r})\n"
                         f"os.mkfifo({str(library) + ' (deleted)'!r})\ntell('ready')\nos.read(0, 1)\nculprit()\ntell('grown')\nos.read(0, 1)\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown")
    check_names_culprit(t, blame, child)


@case(vm="never", limit_s=60)
def a_library_that_is_truncated_meanwhile(t):
    """As an installation over a running program does. Its mapping ends with a SIGBUS where the file has ended."""
    library, source = t.folder() / "library.so", t.folder() / "library.c"
    source.write_text("void run(void (*f)(void)) { f(); }")
    if not shutil.which("gcc") or subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], capture_output=True).returncode:
        t.skip("no compiler here")
    child, path = python(t, None, "def both():\n    culprit(256)\n    tell('half')\n    os.read(0, 1)\n    culprit(256)\n    tell('grown')\n    os.read(0, 1)\n"
                         f"library = ctypes.CDLL({str(library)!r})\ntell('ready')\nos.read(0, 1)\nlibrary.run(ctypes.CFUNCTYPE(None)(both))\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("half")
    os.truncate(library, 0)
    child.go()
    child.wait_for("grown")
    check_names_culprit(t, blame, child)


@case(vm="never", limit_s=60)
def a_process_that_is_stopped(t):
    child, path = python(t, None, "tell('ready')\nos.read(0, 1)\nculprit(256)\ntell('grown')\nos.read(0, 1)\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown")
    os.kill(child.pid, signal.SIGSTOP)
    check_names_culprit(t, blame, child)


def compiled(t, *options):
    source = pathlib.Path(__file__).resolve().parents[1] / "workloads/blame/leaks.cpp"
    if not source.exists() or not shutil.which("g++"):
        t.skip("no compiler here")
    program = t.folder() / "program"
    made = subprocess.run(["g++", "-O1", "-pthread", *options, source, "-o", program], capture_output=True, text=True)
    if made.returncode:
        t.skip(f"the compiler cannot: {lib.one_line(made.stderr[-200:])}")
    return program


@case(vm="never", limit_s=90)
def a_static_stripped_program_has_no_names(t):
    program = compiled(t, "-static", "-s")
    child = t.start(None, program, "malloc", GROWTH)
    child.wait_for("ready")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    grown = child.wait_for("grown", timeout=20)
    report = blame.report()
    process = of_pid(report, child.pid)
    t.check(0.85 < process["grown_bytes"] / grown["bytes"] < 1.15, f"it grew by {process['grown_bytes']}")
    t.equal("names of functions", functions(process), {None})
    t.check(report["frames_unnamed"] > 0, "frames without a name are not counted")


@case(vm="never", limit_s=60)
def a_32_bit_program(t):
    """It maps 32 MiB and touches each page; its stacks cannot be read, its growth can."""
    folder = t.folder()
    (folder / "p.s").write_text("""
.globl _start
_start: mov $4,%eax; mov $1,%ebx; mov $ready,%ecx; mov $18,%edx; int $0x80
  mov $3,%eax; xor %ebx,%ebx; mov $byte,%ecx; mov $1,%edx; int $0x80
  mov $192,%eax; xor %ebx,%ebx; mov $0x2000000,%ecx; mov $3,%edx; mov $0x22,%esi; mov $-1,%edi; xor %ebp,%ebp; int $0x80
  mov %eax,%ebx; mov $8192,%ecx
1: movb $1,(%ebx); add $4096,%ebx; dec %ecx; jnz 1b
  mov $4,%eax; mov $1,%ebx; mov $grown,%ecx; mov $18,%edx; int $0x80
2: mov $29,%eax; int $0x80; jmp 2b
.data
ready: .ascii "{\\"event\\":\\"ready\\"}\\n"
grown: .ascii "{\\"event\\":\\"grown\\"}\\n"
byte: .byte 0
""")
    for command in (["as", "--32", folder / "p.s", "-o", folder / "p.o"], ["ld", "-m", "elf_i386", folder / "p.o", "-o", folder / "p"]):
        if not shutil.which(command[0]) or subprocess.run(command, capture_output=True).returncode:
            t.skip("the binary tools cannot make a 32-bit program")
    child = t.start(None, folder / "p")
    try:
        child.wait_for("ready", timeout=5)
    except lib.Failed:
        t.skip("this kernel runs no 32-bit programs")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown")
    process = of_pid(blame.report(), child.pid)
    t.check(0.85 < process["grown_bytes"] / (32 * MiB) < 1.15, f"it grew by {process['grown_bytes']}")
    t.check(all(f["kind"] == "native" for s in process["sites"] for f in s["stack"]), "it has Python frames")


# Offsets of Debian's 3.11: frame <- cframe + 8 <- thread + 56; a frame's code at 32, its caller at 48; a code object's
# file at 112, name at 128, lines at 136.
INSIDE = """
def word(at): return ctypes.c_uint64.from_address(at)
thread = ctypes.pythonapi.PyThreadState_Get
thread.restype = ctypes.c_void_p
def frame(): return word(word(word(thread() + 56).value + 8).value + 48).value  # the caller's
"""


def lies(t, text):
    if subprocess.run([PYTHON, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 11))"]).returncode:
        t.skip("it knows where 3.11 keeps its frames")
    child, path = python(t, None, INSIDE + "def lie():\n" + text + "    culprit()\n    tell('grown')\n    os.read(0, 1)\n    os._exit(0)\n"
                         "tell('ready')\nos.read(0, 1)\nlie()\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown", timeout=20)
    report = blame.report()
    process = of_pid(report, child.pid)
    files = {f["file"] for s in process["sites"] for f in s["stack"] if f["kind"] == "python"}
    return report, process, files, str(path)


@case(vm="never", limit_s=60)
def frames_that_call_themselves(t):
    report, process, files, path = lies(t, "    f = frame()\n    word(f + 48).value = f\n")
    t.check(report["python_incomplete"] > 0, "stacks that do not end are not counted")
    t.check(files <= {path, "", None}, f"files are {files}")
    names_culprit(t, report, process, "the innermost function is not named")


@case(vm="never", limit_s=60)
def callers_that_are_no_frames(t):
    report, process, files, path = lies(t, "    word(frame() + 48).value = 0x7fff00000000\n")
    t.check(files <= {path, "", None}, f"files are {files}")
    names_culprit(t, report, process, "the innermost function is not named")


@case(vm="never", limit_s=60)
def code_objects_with_wild_pointers(t):
    report, process, files, path = lies(t, "    code = word(frame() + 32).value\n    word(code + 112).value = 0x10\n    word(code + 128).value = code\n"
                                           "    word(code + 136).value = 0xffffffffffffff00\n")
    t.check(report["python_incomplete"] > 0, "code objects that cannot be read are not counted")
    t.check(files <= {path, "", None}, f"files are {files}")
    t.check("lie" not in functions(process), "a function is named whose code object cannot be read")


def leak_in(t, scope, start, script):
    lines = t.workload("leaks.py").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith("# culprit dict"))
    child, pid = start()
    blame = Blame(t, *scope(pid))
    child.go()
    grown = child.wait_for("grown", timeout=30)
    judge(t, blame.report(), {**grown, "pid": pid},
          lambda f: f["kind"] == "python" and f["line"] == line and f["file"] == script, f"line {line}")


# 300 chains of 15 functions, each with names of 900 bytes: as a report of their stacks 15 MB. The first has half.
LONG_NAMES = """
import time
kept = []
def chain(number, depth):
    inner = chain(number, depth - 1) if depth else None
    name, file = (text.ljust(900, "x") for text in (f"f{number}_{depth}_", f"/s{number}_"))
    scope = {"inner": inner, "kept": kept}
    body = "return inner()" if depth else "kept.append(bytearray(96 * 1024))"
    exec(compile(f"def {name}():\\n    {body}\\n", file, "exec"), scope)
    return scope[name]
chains = [chain(number, 14) for number in range(300)]
tell("ready")
os.read(0, 1)
while True:
    for call in chains:
        call(), chains[0]()
        time.sleep(0.006)
"""


@case(vm="never", limit_s=90)
def a_program_with_long_names_in_its_stacks_is_no_memory_of_the_tracers(t):
    t.needs_memory(1024 * MiB)
    group = t.cgroup_apart().limit(512 * MiB)
    tracer = t.trace("--cgroup", group.path)
    child, path = python(t, group, LONG_NAMES)
    child.go()
    t.killed(child, 60)
    told = tracer.wait_for_line("oom", timeout=10)
    most = lib.status_bytes(tracer.pid, "VmHWM")
    grew_from = told["grew_from"]
    tracer.stop()
    t.check_stream(tracer)
    t.premise(grew_from, f"no look had ended when it was killed; lost {tracer.lines.items[-1]['lost']}")
    t.check(grew_from[0]["at"].startswith("f0_0_x"), f"it grew in {grew_from[0]['at'][:60]}")
    t.check(most < 64 * MiB, f"oomcast held {most / MiB:.0f} MiB at its highest")


@case(vm="never", limit_s=90)
def a_python_in_a_container(t):
    name = containers.new_id(t)
    group = f"{lib.base().path}/docker/{name}"
    container = containers.Container(t, group, name, ["/usr/bin/python3", "/w/leaks.py", "dict", str(GROWTH)], privileged=True)

    def start():
        container.start()
        pid = container.host_pid()
        container.child.wait_for("ready", timeout=20)
        return container.child, pid
    leak_in(t, lambda pid: ("--container", name[:12]), start, "/w/leaks.py")


@case(vm="never", limit_s=90)
def a_python_in_a_venv(t):
    folder = t.folder() / "venv"
    if subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], capture_output=True).returncode:
        t.skip("python3 has no venv")
    script = str(t.workload("leaks.py"))

    def start():
        child = t.start(None, folder / "bin/python", script, "dict", GROWTH)
        child.wait_for("ready", timeout=20)
        return child, child.pid
    leak_in(t, lambda pid: ("--pid", pid), start, script)
