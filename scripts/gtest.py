"""Runs GoogleTest programs and prints one result line for each of their tests.

usage: gtest.py PREFIX JOBS LIMIT_S PROGRAM…

Prints `PASS|FAIL|SKIP PREFIX/SUITE.NAME[: why]`, which took longest, then `END passed failed skipped`; exit code 1
after a failure. Only a test that itself asked to be skipped is a skip. One under which its program ended, or hung, has
failed; so has a program that ran none. Each program is run JOBS times, a part of its tests each, so that the longest is
nobody's to wait for; LIMIT_S is each part's."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

prefix, jobs, limit_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
programs = [p for p in sys.argv[4:] if pathlib.Path(p).is_file()]
BEGIN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \((\d+) ms\)")


def run(program, part):
    """[(kind, test, why, output, seconds)]"""
    name = pathlib.Path(program).name
    shard = {"GTEST_TOTAL_SHARDS": str(jobs), "GTEST_SHARD_INDEX": str(part)}
    try:
        ran = subprocess.run([program, "--gtest_color=no"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, timeout=limit_s, env={**os.environ, **shard})
        output, code, ended = ran.stdout, ran.returncode, f"the program ended with {ran.returncode}"
    except subprocess.TimeoutExpired as late:
        output, code, ended = late.stdout or b"", 1, f"no end after {limit_s:.0f} s"
    except OSError as problem:
        return [("FAIL", name, str(problem), [], 0)]
    results, running, said = [], None, []
    for line in output.decode(errors="replace").splitlines():
        begin, end = BEGIN.match(line), END.match(line)
        if begin:
            running, said = begin[1], []
        elif end and running == end[2]:
            kind = {"OK": "PASS", "FAILED": "FAIL", "SKIPPED": "SKIP"}[end[1]]
            mark = r": Failure$" if kind == "FAIL" else r": Skipped$"
            at = next((i for i, text in enumerate(said) if re.search(mark, text)), None)
            why = "" if at is None else " ".join(said[at if kind == "FAIL" else at + 1:at + 3]).strip()
            results.append((kind, running, why or end[1].lower(), said if kind == "FAIL" else [], int(end[3]) / 1000))
            running = None
        else:
            said.append(line)
    if running:
        why = next((text for text in said if "ERROR: " in text or "runtime error: " in text), ended)
        results.append(("FAIL", running, why, said, 0))
    elif not results and (code != 0 or part == 0):  # of fewer tests than parts the first parts have them
        results.append(("FAIL", name, f"ran no test; {ended}", said, 0))
    elif code != 0 and not any(kind == "FAIL" for kind, *_ in results):
        results.append(("FAIL", name, ended, said, 0))
    return results


counts, took = {"PASS": 0, "FAIL": 0, "SKIP": 0}, []
with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
    for results in pool.map(lambda each: run(*each), [(program, part) for program in programs for part in range(jobs)]):
        for kind, test, why, said, seconds in results:
            counts[kind] += 1
            took.append((seconds, test))
            print(f"{kind} {prefix}/{test}" + (f": {why}" if kind != "PASS" else ""), flush=True)
            for line in said[-40:]:
                print(f"    | {line}", flush=True)
longest = [f"{test} {seconds:.0f} s" for seconds, test in sorted(took, reverse=True)[:10] if seconds >= 1]
if longest:
    print("longest:", ", ".join(longest))
print(f"END {counts['PASS']} {counts['FAIL']} {counts['SKIP']}")
sys.exit(1 if counts["FAIL"] or not programs else 0)
