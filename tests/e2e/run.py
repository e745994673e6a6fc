#!/usr/bin/env python3
"""End-to-end tests: real kills in real memory cgroups, and the kernel's own log as the witness.

    run.py --oomcast PATH --workloads DIR [--list] [CASE…]     CASE: a name, a file, or a pattern (kills.*)

Prints `PASS name`, `FAIL name: why`, `SKIP name: reason` and last `END passed failed skipped`; exit code 1 on failure.
Needs root and nothing but Python's standard library. All kills are in memory cgroups made here; OOMCAST_VM says that
the whole machine may run out of memory."""

import argparse
import fnmatch
import importlib
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import lib  # noqa: E402
import witness  # noqa: E402

FILES = ["kills", "samples", "run_command", "alerts", "gpu", "recordings", "store", "input", "storm", "containers", "global_oom", "report", "history", "totals", "blame", "pythons", "blame_hostile", "watch"]


class TookTooLong(BaseException):
    pass


def on_alarm(*_):
    raise TookTooLong


def run_one(case):
    """("PASS" | "FAIL" | "SKIP", why)"""
    context = lib.Context()
    lib.cases_run.append(case.name)
    signal.setitimer(signal.ITIMER_REAL, case.limit_s)
    problems = []
    try:
        case.run(context)
    except lib.Skip as skip:
        if not context.failures:
            return "SKIP", str(skip)
    except lib.Failed as failed:
        problems.append(str(failed))
    except TookTooLong:
        problems.append(f"takes longer than {case.limit_s:.0f} s")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        problems.append(f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            context.close()
        except Exception as error:
            problems.append(f"cleaning up: {type(error).__name__}: {error}")
    problems = context.failures + problems
    if problems:
        return "FAIL", lib.one_line("; ".join(problems))
    return "PASS", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomcast", type=pathlib.Path, default="build/bin/oomcast")
    parser.add_argument("--workloads", type=pathlib.Path, default="build/tests/workloads")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--times", action="store_true", help="say how long each case took, on stderr")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()

    for file in FILES:
        importlib.import_module(file)
    patterns = [p for word in options.case for p in (word, f"{word}.*")]
    chosen = [c for c in lib.cases if not patterns or any(fnmatch.fnmatchcase(c.name, p) for p in patterns)]
    if not chosen:
        parser.error(f"no case is called {' or '.join(options.case)}; see --list")
    if options.list:
        print("\n".join(c.name for c in chosen))
        return 0
    if os.geteuid() != 0:
        parser.error("run it as root")
    for path in (options.oomcast, options.workloads):
        if not path.exists():
            parser.error(f"{path} does not exist")

    lib.Context.oomcast_path = options.oomcast.resolve()
    lib.Context.workloads_path = options.workloads.resolve()
    lib.Context.log = witness.KernelLog()
    store = tempfile.TemporaryDirectory(prefix="oomcast-e2e-store-")
    os.environ["STATE_DIRECTORY"] = store.name  # not the machine's own
    os.umask(0o022)
    signal.signal(signal.SIGALRM, on_alarm)
    if lib.VM:  # the machine itself runs out of memory in some cases; let it not take the tests
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("-900")

    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    try:
        for case in chosen:
            started = time.monotonic()
            elsewhere = case.not_here()
            verdict, why = ("SKIP", elsewhere) if elsewhere else run_one(case)
            counts[verdict] += 1
            print(f"{verdict} {case.name}" + (f": {why}" if why else ""), flush=True)
            if options.times:
                print(f"     {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    finally:
        for tracer in lib.Context.shared.values():
            tracer.kill()
        lib.remove_base()
        store.cleanup()
    print(f"END {counts['PASS']} {counts['FAIL']} {counts['SKIP']}", flush=True)
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
