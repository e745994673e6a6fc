"""Real containers made by runc: names, limits inside and above, and oomcast itself inside one."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import lib
from kills import Expected, Scene, shown
from lib import MiB, case



def held_capabilities():
    with open("/proc/self/status") as f:
        held = int(next(line.split()[1] for line in f if line.startswith("CapEff:")), 16)
    numbers = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
               "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT "
               "SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE "
               "AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON "
               "BPF CHECKPOINT_RESTORE").split()
    return [f"CAP_{name}" for bit, name in enumerate(numbers) if held >> bit & 1]


def root_can_be_pivoted():
    """Not where this system runs from its initramfs."""
    with open("/proc/self/mounts") as f:
        return next(line.split()[2] for line in f if line.split()[1] == "/") not in ("rootfs", "ramfs")


class Container:
    """A runc container whose root file system has the static workloads in /w; with_usr: this machine's programs, too."""

    def __init__(self, t, cgroup_path, container_id, command, limit=None, privileged=False, with_usr=False):
        runc = shutil.which("runc")
        if not runc:
            raise lib.Skip("runc is not installed")
        self.t, self.runc, self.id, self.cgroup_path, self.limit = t, runc, container_id, cgroup_path, limit
        bundle = t.folder()
        os.chmod(bundle, 0o755)
        root = bundle / "rootfs"
        for path in ("proc", "sys", "dev", "tmp", "var/tmp", "w"):
            (root / path).mkdir(parents=True)
        made = subprocess.run([runc, "spec", "--bundle", bundle], capture_output=True, text=True)
        if made.returncode:
            raise lib.Skip(f"runc spec: {made.stderr.strip()}")
        spec = json.loads((bundle / "config.json").read_text())
        process = spec["process"]
        process.update(terminal=False, args=[str(word) for word in command], cwd="/",
                       env=["PATH=/w:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/tmp"], oomScoreAdj=0)
        process.pop("rlimits", None)
        process["noNewPrivileges"] = False
        spec["root"] = {"path": "rootfs", "readonly": False}
        spec["mounts"] = [m for m in spec["mounts"] if m["destination"] in ("/proc", "/dev", "/sys", "/sys/fs/cgroup")]
        spec["mounts"].append({"destination": "/w", "type": "bind", "source": str(t.workloads_path),
                               "options": ["rbind", "ro"]})
        linux = spec["linux"]
        linux["cgroupsPath"] = cgroup_path
        linux["namespaces"] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        linux["resources"] = {"devices": [{"allow": True, "access": "rwm"}]}
        if limit:
            linux["resources"]["memory"] = {"limit": limit}
        if privileged:
            held = held_capabilities()
            process["capabilities"] = {kind: held for kind in ("bounding", "effective", "permitted", "inheritable")}
            process["capabilities"]["ambient"] = []
            linux["maskedPaths"], linux["readonlyPaths"] = [], []
            linux.pop("seccomp", None)
            for mount in spec["mounts"]:
                if mount["destination"].startswith("/sys"):
                    mount["options"] = [o for o in mount.get("options", []) if o != "ro"]
            (root / "host").mkdir()
            (root / "oomcast").touch()
            spec["mounts"] += [
                {"destination": "/host", "type": "bind", "source": "/", "options": ["rbind", "ro"]},
                {"destination": "/oomcast", "type": "bind", "source": str(t.oomcast_path), "options": ["bind", "ro"]},
                {"destination": "/dev/kmsg", "type": "bind", "source": "/dev/kmsg", "options": ["bind"]}]
        if privileged or with_usr:
            (root / "usr").mkdir()
            for link in ("bin", "sbin", "lib", "lib64"):
                (root / link).symlink_to(f"usr/{link}")
            spec["mounts"].append({"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]})
        (bundle / "config.json").write_text(json.dumps(spec))
        self.config = bundle / "config.json"
        self.command = [runc, "run", *([] if root_can_be_pivoted() else ["--no-pivot"]), "--bundle", str(bundle), container_id]
        self.words = process["args"]
        t.later(self.remove)

    def start(self):
        """Its main process as a workload whose pid is the host's."""
        self.child = lib.Child(self.words, self.command)
        self.t.later(self.child.end)
        return self

    def host_pid(self):
        """Of the container's first process."""
        state = {}

        def runs_or_ended():
            said = subprocess.run([self.runc, "state", self.id], capture_output=True, text=True)
            with contextlib.suppress(ValueError):
                state.update(json.loads(said.stdout))
            return state.get("status") == "running" or self.child.process.poll() is not None
        lib.wait_until(runs_or_ended, 10, every=0.05)
        if state.get("status") == "running":
            return state["pid"]
        raise lib.Skip(f"runc cannot run a container here: {lib.one_line(self.child.stderr()[-300:])}")

    def cgroup(self):
        version, mount = lib.memory_mount()
        group = lib.Cgroup(self.cgroup_path, version, mount, make=False)
        group.limit_bytes = self.limit
        return group

    def remove(self):
        subprocess.run([self.runc, "delete", "--force", self.id], capture_output=True)
        # runc leaves the folders above its own in every hierarchy; those of the memory one go with the run's.
        top = "/" + self.cgroup_path.lstrip("/").split("/")[0]
        _, memory = lib.memory_mount()
        with open("/proc/self/mounts") as f:
            mounts = [pathlib.Path(line.split()[1]) for line in f if line.split()[2] in ("cgroup", "cgroup2")]
        for mount in mounts:
            path = mount / top.lstrip("/")
            if mount == memory or not path.exists():
                continue
            for folder, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


def new_id(t):
    return hashlib.sha256(f"{os.getpid()} {time.monotonic_ns()}".encode()).hexdigest()


def about_to_grow(t, name, cgroup_path):
    """A container of 32 MiB that takes 64 when it is told to go, and its first process's pid."""
    container = Container(t, cgroup_path, name, ["/w/grow", "--go", "--anon", "64M"], 32 * MiB).start()
    pid = container.host_pid()
    container.child.wait_for("ready")
    return container, pid


@case(vm="never", limit_s=40, tier="gate")
def a_kill_inside_a_container(t):
    name = new_id(t)
    container, pid = about_to_grow(t, name, f"{lib.base().path}/docker/{name}")
    group = container.cgroup()
    scene = Scene(t)
    scene.tids = {pid: pid}
    container.child.go()
    t.killed(container.child)
    scene.wait(1)
    t.equal("recorded victims", [v["pid"] for v in scene.victims()], [pid])
    kernel = scene.kernel_victims()
    for episode in scene.episodes():
        for what, cgroup in (("limit_cgroup", episode["limit_cgroup"]), ("victim's cgroup", episode["victims"][0]["cgroup"])):
            t.equal(f"{what}: id, path, kind, container", cgroup and [cgroup[k] for k in ("id", "path", "kind", "container")],
                    [group.id, group.path, "container", name])
        for victim in episode["victims"]:
            scene.check_victim(victim, kernel.get(victim["pid"], []), Expected(None, None, container.words, "shown"))
            t.equal("ns_pid", victim.get("ns_pid"), 1)


@case(vm="never", limit_s=40, tier="gate")
def the_pods_limit_above_the_containers(t):
    name, uid = new_id(t), "3f2c9a10-7b1e-4a55-9d7e-0123456789ab"
    pods = t.cgroup("kubepods").child("burstable")
    pod = pods.child(f"pod{uid}").limit(48 * MiB)
    if pod.version == 2:
        pod.write("cgroup.subtree_control", "+memory")
    container = Container(t, f"{pod.path}/{name}", name, ["/w/grow", "--go", "--anon", "96M"]).start()
    pid = container.host_pid()
    container.child.wait_for("ready")
    group = container.cgroup()
    scene = Scene(t)
    container.child.go()
    t.killed(container.child)
    scene.tids = {pid: pid}
    scene.check({pid: Expected(group, pod, container.words, "shown")})
    for episode in scene.episodes():
        limit, own = episode["limit_cgroup"], episode["victims"][0]["cgroup"]
        t.equal("limit_cgroup: kind, pod", limit and [limit["kind"], limit["pod"]], ["pod", uid])
        t.equal("victim's cgroup: kind, container, pod", own and [own["kind"], own["container"], own["pod"]],
                ["container", name, uid])


@case(vm="never", limit_s=40)
def a_container_as_scope(t):
    name = new_id(t)
    container, pid = about_to_grow(t, name, f"{lib.base().path}/docker-{name}.scope")
    tracer = t.trace("--container", name[:12])
    scene = Scene(t, tracer=tracer)
    group = container.cgroup()
    other = t.start(t.cgroup().limit(16 * MiB), "grow", "--anon", "32M")
    t.killed(other)
    t.premise(t.log.wait_for_kill_of(scene.log_mark, other.pid, lib.seconds(5)), "the log has no line of the stranger")
    scene.log_mark = t.log.mark()
    container.child.go()
    t.killed(container.child)
    scene.tids = {pid: pid}
    scene.check({pid: Expected(group, group, container.words, "shown")}, scope_ends=True)
    outside = [s["cgroup"]["path"] for s in tracer.all("sample") if not s["cgroup"]["path"].startswith(group.path)]
    t.equal("cgroups outside of the scope", outside[:2], [])
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=40)
def a_container_by_its_name_at_docker_as_scope(t):
    name = new_id(t)
    container, pid = about_to_grow(t, name, f"{lib.base().path}/docker/{name}")
    root = t.folder()
    for folder in ("proc", "sys", "dev"):
        (root / folder).symlink_to(f"/{folder}")
    config = root / "var/lib/docker/containers" / name / "config.v2.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"ID": name, "Name": "/happy_trainer"}))
    code, _, err = t.run_oomcast("trace", "--json", "--root", root, "--container", "happy_trainr")
    t.check(code == 1 and "happy_trainer" in err, f"exit {code}, no near match: {lib.one_line(err)}")
    tracer = t.trace("--root", root, "--container", "happy_trainer")
    scene = Scene(t, tracer=tracer)
    group = container.cgroup()
    container.child.go()
    t.killed(container.child)
    scene.tids = {pid: pid}
    scene.check({pid: Expected(group, group, container.words, "shown")}, scope_ends=True)
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=40)
def a_cgroup_inside_a_container(t):
    name = new_id(t)
    container = Container(t, f"{lib.base().path}/docker/{name}", name, ["/w/sleeper"], 64 * MiB).start()
    container.host_pid()
    container.child.wait_for("ready")
    outer = container.cgroup()
    if outer.version == 2:
        t.skip("a container's processes would have to leave its cgroup before it can have children")
    inner = outer.child("inner").limit(24 * MiB)
    t.later(inner.remove)
    scene = Scene(t)
    child = t.start(inner, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    for episode in scene.check({child.pid: Expected(inner, inner, child.command, "shown")}):
        t.equal("container of the inner cgroup", episode["limit_cgroup"] and episode["limit_cgroup"]["container"], name)


@case(vm="never", limit_s=40)
def oomcast_in_a_privileged_container_sees_the_host(t):
    name = new_id(t)
    container = Container(t, f"{lib.base().path}/docker/{name}", name,
                          ["/oomcast", "trace", "--json", "--root", "/host", "--cgroup", lib.base().path], privileged=True)
    tracer = lib.Oomcast(container.command[0], container.command[1:])
    t.later(tracer.kill)
    container.child = tracer
    lib.wait_until(lambda: tracer.mark() or tracer.process.poll() is not None, 15)
    if "runc run failed" in tracer.stderr():
        t.skip(f"runc cannot run a container here: {lib.one_line(tracer.stderr()[-300:])}")
    tracer.started()
    scene = Scene(t, tracer=tracer)
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})
    subprocess.run([container.runc, "kill", name, "INT"], capture_output=True)
    t.check_stream(tracer)


@case(vm="never", limit_s=40)
def oomcast_run_inside_a_privileged_container(t):
    name = new_id(t)
    container = Container(t, f"{lib.base().path}/docker/{name}", name,
                          ["/oomcast", "run", "--json", "--memory", "32M", "--", "/w/grow", "--step", "64M", "--anon", "64M"],
                          privileged=True)
    log_mark = t.log.mark()
    # What the command says about itself is among the lines; it is told apart by its "event".
    run = subprocess.run(container.command, capture_output=True, stdin=subprocess.DEVNULL, timeout=lib.seconds(25))
    stderr = run.stderr.decode(errors="replace")
    if "runc run failed" in stderr:
        t.skip(f"runc cannot run a container here: {lib.one_line(stderr[-300:])}")
    t.equal(f"exit code (stderr: {lib.one_line(stderr[-300:])})", run.returncode, 137)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    victims = [v for line in lines if line.get("type") == "oom" for v in line["victims"]]
    killed = [line for line in t.log.since(log_mark)["kills"] if line.tid in {v["tid"] for v in victims}]
    t.equal("number of victims", len(victims), 1)
    t.equal("host pids of the victims", [v["pid"] for v in victims], [line.tid for line in killed])
    for victim, line in zip(victims, killed):
        t.equal("anon_bytes", victim["anon_bytes"], line.anon_bytes)
        t.equal("cmdline", victim["cmdline"], ["/w/grow", "--step", "64M", "--anon", "64M"])
        t.check(victim["ns_pid"] not in (None, victim["pid"]), f"ns_pid is {victim['ns_pid']}")
