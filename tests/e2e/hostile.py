"""A tenant without any privilege, who wants to blind, bloat or stop whoever watches: every OOM kill meanwhile is told and
stays in the store, and oomcast's memory stays below 64 MiB."""

import os
import shutil
import struct
import subprocess
import time

import lib
from kills import Expected, Scene
from lib import MiB, case
from store import ask

MOST = 64 * MiB


class Watched:
    """A trace with a store of the least size, and an OOM kill before, in the middle of and after what happens to it."""

    def __init__(self, t, *arguments):
        self.t = t
        self.store = t.folder()
        self.tracer = t.trace("--cgroup", lib.base().path, "--store", self.store, "--store-max", "8M", *arguments)
        self.scene = Scene(t, tracer=self.tracer)
        self.expected, self.most = {}, 0
        self.kill()

    def kill(self):
        group = self.t.cgroup().limit(16 * MiB)
        child = self.t.start(group, "grow", "--anon", "64M")
        self.t.killed(child)
        self.scene.knows(child)
        self.expected[child.pid] = Expected(group, group, child.command, "shown")

    def until(self, done, timeout):
        """Watches its memory, and has somebody killed, while that goes on. `done`: when it is over."""
        end = time.monotonic() + timeout
        last = time.monotonic()
        while not done() and time.monotonic() < end:
            self.most = max(self.most, self.tracer.rss() or 0)
            if time.monotonic() - last > 2:
                self.kill()
                last = time.monotonic()
            lib.pause(0.05, "its memory over time")

    def end(self):
        self.kill()
        self.scene.check(self.expected, episodes=len(self.expected), told_late=True)
        self.most = max(self.most, self.tracer.rss() or 0)
        self.tracer.stop()
        self.t.check_stream(self.tracer)
        self.t.check(self.most < MOST, f"oomcast's memory was {self.most / MiB:.0f} MiB")
        self.t.equal("kills in the store", ask(self.store, "SELECT count(*) FROM episodes"), [(len(self.expected),)])
        size = sum(path.stat().st_size for path in self.store.iterdir())
        self.t.check(size <= 8 * MiB, f"the store has {size} bytes, 8 MiB are its limit")
        return self.tracer.lines.items[-1]["lost"]


def as_tenant(t, *command, group=None):
    """Of a copy that everybody may run."""
    folder = t.folder()
    folder.chmod(0o755)
    program = folder / "program"
    shutil.copy(t.workload(command[0]), program)
    program.chmod(0o755)
    setpriv = shutil.which("setpriv")
    if not setpriv:
        t.skip("no setpriv")
    return t.start(group or t.cgroup(), setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", program,
                   *command[1:])


def flood(t, what, *words, count=1):
    watched = Watched(t)
    children = [as_tenant(t, "hostile", what, 8, *words) for _ in range(count)]
    for child in children:
        child.wait_for("ready")
    watched.until(lambda: all(child.process.poll() is not None for child in children), 30)
    did = sum(child.wait_for("did")["count"] for child in children)
    return did, watched.end()


@case(vm="never", limit_s=90)
def sigkills_to_ones_own_zombie_are_nothing(t):
    did, lost = flood(t, "kills_zombie", *[""] * 2000, count=2)
    t.premise(did > 100_000, f"only {did} SIGKILLs")
    t.check("events_ring_full" not in lost, f"lost is {lost}")


@case(vm="never", limit_s=90)
def sigkills_to_ones_own_children_are_told_up_to_a_rate_and_counted_beyond(t):
    did, lost = flood(t, "kills_living", *[""] * 2000, count=2)
    t.premise(did > 2000, f"only {did} SIGKILLs")
    t.check("events_ring_full" not in lost, f"lost is {lost}")
    t.check(lost.get("user_kills_over_rate", 0) > 0, f"lost is {lost}")


@case(vm="never", limit_s=90)
def zombies_that_the_kernel_kills_take_no_victims_place(t):
    did, lost = flood(t, "exit_kills")
    t.premise(did > 4500, f"only {did} zombies")
    t.check("victim_table_full" not in lost, f"lost is {lost}")


@case(vm="never", limit_s=90)
def who_renames_himself_makes_no_rows_by_it(t):
    watched = Watched(t)
    tenants = [as_tenant(t, "hostile", "renames", 8, "x" * 1900) for _ in range(4)]
    for tenant in tenants:
        tenant.wait_for("ready")
    watched.until(lambda: all(tenant.process.poll() is not None for tenant in tenants), 30)
    did = sum(tenant.wait_for("did")["count"] for tenant in tenants)
    t.premise(did > 1000, f"only {did} names")
    watched.end()
    pids = ", ".join(str(tenant.pid) for tenant in tenants)
    rows = ask(watched.store, f"SELECT count(*) FROM processes WHERE pid IN ({pids})")[0][0]
    # That of the start, and one when it is seen after its last name; of those that a kill names, one more.
    t.check(rows <= 8 * len(tenants), f"{rows} rows of {did} names")


@case(vm="never", limit_s=90)
def cgroups_nested_with_long_names_are_not_followed_for_ever(t):
    watched = Watched(t)
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(t.cgroup().dir)
        depth = 0
        for depth in range(1000):
            try:
                os.mkdir("n" * 255)
            except OSError:
                break
            os.chdir("n" * 255)
        t.premise(depth > 100, f"{depth} levels were made")
        watched.until(lambda: False, 5)
        for _ in range(depth + 1):
            os.chdir("..")
            if os.path.isdir("n" * 255):
                os.rmdir("n" * 255)
    finally:
        os.fchdir(before)
        os.close(before)
    lost = watched.end()
    t.check(lost.get("model_full", 0) > 0, f"what is not followed is not counted: {lost}")


def elf(size, *, entsize=24, symbols=1):
    """A shared object with a table of symbols that is as large as it says, or has no size of an entry at all."""
    names = b"\0.symtab\0.strtab\0_PyRuntime\0"
    header = 64
    table = header + 3 * 64
    body = bytearray(header + 3 * 64 + 64 + len(names))
    body[0:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 0, header, 0, 64, 0, 0,
                             64, 3, 2)

    def section(index, name, kind, offset, length, link, entry):
        body[header + index * 64:header + (index + 1) * 64] = struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, length,
                                                                         link, 0, 8, entry)
    section(1, 1, 2, table, symbols * 24, 2, entsize)
    section(2, 9, 3, table + 48, len(names), 0, 0)
    body[table + 48:table + 48 + len(names)] = names
    return bytes(body), size


MAPS_IT = """
import ctypes, mmap, os, sys, time
f = os.open(sys.argv[1], os.O_RDONLY)
code = mmap.mmap(f, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
held = bytearray(100 << 20)
print('{"event":"ready"}', flush=True)
while True:
    held.extend(bytes(1 << 20))
    time.sleep(.2)
"""


def maps(t, body, size):
    watched = Watched(t, "--interval", "200ms")
    folder = t.folder()
    folder.chmod(0o755)
    path = folder / "libpython3.so"
    with open(path, "wb") as f:
        f.write(body)
        f.truncate(max(size, len(body)))
    path.chmod(0o755)
    child = t.start(t.cgroup(), shutil.which("setpriv"), "--reuid", "65534", "--regid", "65534", "--clear-groups",
                    "/usr/bin/python3", "-c", MAPS_IT, path)
    child.wait_for("ready")
    watched.until(lambda: False, 6)
    t.check(child.process.poll() is None, "what maps the file has ended")
    child.end()
    watched.end()


@case(vm="never", limit_s=60)
def an_elf_whose_symbols_have_no_size_divides_nothing(t):
    maps(t, *elf(8192, entsize=0))


@case(vm="never", limit_s=60)
def an_elf_of_two_gigabytes_on_twelve_kilobytes_is_no_memory_of_ours(t):
    maps(t, *elf(2 << 30, symbols=(2 << 30) // 24))


@case(vm="never", limit_s=60)
def a_reader_that_does_not_read_holds_up_neither_store_nor_end(t):
    store = t.folder()
    read, write = os.pipe()
    process = subprocess.Popen([t.oomcast_path, "trace", "--json", "--cgroup", lib.base().path, "--store", store],
                               stdout=write, stderr=subprocess.DEVNULL)
    t.later(process.kill)
    os.close(write)
    t.later(os.close, read)
    # As many lines as no pipe holds.
    group = t.cgroup().limit(24 * MiB)
    loop = t.start(group, "crash_loop", 100, 1, 0, "64M")
    loop.wait_for("ready")
    lib.wait_until(lambda: (store / "oomcast.db").exists(), 10)
    lib.pause(1, "it has begun to follow")
    loop.go()
    t.equal("exit code of the crash loop", loop.wait(60), 0)
    kept = lib.wait_until(lambda: ask(store, "SELECT count(*) FROM episodes") == [(100,)], 10)
    t.check(kept, f"in the store: {ask(store, 'SELECT count(*) FROM episodes')}")
    asked = time.monotonic()
    process.terminate()
    process.wait(lib.seconds(10))
    took = time.monotonic() - asked
    t.check(took < 3, f"it took {took:.1f} s to end")
