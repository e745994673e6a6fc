"""GPU memory, by what programs ask of the NVIDIA driver: real system calls on the files of a stand-in, whose programs
say what they hold after each step."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import containers
import lib
from lib import MiB, case

VERSION = "535.183.01"


UUID = "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"


def card(folder, memory=32 << 30, **counters):
    """What /proc/driver/nvidia-uvm/gpus has of one card; the option that says where it is."""
    info = folder / "gpus" / "0000:01:00.0" / f"{UUID}" / "info"
    info.parent.mkdir(parents=True, exist_ok=True)
    lines = {"vidmem_size": memory, "replayable_faults_num_faults": 0, "migrated_pages_in": 0, "migrated_pages_out": 0}
    fresh = info.with_suffix(".new")
    fresh.write_text("".join(f"{key:<40}{value}\n" for key, value in {**lines, **counters}.items()))
    fresh.rename(info)
    return "--gpu-test", f"cards={folder}/gpus"


def begin(t, sequence, *arguments, version=VERSION, programs=1, command=("trace", "--json"), cgroup=None):
    """The stand-in with its waiting programs, and oomcast on it."""
    if not os.path.exists("/dev/fuse"):
        t.skip("no /dev/fuse: nothing can stand in for the driver")
    program = pathlib.Path(t.workload("gpu_program.py"))
    programs = " & ".join([f"{sys.executable} {program} {sequence}"] * programs) + "; wait"
    child = t.start(cgroup, sys.executable, t.workload("gpu_driver.py"), "/bin/sh", "-c", programs)
    ready = child.wait_for("ready")
    tracer = t.oomcast(*command, "--gpu-test", f"control={ready['control']}", "--gpu-test", f"uvm={ready['uvm']}",
                       *(["--gpu-test", f"version={version}"] if version else []), *arguments).started()
    return child, tracer


def play(t, sequence, *arguments, **options):
    """Runs the sequence under trace: (tracer, truth of the programs)."""
    child, tracer = begin(t, sequence, *arguments, **options)
    child.go()
    pid = child.wait_for("begin")["pid"]
    t.equal("the program's exit code", child.wait(40), 0)
    tracer.wait_for_line("gpu", lambda line: line["op"] == "close" and line["process"]["pid"] == pid)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("what was lost", {k: n for k, n in tracer.lines.items[-1]["lost"].items() if k.startswith("gpu")}, {})
    return tracer, [line for line in child.truth if line["event"] in ("begin", "step", "end")]


def events(tracer, *ops, pid=None):
    return [line for line in tracer.all("gpu") if (not ops or line["op"] in ops)
            and (pid is None or line["process"]["pid"] == pid)]


def held_at(tracer, time_ns, pid):
    """What the events of a process until then add up to, by kind."""
    offset = lib.realtime_minus_monotonic_ns()
    held = {"device": 0, "managed": 0, "pinned": 0}
    for line in events(tracer, "alloc", "free", pid=pid):
        if lib.epoch_ns(line["time"]) <= time_ns + offset and line["kind"] in held and line["bytes"]:
            held[line["kind"]] += line["bytes"] if line["op"] == "alloc" else -line["bytes"]
    return held


def check_steps(t, tracer, truth):
    t.check(any(line["event"] == "step" for line in truth), "the program made no step")
    for number, line in enumerate(truth):
        for kind, held in held_at(tracer, line["time_ns"], line["pid"]).items():
            t.equal(f"{kind} bytes at line {number} ({line['event']})", held, line[kind])


@case(limit_s=60, tier="gate")
def every_allocation_and_free_is_counted_to_the_byte(t):
    tracer, truth = play(t, "malloc_and_free")
    check_steps(t, tracer, truth)
    t.equal("contexts", len(events(tracer, "context")), 1)
    mapped = events(tracer, "map")
    t.equal("bytes mapped", [line["bytes"] for line in mapped], [64 * MiB])
    t.equal("device of the map", mapped[0]["device"], "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f")
    t.check(all(line["process"]["comm"].startswith("python3") for line in events(tracer)), "a process has no name")


@case(limit_s=60)
def device_and_pinned_memory_are_told_apart_and_a_refused_free_frees_nothing(t):
    tracer, truth = play(t, "kinds")
    check_steps(t, tracer, truth)


@case(limit_s=60)
def managed_memory_is_followed_through_partial_unmaps(t):
    tracer, truth = play(t, "managed_memory")
    check_steps(t, tracer, truth)
    t.equal("bytes prefetched", [line["bytes"] for line in events(tracer, "migrate")], [8 * MiB])


@case(limit_s=60, tier="gate")
def running_out_of_gpu_memory_is_told_with_what_was_asked_for_and_so_is_the_recovery(t):
    tracer, truth = play(t, "out_of_memory")
    check_steps(t, tracer, truth)
    t.equal("asked for", [line["bytes"] for line in events(tracer, "oom")], [256 * MiB, 512 * MiB])
    t.equal("status", {line["status"] for line in events(tracer, "oom")}, {0x51})
    t.equal("recovered", [line["bytes"] for line in events(tracer, "recovered")], [256 * MiB])


@case(limit_s=60)
def a_second_copy_of_a_model_is_named_with_its_size_and_the_time_of_the_first(t):
    tracer, truth = play(t, "copies")
    check_steps(t, tracer, truth)
    again = events(tracer, "again")
    t.equal("copies", [line["bytes"] for line in again], [384 * MiB])
    first = next(line for line in events(tracer, "alloc") if not line["overhead"])
    t.equal("time of the first", again[0]["first_time"], first["time"])


@case(limit_s=60)
def a_killed_program_leaves_nothing_behind(t):
    tracer, truth = play(t, "dies")
    pid = truth[0]["pid"]
    t.equal("held at its end", [line["bytes"] for line in events(tracer, "close", pid=pid)], [128 * MiB])


@case(limit_s=60)
def a_handle_that_a_forked_child_frees_is_gone_for_its_parent(t):
    tracer, truth = play(t, "shared_descriptors")
    check_steps(t, tracer, truth)


@case(limit_s=60)
def two_programs_at_once_are_counted_apart(t):
    tracer, truth = play(t, "malloc_and_free", programs=2)
    t.equal("programs", len({line["pid"] for line in truth}), 2)
    check_steps(t, tracer, truth)


@case(limit_s=60, tier="gate")
def what_is_not_the_drivers_or_cannot_be_is_not_counted(t):
    tracer, truth = play(t, "hostile")
    check_steps(t, tracer, truth)


@case(limit_s=90)
def thousands_of_calls_in_a_row_are_all_there(t):
    tracer, truth = play(t, "many")
    check_steps(t, tracer, truth)


@case(limit_s=60)
def with_an_unknown_driver_bytes_are_counted_and_a_map_has_no_status(t):
    tracer, truth = play(t, "malloc_and_free", version=None)
    check_steps(t, tracer, truth)
    t.equal("status of the map", [line["status"] for line in events(tracer, "map")], [None])


@case(limit_s=90)
def a_driver_that_comes_after_oomcast_is_followed_by_its_device_numbers(t):
    if not os.path.exists("/dev/cuse"):
        t.skip("no /dev/cuse: nothing can stand in for character devices")
    tracer = t.trace()
    t.check(not any(s.startswith("gpu:") for s in tracer.all("start")[0]["sources"]), "followed before there was a driver")
    program = t.workload("gpu_program.py")

    def programs():
        return sum("bpf-prog" in file for file in lib.open_files(tracer.pid))
    before = programs()
    child = t.start(None, sys.executable, t.workload("gpu_driver.py"), "--cuse", "/bin/sh", "-c",
                    f"{sys.executable} {program} all_but_mappings & {sys.executable} {program} all_but_mappings; wait")
    child.wait_for("ready", timeout=20)
    # It looks once per interval. What begins after it has loaded its programs is told after all of them are attached.
    t.check(lib.wait_until(lambda: programs() > before, 2), "it does not see the driver")
    t.until_told(tracer)
    child.go()
    child.wait(60)
    tracer.wait_for("the end of both", lambda: len(events(tracer, "close")) >= 2)
    tracer.stop()
    t.check_stream(tracer)
    truth = [line for line in child.truth if line["event"] in ("begin", "step", "end")]
    t.equal("programs", len({line["pid"] for line in truth}), 2)
    check_steps(t, tracer, truth)
    t.check(all(line["status"] == 0 for line in events(tracer, "map")), "the version that a program asked for was not learned")
    t.equal("asked for", sorted(line["bytes"] for line in events(tracer, "oom")), 2 * [256 * MiB] + 2 * [512 * MiB])


@case(limit_s=90)
def a_program_in_a_container_is_counted_to_its_container(t):
    name = containers.new_id(t)
    box = containers.Container(t, f"{lib.base().path}/docker/{name}", name,
                               ["/usr/bin/python3", "/w/gpu_program.py", "all_but_mappings"], with_usr=True)
    # The files' directory is known when the stand-in runs.
    config = json.loads(box.config.read_text())
    config["process"]["env"].append("GPU_DIR=/gpu")
    config["mounts"].append({"destination": "/gpu", "type": "bind", "source": "@GPU_DIR@", "options": ["rbind", "rw"]})
    box.config.write_text(json.dumps(config))
    run = f'sed -i "s|@GPU_DIR@|$GPU_DIR|" {box.config} && {shlex.join(box.command)}'
    devices = os.path.exists("/dev/cuse")
    if not devices and not os.path.exists("/dev/fuse"):
        t.skip("neither /dev/cuse nor /dev/fuse: nothing can stand in for the driver")
    child = t.start(None, sys.executable, t.workload("gpu_driver.py"), *(["--cuse"] if devices else []), "/bin/sh", "-c", run)
    ready = child.wait_for("ready", timeout=20)
    files = [] if devices else ["--gpu-test", f"control={ready['control']}", "--gpu-test", f"uvm={ready['uvm']}",
                                "--gpu-test", f"version={VERSION}"]
    tracer = t.oomcast("trace", "--json", *files).started()
    child.go()
    box.child = child
    pid = box.host_pid()
    child.wait(60)
    tracer.wait_for_line("gpu", lambda line: line["op"] == "close" and line["process"]["pid"] == pid)
    tracer.stop()
    t.check_stream(tracer)
    truth = [{**line, "pid": pid} for line in child.truth if line["event"] in ("begin", "step", "end")]
    check_steps(t, tracer, truth)
    t.equal("containers", {(line["process"]["cgroup"] or {}).get("container") for line in events(tracer, pid=pid)}, {name})
    t.equal("pid in the container", {line["process"]["ns_pid"] for line in events(tracer, pid=pid)}, {1})


@case(vm="never", limit_s=60)
def what_a_card_holds_is_forecast_against_its_memory_and_told_as_an_alert(t):
    # As with a driver as it is shipped: what the card has, only the program asks for.
    child, tracer = begin(t, "grows", "--alert", "eta<10m", "--alert", "level>10%")
    child.go()
    child.wait(50)
    tracer.stop()
    t.check_stream(tracer)
    samples = [line for line in tracer.all("gpu_sample") if line["process"] is None]
    t.equal("card's memory", {line["limit_bytes"] for line in samples}, {4 << 30})
    t.equal("most on the card", max(line["device_bytes"] for line in samples), 24 * 64 * MiB)
    t.equal("what was free then", {line["free_bytes"] for line in samples if line["device_bytes"] == 24 * 64 * MiB},
            {(4 << 30) - 24 * 64 * MiB})
    told = [line for line in tracer.all("forecast") if line["device"] == UUID]
    t.check(all(line["cgroup"] is None and line["process"] is None for line in told), "a forecast has two subjects")
    t.check(any(line["eta_s"] is not None and line["limit_bytes"] == 4 << 30 and line["device_process"] is None
                for line in told), f"no deadline of the card: {lib.shortened(str(told[-2:]))}")
    rules = {line["rule"] for line in tracer.all("alert") if UUID in line["message"]}
    t.equal("alerts of the card", rules, {"eta<10m", "level>10%"})


@case(vm="never", limit_s=60)
def a_recording_says_the_same_of_gpus_again(t):
    file = t.folder() / "run.db"
    child, tracer = begin(t, "malloc_and_free", *card(t.folder()), command=("record", "-o", file, "--json", "--cgroup", lib.base().path),
                          cgroup=t.cgroup())
    child.go()
    child.wait(40)
    tracer.stop()
    t.check_stream(tracer)
    t.check(tracer.all("gpu_sample") and tracer.all("gpu"), "nothing of a GPU was recorded")
    code, out, err = t.run_oomcast("replay", file, "--json")
    t.equal("exit code of replay", (code, err), (0, ""))
    live = tracer.lines.raw
    again = out.encode(errors="surrogateescape").splitlines(keepends=True)
    differing = [pair for pair in zip(live, again) if pair[0] != pair[1]]
    t.check(not differing and len(live) == len(again), f"{len(live)} lines live, {len(again)} replayed: {differing[:1]}")


@case(vm="never", limit_s=60)
def a_report_says_what_a_killed_program_held_on_its_card_and_of_pinned_memory(t):
    store = t.folder()
    group = t.cgroup().limit(64 * MiB)
    child, tracer = begin(t, "killed_by_its_limit", *card(t.folder()), "--store", store, "--cgroup", group.path,
                          cgroup=group)
    child.go()
    tracer.wait_for_line("oom", timeout=30)
    child.wait(20)
    tracer.stop()
    t.check_stream(tracer)
    code, out, err = t.run_oomcast("report", "--no-kmsg", "--store", store, "--format", "json")
    t.equal("exit code of report", (code, err), (0, ""))
    post = json.loads(out)
    victim = next(row for row in post["gpu"] if row["victim"])
    t.equal("held", [victim["device_bytes"], victim["pinned_bytes"], victim["since_before"]], [512 * MiB, 8 * MiB, False])
    t.equal("cards", [(c["device"], c["device_bytes"], c["limit_bytes"]) for c in victim["cards"]], [(UUID, 512 * MiB, 32 << 30)])
    code, text, err = t.run_oomcast("report", "--no-kmsg", "--store", store)
    text = " ".join(text.split())
    t.check("died holding 512 MiB of GPU memory and 8.00 MiB of pinned host memory" in text, f"the report: {text[:2000]}")
    t.check("of the shmem 8.00 MiB is pinned for GPUs" in text, f"the report does not name pinned memory: {text[:2000]}")


@case(vm="never", limit_s=60)
def managed_memory_beyond_the_cards_that_is_pushed_out_is_oversubscription(t):
    folder = t.folder()
    where = card(folder, memory=8 * MiB)
    child, tracer = begin(t, "managed_memory_held", *where)
    child.go()
    child.wait_for("step")
    # Of the card, with what moved since the reading before: its counters are known.
    tracer.wait_for_line("gpu_sample", lambda line: line["process"] is None and line["moved_out_bytes"] is not None)
    card(folder, memory=8 * MiB, migrated_pages_out=512, migrated_pages_in=512)
    told = tracer.wait_for_line("gpu", lambda line: line["op"] == "oversubscribed")
    t.equal("pushed out", told["bytes"], 512 * 4096)
    child.end()
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=60)
def of_a_program_that_used_the_driver_before_oomcast_what_it_had_is_unknown_and_said_so(t):
    if not os.path.exists("/dev/fuse"):
        t.skip("no /dev/fuse: nothing can stand in for the driver")
    child = t.start(None, sys.executable, t.workload("gpu_driver.py"), sys.executable, t.workload("gpu_program.py"), "late")
    ready = child.wait_for("ready")
    child.go()
    child.wait_for("step")
    since = time.monotonic()
    tracer = t.trace("--gpu-test", f"control={ready['control']}", "--gpu-test", f"uvm={ready['uvm']}", *card(t.folder()))
    took = time.monotonic() - since  # after 6 s the program goes on, and ends after 9
    t.premise(took < 3, f"this machine takes {took:.1f} s to start oomcast")
    pid = next(line["pid"] for line in child.truth if line["event"] == "begin")
    first = tracer.wait_for_line("gpu_sample", lambda line: line["process"] and line["process"]["pid"] == pid)
    t.equal("what it had is unknown", [first["since_before"], first["device_bytes"]], [True, None])
    more = tracer.wait_for_line("gpu_sample", lambda line: line["process"] and line["process"]["pid"] == pid and line["device_bytes"])
    t.equal("and what came later is at least", [more["since_before"], more["device_bytes"]], [True, 32 * MiB])
    child.wait(20)
    tracer.stop()
    t.check_stream(tracer)


@case(vm="never", limit_s=60)
def the_check_for_real_hardware_works_on_the_stand_in_and_says_where_there_is_no_gpu(t):
    check = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"
    if os.path.exists("/dev/fuse"):
        trace = t.folder() / "calls.jsonl"
        done = subprocess.run([sys.executable, check, "--stand-in", "--oomcast", t.oomcast_path, "--save", trace],
                              capture_output=True, text=True, timeout=lib.seconds(50))
        t.equal("exit code", (done.returncode, done.stderr), (0, ""))
        t.check("all agree" in done.stdout and "| step" in done.stdout, done.stdout[-1000:])
        calls = [json.loads(line) for line in trace.read_text().splitlines()]
        t.check(any(call["command"] == 0xC0384627 for call in calls), "the pinned allocation is not in the trace")
    if not os.path.exists("/dev/nvidiactl"):
        done = subprocess.run([sys.executable, check], capture_output=True, text=True, timeout=lib.seconds(20))
        t.equal("exit code without a GPU", done.returncode, 77)
        t.check("skipped" in done.stdout, done.stdout)


@case(vm="never", limit_s=60)
def a_run_ends_with_the_most_that_its_command_held_on_cards(t):
    if not os.path.exists("/dev/fuse"):
        t.skip("no /dev/fuse: nothing can stand in for the driver")
    # The files are there before the command: it gets into the name space that has them.
    holder = t.start(None, sys.executable, t.workload("gpu_driver.py"), "/bin/sleep", "60")
    ready = holder.wait_for("ready")
    folder = next(line.split()[4] for line in open(f"/proc/{ready['pid']}/mountinfo", encoding="utf-8") if "oomcast-test" in line)

    def told_of(sequence):
        done = subprocess.run([t.oomcast_path, "run", "--store", "none", "--gpu-test", f"control={ready['control']}",
                               "--gpu-test", f"uvm={ready['uvm']}", "--gpu-test", f"version={VERSION}", "--",
                               "nsenter", "-t", str(ready["pid"]), "-m", "env", f"GPU_DIR={folder}",
                               sys.executable, t.workload("gpu_program.py"), sequence],
                              capture_output=True, text=True, timeout=lib.seconds(50))
        t.equal("exit code", (done.returncode, done.stderr), (0, ""))
        return done.stdout

    out = told_of("ends_holding")
    t.check("GPU memory peak 512 MiB with 8.00 MiB of pinned host memory" in " ".join(out.split()), f"the summary: {out[-600:]}")
    out = told_of("out_of_memory")
    t.check("; ran out of GPU memory: asked for 512 MiB" in " ".join(out.split()), f"the summary: {out[-600:]}")
    out = told_of("grows")
    t.check(re.search(rf"forecast +{UUID}  leak \S+ MiB/s OOM in ", out), f"nothing of what grows on its card: {out[-900:]}")
    t.check(f"; on {UUID}: leak (its baseline has risen " in " ".join(out.split()), f"the summary: {out[-600:]}")


@case(limit_s=60)
def the_python_line_that_asked_for_memory_is_told(t):
    child, tracer = begin(t, "pool_that_grows")
    child.go()
    # Once its interpreter has been looked at.
    tracer.wait_for_line("gpu", lambda line: line["op"] == "oom" and line["python"], timeout=30)
    tracer.wait_for_line("gpu", lambda line: line["op"] == "oom", mark=len(tracer.lines.items))
    lines = pathlib.Path(t.workload("gpu_program.py")).read_text().splitlines()
    sizes = {"kept": 8 * MiB, "kept, too": 2 * MiB, "given back": 16 * MiB, "refused": 32 * MiB}
    seen = set()
    for told in tracer.all("gpu"):
        if not told.get("python"):
            continue
        functions = [frame["function"] for frame in told["python"]]
        t.check(functions[:3] in (["call", "heap_alloc", "pool_that_grows"], ["call", "rm_alloc", "pool_that_grows"]),
                f"the frames are {told['python']}")
        what = lines[told["python"][2]["line"] - 1].partition("#")[2].strip()
        t.equal(f"bytes, and whether it was refused, of the line '{what}'", (told["bytes"], told["op"] == "oom"),
                (sizes[what], what == "refused"))
        seen.add(what)
    t.equal("lines that were told", seen, set(sizes))
    child.end()
    tracer.stop()
    t.check_stream(tracer)


@case(limit_s=90)
def blame_names_the_line_for_which_a_pool_took_more(t):
    if not os.path.exists("/dev/fuse"):
        t.skip("no /dev/fuse: nothing can stand in for the driver")
    program = pathlib.Path(t.workload("gpu_program.py"))
    child = t.start(None, sys.executable, t.workload("gpu_driver.py"), sys.executable, program, "pool_that_grows")
    ready = child.wait_for("ready")
    child.go()
    pid = child.wait_for("begin")["pid"]
    code, out, err = t.run_oomcast("blame", "--json", "--for", "4s", "--pid", pid, "--gpu-test", f"control={ready['control']}",
                                   "--gpu-test", f"uvm={ready['uvm']}", "--gpu-test", f"version={VERSION}", timeout=40)
    t.equal(f"exit code ({err})", code, 0)
    report = json.loads(out)
    t.equal("calls lost", report["lost"]["gpu_ring_full"], 0)
    top = next(p for p in report["processes"] if p["process"]["pid"] == pid)
    t.check(top["gpu"], f"no memory of the card stays: {err} {lib.shortened(top)}")
    lines = program.read_text().splitlines()
    taken = {}
    for site in top["gpu"]:
        frames = [f["line"] for f in site["stack"] if f["kind"] == "python" and f["function"] == "pool_that_grows"]
        t.equal(f"frames of pool_that_grows in {site['stack']}", len(frames), 1)
        what = lines[frames[0] - 1].partition("#")[2].strip()
        bytes_, calls = taken.get(what, (0, 0))
        taken[what] = bytes_ + site["taken_bytes"], calls + site["calls"]
    t.check(taken.pop("given back", (0, 0))[1] <= 1, f"one may be held just as the look ends: {taken}")
    t.equal("lines whose memory stays", sorted(taken), ["kept", "kept, too"])
    for what, size in ("kept", 8 * MiB), ("kept, too", 2 * MiB):
        t.equal(f"bytes of each call of '{what}'", taken[what][0], taken[what][1] * size)
    t.check(abs(taken["kept"][1] - taken["kept, too"][1]) <= 1 and taken["kept"][1] >= 8, f"calls: {taken}")
    child.end()


@case(vm="never", limit_s=60)
def the_live_screen_and_the_doctor_say_how_a_gpu_is_followed(t):
    child, tracer = begin(t, "many", *card(t.folder()), command=("watch", "--json"))
    t.check(any(s.startswith("gpu:") for s in tracer.all("start")[0]["sources"]), f"sources: {tracer.all('start')}")
    child.go()
    child.wait(40)
    tracer.stop()


@case(limit_s=30)
def without_a_driver_nothing_is_told_of_a_gpu(t):
    if os.path.exists("/dev/nvidiactl"):
        t.skip("there is one")
    tracer = t.trace("--for", "2s")
    tracer.finish()
    t.equal("gpu lines", tracer.all("gpu") + tracer.all("gpu_sample"), [])
    t.check(not any(s.startswith("gpu") for s in tracer.all("start")[0]["sources"]), "something is attached for a GPU")
    code, out, err = t.run_oomcast("doctor", "--json")
    t.check(lib.epoch_ns(json.loads(out)["time"]) > 0, "the doctor does not say when it looked")
    found = [f["detail"] for f in json.loads(out)["findings"] if f["what"] == "GPU"]
    t.equal("what the doctor says", found, ["no NVIDIA driver: nothing is attached for it"])


# ---- inside the driver: a kernel module of our own stands in for it, in the machines that have kernel headers

MODULE = pathlib.Path("/modules/nvidia_uvm.ko")
PAGE, BLOCK = 4096, 2 * MiB


def load_driver(t, version="550.54.14", generation=2):
    if not lib.VM:
        t.skip("only in a virtual machine: it loads a kernel module")
    if not MODULE.exists():
        why = MODULE.with_name("no_nvidia_uvm")
        t.skip(why.read_text().strip() if why.exists() else "no module was built for this kernel")
    subprocess.run(["rmmod", "nvidia_uvm"], capture_output=True)  # one before
    # The one with the tracepoint stays: an oomcast of other cases may be attached to it.
    if not pathlib.Path("/sys/module/nvidia_xid").exists():
        subprocess.run(["insmod", MODULE.with_name("nvidia_xid.ko")], capture_output=True)
    done = subprocess.run(["insmod", MODULE, f"driver={version}", f"generation={generation}"], capture_output=True, text=True)
    if done.returncode:
        raise lib.Failed(f"the module does not load: {done.stderr}")
    t.later(lambda: subprocess.run(["rmmod", "nvidia_uvm"], capture_output=True))


def pages(t, *events, more=0):
    """A program whose pages do that when it is told to go; it uses the driver already, and has 64 MiB of managed memory and more."""
    child = t.start(None, sys.executable, t.workload("gpu_pages.py"), "--more", more, *events)
    child.wait_for("begin", timeout=20)
    return child


def has_begun(tracer, child):
    """Its calls were read: from the next look on its pages are known to be its own."""
    pid = child.wait_for("begin")["pid"]
    tracer.wait_for_line("gpu_sample", lambda line: line["process"] and line["process"]["pid"] == pid)
    return pid


def sums(tracer, pid):
    """What all samples of a process add up to; None: unknown in all of them. Its lines of one time, one for each card, say the same."""
    out = {}
    lines = {line["time"]: line for line in tracer.all("gpu_sample") if line["process"] and line["process"]["pid"] == pid}.values()
    for field in ("faults", "cpu_faults", "moved_in_bytes", "moved_out_bytes", "evicted_bytes"):
        known = [line[field] for line in lines if line[field] is not None]
        out[field.removesuffix("_bytes")] = sum(known) if known else None
    return out


def end_all(tracer, *children):
    for child in children:
        child.go()
        child.wait(20)
    pids = {child.wait_for("begin")["pid"] for child in children}
    tracer.wait_for("the end of all", lambda: pids <= {line["process"]["pid"] for line in events(tracer, "close")})


def gpu_findings(t):
    _, out, _ = t.run_oomcast("doctor", "--json", timeout=60)
    return {f["what"]: (f["state"], f["detail"]) for f in json.loads(out)["findings"]}


@case(limit_s=90)
def faults_and_moves_that_the_driver_makes_in_its_own_threads_are_counted_to_the_process_whose_pages_they_are(t):
    load_driver(t)
    tracer = t.trace(*card(t.folder(), memory=8 * MiB))
    first = pages(t, "1000×card_fault", f"300×move:1:0:{BLOCK}:0", f"40×move:0:1:{BLOCK}:4", "7×other", f"3×move:0:0:{PAGE}:0")
    second = pages(t, "25×cpu_fault", f"10×move:0:1:{PAGE}:0", f"2×move:2:1:{PAGE}:6", f"1×move:0:2:{3 * PAGE}:4")
    one, two = has_begun(tracer, first), has_begun(tracer, second)
    second.go()
    second.wait_for("step", timeout=20)
    # Of two that end within a moment the other may have no last look, which takes a tenth of the time at most.
    tracer.wait_for("what the second did", lambda: sums(tracer, two)["cpu_faults"] == 25)
    first.go()
    first.wait_for("step", timeout=20)
    end_all(tracer, first, second)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("the first", sums(tracer, one), {"faults": 1000, "cpu_faults": 0, "moved_in": 300 * BLOCK, "moved_out": 40 * BLOCK,
                                             "evicted": 40 * BLOCK})
    t.equal("the second", sums(tracer, two), {"faults": 0, "cpu_faults": 25, "moved_in": 2 * PAGE, "moved_out": 15 * PAGE,
                                              "evicted": 3 * PAGE})
    t.equal("what was lost", {k: n for k, n in tracer.lines.items[-1]["lost"].items() if k.startswith("gpu")}, {})
    found = gpu_findings(t)
    t.equal("what the doctor says", found["GPU faults by process"], ("ok", "by a kprobe on uvm_perf_event_notify"))


@case(limit_s=90)
def an_oversubscribed_card_names_who_lost_pages_and_not_who_holds_most(t):
    load_driver(t)
    folder = t.folder()
    where = card(folder, memory=8 * MiB)
    tracer = t.trace(*where)
    loser = pages(t, f"5×move:0:1:{BLOCK}:4")
    holder = pages(t, more=64 * MiB)
    has_begun(tracer, holder)
    pid = has_begun(tracer, loser)
    tracer.wait_for_line("gpu_sample", lambda line: line["process"] is None and line["moved_out_bytes"] is not None)
    loser.go()
    loser.wait_for("step", timeout=20)
    card(folder, memory=8 * MiB, migrated_pages_out=2560)
    told = tracer.wait_for_line("gpu", lambda line: line["op"] == "oversubscribed")
    t.equal("who lost pages", (told["process"]["pid"], told["bytes"]), (pid, 2560 * PAGE))
    end_all(tracer, loser)
    holder.end()
    tracer.stop()
    t.check_stream(tracer)


@case(limit_s=90)
def events_that_make_no_sense_end_the_counting_and_that_is_said(t):
    load_driver(t)
    tracer = t.trace(*card(t.folder()))
    child = pages(t, "9×card_fault", f"5×move:1:0:{BLOCK + PAGE}:0", f"5×move:1:0:{PAGE + 1}:0", f"5×move:300:0:{PAGE}:0",
                  f"1×move:1:0:{PAGE}:99", "1000×card_fault")
    pid = has_begun(tracer, child)
    child.go()
    child.wait_for("step", timeout=20)
    def lost():
        return sum(line["count"] for line in tracer.all("lost") if line["reason"] == "gpu_page_events")
    tracer.wait_for("loss", lambda: lost() >= 16)
    t.equal("events that made no sense", lost(), 16)
    end_all(tracer, child)
    tracer.stop()
    t.check_stream(tracer)
    last = [line for line in tracer.all("gpu_sample") if line["process"] and line["process"]["pid"] == pid][-1]
    t.equal("faults after that", (last["faults"], last["evicted_bytes"]), (None, None))


@case(limit_s=120)
def each_generation_of_drivers_is_read_where_it_has_its_fields(t):
    for version, generation in (("525.60.11", 0), ("535.183.01", 1), ("595.45.04", 3)):  # 2 is that of the other cases
        load_driver(t, version, generation)
        tracer = t.trace()
        child = pages(t, "11×card_fault", f"3×move:1:0:{BLOCK}:0", f"2×move:0:1:{PAGE}:4")
        pid = has_begun(tracer, child)
        child.go()
        child.wait_for("step", timeout=20)
        end_all(tracer, child)
        tracer.stop()
        t.check_stream(tracer)
        t.equal(f"by driver {version}", sums(tracer, pid), {"faults": 11, "cpu_faults": 0, "moved_in": 3 * BLOCK,
                                                            "moved_out": 2 * PAGE, "evicted": 2 * PAGE})


@case(limit_s=60)
def of_a_program_from_before_pages_are_followed_from_its_next_call_on(t):
    load_driver(t)
    child = pages(t, "5×card_fault", "11×card_fault")
    tracer = t.trace()
    pid = has_begun(tracer, child)
    child.go()
    child.wait_for("step", timeout=20)
    end_all(tracer, child)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("faults since its first call returned", sums(tracer, pid)["faults"], 11)


@case(limit_s=60)
def of_a_driver_newer_than_what_is_known_nothing_is_read_and_that_is_said(t):
    load_driver(t, version="640.10.01")
    tracer = t.trace()
    child = pages(t, "11×card_fault", f"100×move:1:0:{BLOCK + 1}:0")
    pid = has_begun(tracer, child)
    child.go()
    child.wait_for("step", timeout=20)
    end_all(tracer, child)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("faults", sums(tracer, pid), dict.fromkeys(("faults", "cpu_faults", "moved_in", "moved_out", "evicted")))
    t.equal("what the doctor says", gpu_findings(t)["GPU faults by process"],
            ("degraded", "the page events of driver 640.10.01 are not known, only those of 515 to 595"))


@case(vm="kprobes-off", limit_s=60)
def kprobes_that_never_fire_are_no_proof_that_there_were_no_faults(t):
    load_driver(t)
    tracer = t.trace()
    child = pages(t, "11×card_fault")
    pid = has_begun(tracer, child)
    child.go()
    child.wait_for("step", timeout=20)
    end_all(tracer, child)
    tracer.stop()
    t.check_stream(tracer)
    t.equal("faults", sums(tracer, pid)["faults"], None)
    t.equal("what the doctor says", gpu_findings(t)["GPU faults by process"], ("degraded", "kprobes are switched off"))


@case(limit_s=90)
def an_error_that_the_driver_reports_of_a_card_is_told_with_its_code_its_card_and_who_is_blamed(t):
    load_driver(t)
    tracer = t.trace()
    child = pages(t, "xid:31:pid={pid}, name=python3, Ch 00000008", "xid:79:GPU has fallen off the bus.")
    pid = has_begun(tracer, child)
    child.go()
    child.wait_for("step", timeout=20)
    tracer.wait_for("two xids", lambda: len(events(tracer, "xid")) >= 2)
    end_all(tracer, child)
    tracer.stop()
    t.check_stream(tracer)
    fault, fallen = events(tracer, "xid")
    t.equal("the first", (fault["status"], fault["device"], fault["process"]["pid"], fault["message"]),
            (31, UUID, pid, f"pid={pid}, name=python3, Ch 00000008"))
    t.equal("the second", (fallen["status"], fallen["device"], fallen["process"], fallen["message"]),
            (79, UUID, None, "GPU has fallen off the bus."))
    t.equal("what the doctor says", gpu_findings(t)["GPU Xids"][0], "ok")
