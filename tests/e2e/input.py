"""Bad input and a hostile machine: a clear message, the contract's exit code, and nothing lost."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess

import lib
from kills import Expected, Scene
from lib import MiB, case


def refused(t, code, words, *mentions, **options):
    got, out, err = t.run_oomcast(*words, **options)
    what = " ".join(map(str, words))
    t.equal(f"exit code of '{what}'", got, code)
    t.check(err.strip(), f"'{what}' says nothing on stderr")
    for mention in mentions:
        t.check(str(mention).lower() in err.lower(), f"'{what}' does not mention '{mention}': {lib.one_line(err[-300:])}")
    t.check(not out.strip(), f"'{what}' prints on stdout: {out[:200]!r}")
    t.check("\x1b" not in err, f"'{what}' writes escape sequences to a pipe")
    return err


@case(vm="never", tier="gate")
def wrong_usage_is_2(t):
    refused(t, 2, ["trace", "--no-such-flag"], "--no-such-flag")
    refused(t, 2, ["no-such-command"], "no-such-command")
    refused(t, 2, ["trace", "--for", "soon"], "--for", "soon")
    refused(t, 2, ["trace", "--for", "10 parsecs"], "--for", "parsecs")
    refused(t, 2, ["trace", "--for", "-5s"], "--for")
    refused(t, 2, ["trace", "--interval", "0s"], "--interval")
    refused(t, 2, ["run", "--memory", "lots", "--", "true"], "--memory", "lots")
    refused(t, 2, ["run", "--memory", "-1M", "--", "true"], "--memory")
    refused(t, 2, ["run", "--memory", "99999999999999G", "--", "true"], "--memory")
    refused(t, 2, ["run"])
    refused(t, 2, ["trace", "--pid", "abc"], "abc")
    refused(t, 2, ["trace", "--cgroup"], "--cgroup")
    refused(t, 2, ["trace", "--color", "purple"], "purple")


@case(vm="never", tier="gate")
def help_and_version_are_0(t):
    for words in (["--help"], ["trace", "--help"], ["--version"]):
        code, out, _ = t.run_oomcast(*words)
        t.equal(f"exit code of {' '.join(words)}", code, 0)
        t.check(out.strip(), f"{' '.join(words)} prints nothing")


@case(vm="never", tier="gate")
def a_scope_that_matches_nothing_is_1_with_near_matches(t):
    group = t.cgroup("training-run")
    refused(t, 1, ["trace", "--cgroup", group.path[:-1]], group.path)
    refused(t, 1, ["trace", "--cgroup", f"{lib.base().path}/trainign-run"], group.path)
    refused(t, 1, ["trace", "--pid", 4194000], "4194000")
    refused(t, 1, ["trace", "--container", "deadbeefdeadbeef"], "deadbeefdeadbeef")
    refused(t, 1, ["trace", "--unit", "no-such-unit.service"], "no-such-unit")
    refused(t, 1, ["trace", "--slurm-job", "424242"], "424242")


@case(tier="gate")
def a_scope_that_appears_later_is_awaited(t):
    name = f"{lib.base().path}/later"
    tracer = t.oomcast("trace", "--json", "--cgroup", name, "--wait")
    lib.wait_until(lambda: "waiting for" in tracer.stderr(), 10)
    t.check("waiting for" in tracer.stderr(), f"it says nothing of waiting: {tracer.stderr()!r}")
    # What others do meanwhile is read, and told to nobody.
    beside = t.start(t.cgroup("beside"), "grow", "--anon", "24M")
    beside.wait_for("done")
    tracer.looks_again(2)
    t.equal("lines before the scope exists", tracer.mark(), 0)
    group = t.cgroup("later").limit(32 * MiB)
    t.check(group.path == name, "the test's names differ")
    tracer.started()
    scene = Scene(t, tracer=tracer)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")}, scope_ends=True)
    t.check_stream(tracer)
    of_others = [line for line in tracer.lines.items if line["type"] in ("sample", "forecast", "process", "exit")
                 and name not in ((line.get("cgroup") or (line.get("process") or {}).get("cgroup") or {}).get("path") or "")]
    t.equal("lines about what is not in scope", of_others[:3], [])


@case(vm="never")
def waiting_for_a_scope_ends_with_a_signal(t):
    for command in ("trace", "blame"):
        tracer = t.oomcast(command, "--json", "--cgroup", f"{lib.base().path}/never", "--wait")
        lib.wait_until(lambda: "waiting for" in tracer.stderr(), 10)
        t.check("never" in tracer.stderr(), f"{command} does not say what it waits for: {tracer.stderr()!r}")
        t.equal(f"exit code of {command}", tracer.stop(signal.SIGTERM), 0)


RIGHTS_TO_DROP = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_SYS_MODULE": 16, "CAP_SYS_BOOT": 22, "CAP_SETUID": 7,
                  "CAP_CHOWN": 0}


def rights(task):
    """Names of those to drop that a thread has or may take."""
    with open(f"{task}/status") as f:
        held = {key: int(value, 16) for key, value in (line.split(":") for line in f if line.startswith("Cap"))}
    may_have = held["CapPrm"]
    if int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:  # Debian's, for perf events
        may_have &= ~(1 << RIGHTS_TO_DROP["CAP_SYS_ADMIN"])
    return [name for name, bit in RIGHTS_TO_DROP.items() if (held["CapEff"] | may_have) >> bit & 1]


def needs_rights(t):
    missing = sorted(set(RIGHTS_TO_DROP) - set(rights("/proc/self")))
    if missing:
        t.skip(f"the tests themselves lack {', '.join(missing)}: nothing could be dropped")


@case(vm="never")
def a_tracer_below_nohup_goes_on_when_its_terminal_is_gone(t):
    tracer = t.trace("--cgroup", lib.base().path, prefix=["nohup"])
    tracer.process.send_signal(signal.SIGHUP)
    one_kill_seen(t, tracer)
    t.equal("exit code", tracer.stop(signal.SIGTERM), 0)


@case(tier="gate")
def rights_that_are_needed_only_at_the_start_are_dropped(t):
    needs_rights(t)
    for words in ([], ["--store", "none"], ["--store", "none", "--no-bpf"]):
        tracer = t.trace("--cgroup", lib.base().path, *words)
        t.equal(f"rights that trace {' '.join(words)} kept", rights(f"/proc/{tracer.pid}"), [])
        tracer.stop()


@case(vm="never", tier="gate")
def rights_are_dropped_by_each_thread(t):
    needs_rights(t)
    tracer = t.trace("--cgroup", lib.base().path)
    kept = {task.name: rights(task) for task in pathlib.Path(f"/proc/{tracer.pid}/task").iterdir()}
    t.equal(f"threads of {tracer.pid} that kept rights", {task: names for task, names in kept.items() if names}, {})
    tracer.stop()


def as_nobody(t, *words):
    folder = t.folder()
    os.chmod(folder, 0o755)
    copy = folder / "oomcast"
    shutil.copy(t.oomcast_path, copy)
    os.chmod(copy, 0o755)
    try:
        return subprocess.run([copy, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=lib.seconds(10), user=65534, group=65534, extra_groups=[])
    except PermissionError as error:
        raise lib.Skip(f"another user cannot run the binary: {error}")


@case(tier="gate")
def without_root_is_3_and_says_what_is_missing(t):
    for words in (["trace", "--json"], ["run", "--", "true"]):
        done = as_nobody(t, *words)
        what = " ".join(words)
        t.equal(f"exit code of {what}", done.returncode, 3)
        t.check("CAP_BPF" in done.stderr or "root" in done.stderr,
                f"{what} names neither a capability nor root: {done.stderr[-300:]!r}")
        t.check(not done.stdout.strip(), f"{what} prints on stdout: {done.stdout[:200]!r}")


@case(tier="gate")
def doctor_without_root_says_what_is_missing(t):
    done = as_nobody(t, "doctor")
    t.equal("exit code", done.returncode, 3)
    t.check("CAP_" in done.stdout + done.stderr or "root" in done.stdout + done.stderr,
            f"no capability is named: {done.stdout[-400:]!r}")


@case(vm="all", tier="gate", kernel=True)
def doctor_says_what_is_there(t):
    code, out, _ = t.run_oomcast("doctor", "--json")
    t.equal("exit code", code, 0)
    facts = json.loads(out)
    t.equal("type", facts.get("type"), "doctor")
    t.equal("can_trace", facts.get("can_trace"), True)
    states = {finding["what"]: finding for finding in facts["findings"]}
    for finding in facts["findings"]:
        t.check(finding["state"] in ("ok", "degraded", "missing"), f"state is {finding['state']!r}")
        t.check(finding["state"] == "ok" or finding["cost"], f"{finding['what']}: nothing is said of the cost")
    kprobes = states.get("kprobes")
    if not t.check(kprobes, f"nothing on kprobes among {sorted(states)}"):
        return
    refused = not os.path.exists("/sys/bus/event_source/devices/kprobe/type")
    expected = "degraded" if refused or lib.VM.startswith("kprobes") else "ok"
    t.equal(f"kprobes here ({kprobes['detail']})", kprobes["state"], expected)
    if lib.VM == "kprobes-off":
        t.check("fire" in kprobes["detail"], f"it does not say that they never fire: {kprobes['detail']}")
    with open("/sys/kernel/btf/vmlinux", "rb") as btf:
        walks = b"\0bpf_iter__cgroup\0" in btf.read()
    t.check(not walks or "cgroup iterator" not in states, f"this kernel walks cgroups: {states.get('cgroup iterator')}")
    version, _ = lib.memory_mount()
    t.check(f"v{version}" in states["memory cgroups"]["detail"], f"memory cgroups: {states['memory cgroups']['detail']}")
    code, text, _ = t.run_oomcast("doctor")
    t.equal("exit code in words", code, 0)
    t.check("\x1b" not in text, "escape sequences on a pipe")


@case(vm="never", tier="gate")
def a_machine_without_cgroups_or_btf_is_3(t):
    root = t.folder()
    refused(t, 3, ["trace", "--json", "--root", root], root)
    code, _, _ = t.run_oomcast("doctor", "--root", root)
    t.equal("exit code of doctor on an empty folder", code, 3)
    for pid in ("1", "self"):
        (root / "proc" / pid).mkdir(parents=True)
        (root / "proc" / pid / "mountinfo").write_text("21 1 0:20 / / rw,relatime - ext4 /dev/vda rw\n"
                                                       "22 21 0:21 / /proc rw,relatime - proc proc rw\n"
                                                       "23 21 0:22 / /sys rw,relatime - sysfs sysfs rw\n")
        (root / "proc" / pid / "cgroup").write_text("0::/\n")
    (root / "proc/vmstat").write_text("nr_free_pages 1000\noom_kill 0\n")
    (root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemFree: 500000 kB\nMemAvailable: 600000 kB\n"
                                       "SwapTotal: 0 kB\nSwapFree: 0 kB\n")
    (root / "proc/stat").write_text("btime 1700000000\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    refused(t, 3, ["trace", "--json", "--root", root], "cgroup")
    code, _, _ = t.run_oomcast("doctor", "--root", root)
    t.equal("exit code of doctor", code, 3)
    (root / "dev").mkdir()
    (root / "dev/kmsg").touch()
    code, _, _ = t.run_oomcast("doctor", "--root", root)
    t.equal("exit code of doctor where there is a kernel log, but no cgroups", code, 3)
    refused(t, 3, ["trace", "--json", "--root", "/nonexistent-root"], "/nonexistent-root")


def in_mount_namespace(t, script, *arguments):
    """oomcast where a shell script has changed the mounts before."""
    tracer = lib.Oomcast("unshare", ["-m", "sh", "-c", f"{script}\nexec \"$0\" \"$@\"", t.oomcast_path, *arguments])
    t.later(tracer.kill)
    return tracer


def one_kill_seen(t, tracer):
    scene = Scene(t, tracer=tracer.started())
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})
    tracer.stop()
    t.check_stream(tracer)


@case(tier="gate")
def without_tracefs_debugfs_and_bpffs(t):
    script = ("for d in /sys/kernel/debug/tracing /sys/kernel/tracing /sys/kernel/debug /sys/fs/bpf; do "
              "while umount -l $d 2>/dev/null; do :; done; done")
    one_kill_seen(t, in_mount_namespace(t, script, "trace", "--json", "--cgroup", lib.base().path))


ENTER_CGROUP = """
import ctypes, os, subprocess, sys
procs, mount, kind, *command = sys.argv[1:]
open(procs, "w").write("0")
if ctypes.CDLL(None).unshare(0x02020000):  # CLONE_NEWCGROUP, CLONE_NEWNS
    sys.exit("no cgroup namespace")
for words in (["mount", "--make-rprivate", "/"], ["umount", "-l", mount], ["mount", *kind.split(), "none", mount]):
    subprocess.check_call(words)
os.execv(command[0], command)
"""


@case(tier="gate")
def in_a_cgroup_namespace_the_top_is_a_cgroup_with_its_limit(t):
    group = t.cgroup().limit(160 * MiB)
    kind = "-t cgroup2" if group.version == 2 else "-t cgroup -o memory"
    tracer = lib.Oomcast("/usr/bin/python3", ["-c", ENTER_CGROUP, group.procs_file, group.mount, kind,
                                              t.oomcast_path, "trace", "--json"])
    t.later(tracer.kill)
    tracer.started()

    def is_top(cgroup):
        return cgroup and (cgroup["id"], cgroup["path"], cgroup["kind"]) == (group.id, "/", "plain")
    sample = tracer.wait_for_line("sample", lambda line: is_top(line["cgroup"]))
    t.equal("its limit", sample["limit_bytes"], group.limit_bytes)
    t.check(sample["usage_bytes"] <= group.limit_bytes, f"the machine's usage is told as its own: {sample}")
    child = t.start(group, "grow", "--anon", "320M")
    t.killed(child)
    oom = tracer.wait_for_line("oom", lambda line: any(v["pid"] == child.pid for v in line["victims"]))
    t.check(is_top(oom["limit_cgroup"]), f"the limit's cgroup is {oom['limit_cgroup']}")
    t.equal("limit of the kill", oom["limit_bytes"], group.limit_bytes)
    tracer.stop()
    t.check_stream(tracer)


@case()
def with_read_only_cgroups(t):
    _, mount = lib.memory_mount()
    script = f"mount -o remount,bind,ro {mount} || exit 99"
    tracer = in_mount_namespace(t, script, "trace", "--json", "--cgroup", lib.base().path)
    one_kill_seen(t, tracer)
    limited = in_mount_namespace(t, script, "run", "--memory", "32M", "--", "true")
    code = limited.finish(20)
    t.check(code in (1, 3) and limited.stderr(), f"run --memory ends with {code} and says {limited.stderr()!r}")
    t.check("read-only" in limited.stderr().lower(), f"it does not say why: {limited.stderr()!r}")


@case(tier="gate")
def without_cgroups_is_3(t):
    _, mount = lib.memory_mount()
    tracer = in_mount_namespace(t, f"umount -l {mount}; umount -l /sys/fs/cgroup 2>/dev/null", "trace", "--json")
    t.equal("exit code", tracer.finish(20), 3)
    t.check("cgroup" in tracer.stderr().lower(), f"stderr does not name the cgroup file system: {tracer.stderr()!r}")


@case(limit_s=60, tier="gate", kernel=True)
def no_kernel_program_is_refused_that_could_attach(t):
    tracer = t.oomcast("trace", "--json", "-v", "--store", "none", "--for", "1s")
    t.equal("exit code", tracer.finish(30), 0)
    refused = [line for line in tracer.stderr().splitlines() if "the kernel refused it" in line]
    t.check(not refused, f"refused: {refused}")


@case()
def without_btf(t):
    # The kernel log and the cgroup files alone still tell every kill.
    empty = t.folder()
    tracer = in_mount_namespace(t, f"mount --bind {empty} /sys/kernel/btf || exit 99", "trace", "--json", "--cgroup",
                                lib.base().path)
    lib.wait_until(lambda: tracer.mark() or tracer.process.poll() is not None, 15)
    t.check("btf" in tracer.stderr().lower(), f"stderr does not say that BTF is missing: {tracer.stderr()!r}")
    if tracer.process.poll() is not None:
        t.equal("exit code", tracer.finish(), 3)
        return
    scene = Scene(t, "--no-bpf", tracer=tracer.started())
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})


@case()
def a_cgroup_that_vanishes(t):
    group = t.cgroup()
    tracer = t.trace("--cgroup", group.path, "--interval", "100ms")
    child = t.start(group, "grow", "--anon", "4M")
    t.equal("exit code of the load", child.wait(), 0)
    group.remove()
    tracer.looks_again()
    t.check(tracer.process.poll() in (None, 0), f"oomcast ended with {tracer.process.poll()}: {tracer.stderr()}")
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never")
def a_process_that_exits(t):
    child = t.start(t.cgroup(), "sleeper")
    child.wait_for("ready")
    tracer = t.trace("--pid", child.pid, "--interval", "100ms")
    child.end()
    tracer.looks_again()
    t.check(tracer.process.poll() in (None, 0), f"oomcast ended with {tracer.process.poll()}: {tracer.stderr()}")
    tracer.stop()
    t.check_stream(tracer)


@case(tier="gate")
def names_with_hostile_bytes(t):
    name = b'x\x1b[31m"q\\\xff\xc3\xe2\x80\xae\xc2\x9b\x7f\t'
    version, mount = lib.memory_mount()
    path = os.path.join(os.fsencode(str(mount)), os.fsencode(lib.base().path.lstrip("/")), name)
    t.shared_trace("--cgroup", lib.base().path)
    os.mkdir(path)

    def removed():
        with contextlib.suppress(OSError):
            os.rmdir(path)
        return not os.path.exists(path)
    t.later(lib.wait_until, removed, 4)
    group = lib.Cgroup(f"{lib.base().path}/{os.fsdecode(name)}", version, mount, make=False)
    group.path = f"{lib.base().path}/" + name.decode(errors="backslashreplace")
    group.limit(32 * MiB)
    words = t.oomcast("trace", "--cgroup", lib.base().path)  # in words, beside the JSON stream
    words.wait_for("first line", words.mark)
    json_lines = t.oomcast("trace", "--json", "--cgroup", lib.base().path)
    json_lines.wait_for("first line", json_lines.mark)
    scene = Scene(t)
    child = t.start(group, "hostile_name", "grow")
    child.wait_for("ready")
    child.go()
    t.killed(child)
    scene.wait(1)
    for episode in scene.episodes():
        t.equal("path of the limit's cgroup", episode["limit_cgroup"] and episode["limit_cgroup"]["path"], group.path)
        t.equal("path of the victim's cgroup", [v["cgroup"] and v["cgroup"]["path"] for v in episode["victims"]],
                [group.path])
    t.equal("recorded victims", [v["pid"] for v in scene.victims()], [child.pid])
    words.lines.wait(lambda: str(child.pid).encode() in b"".join(words.lines.raw), lib.seconds(2.5))
    words.stop()
    text = b"".join(words.lines.raw)
    t.check(b"\x1b" not in text, f"an escape byte reaches the terminal: {[l for l in text.splitlines() if b'%c' % 27 in l][:1]}")
    text.decode()
    t.check(b"\xe2\x80\xae" not in text, "a direction override reaches the terminal")
    json_lines.lines.wait(lambda: any(b'"type":"oom"' in line for line in json_lines.lines.raw), lib.seconds(2.5))
    json_lines.stop()
    text_of_json = b"".join(json_lines.lines.raw)
    t.check(b"\\u202e" in text_of_json and b"\\u009b" in text_of_json, "the JSON stream does not name the cgroup")
    for raw in (b"\xe2\x80\xae", b"\xc2\x9b", b"\x7f", b"\x1b"):
        t.check(raw not in text_of_json, f"{raw!r} is raw in the JSON stream")
    t.check(str(child.pid).encode() in text, f"the kill is not told in words: {text[-300:]!r}")


def ends_with(t, number):
    tracer = t.trace("--cgroup", lib.base().path)
    tracer.stop(number)
    t.check_stream(tracer)


@case(vm="never", tier="gate")
def sigint_and_sigterm_end_in_order(t):
    ends_with(t, signal.SIGINT)
    ends_with(t, signal.SIGTERM)


@case(tier="gate")
def a_kill_just_before_the_end_is_told(t):
    tracer = t.trace("--cgroup", lib.base().path)
    child = t.start(t.cgroup().limit(16 * MiB), "grow", "--anon", "64M")
    t.killed(child)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("recorded victims", [v["pid"] for e in tracer.all("oom") for v in e["victims"]], [child.pid])


@case(vm="never", tier="gate")
def for_a_time_ends_by_itself(t):
    tracer = t.trace("--cgroup", lib.base().path, "--for", "700ms")
    tracer.finish()
    t.check_stream(tracer)


@case(vm="never")
def a_reader_that_goes_away_ends_it(t):
    process = subprocess.Popen([t.oomcast_path, "trace", "--json", "--interval", "100ms"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    t.later(process.kill)
    process.stdout.readline()
    process.stdout.close()
    try:
        code = process.wait(lib.seconds(10))
    except subprocess.TimeoutExpired:
        t.check(False, "it goes on without a reader")
        return
    t.check(code in (0, 1, -signal.SIGPIPE), f"exit code is {code}")


@case(vm="never", tier="gate")
def a_full_disk_is_1(t):
    if not (os.path.exists("/dev/full") and stat.S_ISCHR(os.stat("/dev/full").st_mode)):
        t.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([t.oomcast_path, "trace", "--json", "--for", "5s"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=lib.seconds(15))
    t.equal("exit code", done.returncode, 1)
    t.check(done.stderr.strip(), "nothing on stderr")


@case(vm="never")
def watch_on_a_pipe_is_plain_lines(t):
    watch = t.oomcast("watch", "--cgroup", lib.base().path, "--for", "2s")
    watch.finish()
    text = b"".join(watch.lines.raw)
    t.equal("exit code", watch.code, 0)
    t.check(text.strip(), f"nothing on stdout; stderr: {watch.stderr()}")
    t.check(b"\x1b" not in text, "escape sequences on a pipe")
