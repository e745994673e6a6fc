#!/usr/bin/env python3
"""The rules of this tree that a machine can check. Prints `PASS|FAIL style/RULE[: file:line why]`, then
`END passed failed skipped`; exit code 1 if a rule is broken. An argument is the tree to check instead of this one.

A finding is on the code, not on what comments say, except where the rule is about comments.
"""

import ast
import pathlib
import re
import subprocess
import sys

LAYERS = ["base", "wire", "parse", "collect", "model", "leak", "forecast", "stream", "blame", "store", "present", "app"]
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE",
             "bpf", "userspace", "scripts", "tests", "packaging"}
SOURCE_SUFFIXES = {".c", ".h", ".cpp", ".hpp"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh", ".cmake", ".md", ".json", ".js", ".css", ".html", ".yml", ".service", ""}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES_OF_PROGRAMS = {f"userspace/collect/{name}" for name in (
    "libbpf.h", "kernel_features.cpp", "bpf_source.cpp", "bpf_source_faults.cpp", "bpf_source_allocations.cpp",
    "bpf_source_additions.cpp", "gpu_source.cpp", "gpu_pages.cpp", "gpu_xids.cpp")}
THIS_FILE = "tests/style/check.py"

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "../..").resolve()


def tree_files():
    """Paths that are, or would be, committed."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], cwd=root, capture_output=True)
    if listed.returncode == 0 and (root / ".git").exists():
        names = listed.stdout.decode().split("\0")
    else:  # an unpacked release
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if not re.search(r"(^|/)(\.git|build|build-[^/]*|__pycache__)(/|$)", str(path.relative_to(root)))]
    return [pathlib.PurePosixPath(name) for name in sorted(set(names)) if name and (root / name).is_file()]


files = tree_files()
texts = {}
for file in files:
    if file.suffix in TEXT_SUFFIXES:
        try:
            texts[file] = (root / file).read_text()
        except UnicodeDecodeError:
            pass
sources = {file: text for file, text in texts.items()
           if file.parts[0] in ("userspace", "bpf") and file.suffix in SOURCE_SUFFIXES}


def without_comments(text):
    """Comments become blanks; lines and string literals stay."""
    def blank(match):
        word = match[0]
        return word if word[0] in "R\"'" else re.sub(r"[^\n]", " ", word)
    return re.sub(r'R"([^(\s"]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)


def lines_of(mapping, code_only=True):
    for file, text in mapping.items():
        for number, line in enumerate((without_comments(text) if code_only else text).splitlines(), 1):
            yield file, number, line


def layer_of(file):
    return file.parts[1] if len(file.parts) > 2 and file.parts[0] == "userspace" else None


def includes():
    for file, number, line in lines_of(sources):
        match = INCLUDE.match(line)
        if match:
            yield file, number, match[1], match[2]


# ---- rules: each yields (file, line, why) for what breaks it ------------------------------------------------------

def an_include_names_only_layers_to_the_left():
    for file, number, _, name in includes():
        here, there = layer_of(file), name.split("/")[0]
        if here is None:  # main.cpp sees app, and what app shows in its interface
            continue
        if here not in LAYERS:
            yield file, number, f"{here} is not a layer: {' '.join(LAYERS)}"
        elif "../" in name:
            yield file, number, f"{name} leaves its folder by a relative path"
        elif "/" in name and there in LAYERS and LAYERS.index(there) > LAYERS.index(here):
            yield file, number, f"{here} includes {name}, which is to its right"


def only_the_sources_of_programs_see_libbpf_and_the_skeletons():
    for file, number, _, name in includes():
        if file.parts[0] == "userspace" and (name.startswith("bpf/") or ".skel.h" in name):
            if str(file) not in SOURCES_OF_PROGRAMS:
                yield file, number, f"includes {name}"


def only_wire_reads_the_wire_header():
    for file, number, _, name in includes():
        of_wire = re.fullmatch(r"(bpf/)?wire(_\w+)?\.h", name)
        if file.parts[0] == "userspace" and of_wire and layer_of(file) != "wire":
            yield file, number, f"includes {name}"


def absent_is_not_zero():
    for file, number, line in lines_of(sources):
        match = re.search(r"value_or\(\s*(0[uUlL]*|0\.0*f?|[\w:]+\{\s*0\s*\}|(Bytes|BytesPerSec|Seconds|Nanos|Pages)(\{\s*\}|\(\s*\)))\s*\)", line)
        if match:
            yield file, number, f"{match[0]}: absent is not zero"


def kernels_differ_by_capability_not_by_version():
    for file, number, line in lines_of(sources):
        match = re.search(r"\b(KERNEL_VERSION|LINUX_VERSION_CODE|LINUX_KERNEL_VERSION)\b|\buname\s*\(", line)
        if match:
            yield file, number, f"{match[0]} asks for a version"


def what_is_left_to_do_names_its_issue():
    code = {file: text for file, text in texts.items() if str(file) != THIS_FILE and file.name != "LICENSE"}
    for file, number, line in lines_of(code, code_only=False):
        match = re.search(r"\b(TODO(?!\(#\d+\))|FIXME|XXX)\b", line)
        if match:
            yield file, number, match[0]


def the_machine_is_named_only_where_roots_are_chosen():
    for file, number, line in lines_of(sources):
        if layer_of(file) in ("app", "collect") or file.parts[0] == "bpf":
            continue
        match = re.search(r'"/(proc|sys|dev)(/[^"]*)?"', line)
        if match:
            yield file, number, f"{match[0]}: take the root as an argument"


def bash_scripts_stop_at_the_first_error():
    for file, text in texts.items():
        first, _, rest = text.partition("\n")
        if re.match(r"#!.*\bbash\b", first) and not re.search(r"^set -euo pipefail$", rest, re.MULTILINE):
            yield file, 1, "no `set -euo pipefail`"


def the_top_level_holds_only_what_belongs_there():
    for name in sorted({file.parts[0] for file in files}):
        if name not in TOP_LEVEL and not name.startswith("."):
            yield name, 0, "does not belong on the top level"


def full_holds_all_of_the_gate():
    check = str(texts.get(pathlib.PurePosixPath("scripts/check"), ""))
    steps = {tier: set(found[1].split()) for tier in ("gate", "full")
             if (found := re.search(rf"^{tier}_steps=\((.*)\)$", check, re.MULTILINE))}
    if steps and (left_out := steps["gate"] - steps["full"]):
        yield "scripts/check", 0, f"full lacks the steps {', '.join(sorted(left_out))}"
    run = "tests/e2e/run.py"
    if pathlib.PurePosixPath(run) in texts:
        cases = {}
        for tier in "gate", "full":
            listed = subprocess.run([sys.executable, root / run, "--list", "--tier", tier], text=True, capture_output=True)
            cases[tier] = set(listed.stdout.split())
            if listed.returncode != 0 or not cases[tier]:
                yield run, 0, f"--list --tier {tier}: {listed.stderr.strip()[-200:] or 'nothing'}"
        if left_out := cases["gate"] - cases["full"]:
            yield run, 0, f"full lacks {', '.join(sorted(left_out))}"


def cases_wait_for_conditions_and_do_not_sleep():
    cases = {file: text for file, text in texts.items() if str(file.parent) == "tests/e2e" and file.suffix == ".py"}
    for file, text in cases.items():
        for node in ast.walk(ast.parse(text)) if file.name != "lib.py" else ():
            if ast.unparse(node) in ("time.sleep", "from time import sleep"):
                yield file, node.lineno, "wait for a condition (lib.wait_until), or say why not (lib.pause)"


def documents_are_narrow():
    for file, text in texts.items():
        if file.suffix != ".md" or "golden" in file.parts:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > 120 and not line.startswith(("|", "    ")):
                yield file, number, f"{len(line)} columns"


def all_methods_of_a_class_stand_in_one_file():
    homes = {}
    for file, text in sources.items():
        if file.parts[0] == "userspace" and file.suffix == ".cpp":
            # A definition begins in the first column: `Type Class::name(`, `Class::~Class(`.
            for match in re.finditer(r"^(?:[A-Za-z][\w:<>,&*\[\] ]*[ &*])?([A-Z]\w*)(?:<[^>]*>)?::(?:~?\w+|operator[^(]*)\(",
                                     without_comments(text), re.MULTILINE):
                homes.setdefault(match[1], {}).setdefault(file, text.count("\n", 0, match.start()) + 1)
    for name, files_of in homes.items():
        for file in sorted(files_of)[1:]:
            yield file, files_of[file], f"methods of {name}, which has others in {min(files_of)}"


RULES = [an_include_names_only_layers_to_the_left, only_the_sources_of_programs_see_libbpf_and_the_skeletons,
         only_wire_reads_the_wire_header, absent_is_not_zero, kernels_differ_by_capability_not_by_version,
         what_is_left_to_do_names_its_issue, the_machine_is_named_only_where_roots_are_chosen, bash_scripts_stop_at_the_first_error,
         the_top_level_holds_only_what_belongs_there, full_holds_all_of_the_gate, cases_wait_for_conditions_and_do_not_sleep,
         documents_are_narrow, all_methods_of_a_class_stand_in_one_file]


def main():
    failed = 0
    if not sources:
        print(f"FAIL style/sources_exist: no source in {root}")
        failed += 1
    for rule in RULES:
        findings = [f"{file}:{number} {why}" if number else f"{file} {why}" for file, number, why in rule()]
        failed += bool(findings)
        print(f"FAIL style/{rule.__name__}: {'; '.join(findings)}" if findings else f"PASS style/{rule.__name__}")
    print(f"END {len(RULES) - failed + (not sources)} {failed} 0")
    return 1 if failed else 0


sys.exit(main())
