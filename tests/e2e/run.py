#!/usr/bin/env python3
"""End-to-end tests: real kills in real memory cgroups, and the kernel's own log as the witness.

    run.py --oomcast PATH --workloads DIR [--tier gate|full] [--list] [CASE…]
                                                     CASE: a name, a file, or a pattern (kills.*)

Prints `PASS name`, `FAIL name: why`, `SKIP name: reason`, one for each case, and last `END passed failed skipped flaky
unfit`; exit code 1 on failure. `UNFIT name: why` says that a premise of a case did not hold: it is run again, alone,
after all others, twice at the most, and skipped if that is so to the end; those of kills and of the store fail then.
`FLAKY name: why` precedes a PASS: a claim about time did not hold at first, and did when the case was run again, alone,
after all others.

The full tier has every case. The gate's are those that are run before each change lands: on this machine all of them,
in an emulated one (OOMCAST_VM) those that a particular kernel can tell.

OOMCAST_TEST_WITHOUT=data-breakpoints has oomcast run as on a machine whose data breakpoints do not fire, and the cases
that need them are skipped as there.

Needs root and nothing but Python's standard library. All kills are in memory cgroups made here; OOMCAST_VM says that
the whole machine may run out of memory."""

import argparse
import collections
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

FILES = ["kills", "samples", "run_command", "alerts", "gpu", "recordings", "store", "daemon", "files", "input", "containers",
         "global_oom", "no_harm", "report", "growth", "history", "manual", "totals", "blame", "blame_kept", "blame_corpus", "pythons",
         "blame_hostile", "blame_faults", "blame_fence", "watch", "storm", "hostile"]
# Of those before them, those that are run again too.
TOTALS = "totals"
# Behind all others: a thousand kills use up the ten reports in 5 s that the kernel writes into its log, and fill that
# faster than a witness reads it. They count for themselves.
STORMS = {"storm", "hostile"}
MOST_UNFIT = 3        # runs of one case


class TookTooLong(BaseException):
    pass


def on_alarm(*_):
    raise TookTooLong


def run_one(case):
    """("PASS" | "FAIL" | "SKIP" | "UNFIT", why)"""
    context = lib.Context()
    lib.cases_run.append(case.name)
    signal.setitimer(signal.ITIMER_REAL, case.limit_s)
    problems, unfit = [], None
    try:
        case.run(context)
    except lib.Skip as skip:
        if not context.failures:
            return "SKIP", str(skip)
    except lib.Unfit as problem:
        unfit = str(problem)
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
    if problems:  # a claim that does not hold is none the better for a premise that fails after it
        return "FAIL", lib.one_line("; ".join(problems + ([f"unfit: {unfit}"] if unfit else [])))
    return ("UNFIT", lib.one_line(unfit)) if unfit is not None else ("PASS", "")


def as_without(capability, oomcast, folder):
    """oomcast as it is on a machine that lacks this."""
    program = folder / "oomcast"
    program.write_text(f"""#!/bin/sh
case $1 in
  blame | doctor) command=$1; shift; exec {oomcast} $command --test-without-{capability} "$@" ;;
esac
exec {oomcast} "$@"
""")
    program.chmod(0o755)
    return program


class Results:
    """Prints what becomes of each case, and counts it."""

    def __init__(self, with_times):
        self.counts = dict.fromkeys(("PASS", "FAIL", "SKIP", "FLAKY", "UNFIT"), 0)
        self.with_times = with_times
        self.again = []       # cases that are run once more
        self.unfit = collections.Counter()
        self.failed = {}      # of claims about time, why at first

    def say(self, verdict, case, why=""):
        if verdict != "UNFIT" or self.unfit[case.name] == 1:
            self.counts[verdict] += 1
        print(f"{verdict} {case.name}" + (f": {why}" if why else ""), flush=True)
        if verdict == "FAIL" and lib.VM:
            witness.whole_log_to("/dev/ttyS0")  # the host keeps the console

    def run(self, case):
        started = time.monotonic()
        elsewhere = case.not_here()
        verdict, why = ("SKIP", elsewhere) if elsewhere else run_one(case)
        if self.with_times:
            took = time.monotonic() - started
            print(f"     {took:.1f} s {case.name}", file=sys.stderr, flush=True)
        if verdict == "UNFIT":
            self.unfit[case.name] += 1
            self.say("UNFIT", case, why)
            if self.unfit[case.name] < MOST_UNFIT:
                self.again.append(case)
                return
            verdict, why = "FAIL" if case.file in lib.MUST_BE_FIT else "SKIP", f"unfit: {why}"
        first = self.failed.get(case.name)
        if verdict == "FAIL" and case.timing and first is None:
            self.failed[case.name] = why
            self.again.append(case)
            return
        if first is not None:
            if verdict == "PASS":
                self.say("FLAKY", case, first)
            else:
                verdict, why = "FAIL", f"at first: {first}; again: {why}"
        self.say(verdict, case, why)

    def run_again(self):
        while self.again:
            self.run(self.again.pop(0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomcast", type=pathlib.Path, default="build/bin/oomcast")
    parser.add_argument("--workloads", type=pathlib.Path, default="build/tests/workloads")
    parser.add_argument("--tier", choices=lib.TIERS, default="full")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--times", action="store_true", help="say how long each case took, on stderr")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()

    for file in FILES:
        importlib.import_module(file)
    patterns = [p for word in options.case for p in (word, f"{word}.*")]
    chosen = [c for c in lib.cases if c.in_tier(options.tier)
              and (not patterns or any(fnmatch.fnmatchcase(c.name, p) for p in patterns))]
    if not chosen:
        parser.error(f"no case of the {options.tier} tier is called {' or '.join(options.case)}; see --list")
    if options.list:
        print("\n".join(c.name for c in chosen))
        return 0
    if os.geteuid() != 0:
        parser.error("run it as root")
    for path in (options.oomcast, options.workloads):
        if not path.exists():
            parser.error(f"{path} does not exist")

    lib.Context.oomcast_path = options.oomcast.resolve()
    programs = tempfile.TemporaryDirectory(prefix="oomcast-e2e-bin-")
    if lib.WITHOUT:
        lib.Context.oomcast_path = as_without(lib.WITHOUT, lib.Context.oomcast_path, pathlib.Path(programs.name))
    lib.Context.workloads_path = options.workloads.resolve()
    lib.Context.log = witness.KernelLog()
    lib.Context.pulse = lib.Pulse()
    store = tempfile.TemporaryDirectory(prefix="oomcast-e2e-store-")
    os.environ["STATE_DIRECTORY"] = store.name  # not the machine's own
    os.umask(0o022)
    signal.signal(signal.SIGALRM, on_alarm)
    if lib.VM:  # the machine itself runs out of memory in some cases; let it not take the tests
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("-900")

    results = Results(options.times)
    try:
        for part in (lambda file: file not in {TOTALS, *STORMS}, TOTALS.__eq__, STORMS.__contains__):
            for case in (c for c in chosen if part(c.file)):
                results.run(case)
            results.run_again()
    finally:
        for tracer in lib.Context.shared.values():
            tracer.kill()
        lib.remove_base()
        store.cleanup()
        programs.cleanup()
    print("END " + " ".join(map(str, results.counts.values())), flush=True)
    return 1 if results.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
