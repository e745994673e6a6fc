#!/usr/bin/env python3
"""Holds what scripts/package makes against what it should be: contents, modes, dependencies, and a program that runs
where there is nothing but itself. As root.

usage: run.py [NAME…]     only these cases

Prints `PASS|FAIL|SKIP package/NAME[: why]` and `END passed failed skipped`; exit code 1 after a failure."""

import atexit
import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build-static/package"
PROGRAM = ROOT / "build-static/bin/oomcast"
VERSION = re.search(r"^project\(oomcast VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
TARBALL = OUT / f"oomcast-{VERSION}-linux-x86_64.tar.gz"
DEB = OUT / f"oomcast_{VERSION}-1_amd64.deb"
RPM = OUT / f"oomcast-{VERSION}-1.x86_64.rpm"
# rpm makes a database wherever it is told that there is one.
RPM_DB = tempfile.mkdtemp(prefix="oomcast-rpm-")
atexit.register(shutil.rmtree, RPM_DB, True)
EXPOSURE = 3.5  # of systemd-analyze security, at most
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000

DOCUMENTS = {path.name for path in (ROOT / "packaging/doc").iterdir() if path.suffix in (".md", ".png")}
COMPLETIONS = {"bash": "bash-completion/completions/oomcast", "zsh": "zsh/site-functions/_oomcast",
               "fish": "fish/vendor_completions.d/oomcast.fish"}


cases = []


class Skip(Exception):
    pass


def case(function):
    cases.append(function)
    return function


def run(*command, **more):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, **more)


def output_of(*command, **more):
    done = run(*command, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def same(found, wanted, what):
    if found != wanted:
        missing, more = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        other = [f"{k}: {found[k]}, not {wanted[k]}" for k in sorted(set(found) & set(wanted)) if found[k] != wanted[k]]
        raise AssertionError(f"{what}: missing {missing}, too many {more}, otherwise {other}")


def need(tool):
    if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"):
        raise Skip(f"{tool} is not installed")


def has_command(name):
    return run(PROGRAM, name, "--help").returncode == 0


def with_completions(folder, names):
    return {f"{folder}{name}": 0o644 for name in names} if has_command("completion") else {}


# What both packages hold, beside their own documents.
def installed():
    return {"/usr/sbin/oomcast": 0o755, "/usr/share/man/man8/oomcast.8.gz": 0o644,
            "/usr/lib/systemd/system/oomcast.service": 0o644, "/usr/lib/sysusers.d/oomcast.conf": 0o644,
            "/etc/oomcast/oomcast.conf": 0o644, **{f"/usr/share/doc/oomcast/{name}": 0o644 for name in DOCUMENTS}}


def members_of_deb(deb=DEB):
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    with tempfile.TemporaryFile() as file:
        file.write(packed)
        file.seek(0)
        with tarfile.open(fileobj=file) as members:
            return members.getmembers()


# ---- cases

@case
def the_program_asks_for_no_library_and_no_loader():
    headers = output_of("readelf", "-lWd", PROGRAM)
    assert "INTERP" not in headers, "it has an interpreter"
    assert "(NEEDED)" not in headers, "it needs a library"


@case
def the_program_is_stripped_and_has_a_build_id():
    sections = output_of("readelf", "-SW", PROGRAM)
    for section in (".symtab", ".debug_info"):
        assert section not in sections, f"it has {section}"
    assert "Build ID" in output_of("readelf", "-nW", PROGRAM), "it has no build id"


@case
def the_program_names_no_folder_of_its_build():
    assert str(ROOT).encode() not in PROGRAM.read_bytes(), f"{ROOT} stands in it"


@case
def the_tarball_holds_program_manual_unit_and_licences():
    top = f"oomcast-{VERSION}-linux-x86_64"
    wanted = {f"{top}/{name}": 0o644 for name in ("oomcast.8", "oomcast.service", "oomcast.conf", "oomcast.sysusers",
                                                  "LICENSE", "licences.txt", "CHANGELOG.md")}
    wanted |= {f"{top}/oomcast": 0o755}
    wanted |= with_completions(f"{top}/completions/", [path.rpartition("/")[2] for path in COMPLETIONS.values()])
    with tarfile.open(TARBALL) as members:
        found = members.getmembers()
    same({m.name: m.mode for m in found if m.isfile()}, wanted, TARBALL.name)
    assert all((m.uid, m.gid) == (0, 0) for m in found), "not all of it is root's"
    assert all(m.isfile() or m.isdir() and m.mode == 0o755 for m in found), "it holds more than files and folders"


@case
def the_deb_holds_what_it_should_with_these_modes():
    wanted = installed() | {f"/usr/share/doc/oomcast/{name}": 0o644 for name in
                            ("changelog.gz", "changelog.Debian.gz", "copyright", "licences.txt.gz")}
    wanted |= {"/usr/share/lintian/overrides/oomcast": 0o644}
    wanted |= with_completions("/usr/share/", [p.replace("site-functions", "vendor-completions") for p in COMPLETIONS.values()])
    found = members_of_deb()
    same({m.name.removeprefix("."): m.mode for m in found if m.isfile()}, wanted, DEB.name)
    assert all((m.uid, m.gid) == (0, 0) for m in found), "not all of it is root's"
    assert all(m.isfile() or m.isdir() and m.mode == 0o755 for m in found), "it holds more than files and folders"


@case
def the_rpm_holds_what_it_should_with_these_modes():
    need("rpm")
    wanted = installed() | {f"/usr/share/licenses/oomcast/{name}": 0o644 for name in ("LICENSE", "licences.txt")}
    wanted |= {"/usr/share/doc/oomcast/CHANGELOG.md": 0o644} | with_completions("/usr/share/", COMPLETIONS.values())
    listed = output_of("rpm", "-qp", "--dbpath", RPM_DB, "--qf", "[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}\n]", RPM)
    lines = [line.split() for line in listed.splitlines()]
    same({name: int(mode, 8) & 0o7777 for name, mode, _ in lines if int(mode, 8) & 0o170000 == 0o100000}, wanted, RPM.name)
    assert all(user == "root" for _, _, user in lines), "not all of it is root's"


@case
def neither_package_depends_on_another():
    fields = output_of("dpkg-deb", "--field", DEB)
    assert not re.search(r"^(Pre-)?Depends|^Recommends", fields, re.MULTILINE), fields
    need("rpm")
    own = re.compile(r"rpmlib\(|/bin/sh$|config\(oomcast\)")
    requires = [line for line in output_of("rpm", "-qpR", "--dbpath", RPM_DB, RPM).splitlines() if not own.match(line)]
    assert not requires, requires


@case
def all_three_hold_the_same_program():
    wanted = hashlib.sha256(PROGRAM.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        output_of("dpkg-deb", "-x", DEB, f"{folder}/deb")
        output_of("tar", "-C", folder, "-xzf", TARBALL)
        programs = [f"{folder}/deb/usr/sbin/oomcast", f"{folder}/{TARBALL.name.removesuffix('.tar.gz')}/oomcast"]
        if shutil.which("rpm2cpio"):
            output_of("bash", "-c", f"set -o pipefail; mkdir {folder}/rpm && cd {folder}/rpm && rpm2cpio {RPM} | cpio -id --quiet")
            programs.append(f"{folder}/rpm/usr/sbin/oomcast")
        for program in programs:
            assert hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest() == wanted, f"{program} is another one"
    sums = output_of("sha256sum", "--check", "SHA256SUMS", cwd=OUT)
    assert sums.count(": OK") == 3, sums


@case
def settings_are_kept_as_settings():
    assert output_of("dpkg-deb", "--info", DEB, "conffiles").split() == ["/etc/oomcast/oomcast.conf"]
    need("rpm")
    assert output_of("rpm", "-qpc", "--dbpath", RPM_DB, RPM).split() == ["/etc/oomcast/oomcast.conf"]


@case
def each_setting_is_a_flag_of_the_service():
    lines = (ROOT / "packaging/oomcast.conf").read_text().splitlines()
    assert not [line for line in lines if line.strip() and not line.startswith("#")], "not all of it is commented out"
    keys = [m[1] for line in lines if (m := re.match(r"#([a-z-]+) = ", line))]
    assert len(keys) > 5, keys
    if not has_command("daemon"):
        raise Skip("this program has no daemon")
    flags = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", output_of(PROGRAM, "daemon", "--help"), re.MULTILINE))
    assert not set(keys) - flags, f"no flags: {sorted(set(keys) - flags)}"
    assert not flags - set(keys) - {"help", "config", "color"}, f"no settings: {sorted(flags - set(keys))}"


@case
def the_licences_name_what_is_linked_and_where_its_source_is():
    text = subprocess.run(["dpkg-deb", "--fsys-tarfile", DEB], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-C", folder, "-x"], input=text, check=True)
        licences = output_of("zcat", f"{folder}/usr/share/doc/oomcast/licences.txt.gz")
    for name in ("GNU C library", "libbpf", "libseccomp", "libelf", "libdw"):
        line = re.search(rf"^- {name}\b.*", licences, re.MULTILINE)
        assert line and "LGPL" in line[0] and re.search(r"\([a-z0-9.+-]+=\S+\)$", line[0]), f"{name}: {line and line[0]}"


@case
def lintian_has_nothing_to_say():
    need("lintian")
    done = run("lintian", "--fail-on", "error,warning", "--allow-root", "--no-cfg", DEB)
    assert done.returncode == 0 and not done.stdout.strip(), (done.stdout + done.stderr)[-1500:]


@case
def systemd_takes_the_unit_and_finds_it_hardened():
    need("systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        text = (ROOT / "packaging/oomcast.service").read_text()
        unit = pathlib.Path(folder, "oomcast.service")
        # Of a program that is not installed here it would say so.
        unit.write_text(re.sub(r"^Documentation=.*\n", "", text.replace("/usr/sbin/oomcast", str(PROGRAM)), flags=re.MULTILINE))
        done = run("systemd-analyze", "verify", unit)
        assert done.returncode == 0 and not done.stderr.strip(), done.stderr
        said = output_of("systemd-analyze", "security", "--offline=true", unit)
    level = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1])
    assert level <= EXPOSURE, f"{level}, more than {EXPOSURE}"


@case
def a_second_time_gives_the_same_bytes():
    with tempfile.TemporaryDirectory() as folder:
        output_of("bash", "-c", f"umask 077; LANG=C TZ=Asia/Tokyo exec scripts/package --output {folder}", cwd=ROOT)
        before, after = (OUT / "SHA256SUMS").read_text(), pathlib.Path(folder, "SHA256SUMS").read_text()
    assert before == after, f"{before}\n{after}"


@case
def the_deb_is_installed_upgraded_removed_and_purged():
    """In a root of its own, by the scripts' DPKG_ROOT: this machine's services are none of it."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        (root / "var/lib/dpkg").mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        (root / "etc").mkdir()
        for name in ("group", "passwd"):
            (root / "etc" / name).write_text("root:x:0:\n" if name == "group" else "root:x:0:0:root:/:/bin/sh\n")
        dpkg = ["dpkg", "--root", root, "--force-script-chrootless", "--force-not-root", "--force-depends"]
        log = output_of(*dpkg, "-i", DEB)
        assert "oomcast" in (root / "etc/group").read_text(), f"no group: {log}"
        assert (root / "etc/systemd/system/multi-user.target.wants/oomcast.service").is_symlink(), f"not enabled: {log}"
        settings = root / "etc/oomcast/oomcast.conf"
        settings.write_text("quiet = true\n")
        store = root / "var/lib/oomcast"
        store.mkdir()
        (store / "store.db").touch()
        output_of(*dpkg, "-i", DEB)
        assert settings.read_text() == "quiet = true\n", "an upgrade changed the settings"
        output_of(*dpkg, "-r", "oomcast")
        assert settings.exists() and store.exists(), "removed more than the program"
        assert not (root / "usr/sbin/oomcast").exists(), "the program is still there"
        output_of(*dpkg, "-P", "oomcast")
        left = [str(p.relative_to(root)) for p in root.rglob("*oomcast*")]
        assert not left, f"left after a purge: {left}"


@case
def the_completions_know_commands_flags_and_values():
    if not has_command("completion"):
        raise Skip("this program has no completion")
    with tempfile.TemporaryDirectory() as folder:
        scripts = {}
        for shell in COMPLETIONS:
            scripts[shell] = pathlib.Path(folder, "_oomcast" if shell == "zsh" else shell)
            scripts[shell].write_text(output_of(PROGRAM, "completion", shell))

        def in_bash(*words):
            line = " ".join(f"'{word}'" for word in words)
            return output_of("bash", "-c", f"compopt() {{ echo files; }}; source {scripts['bash']}; COMP_WORDS=({line}); "
                                           f"COMP_CWORD={len(words) - 1}; _oomcast; printf '%s\\n' \"${{COMPREPLY[@]}}\"").split()

        def in_fish(*words):
            said = output_of("fish", "--no-config", "-c", f"source {scripts['fish']}; complete -C '{' '.join(words)}'", cwd=folder)
            return [line.split("\t")[0] for line in said.splitlines()]

        for complete, needs in (in_bash, "bash"), (in_fish, "fish"):
            if not shutil.which(needs):
                continue
            wanted = {("oomcast", "rep"): ["replay", "report"], ("oomcast", "trace", "--sto"): ["--store", "--store-keep", "--store-max"],
                      ("oomcast", "trace", "--color", "al"): ["always"], ("oomcast", "completion", "z"): ["zsh"]}
            for words, answer in wanted.items():
                assert sorted(complete(*words)) == answer, f"{needs}, {' '.join(words)}: {complete(*words)}, not {answer}"
        assert in_bash("oomcast", "report", "-o", "x")[0] == "files", "no file is completed behind -o"
        if shutil.which("zsh"):
            output_of("zsh", "-fn", scripts["zsh"])
        for shell, script in scripts.items():
            flags = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", output_of(PROGRAM, "trace", "--help"), re.MULTILINE))
            missing = [flag for flag in flags if not re.search(rf"(--|-l ){flag}\b", script.read_text())]
            assert not missing, f"{shell} lacks {missing}"


def in_a_root(fill, check):
    """Calls `check(run)` with a function that runs a command in a root that holds /proc, /sys, /dev and what `fill(root)`
    put there."""
    if os.geteuid() != 0:
        raise Skip("it needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("proc", "sys", "dev", "tmp", "var/lib"):
            (root / name).mkdir(parents=True)
        shutil.copy(PROGRAM, root / "oomcast")
        fill(root)

        def enter():
            assert libc.unshare(CLONE_NEWNS) == 0
            assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
            for name in ("proc", "sys", "dev"):
                assert libc.mount(f"/{name}".encode(), f"{root}/{name}".encode(), None, MS_BIND | MS_REC, None) == 0
            os.chroot(root)
            os.chdir("/")

        check(lambda *command: subprocess.run(command, text=True, capture_output=True, preexec_fn=enter, timeout=120,
                                              env={"PATH": "/", "TERM": "dumb"}))


def runs_there(run_there, grow):
    doctor = run_there("/oomcast", "doctor", "--json")
    assert doctor.returncode == 0, f"doctor: exit {doctor.returncode}: {doctor.stderr[-500:]}"
    json.loads(doctor.stdout)
    fine = run_there("/oomcast", "run", "--memory", "100M", "--", "/oomcast", "--version")
    assert fine.returncode == 0, f"run: exit {fine.returncode}: {fine.stderr[-500:]}"
    killed = run_there("/oomcast", "run", "--memory", "100M", "--", *grow)
    assert killed.returncode == 128 + 9 and "OOM" in killed.stdout + killed.stderr, \
        f"run: exit {killed.returncode}: {(killed.stdout + killed.stderr)[-500:]}"
    report = run_there("/oomcast", "report")
    assert report.returncode == 0 and "100 MiB" in report.stdout, \
        f"report: exit {report.returncode}: {(report.stdout + report.stderr)[-500:]}"


@case
def it_runs_in_a_root_without_anything_else():
    busybox = pathlib.Path("/bin/busybox")
    if not busybox.exists() or "INTERP" in output_of("readelf", "-lW", busybox):
        raise Skip("busybox-static is not installed")
    # The command that is killed is the only other file.
    in_a_root(lambda root: shutil.copy(busybox, root / "dd"),
              lambda run_there: runs_there(run_there, ("/dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1")))


@case
def it_runs_beside_another_c_library():
    musl = pathlib.Path("/lib/ld-musl-x86_64.so.1")
    if not musl.exists() or not shutil.which("musl-gcc"):
        raise Skip("musl and musl-tools are not installed")

    def fill(root):
        (root / "lib").mkdir()
        shutil.copy(musl.resolve(), root / "lib/ld-musl-x86_64.so.1")
        source = root / "grow.c"
        source.write_text("#include <stdlib.h>\n#include <string.h>\n"
                          "int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }\n")
        output_of("musl-gcc", "-O0", "-o", root / "grow", source)
        assert "INTERP" in output_of("readelf", "-lW", root / "grow"), "it is not musl's own loader that starts it"

    in_a_root(fill, lambda run_there: runs_there(run_there, ("/grow",)))


def main():
    wanted = sys.argv[1:]
    results = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for each in cases:
        if wanted and each.__name__ not in wanted:
            continue
        kind, why = "PASS", ""
        try:
            each()
        except Skip as skip:
            kind, why = "SKIP", str(skip)
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            kind, why = "FAIL", " ".join(str(error).split()) or type(error).__name__
        results[kind] += 1
        print(f"{kind} package/{each.__name__}{': ' + why if why else ''}", flush=True)
    print("END", *results.values())
    return 1 if results["FAIL"] or not results["PASS"] else 0


sys.exit(main())
