"""What a tenant has in a process ends, bloats or misleads nobody who blames: what reads it can be lost."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess

import lib
from blame_hostile import Blame, functions, names_culprit, of_pid, python
from hostile import elf
from lib import MiB, case

IN_OPEN = 0x20
NOBODY = 65534


class Opens:
    """Whether anybody opens a file: the kernel's own word for it."""

    def __init__(self, t, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(path), IN_OPEN) < 0:
            t.skip(f"no inotify: {os.strerror(ctypes.get_errno())}")
        t.later(os.close, self.fd)

    def seen(self):
        try:
            return len(os.read(self.fd, 65536)) // 16
        except BlockingIOError:
            return 0


class Memory:
    """The most that blame and what it started were resident."""

    def __init__(self, pid):
        self.pid, self.most = pid, 0

    def look(self):
        pids = [self.pid]
        for pid in pids:
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    pids += map(int, f.read().split())
            except OSError:
                pass
        self.most = max(self.most, sum(lib.status_bytes(pid, "VmRSS") or 0 for pid in pids))


def tenant(t, text, group=None):
    """A Python program of nobody's: `text` sees `culprit()`, which grows, and says ready when it is."""
    drop = f"os.setresgid({NOBODY}, {NOBODY}, {NOBODY})\nos.setresuid({NOBODY}, {NOBODY}, {NOBODY})\n"
    child, _ = python(t, group, drop + text)
    return child


def open_folder(t):
    folder = t.folder()
    folder.chmod(0o777)
    return folder


def file_of_symbols(t, symbols=1, **how):
    """A library that says how many symbols it has: they lie in a hole, so that it takes two blocks of the disk."""
    path = open_folder(t) / "python-library"
    body, _ = elf(8192, symbols=symbols, **how)
    path.write_bytes(body)
    path.chmod(0o755)
    os.truncate(path, max(8192, symbols * 24 + 4096))
    return path


def beside_one_who_maps(t, path):
    """A report of two that grow, one of which maps `path`; and the most that was resident of oomcast meanwhile."""
    group = t.cgroup()
    hostile = t.start(group, "maps_first", path)
    hostile.wait_for("ready")
    healthy, _ = python(t, group, "tell('ready')\nos.read(0, 1)\nculprit()\ntell('grown')\nos.read(0, 1)\n")
    blame = Blame(t, "--cgroup", group.path)
    memory = Memory(blame.process.pid)
    for child in hostile, healthy:
        child.go()
        child.wait_for("grown")
        memory.look()
    for _ in range(20):
        memory.look()
        lib.pause(0.05, "its memory over time")
    report = blame.report()
    t.equal("processes that could not be looked at", report["unread"], [])
    names_culprit(t, report, of_pid(report, healthy.pid))
    grown = of_pid(report, hostile.pid)["grown_bytes"] / (64 * MiB)
    t.check(0.9 < grown < 1.1, f"who maps it grew by {grown:.2f} of what it did")
    return memory.most


@case(vm="never", limit_s=60, tier="gate")
def symbols_of_no_size_cost_nothing(t):
    """A parser once divided by it: the reader crashed, and all that it had read was read again."""
    beside_one_who_maps(t, file_of_symbols(t, entsize=0))


@case(vm="never", limit_s=60, tier="gate")
def a_sparse_file_of_450_mib_takes_no_memory_of_ours(t):
    """Read as a whole its symbols took 458 MiB, for 12 KiB of a tenant's disk."""
    most = beside_one_who_maps(t, file_of_symbols(t, symbols=(450 << 20) // 24))
    t.check(most < 100 * MiB, f"blame had {most / MiB:.0f} MiB")


def readers_of(blame):
    with open(f"/proc/{blame.process.pid}/task/{blame.process.pid}/children") as f:
        return [int(pid) for pid in f.read().split()]


def lose_reader(t, blame):
    """As to a parser that crashes on what a tenant has in its process."""
    t.check(lib.wait_until(lambda: readers_of(blame), lib.seconds(10)), "it has no reader")
    for pid in readers_of(blame):
        os.kill(pid, signal.SIGKILL)


def waits_for_requests(pid):
    """For a quarter of a second: what it was asked to read as it was started it has read."""
    for _ in range(5):
        try:
            call = pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0]
        except (OSError, IndexError):
            return False
        if call not in ("45", "47"):  # recvfrom, recvmsg
            return False
        lib.pause(0.05, "its system calls over time")
    return True


@case(vm="never", limit_s=60, tier="gate")
def a_reader_that_is_lost_costs_the_names_of_one_process_at_most(t):
    group = t.cgroup()
    script = "tell('ready')\nos.read(0, 1)\nculprit()\ntell('grown')\nos.read(0, 1)\n"
    children = [python(t, group, script)[0] for _ in range(2)]
    blame = Blame(t, "--cgroup", group.path)
    lose_reader(t, blame)
    for line in blame.process.stderr:
        if b"once more" in line:
            break
    t.check(lib.wait_until(lambda: readers_of(blame), lib.seconds(10)), "no reader is started again")
    # It counts from what they hold as it begins to read them.
    t.premise(lib.wait_until(lambda: any(map(waits_for_requests, readers_of(blame))), lib.seconds(5)),
              "the reader has not read what they hold in 5 s")
    for child in children:
        child.go()
        child.wait_for("grown")
    report = blame.report()
    t.equal("processes that could not be looked at", len(report["unread"]), 1)
    read = [child for child in children if f"[{child.pid}]" not in report["unread"][0]]
    for child in read:
        names_culprit(t, report, of_pid(report, child.pid))
    for child in children:
        grown = of_pid(report, child.pid)["grown_bytes"] / (64 * MiB)
        t.check(0.9 < grown < 1.4, f"process {child.pid} grew by {grown:.2f} of what it did")


@case(vm="never", limit_s=60)
def a_build_id_of_sixteen_thousand_bytes(t):
    folder = open_folder(t)
    library, source = folder / "library.so", folder / "library.c"
    source.write_text("void run(void (*f)(void)) { f(); }")
    long_id = f"-Wl,--build-id=0x{'41' * 16000}"
    made = shutil.which("gcc") and subprocess.run(["gcc", "-shared", "-fPIC", long_id, source, "-o", library],
                                                  capture_output=True)
    if not made or made.returncode:
        t.skip("no compiler here")
    child = tenant(t, f"library = ctypes.CDLL({str(library)!r})\ntell('ready')\nos.read(0, 1)\n"
                   "library.run(ctypes.CFUNCTYPE(None)(culprit))\ntell('grown')\nos.read(0, 1)\n")
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown")
    report = blame.report()
    names_culprit(t, report, of_pid(report, child.pid))
    t.check("run" in functions(of_pid(report, child.pid)), "the library's function is not named")
    t.equal("processes that could not be looked at", report["unread"], [])


@case(vm="never", limit_s=60)
def a_map_of_four_gigabytes_of_nothing(t):
    child = tenant(t, "tell('ready')\nos.read(0, 1)\n"
                   "with open(f'/tmp/perf-{os.getpid()}.map', 'w') as f:\n    f.truncate(4 << 30)\n"
                   "code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
                   # mov [rdi+rax], al; add rax, 4096; cmp rax, rsi; jb; ret
                   "code.write(bytes.fromhex('31c0880407480500100000 4839f072f2c3'.replace(' ', '')))\n"
                   "at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
                   "memory = mmap.mmap(-1, 64 << 20)\n"
                   "ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(at)(\n"
                   "    ctypes.addressof(ctypes.c_char.from_buffer(memory)), 64 << 20)\n"
                   "tell('grown')\nos.read(0, 1)\n")
    t.later(lambda: os.path.exists(f"/tmp/perf-{child.pid}.map") and os.unlink(f"/tmp/perf-{child.pid}.map"))
    blame = Blame(t, "--pid", child.pid)
    memory = Memory(blame.process.pid)
    child.go()
    child.wait_for("grown")
    for _ in range(20):
        memory.look()
        lib.pause(0.05, "its memory over time")
    report = blame.report()
    t.check(0.9 < of_pid(report, child.pid)["grown_bytes"] / (64 * MiB) < 1.1, "its growth is wrong")
    t.check(memory.most < 100 * MiB, f"blame had {memory.most / MiB:.0f} MiB")


@case(vm="never", limit_s=60, tier="gate")
def nothing_is_opened_that_a_tenant_only_names(t):
    """By a debug link, by what stands where a deleted library was, by mapping a device, by a link for a perf map."""
    secret_folder, folder = t.folder(), open_folder(t)
    secret = secret_folder / "secret"
    secret.write_text("of root alone")
    secret.chmod(0o600)
    device = folder / "python-device"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # zero
    device.chmod(0o666)
    library, source, link = folder / "library.so", folder / "library.c", folder / "link"
    source.write_text("void run(void (*f)(void)) { f(); }")
    name = os.path.relpath(secret, folder).encode()
    link.write_bytes(name + bytes(4 - len(name) % 4) + struct.pack("<I", 0))
    for command in (["gcc", "-s", "-shared", "-fPIC", source, "-o", library],
                    ["objcopy", "--add-section", f".gnu_debuglink={link}", library]):
        if not shutil.which(command[0]) or subprocess.run(command, capture_output=True).returncode:
            t.skip("no compiler here")
    opens = [(what, Opens(t, what)) for what in (secret, device)]
    child = tenant(t, f"library = ctypes.CDLL({str(library)!r})\nos.unlink({str(library)!r})\n"
                   f"os.symlink({str(secret)!r}, {str(library) + ' (deleted)'!r})\n"
                   f"os.symlink({str(secret)!r}, {str(library)!r})\n"
                   f"os.symlink({str(secret)!r}, f'/tmp/perf-{{os.getpid()}}.map')\n"
                   f"device = os.open({str(device)!r}, os.O_RDWR)\n"
                   "mapped = mmap.mmap(device, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)\n"
                   "tell('ready')\nos.read(0, 1)\n"
                   "library.run(ctypes.CFUNCTYPE(None)(culprit))\ntell('grown')\nos.read(0, 1)\n")
    t.later(lambda: os.path.islink(f"/tmp/perf-{child.pid}.map") and os.unlink(f"/tmp/perf-{child.pid}.map"))
    for what, opened in opens:
        opened.seen()  # that it mapped the device itself
    blame = Blame(t, "--pid", child.pid)
    child.go()
    child.wait_for("grown")
    report = blame.report()
    names_culprit(t, report, of_pid(report, child.pid))
    for what, opened in opens:
        t.equal(f"times that somebody opened {what.name}", opened.seen(), 0)


@case(vm="never", limit_s=60)
def a_lock_that_is_always_held_is_not_waited_for(t):
    group = t.cgroup()
    t.needs_memory(1024 * MiB)
    holder = t.start(group, "holds_lock", "256M", 64)
    holder.wait_for("ready")
    holder.go()
    healthy, _ = python(t, group, "tell('ready')\nos.read(0, 1)\nculprit()\ntell('grown')\nos.read(0, 1)\n")
    blame = Blame(t, "--cgroup", group.path)
    healthy.go()
    healthy.wait_for("grown")
    report = blame.report()
    names_culprit(t, report, of_pid(report, healthy.pid))


@case(vm="never", limit_s=60)
def who_was_looked_at_too_late_twice_is_looked_at_when_the_lock_is_free(t):
    t.needs_memory(1024 * MiB)
    holder = t.start(t.cgroup(), "holds_lock", "256M", 64)
    holder.wait_for("ready")
    holder.go()
    blame = subprocess.Popen([t.oomcast_path, "blame", "--for", "1s", "--json", "--pid", str(holder.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    t.later(blame.kill)
    late = 0
    for line in blame.stderr:
        late += "once more" in line
        if late == 2 or "watching" in line:
            break
    os.kill(holder.pid, signal.SIGSTOP)  # in user space: none of its threads has the lock
    out, errors = blame.communicate(timeout=lib.seconds(40))
    t.premise(late == 2, "nobody held the lock for long enough to be late")
    t.equal(f"exit code ({errors[-300:]})", blame.returncode, 0)
    t.equal("processes that could not be looked at", json.loads(out)["unread"], [])


@case(vm="never", limit_s=60)
def what_reads_others_memory_has_few_rights(t):
    child, _ = python(t, None, "tell('ready')\nos.read(0, 1)\n")
    blame = Blame(t, "--pid", child.pid)
    with open(f"/proc/{blame.process.pid}/task/{blame.process.pid}/children") as f:
        readers = f.read().split()
    t.equal("processes that blame has started", len(readers), 1)
    with open(f"/proc/{readers[0]}/status") as f:
        status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    allowed = sum(1 << bit for bit in (2, 19, 40))  # DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE
    for field in "CapEff", "CapPrm", "CapBnd":
        t.equal(f"{field} beyond what it needs", int(status[field], 16) & ~allowed, 0)
    t.equal("NoNewPrivs", status["NoNewPrivs"].strip(), "1")
    blame.report()
    t.check(lib.wait_until(lambda: not os.path.exists(f"/proc/{readers[0]}"), 5), "it is still there after the end")


