#!/usr/bin/env python3
"""clang-tidy over the product's code, as .clang-tidy says, with the flags of the sanitizer build.

    tidy.py BUILD                     all of it, in the parts in which that build compiles a layer
    tidy.py BUILD --last N [--max M]  the parts in which the last N commits changed anything, or what is not committed
                                      yet; of more than M those in which most lines changed

Prints `PASS|FAIL|SKIP tidy/NAME` and `END passed failed skipped`."""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parts(build):
    """(name, its file, the flags, the sources in it) of each part of a layer."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        part = re.search(r"/oomcast_(\w+)\.dir/Unity/unity_(\d+)_cxx\.cxx$", entry["file"])
        alone = re.search(r"^" + re.escape(f"{ROOT}/userspace/") + r"(.*\.cpp)$", entry["file"])
        if not part and not alone:
            continue
        flags = shlex.split(entry["command"])[1:]
        del flags[flags.index("-o"):flags.index("-o") + 2]
        flags.remove("-c")
        flags.remove(entry["file"])
        if alone:
            yield alone[1], entry["file"], flags, [entry["file"]]
        else:
            sources = re.findall(r'#include "(.*)"', pathlib.Path(entry["file"]).read_text(encoding="utf-8"))
            yield f"{part[1]}/{part[2]}", entry["file"], flags, sources


def lines_changed_since(commits):
    """By file, how many; None: it cannot be told, so all may have."""
    base = f"HEAD~{commits}"
    git = ["git", "-c", "safe.directory=*"]
    if subprocess.run([*git, "rev-parse", "--quiet", "--verify", base], cwd=ROOT, capture_output=True).returncode:
        return None
    told = subprocess.run([*git, "diff", "--numstat", "--no-renames", base], cwd=ROOT, capture_output=True, text=True,
                          check=True)
    rows = (line.split("\t") for line in told.stdout.splitlines())
    return {str(ROOT / name): int(added) + int(removed) for added, removed, name in rows if added != "-"}


def check(name, file, flags):
    run = subprocess.run(["clang-tidy", "--quiet", file, "--", *flags], cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0:
        return True, f"PASS tidy/{name}"
    said = re.findall(r"^(\S+:\d+):\d+: (?:error|warning): (.*)$", run.stdout + run.stderr, re.MULTILINE)
    lines = [f"{where.removeprefix(str(ROOT) + '/')}: {what}" for where, what in said]
    why = lines[0] if lines else f"clang-tidy ends with {run.returncode}"
    return False, "\n".join(lines + [f"FAIL tidy/{name}: {why}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--last", type=int, metavar="N")
    parser.add_argument("--max", type=int, metavar="M")
    asked = parser.parse_args()
    # The gate's sanitizer build leaves out layers, and what they would include that is written by the build.
    if subprocess.run(["cmake", "--build", asked.build, "--target", "generated_sources"], stdout=sys.stderr).returncode:
        return "the generated sources cannot be built"
    changed = lines_changed_since(asked.last) if asked.last else None
    def weigh(sources):
        return len(sources) if changed is None else sum(changed.get(source, 0) for source in sources)
    weighed = [(weigh(sources), name, file, flags) for name, file, flags, sources in parts(asked.build)]
    weighed = sorted((each for each in weighed if each[0]), key=lambda each: each[0], reverse=True)
    chosen, left = [each[1:] for each in weighed[:asked.max]], weighed[asked.max:] if asked.max else []
    for _, name, _, _ in left:
        print(f"SKIP tidy/{name}: more has changed than is looked through here; --full does")
    if not chosen:
        print("PASS tidy/nothing_changed\nEND 1 0 0")
        return 0
    with ThreadPoolExecutor(2) as pool:
        passed = 0
        for good, said in pool.map(lambda each: check(*each), chosen):
            print(said, flush=True)
            passed += good
    print(f"END {passed} {len(chosen) - passed} {len(left)}")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
