"""Every kill, right: what oomcast recorded against the kernel's own lines and the workloads' own truth."""

import dataclasses
import os
import shutil
import signal
import subprocess
import time

import lib
from lib import MiB, case

FIGURES = ("anon_bytes", "file_bytes", "shmem_bytes", "pgtables_bytes", "total_vm_bytes", "oom_score_adj", "uid")


@dataclasses.dataclass
class Expected:
    """A process that must die. `cmdline` and `source` None: not checked."""
    cgroup: object = None
    limit: object = None
    cmdline: list | None = None
    source: str | None = None


def printable(comm):
    """A comm as JSON shows it: bytes that are not UTF-8 as \\xNN."""
    return comm.decode(errors="backslashreplace")


class Scene:
    """The kills of one case. Made before them, it knows what oomcast and the kernel had said until then."""

    scenes = []  # the kernel's victims of all scenes: (tid, comm)

    def __init__(self, t, *arguments, tracer=None):
        self.t = t
        self.bpf = "--no-bpf" not in arguments
        self.kmsg = "--no-kmsg" not in arguments
        self.tracer = tracer or t.shared_trace(*(arguments or ()), "--cgroup", lib.base().path)
        self.mark = self.tracer.mark()
        self.begun = time.time_ns()
        t.log.sync(lib.seconds(1))
        self.log_mark = t.log.mark()
        self.tids, self.children = {}, {}

    def knows(self, child):
        """Learns the threads of a workload from what it says."""
        self.children[child.pid] = child
        for line in child.truth:
            if "tid" in line:
                self.tids[line["tid"]] = line["pid"]

    def episodes(self):
        # An episode is told up to 2 s after its kill: one of the case before may still come.
        begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.begun // 10**9)) + f".{self.begun % 10**9:09}Z"
        return [line for line in self.tracer.all("oom", self.mark) if line["time"] >= begun]

    def victims(self):
        return [victim for episode in self.episodes() for victim in episode["victims"]]

    def kernel_victims(self):
        """Process → its lines, for all kills of ours since the scene began. Others may run tests here too."""
        said = self.t.log.since(self.log_mark)
        ours = {c.pid for c in said["constraints"] if lib.is_ours(c.memcg)}
        victims = {}
        for line in said["kills"]:
            pid = self.tids.get(line.tid)
            if pid is None and (line.tid in ours or self.recognises(line)):
                pid = line.tid
            if pid is not None:
                victims.setdefault(pid, []).append(line)
        return victims

    @staticmethod
    def recognises(_):
        """Whether a kill of a process that said nothing of itself is ours."""
        return False

    def wait(self, count):
        """Waits until the kernel named `count` victims, and oomcast as many."""
        if not self.t.log.wait_for(lambda: len(self.kernel_victims()) >= count, lib.seconds(15)):
            raise lib.Unfit(f"the kernel killed {len(self.kernel_victims())} processes, {count} were to die")
        try:
            self.tracer.wait_for(f"record of {count} victims", lambda: len(self.victims()) >= count, 8)
        except lib.Failed as late:
            self.t.check(False, str(late))

    def settle(self, told_late=False, scope_ends=False):
        """Waits until all that oomcast may have to say of this has been said. `told_late`: not each of the victims was
        waited for, and a line may come as late as 2 s after its kill. `scope_ends`: no more than the end can follow."""
        if scope_ends:
            self.tracer.stop()
        else:
            self.t.until_told(self.tracer, 2.2 if told_late else 0.3)

    def check(self, expected, episodes=1, trigger=None, trigger_cgroup=None, group=False, scope="memcg", **settle):
        """`expected`: process → Expected, all that die. `trigger`: pids of which one triggered; default: the victim."""
        t = self.t
        self.wait(len(expected))
        self.settle(**settle)
        kernel = self.kernel_victims()
        recorded = self.victims()
        # What is wrong here is told here, and not again by totals.py.
        if t.equal("recorded victims", sorted(v["pid"] for v in recorded), sorted(kernel)):
            Scene.scenes += [(line.tid, line.comm) for lines in kernel.values() for line in lines[:1]]
        t.premise(sorted(kernel) == sorted(expected),
                  f"the kernel killed {sorted(kernel)}, {sorted(expected)} were to die")
        if episodes is not None:
            t.equal("number of oom lines", len(self.episodes()), episodes)
        for episode in self.episodes():
            for victim in episode["victims"]:
                if victim["pid"] in kernel:
                    self.check_victim(victim, kernel[victim["pid"]], expected.get(victim["pid"], Expected()),
                                      self.exited_late(episode, victim["pid"]))
            self.check_episode(episode, expected, trigger, trigger_cgroup, group, scope)
        return self.episodes()

    def late(self, episode, when_ns):
        """Whether something came after the episode's line was due: 2 s after the mark, and then it may be open."""
        mark_ns = lib.epoch_ns(episode["time"]) - lib.realtime_minus_monotonic_ns()
        return when_ns is not None and when_ns - mark_ns > 1.3e9

    def exited_late(self, episode, pid):
        child = self.children.get(pid)
        return child is not None and self.late(episode, child.exited_ns)

    def check_victim(self, victim, lines, expected, exited_late=False):
        t, who = self.t, f"victim {victim['pid']}"
        tids = {line.tid for line in lines}
        t.check(victim["tid"] in tids, f"{who}: tid is {victim['tid']}, the kernel's line says {sorted(tids)}")
        # The kernel may print one victim twice; then its figures are one of them.
        differences = []
        for line in lines:
            wrong = [f"{f} {victim[f]} != {getattr(line, f)}" for f in FIGURES
                     if victim[f] != getattr(line, f)]
            if victim["comm"] != printable(line.comm):
                wrong.append(f"comm {victim['comm']!r} != {printable(line.comm)!r}")
            differences.append(wrong)
        best = min(differences, key=len)
        t.check(not best, f"{who}: not as in the kernel's line: {', '.join(best)}")
        t.check(victim["killed"] is True or (victim["killed"] is None and (exited_late or not self.bpf)),
                f"{who}: killed is {victim['killed']!r}")
        said = any(c.pid == victim["pid"] for c in t.log.since(self.log_mark)["constraints"])
        if self.bpf or said or victim["cgroup"] is not None:
            self.check_cgroup(f"{who}: cgroup", victim["cgroup"], expected.cgroup)
        unknown = not self.bpf and victim["cmdline_source"] is None
        if expected.cmdline is not None and not unknown:
            t.equal(f"{who}: cmdline", victim["cmdline"], expected.cmdline)
        if expected.source is not None and not unknown:
            # Of who takes seconds to die the kernel's reaper may have taken the arguments before.
            reaped = exited_late and victim["cmdline_source"] == "exec"
            t.equal(f"{who}: cmdline_source", victim["cmdline_source"], "exec" if reaped else expected.source)
        if self.bpf:
            t.check(victim["start_time"] and lib.TIME.fullmatch(victim["start_time"]),
                    f"{who}: start_time is {victim['start_time']!r}")
            t.equal(f"{who}: ppid", victim["ppid"], victim["ppid"] and int(victim["ppid"]))

    def check_cgroup(self, what, got, group):
        if group is None:
            return
        expected = {"id": group.id, "hierarchy": f"v{group.version}", "path": group.path}
        got = got and {key: got[key] for key in expected}
        if got and not self.bpf and got["id"] is None:  # the kernel log has names only
            expected["id"] = None
        self.t.equal(what, got, expected)

    def check_episode(self, episode, expected, trigger, trigger_cgroup, group, scope):
        t = self.t
        pids = [victim["pid"] for victim in episode["victims"]]
        mine = expected.get(pids[0], Expected()) if pids else Expected()
        who = f"episode of {pids}"
        said = [c for c in t.log.since(self.log_mark)["constraints"] if c.pid in pids]
        lines_missing = not self.bpf and not said  # rate-limited away, and no other source that knows
        if not lines_missing:
            t.equal(f"{who}: scope", episode["scope"], scope)
        if mine.limit is not None and not (lines_missing and episode["limit_cgroup"] is None):
            self.check_cgroup(f"{who}: limit_cgroup", episode["limit_cgroup"], mine.limit)
            limit = mine.limit.limit_bytes
            # Of reports that are printed at once the log does not tell whose figures are whose.
            mixed = not self.bpf and len(expected) > 1 and episode["limit_bytes"] is None
            t.check(mixed or episode["limit_bytes"] == limit,
                    f"{who}: limit_bytes is {episode['limit_bytes']}, expected {limit}")
            usage = limit if mixed else episode["usage_bytes"]
            # Without the kernel's report it is that of the mark, when an earlier victim may have given memory back.
            least = limit - max(limit // 20, 2 * MiB) if said or len(expected) == 1 else 0
            t.check(usage is not None and least <= usage <= limit,
                    f"{who}: usage_bytes is {usage} with a limit of {limit}")
        for constraint in said:
            if constraint.limit is not None and mine.limit is not None:
                t.equal(f"the kernel's limit owner of {constraint.pid}", constraint.limit, mine.limit.path)
        triggers = set(trigger) if trigger is not None else set(pids)
        got = episode["trigger"]
        if self.bpf or got is not None:
            t.check(got is not None and (not triggers or got["pid"] in triggers),
                    f"{who}: trigger is {got and got['pid']}, expected one of {sorted(triggers)}")
        anyone = not triggers and got is not None and got["pid"] not in pids  # then nothing is known of its cgroup
        if got and (trigger_cgroup or mine.cgroup) and not anyone and (self.bpf or got["cgroup"] is not None):
            self.check_cgroup(f"{who}: trigger's cgroup", got["cgroup"], trigger_cgroup or mine.cgroup)
        if self.bpf:
            t.equal(f"{who}: group_kill", episode["group_kill"], group)
        checks = episode["checks"]
        t.equal(f"{who}: checks.mark_victim", checks["mark_victim"], len(pids) if self.bpf else None)
        kernel = self.kernel_victims()
        in_time = sum(not self.late(episode, kernel[pid][0].time_ns) for pid in pids if pid in kernel)
        t.check(checks["kmsg"] is None if not self.kmsg else in_time <= (checks["kmsg"] or 0) <= len(pids),
                f"{who}: checks.kmsg is {checks['kmsg']}, the log named {len(pids)}, {in_time} of them in time")
        t.check(checks["vmstat"] is None or checks["vmstat"] >= len(pids),
                f"{who}: checks.vmstat is {checks['vmstat']}")
        t.check(isinstance(episode["id"], str) and episode["id"], f"{who}: id is {episode['id']!r}")
        age_s = (time.time_ns() - lib.epoch_ns(episode["time"])) * 1e-9
        t.check(-1 < age_s < lib.seconds(60), f"{who}: time {episode['time']} is {age_s:.1f} s ago")


def shown(child, event="ready"):
    """What the workload's /proc/self/cmdline showed when it last said so."""
    return [line for line in child.truth if line["event"] == event][-1]["cmdline"]


def kill_one(t, command, limit=32 * MiB, arguments=(), event="ready", source="shown", adj=None, **check):
    """One process, one cgroup, one limit, one kill."""
    scene = Scene(t, *arguments)
    group = t.cgroup().limit(limit)
    child = t.start(group, *command, adj=adj)
    child.wait_for(event)
    if not scene.bpf:  # who executes another program between two looks at /proc is known as the one before
        t.until_told(scene.tracer)
    child.go()
    t.killed(child)
    scene.knows(child)
    expected = {child.pid: Expected(group, group, shown(child, event), source)}
    return scene.check(expected, **check)[:1], child, group


# ---- one process ----------------------------------------------------------------------------------------------------

@case(vm="all", tier="gate", kernel=True)
def one_process_one_limit(t):
    episodes, child, _ = kill_one(t, ["grow", "--anon", "64M"])
    mine = next(kill.time_ns for kill in t.log.kills if kill.tid == child.pid)
    others = [kill.tid for kill in t.log.kills if kill.tid != child.pid and abs(kill.time_ns - mine) < 3 * 10**9]
    for episode in episodes:
        if not others:  # the machine's counter cannot tell theirs from ours
            t.equal("checks.vmstat of a kill on its own", episode["checks"]["vmstat"], 1)
        t.check(episode["order"] in (0, None), f"order is {episode['order']}")
        for victim in episode["victims"]:
            t.check(victim["anon_bytes"] and victim["anon_bytes"] > 20 * MiB, f"anon_bytes is {victim['anon_bytes']}")
            t.equal("uid", victim["uid"], 0)
            t.equal("ppid", victim["ppid"], os.getpid())
            t.equal("swap_bytes", victim["swap_bytes"], 0)


@case(tier="gate")
def anon_file_and_shmem_are_told_apart(t):
    episodes, _, _ = kill_one(t, ["grow", "--shmem", "12M", "--file", "8M", "--anon", "128M"], limit=48 * MiB)
    for victim in episodes[0]["victims"] if episodes else []:
        # The kernel's own counters lag by a batch a CPU, in its line too.
        t.check(victim["shmem_bytes"] >= 11 * MiB, f"shmem_bytes is {victim['shmem_bytes']} with 12 MiB of it touched")


@case()
def oom_score_adj_is_the_last_one_set(t):
    kill_one(t, ["grow", "--anon", "64M"], adj=321)


@case(vm="all", tier="gate")
def a_victim_that_lives_a_few_milliseconds(t):
    scene = Scene(t)
    expected = {}
    for i in range(5):
        group = t.cgroup().limit(8 * MiB)
        child = t.start(group, "short_lived", "32M")
        t.killed(child)
        scene.knows(child)
        expected[child.pid] = Expected(group, group, child.command, "shown")
    scene.check(expected, episodes=5)


@case(vm="all", tier="gate", kernel=True)
def many_threads_fault_at_once(t):
    kill_one(t, ["threads", 9])


@case(vm="never")
def many_threads_fault_at_once_again_and_again(t):
    for _ in range(4):
        kill_one(t, ["threads", 9])


@case(vm="all", tier="gate", kernel=True)
def the_marked_task_is_not_the_main_thread(t):
    episodes, child, _ = kill_one(t, ["dead_leader"])
    tid = child.wait_for("leader_gone")["tid"]
    for victim in episodes[0]["victims"] if episodes else []:
        t.equal("pid", victim["pid"], child.pid)
        t.equal("tid", victim["tid"], tid)


@case()
def kills_one_after_the_other_are_episodes_of_their_own(t):
    group = t.cgroup().limit(16 * MiB)
    for _ in range(3):
        scene = Scene(t)
        child = t.start(group, "grow", "--anon", "64M")
        t.killed(child)
        scene.knows(child)
        scene.check({child.pid: Expected(group, group, child.command, "shown")})


# ---- whose limit, whose cgroup ----------------------------------------------------------------------------------------

@case(vm="all", tier="gate", kernel=True)
def the_limit_is_two_levels_up(t):
    scene = Scene(t)
    owner = t.cgroup().limit(32 * MiB)
    leaf = owner.child("middle").child("leaf")
    child = t.start(leaf, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(leaf, owner, child.command, "shown")})


@case(tier="gate")
def the_limit_that_fires_is_the_tighter_one_below(t):
    scene = Scene(t)
    top = t.cgroup().limit(256 * MiB)
    middle = top.child("middle").limit(32 * MiB)
    leaf = middle.child("leaf").limit(128 * MiB)
    child = t.start(leaf, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(leaf, middle, child.command, "shown")})


@case(tier="gate")
def victim_and_trigger_are_in_different_cgroups(t):
    scene = Scene(t)
    owner = t.cgroup().limit(64 * MiB)
    big, small = owner.child("big"), owner.child("small")
    holder = t.start(big, "grow", "--anon", "44M", "--forever")
    holder.wait_for("holds")
    pusher = t.start(small, "grow", "--anon", "24M", "--go")
    t.killed(holder)
    pusher.wait_for("at", count=24, error=lib.Unfit)
    scene.knows(holder)
    scene.knows(pusher)
    scene.check({holder.pid: Expected(big, owner, holder.command, "shown")}, trigger=[pusher.pid],
                trigger_cgroup=small)


# On the host only: in emulation the victim's memory comes back so late that the kernel kills a second process.
@case(vm="never", tier="gate")
def culprit_victim_and_trigger_are_three_processes(t):
    scene = Scene(t)
    group = t.cgroup().limit(256 * MiB)
    child = t.start(group, "culprit", "256M")
    roles = {role: child.wait_for("role", role=role)["pid"] for role in ("culprit", "victim", "trigger")}
    child.wait_for("survived", error=lib.Unfit)
    scene.knows(child)
    episodes = scene.check({roles["victim"]: Expected(group, group, child.command, "shown")},
                           trigger=[roles["trigger"]])
    for episode in episodes:
        t.equal("comm of the victim", [v["comm"] for v in episode["victims"]], ["the_victim"])
        t.equal("comm of the trigger", episode["trigger"] and episode["trigger"]["comm"], "the_trigger")
        grew = [g["process"]["pid"] for g in episode["grew_most"]]
        t.check(roles["culprit"] in grew[:1], f"grew_most begins with {grew[:3]}, the culprit is {roles['culprit']}")
    child.go()


@case(vm="all", tier="gate")
def a_limit_lowered_below_the_usage(t):
    group = t.cgroup().limit(64 * MiB)
    if group.version == 1:
        t.skip("cgroup v1 refuses a limit below the usage")
    scene = Scene(t)
    child = t.start(group, "grow", "--anon", "40M", "--forever")
    child.wait_for("holds")
    scene.knows(child)
    group.write("memory.max", 16 * MiB)
    t.killed(child)
    scene.wait(1)
    kernel = scene.kernel_victims()
    t.equal("recorded victims", [v["pid"] for v in scene.victims()], sorted(kernel))
    for victim in scene.victims():
        scene.check_victim(victim, kernel.get(victim["pid"], []), Expected(group, group, child.command, "shown"))
    for episode in scene.episodes():
        scene.check_cgroup("limit_cgroup", episode["limit_cgroup"], group)
        t.equal("trigger, which wrote the limit", episode["trigger"] and episode["trigger"]["pid"], os.getpid())


# ---- many processes ---------------------------------------------------------------------------------------------------

@case(vm="all", tier="gate", kernel=True)
def a_group_kill_is_one_episode_with_four_victims(t):
    group = t.cgroup().limit(48 * MiB).group_kill()
    scene = Scene(t)
    quiet = [t.start(group, "grow", "--anon", "2M", "--forever") for _ in range(3)]
    for child in quiet:
        child.wait_for("holds")
    grower = t.start(group, "grow", "--anon", "96M")
    for child in [*quiet, grower]:
        t.killed(child)
        scene.knows(child)
    t.log.sync(lib.seconds(1))
    t.premise(t.log.since(scene.log_mark)["groups"], "the kernel said nothing of memory.oom.group")
    scene.check({child.pid: Expected(group, group, child.command, "shown") for child in [*quiet, grower]},
                trigger=[grower.pid], group=True)


@case(tier="gate")
def a_group_kill_of_an_ancestor(t):
    owner = t.cgroup().limit(48 * MiB).group_kill()
    scene = Scene(t)
    one, two = owner.child("one"), owner.child("two")
    quiet = t.start(one, "grow", "--anon", "2M", "--forever")
    quiet.wait_for("holds")
    grower = t.start(two, "grow", "--anon", "96M")
    for child in (quiet, grower):
        t.killed(child)
        scene.knows(child)
    episodes = scene.check({quiet.pid: Expected(one, owner, quiet.command, "shown"),
                            grower.pid: Expected(two, owner, grower.command, "shown")}, trigger=[grower.pid],
                           trigger_cgroup=two, group=True)
    t.equal("number of victims of the episode", [len(e["victims"]) for e in episodes], [2])


def shared_memory(t, how, grower_is_child):
    scene = Scene(t)
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "vfork_share", how)
    child.wait_for("ready")
    child.go()
    second = child.wait_for("child")["pid"]
    t.killed(child)
    scene.knows(child)
    t.log.wait_for(lambda: scene.kernel_victims(), lib.seconds(10))
    marked = list(scene.kernel_victims())
    t.premise(marked and set(marked) <= {child.pid, second}, f"the kernel killed {marked}")
    episodes = scene.check({pid: Expected(group, group, child.command, "shown") for pid in marked},
                           trigger=[second if grower_is_child else child.pid])
    for episode in episodes:
        also = [p["pid"] for p in episode["also_killed"]]
        t.equal("also_killed", sorted(also), sorted({child.pid, second} - set(marked)))


@case(vm="all", tier="gate")
def a_process_that_shares_the_victims_memory_dies_with_it(t):
    shared_memory(t, "clone", grower_is_child=False)


@case(tier="gate")
def a_vfork_child_dies_with_its_parent(t):
    shared_memory(t, "vfork", grower_is_child=True)


def twenty(t, *arguments):
    scene = Scene(t, *arguments)
    groups = [t.cgroup().limit(16 * MiB) for _ in range(20)]
    children = [t.start(group, "grow", "--go", "--anon", "64M") for group in groups]
    for child in children:
        child.wait_for("ready")
    for child in children:
        child.go()
    for child in children:
        t.killed(child)
        scene.knows(child)
    expected = {c.pid: Expected(g, g, c.command, "shown") for c, g in zip(children, groups)}
    episodes = scene.check(expected, episodes=20 if scene.bpf else None)
    t.check(len({e["id"] for e in episodes}) == len(episodes), "episodes share an id")


@case(vm="all", limit_s=40, tier="gate")
def twenty_at_once(t):
    twenty(t)


# ---- what the process showed ------------------------------------------------------------------------------------------

@case(tier="gate")
def arguments_rewritten_in_place(t):
    kill_one(t, ["rewrites_argv", "words", "first-word", "second"], event="rewritten")


@case()
def a_title_written_over_arguments_and_environment(t):
    kill_one(t, ["rewrites_argv", "title", "step", "1"], event="rewritten")


@case()
def arguments_unmapped_are_those_of_exec(t):
    scene = Scene(t)
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "unmaps_argv", "one", "two")
    t.check(child.wait_for("unmapped")["cmdline"] in ([], None), "the workload's arguments can still be read")
    child.go()
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "exec")})


@case(tier="gate")
def a_command_line_with_hostile_bytes(t):
    scene = Scene(t)
    group = t.cgroup().limit(32 * MiB)
    words = [b"\xff\xfe", "new\nline", "\x1b[2J", '"quoted\\"', "", "päth"]
    process = subprocess.Popen(
        [t.workload("enter"), group.procs_file, "--", t.workload("hostile_name"), "grow", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    t.later(process.kill)
    process.wait(lib.seconds(10))
    scene.tids = {process.pid: process.pid}
    scene.check({process.pid: Expected(group, group, [str(t.workload("hostile_name")), "grow", "\\xff\\xfe",
                                                      *words[1:]], "shown")})


@case(tier="gate")
def a_comm_with_hostile_bytes(t):
    kill_one(t, ["hostile_name", "grow"])


# ---- one source alone -------------------------------------------------------------------------------------------------

@case(vm="all", tier="gate", kernel=True)
def without_the_kernel_log(t):
    episodes, _, _ = kill_one(t, ["grow", "--shmem", "4M", "--anon", "64M"], arguments=("--no-kmsg",), adj=55)
    for episode in episodes:
        t.equal("checks.kmsg", episode["checks"]["kmsg"], None)


@case(limit_s=40)
def without_the_kernel_log_twenty_at_once(t):
    twenty(t, "--no-kmsg")


@case()
def without_the_kernel_log_the_main_thread_gone(t):
    episodes, child, _ = kill_one(t, ["dead_leader"], arguments=("--no-kmsg",))
    for victim in episodes[0]["victims"] if episodes else []:
        t.equal("tid", victim["tid"], child.wait_for("leader_gone")["tid"])


@case()
def without_the_kernel_log_the_limit_two_levels_up(t):
    scene = Scene(t, "--no-kmsg")
    owner = t.cgroup().limit(32 * MiB)
    leaf = owner.child("middle").child("leaf")
    child = t.start(leaf, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(leaf, owner, child.command, "shown")})


@case(vm="all", tier="gate", kernel=True)
def without_kernel_programs(t):
    kill_one(t, ["grow", "--go", "--shmem", "4M", "--anon", "64M"], arguments=("--no-bpf",), adj=56)


@case()
def without_kernel_programs_the_main_thread_gone(t):
    episodes, child, _ = kill_one(t, ["dead_leader"], arguments=("--no-bpf",))
    for victim in episodes[0]["victims"] if episodes else []:
        t.equal("tid", victim["tid"], child.wait_for("leader_gone")["tid"])


@case(limit_s=40)
def without_kernel_programs_twenty_at_once(t):
    twenty(t, "--no-bpf")


# A process younger than a look at /proc has no known cgroup without kernel programs, so the youngest waits for one.
@case()
def without_kernel_programs_a_group_kill(t):
    group = t.cgroup().limit(48 * MiB).group_kill()
    scene = Scene(t, "--no-bpf")
    quiet = [t.start(group, "grow", "--anon", "2M", "--forever") for _ in range(3)]
    for child in quiet:
        child.wait_for("holds")
    grower = t.start(group, "grow", "--go", "--anon", "96M")
    grower.wait_for("ready")
    t.until_told(scene.tracer)
    grower.go()
    for child in [*quiet, grower]:
        t.killed(child)
        scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown") for child in [*quiet, grower]},
                trigger=[grower.pid], group=True)


# ---- other loads, other scopes ----------------------------------------------------------------------------------------

@case(tier="gate")
def the_whole_machine_as_scope(t):
    tracer = t.trace()
    scene = Scene(t, tracer=tracer)
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "grow", "--anon", "64M")
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")})
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", tier="gate")
def a_process_as_scope(t):
    group = t.cgroup().limit(32 * MiB)
    child = t.start(group, "grow", "--go", "--anon", "64M")
    child.wait_for("ready")
    tracer = t.trace("--pid", child.pid)
    scene = Scene(t, tracer=tracer)
    other = t.start(t.cgroup().limit(16 * MiB), "grow", "--anon", "64M")
    t.killed(other)
    t.premise(t.log.wait_for_kill_of(scene.log_mark, other.pid, lib.seconds(5)), "the log has no line of the stranger")
    scene.log_mark = t.log.mark()
    child.go()
    t.killed(child)
    scene.knows(child)
    scene.check({child.pid: Expected(group, group, child.command, "shown")}, scope_ends=True)


def stress(t, *load, limit=96 * MiB):
    stress_ng = shutil.which("stress-ng")
    if not stress_ng:
        t.skip("stress-ng is not installed")
    scene = Scene(t)
    scene.recognises = lambda line: line.comm.startswith(b"stress-ng")
    group = t.cgroup().limit(limit)
    child = t.start(group, stress_ng, *load, "--timeout", "3s", "--temp-path", t.folder())
    child.wait(30)
    t.log.sync(lib.seconds(1))
    kernel = scene.kernel_victims()
    if not kernel:
        t.skip(f"stress-ng {' '.join(load)} was not killed")
    expected = {pid: Expected(group, group) for pid in kernel}
    scene.check(expected, episodes=None, trigger=[], told_late=True)


@case(vm="never")
def stress_ng_bigheap(t):
    stress(t, "--bigheap", "2")


@case(vm="never")
def stress_ng_brk(t):
    stress(t, "--brk", "2", "--brk-mlock", limit=12 * MiB)


@case(vm="never", tier="gate")
def stress_ng_vm(t):
    stress(t, "--vm", "2", "--vm-bytes", "256M", "--vm-keep", "--oomable")


@case(vm="all")
def the_victim_has_memory_in_swap(t):
    with open("/proc/swaps") as f:
        if len(f.readlines()) < 2:
            t.skip("no swap here")
    scene = Scene(t)
    group = t.cgroup().limit(32 * MiB, swap=24 * MiB)
    child = t.start(group, "grow", "--anon", "128M")
    t.killed(child, 60)
    scene.knows(child)
    for episode in scene.check({child.pid: Expected(group, group, child.command, "shown")}):
        for victim in episode["victims"]:
            t.check(victim["swap_bytes"] and 16 * MiB <= victim["swap_bytes"] <= 24 * MiB,
                    f"swap_bytes is {victim['swap_bytes']}, the cgroup had 24 MiB")


# ---- SIGKILL from user space --------------------------------------------------------------------------------------------

@case(tier="gate", kernel=True)
def a_sigkill_from_user_space_names_its_sender(t):
    tracer = t.shared_trace("--cgroup", lib.base().path)
    mark = tracer.mark()
    group = t.cgroup()
    child = t.start(group, "sleeper")
    child.wait_for("ready")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    line = tracer.wait_for_line("kill", lambda k: k["victim"]["pid"] == child.pid, mark, 5)
    t.equal("sender", line["sender"]["pid"], os.getpid())
    t.equal("cmdline of the victim", line["victim"]["cmdline"], child.command)
    ours = [line["id"] for line in tracer.all("oom", mark) if child.pid in [v["pid"] for v in line["victims"]]]
    t.equal("oom lines", ours, [])


@case(tier="gate")
def cgroup_kill_is_named_as_the_cause(t):
    group = t.cgroup()
    if group.version == 1:
        t.skip("cgroup v1 has no cgroup.kill")
    if not (group.dir / "cgroup.kill").exists():
        t.skip("this kernel has no cgroup.kill")
    tracer = t.shared_trace("--cgroup", lib.base().path)
    mark = tracer.mark()
    child = t.start(group, "sleeper")
    child.wait_for("ready")
    group.write("cgroup.kill", 1)
    child.wait()
    line = tracer.wait_for_line("kill", lambda k: k["victim"]["pid"] == child.pid, mark, 5)
    t.equal("sender", line["sender"]["pid"], os.getpid())
    t.equal("cause", line["cause"], "cgroup.kill")
