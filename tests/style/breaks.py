#!/usr/bin/env python3
"""Breaks each rule of check.py once, in a scratch tree, and expects exactly that rule to notice.

Prints `PASS|FAIL style/RULE_can_fail` and `END passed failed skipped`. A rule without a break here is a FAIL."""

import pathlib
import re
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parent / "check.py"

# A tree that breaks nothing, with look-alikes of every break in it.
SOUND = {
    "README.md": "text\n",
    "bpf/README.md": "| " + "text " * 30 + "|\n    " + "code " * 30 + "\n",
    "tests/unit/present/golden/a.md": "text " * 30 + "\n",
    "bpf/rss.bpf.c": '#include <bpf/bpf_helpers.h>\n#include "wire.h"\n',
    "userspace/main.cpp": '#include "app/options.h"\n',
    "userspace/base/units.h": "#include <vector>\n// uname() and value_or(0) are words here\nint many = 1'000;  // it's\n",
    "userspace/wire/decode.cpp": '#include "wire.h"\n#include "base/units.h"\n',
    "userspace/collect/bpf_source.cpp": '#include <bpf/libbpf.h>\n#include "oomcast.skel.h"\n#include "wire/decode.h"\n',
    "userspace/model/tree.cpp": '#include "model/tree.h"\n#include <sys/stat.h>\nauto x = name.value_or(1);\n'
                                "// TO" "DO(#12): a name\nTree::Tree() {\n}\nint Tree::find(int x) {\n  return Leaf::of(x);\n}\n",
    "userspace/model/leaf.cpp": "int Leaf::of(int x) {\n  return Tree::kMost;\n}\n",
    "userspace/app/options.cpp": 'const char* root = "/proc";\n',
    "scripts/setup": "#!/usr/bin/env bash\nset -euo pipefail\n",
    "tests/vm/init": "#!/bin/busybox sh\n",
    "scripts/check": "#!/usr/bin/env bash\nset -euo pipefail\ngate_steps=(a b)\nfull_steps=(a c b)\n",
    "tests/e2e/lib.py": "time.sleep(1)\n",
    "tests/e2e/run.py": "print('kills.one')  # time.sleep(1)\n",
}
BREAKS = {
    "an_include_names_only_layers_to_the_left": [
        ("userspace/model/a.h", '#include "forecast/growth.h"\n'), ("userspace/base/a.h", '#  include <wire/decode.h>\n'),
        ("userspace/model/b.h", '#include "../base/units.h"\n'), ("userspace/extra/a.h", '#include "base/units.h"\n')],
    "only_the_sources_of_programs_see_libbpf_and_the_skeletons": [
        ("userspace/collect/procfs.cpp", "#include <bpf/bpf.h>\n"), ("userspace/app/a.cpp", '#include "oomcast.skel.h"\n')],
    "only_wire_reads_the_wire_header": [
        ("userspace/collect/bpf_source_ring.cpp", '#include "wire.h"\n'),
        ("userspace/blame/a.cpp", '#include <wire_faults.h>\n')],
    "absent_is_not_zero": [
        ("userspace/forecast/a.cpp", "auto x = limit.value_or(0);\n"),
        ("userspace/forecast/b.cpp", "auto x = limit.value_or(Bytes{});\n"),
        ("userspace/blame/a.cpp", "auto x = level.value_or(Bytes());\n"),
        ("userspace/forecast/c.cpp", "auto x = limit.value_or( 0.0 );\n")],
    "kernels_differ_by_capability_not_by_version": [
        ("bpf/compat.bpf.h", "#if LINUX_VERSION_CODE > 1\n"), ("userspace/app/a.cpp", "uname(&name);\n")],
    "what_is_left_to_do_names_its_issue": [
        ("scripts/check", "# TO" + "DO later\n"), ("userspace/base/a.cpp", "/* FIX" + "ME */\n")],
    "the_machine_is_named_only_where_roots_are_chosen": [
        ("userspace/model/a.cpp", 'open("/proc/self");\n'), ("userspace/base/a.cpp", 'auto p = "/sys";\n')],
    "bash_scripts_stop_at_the_first_error": [
        ("scripts/start", "#!/usr/bin/env bash\nset -e\n"), (".ci/run", "#!/bin/bash\n# set -euo pipefail\n")],
    "full_holds_all_of_the_gate": [
        ("scripts/check", "#!/usr/bin/env bash\nset -euo pipefail\ngate_steps=(a b)\nfull_steps=(a c)\n"),
        ("tests/e2e/run.py", "import sys\nprint('kills.one', 'kills.two' if 'gate' in sys.argv else '')\n"),
        ("tests/e2e/run.py", "import sys\nsys.exit('a case has no tier')\n")],
    "cases_wait_for_conditions_and_do_not_sleep": [
        ("tests/e2e/kills.py", "time.sleep(0.3)\n"), ("tests/e2e/watch.py", "from time import sleep\nsleep(1)\n")],
    "documents_are_narrow": [
        ("bpf/README.md", "text " * 30 + "\n"),
        ("packaging/doc/a.md", "- " + "text " * 30 + "\n")],
    "all_methods_of_a_class_stand_in_one_file": [
        ("userspace/model/b.cpp", "int Tree::other() {\n}\n"), ("userspace/app/b.cpp", "Tree::~Tree() {\n}\n"),
        ("userspace/model/b.cpp", "const std::vector<Bytes>& Tree::sizes() const {\n}\n")],
    "the_top_level_holds_only_what_belongs_there": [
        ("notes.txt", "text\n"), ("tools/x.py", "text\n")],
}


def broken_rules(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = subprocess.run([sys.executable, CHECK, folder], text=True, capture_output=True)
        rules = re.findall(r"^(?:PASS|FAIL) style/(\w+)", out.stdout, re.MULTILINE)
        return rules, re.findall(r"^FAIL style/(\w+)", out.stdout, re.MULTILINE), out.stdout + out.stderr


def main():
    counts = {"PASS": 0, "FAIL": 0}

    def tell(good, name, why):
        counts["PASS" if good else "FAIL"] += 1
        print(f"PASS style/{name}" if good else f"FAIL style/{name}: {why}")

    rules, broken, output = broken_rules(SOUND)
    tell(rules and not broken, "a_sound_tree_passes", output.replace("\n", "; "))
    for rule in sorted(set(rules) | set(BREAKS)):
        wrong = []
        for name, text in BREAKS.get(rule, []):
            _, broken, _ = broken_rules(SOUND | {name: text})
            if broken != [rule]:
                wrong.append(f"{name} breaks {', '.join(broken) or 'nothing'}")
        tell(rule in rules and rule in BREAKS and not wrong, f"{rule}_can_fail",
             "; ".join(wrong) or "the rule or its break is missing")
    print(f"END {counts['PASS']} {counts['FAIL']} 0")
    return 1 if counts["FAIL"] else 0


sys.exit(main())
