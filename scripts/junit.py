"""Runs the tests of a build folder that carry a label and prints one result line each.

usage: junit.py BUILD LABEL PREFIX JUNIT_FILE

The results come from CTest's JUnit file. Only a test that itself asked to be skipped counts as skipped: one whose
program is missing has failed."""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree as tree

build, label, prefix, report = sys.argv[1:]
report = pathlib.Path(report).resolve()
report.unlink(missing_ok=True)
ran = subprocess.run(["ctest", "--test-dir", build, "-L", f"^{label}$", "--no-tests=error", "--timeout", "120",
                      "--parallel", "2", "--output-junit", str(report)], text=True, stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT)
if not report.exists():
    print(ran.stdout)
    sys.exit(f"ctest wrote no report, exit {ran.returncode}")

counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
for case in tree.parse(report).getroot().iter("testcase"):
    status, out = case.get("status"), (case.findtext("system-out") or "").splitlines()
    said = [element.get("message", "") for kind in ("failure", "skipped") for element in case.findall(kind)]
    why = " ".join(said) or status
    if status == "run":
        kind = "PASS"
    elif status == "disabled" or why.startswith("SKIP_"):
        kind = "SKIP"
    else:
        kind = "FAIL"
        why = next((line for line in out if ": Failure" in line or "ERROR: " in line), why)
    counts[kind] += 1
    print(f"{kind} {prefix}/{case.get('name')}" + (f": {why}" if kind != "PASS" else ""))
    if kind == "FAIL":
        print("\n".join("    | " + line for line in out[-30:]))
print(f"END {counts['PASS']} {counts['FAIL']} {counts['SKIP']}")
sys.exit(1 if ran.returncode != 0 or counts["FAIL"] else 0)
