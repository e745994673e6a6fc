#!/usr/bin/env python3
"""Runs the libFuzzer programs for a while each, two at a time.

Prints `PASS|FAIL|SKIP fuzz/NAME[: reason]` for each, then `END passed failed skipped`; exit code 1 after a finding. The
input that made it is kept beside the program.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LOGS = HERE.parent / "unit/parse/logs"
# A library that grows, a CPython's symbols, and what C++ makes for its exceptions.
LIBRARIES = {
    "grows": ("c", ["-shared", "-fPIC", "-g1"], "#include <stdlib.h>\nstatic void *kept[9];\n"
              "void grow(int n) { kept[n % 9] = malloc(n); }\nvoid run(void (*f)(int)) { f(3); grow(4); }\n"),
    "python": ("c", ["-shared", "-fPIC"], "const unsigned long Py_Version = 0x030b02f0;\n"
               "__attribute__((section(\".PyRuntime\"))) char _PyRuntime[64] = {1};\n"
               "int PyCode_Type, PyUnicode_Type, PyBytes_Type;\nint PyModule_AddObjectRef(void) { return 1; }\n"),
    "throws": ("c++", ["-shared", "-fPIC", "-O2"], "#include <stdexcept>\n#include <vector>\n"
               "int f(const std::vector<int> &v, int n) { try { return v.at(n); } catch (std::out_of_range &) { throw; } }\n"),
    "fixed": ("c", ["-static", "-no-pie", "-nostdlib"], "void _start(void) { for (;;); }\n"),
}


def libraries(folder):
    for name, (language, options, text) in LIBRARIES.items():
        made = subprocess.run(["gcc", "-x", language, *options, "-Wl,--build-id", "-o", folder / name, "-"],
                              input=text, text=True, capture_output=True)
        if made.returncode:
            return f"the compiler cannot: {made.stderr.strip().splitlines()[-1:]}"
    shutil.copy(folder / "throws", folder / "stripped")
    subprocess.run(["strip", folder / "stripped"], check=True)
    return None


# The manual's example of each type of line.
def lines(folder):
    manual = (HERE.parents[1] / "packaging/oomcast.8").read_text()
    block = manual.partition("\n.SS A line of each type\n")[2].partition("\n.fi\n")[0]
    found = []
    for line in block.partition("\n.nf\n")[2].splitlines():  # broken behind commas
        if line.startswith("{"):
            found.append("")
        found[-1] += line.replace("\\-", "-").replace("\\e", "\\")
    for number, line in enumerate(found):
        (folder / f"line{number}").write_text(line)
    return None if found else "the manual has no lines"


def logs(folder):
    for log in LOGS.glob("*.log"):
        shutil.copy(log, folder)


# A few lines of each kind of form; the byte before them says which options are given.
SERIES = [
    "time_s,used_bytes,limit_bytes\n0,5,9\n1,6,9\n", "timestamp,rss_mb\n2024-03-01T10:00:00,7\n2024-03-01T10:00:01,8\n",
    "# hostname;interval;timestamp;kbmemfree;kbmemused;%memused;kbbuffers;kbcached\nb;5;2024-03-01 10:00:00 UTC;1;3;75;0;1\n",
    "10:00:00 AM kbmemfree   kbavail kbmemused  %memused\n10:00:01 AM      1000      2000      1600     40.00\n",
    " r  b   swpd   free   buff  cache   si                 UTC\n 1  0      0   5000    100    900    0 2024-03-01 10:00:00\n",
    "Fri Mar  1 10:00:00 UTC 2024\n       total  used  free  shared  buff/cache  available\nMem:  16001 3001 9001 10 4000 12001\n",
    "2024-03-01 10:00:00\n  PID   RSS COMMAND\n   10  1000 a b\n", "CMDLINE x\nMEM 12.5 1700000000.1\nCHLD 1 3.0 1700000000.2\n",
    "2024-03-01T10:00:00Z web 12.30% 200.0MiB / 512MiB 39.06%\n", "NAME   MEM USAGE / LIMIT     MEM %\nweb    1.5GiB / 2GiB         75.00%\n",
    "timestamp, index, memory.used [MiB], memory.total [MiB]\n2024/03/01 10:00:00.100, 0, 100 MiB, 16384 MiB\n",
    "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n   0.000       20.000      500.000     7570.000\n",
    '"Time","{pod=""a""}"\n2024-03-01 10:00:00,1.50 GiB\n', "2024-03-01 10:00:01,123 INFO rss=512.5MB vms=900MB\n",
    '{"data":{"result":[{"metric":{"pod":"a"},"values":[[1700000000,"50000000"]]}]}}', '[{"time": 1, "rss_mb": 5}]',
    '{"ts": 1700000000, "mem": {"rss_mb": 7}}\n{"ts": 1700000001, "mem": {"rss_mb": 7}}\n',
]


def series(folder):
    for number, text in enumerate(SERIES):
        (folder / f"form{number}").write_bytes(b"\0" + text.encode())


def nothing(folder):
    (folder / "as-it-is").write_bytes(bytes(16))


# What each begins with, and its options: the longest input, the longest time for one.
PROGRAMS = {
    "logs": (logs, [f"-dict={HERE}/logs.dict", "-max_len=16384", "-timeout=10"]),
    "lines": (lines, ["-max_len=16384", "-timeout=10"]),
    "metrics": (nothing, ["-max_len=2048", "-timeout=10"]),
    "elf": (libraries, ["-max_len=65536", "-timeout=20"]),
    "answers": (nothing, ["-max_len=65536", "-timeout=10"]),
    "recordings": (nothing, ["-max_len=2048", "-timeout=20"]),
    "stores": (nothing, ["-max_len=2048", "-timeout=20"]),
    "series": (series, [f"-dict={HERE}/series.dict", "-max_len=8192", "-timeout=10"]),
}


def run(folder, name, seconds):
    seed, options = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as corpus:
        missing = seed(pathlib.Path(corpus))
        if missing:
            return f"SKIP fuzz/{name}: {missing}"
        done = subprocess.run(
            [folder / f"fuzz_{name}", corpus, *options, f"-max_total_time={seconds}", "-rss_limit_mb=2048",
             "-print_final_stats=1", f"-artifact_prefix={folder}/{name}-"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
    runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    said = re.search(r"^\d+ files: .*", done.stdout, re.MULTILINE)
    tail = "".join(f"  {line}\n" for line in done.stdout.splitlines()[-60:])
    if done.returncode or not runs or not int(runs[1]):
        return f"{tail}FAIL fuzz/{name}: exit {done.returncode}, see the lines above"
    return f"{name}: {runs[1]} inputs in {seconds} s{'; ' + said[0] if said else ''}\nPASS fuzz/{name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where the programs are: build-fuzz/tests/fuzz")
    parser.add_argument("only", nargs="*", help=f"some of {', '.join(PROGRAMS)}")
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    unknown = set(arguments.only) - set(PROGRAMS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda name: run(arguments.folder.resolve(), name, arguments.seconds),
                               arguments.only or list(PROGRAMS)):
            print(result, flush=True)
            counts[result.splitlines()[-1].split()[0]] += 1
    print("END", *counts.values())
    return 1 if counts["FAIL"] else 0


sys.exit(main())
