#!/usr/bin/env python3
"""Runs a libFuzzer program for a while from a corpus of seeds.

Prints `PASS|FAIL fuzz/NAME[: reason]`, then `END passed failed skipped`; exit code 1 after a finding. The input that
made it is kept beside the program.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = HERE.parent / "unit/collect/logs"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fuzzer", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    name = "fuzz/" + arguments.fuzzer.name.removeprefix("fuzz_")
    with tempfile.TemporaryDirectory() as corpus:
        done = subprocess.run(
            [arguments.fuzzer, corpus, SEEDS, f"-dict={HERE}/logs.dict", f"-max_total_time={arguments.seconds}",
             "-max_len=16384", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
             f"-artifact_prefix={arguments.fuzzer.parent}/"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
    runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    tail = done.stdout.splitlines()[-30:]
    if done.returncode == 0 and runs and int(runs[1]) > 0:
        print(f"{runs[1]} inputs in {arguments.seconds} s")
        print(f"PASS {name}\nEND 1 0 0")
        return 0
    print("\n".join("  " + line for line in tail))
    print(f"FAIL {name}: exit {done.returncode}, see the lines above\nEND 0 1 0")
    return 1


sys.exit(main())
