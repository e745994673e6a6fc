"""GPU memory, by what programs ask of the NVIDIA driver: real system calls on the files of a stand-in, whose programs
say what they hold after each step."""

import os
import pathlib
import sys

import lib
from lib import MiB, case

VERSION = "535.183.01"


def play(t, sequence, *arguments, version=VERSION, programs=1):
    """Runs the sequence under trace: (tracer, truth of the programs)."""
    if not os.path.exists("/dev/fuse"):
        t.skip("no /dev/fuse: nothing can stand in for the driver")
    program = pathlib.Path(t.workload("gpu_program.py"))
    command = " & ".join([f"{sys.executable} {program} {sequence}"] * programs) + "; wait"
    child = t.start(None, sys.executable, t.workload("gpu_driver.py"), "/bin/sh", "-c", command)
    ready = child.wait_for("ready")
    tracer = t.trace("--gpu-test", f"control={ready['control']}", "--gpu-test", f"uvm={ready['uvm']}",
                     *(["--gpu-test", f"version={version}"] if version else []), *arguments)
    lib.time.sleep(lib.seconds(0.3))
    child.go()
    child.wait(40)
    pid = next(line["pid"] for line in child.truth if line["event"] == "begin")
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


@case(limit_s=60)
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


@case(limit_s=60)
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


@case(limit_s=60)
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


@case(limit_s=30)
def without_a_driver_nothing_is_told_of_a_gpu(t):
    tracer = t.trace("--for", "2s")
    tracer.finish()
    t.equal("gpu lines", tracer.all("gpu"), [])
