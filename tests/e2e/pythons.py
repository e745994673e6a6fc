"""Each CPython that can be had here: blame names the line. Those of other Debian releases run in a root of their own."""

import json
import pathlib
import shutil
import subprocess
import sys

import lib
from blame import GROWTH, HELD_BY, blamed, judge, judge_holder
from lib import case

CACHE = pathlib.Path(__file__).resolve().parents[2] / "build/pythons"


def release_root(suite, version, ffi):
    """A folder with this CPython of a Debian release, its libraries and the workloads."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    try:
        import debian
    except ImportError:
        raise lib.Skip("no other releases in the emulated machine") from None
    root = CACHE / f"{suite}-{version}"
    if (root / "complete").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    downloads = root / "download"
    try:
        apt = debian.Apt(suite, CACHE)
        apt.update()
        for folder in ("usr/lib64", "usr/bin", "usr/lib", "proc", "w", "dev/shm", "tmp"):
            (root / folder).mkdir(parents=True)
        for link in ("lib", "lib64", "bin"):
            (root / link).symlink_to(f"usr/{link}")
        for package in ("libc6", "libgcc-s1", "libcrypt1", "zlib1g", "libexpat1", "libzstd1", "liblzma5", "libbz2-1.0", ffi, f"libpython{version}-minimal", f"python{version}-minimal",
                        f"libpython{version}-stdlib"):
            debian.output_of(["dpkg-deb", "-x", apt.download(package, downloads), root])
    except (debian.Unavailable, debian.Broken) as problem:
        raise lib.Skip(f"CPython {version} of {suite} is not to be had: {problem}") from None
    shutil.rmtree(downloads)
    (root / "complete").touch()
    return root


def blames_the_line(t, version, command, script, seen_as, kind="list"):
    lines = t.workload("leaks.py").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# culprit {kind}"))
    child = t.start(None, *command, script, kind, GROWTH)
    child.wait_for("ready", timeout=20)
    report, grown = blamed(t, ("--pid", child.pid), child)
    judge(t, report, grown, lambda f: f["kind"] == "python" and f["line"] == line and f["file"] == seen_as, f"line {line}")
    top = report["processes"][0]
    t.check(top["python"].startswith(f"CPython {version}"), f"it is said to be {top['python']}")
    t.equal("stacks without some Python frame", report["python_incomplete"], 0)
    judge_holder(t, report, HELD_BY[kind])


# What nobody holds and the collector, which is off, would take: no container has it.
CYCLES = '''
import gc, os, time
gc.disable()
class Cycle:
    def __init__(self):
        self.itself = self
made = 0
print('{"event": "ready"}', flush=True)
while True:
    for i in range(50):
        Cycle()
    made += 50
    os.write(1, b'{"event": "made", "cycles": %d}\\n' % made)
    time.sleep(0.02)
'''


def tells_which_types_grow(t, version, command):
    child = t.start(None, *command, "-c", CYCLES)
    child.wait_for("ready", timeout=20)
    code, out, err = t.run_oomcast("blame", "--json", "--for", "2s", "--pid", child.pid, timeout=30)
    t.equal(f"exit code of blame ({err})", code, 0)
    top = json.loads(out)["processes"][0]
    t.check(top["python"].startswith(f"CPython {version}"), f"it is said to be {top['python']}")
    made = [line["cycles"] for line in child.truth if line["event"] == "made"][-1]
    cycles = [kind for kind in top["grown_types"] or [] if kind["type"] == "Cycle"]
    t.equal("types called Cycle among those that grew", len(cycles), 1)
    t.check(100 <= cycles[0]["added"] <= cycles[0]["objects"] <= made, f"{cycles} of {made} that were made")
    t.check(not any("Cycle" in (holder["of"] or "") for holder in top["holders"]), f"holders are {top['holders']}")


def pyenv_types(t, version):
    found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    if not found:
        t.skip(f"pyenv has no CPython {version} here")
    tells_which_types_grow(t, version, [found[-1]])


def debian_types(t, suite, version, ffi="libffi8"):
    root = release_root(suite, version, ffi)
    tells_which_types_grow(t, version, ["/usr/sbin/chroot", root, f"/usr/bin/python{version}", "-B"])


def pyenv(t, version):
    found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    if not found:
        t.skip(f"pyenv has no CPython {version} here")
    script = t.workload("leaks.py")
    blames_the_line(t, version, [found[-1]], script, str(script))


def debian_release(t, suite, version, ffi="libffi8"):
    root = release_root(suite, version, ffi)
    # In a mount namespace of its own: the paths that it shows are not ours.
    enter = (f"mount -t proc proc {root}/proc && mount --bind {t.workload('leaks.py').parent} {root}/w && "
             f'exec chroot {root} /usr/bin/python{version} -B "$@"')
    blames_the_line(t, version, ["/usr/bin/unshare", "--mount", "sh", "-c", enter, "sh"], "/w/leaks.py", "/w/leaks.py")


def told_at_a_kill(t, python):
    """The line that a Python victim of a memory cgroup's limit was at, by its own last moment and without blame."""
    script = t.workload("leaks.py")
    lines = script.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith("# culprit list"))
    group = t.cgroup().limit(96 << 20)
    store = t.folder()
    tracer = t.oomcast("trace", "--json", "--cgroup", group.path, "--store", store).started()
    child = t.start(group, python, script, "list", 1 << 30)
    child.wait_for("ready", timeout=20)
    tracer.wait_for_line("process", lambda p: p["process"]["pid"] == child.pid and p["rss_bytes"] > 8 * lib.MiB, timeout=20)
    child.go()
    oom = tracer.wait_for_line("oom", timeout=60)
    victim = oom["victims"][0]
    t.equal("victim", victim["pid"], child.pid)
    told = [f["function"].split(".")[-1] for f in victim["python"] or []]
    t.equal("the functions it was in", told[-3:], ["grow", "leak_list", "<module>"])
    # Its other work may be what meets the limit.
    t.check(told[0] != "keep" or victim["python"][0]["line"] == line, f"it was at {victim['was_at']}, not at line {line}")
    t.check(told[0] in ("keep", "passing_work", "<genexpr>", "grow"), f"it was in {told[0]}")
    t.check(all(f["file"] == str(script) for f in victim["python"] or []), f"files are {victim['python']}")
    tracer.stop()
    _, report, _ = t.run_oomcast("report", "--no-kmsg", "--store", store)
    t.check(f"was in {victim['was_at']}" in " ".join(report.split()), f"the report does not say that it was at {victim['was_at']}")


def at_a_kill(t):
    told_at_a_kill(t, "/usr/bin/python3")


def at_a_kill_of(t, version):
    found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    if not found:
        t.skip(f"pyenv has no CPython {version} here")
    told_at_a_kill(t, found[-1])


case(vm="v2", limit_s=120)(at_a_kill)


def add(name, run, *arguments):
    def body(t):
        run(t, *arguments)
    body.__name__, body.__module__ = name, __name__
    case(vm="never", limit_s=240)(body)


for version in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"):
    add(f"pyenv_{version.replace('.', '_')}", pyenv, version)
    add(f"types_of_pyenv_{version.replace('.', '_')}", pyenv_types, version)
for release in (("bullseye", "3.9", "libffi7"), ("trixie", "3.13"), ("sid", "3.14"), ("sid", "3.15")):
    name = "_".join(release[:2]).replace(".", "_")
    add(f"debian_{name}", debian_release, *release)
    add(f"types_of_debian_{name}", debian_types, *release)
for version in ("3.8", "3.13"):
    add(f"at_a_kill_of_{version.replace('.', '_')}", at_a_kill_of, version)
