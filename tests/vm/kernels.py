"""Kernels of Debian for emulated machines: their packages, the stand-in for nvidia_uvm, and what they boot into."""

import contextlib
import importlib.util
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from debian import Apt, Broken, Unavailable, output_of  # noqa: E402

MODULES = ["virtio_pci", "virtio_blk", "overlay", "cuse"]
DRIVER_MODULES = ("nvidia_xid.ko", "nvidia_uvm.ko")
PYTHON = pathlib.Path("/usr/bin/python3").resolve()
STDLIB = pathlib.Path("/usr/lib", PYTHON.name)
STDLIB_LEFT_OUT = {"test", "idlelib", "lib2to3", "ensurepip", "turtledemo", "tkinter", "pydoc_data", "distutils",
                   "unittest", "venv", "dbm", "xmlrpc", "wsgiref", "sitecustomize.py"}
TERMINALS = ["x/xterm", "x/xterm-256color", "l/linux", "d/dumb", "v/vt100", "a/ansi"]


# ---- kernel packages ----------------------------------------------------------------------------------------------

def kernels(apt, pattern):
    listed = output_of(["apt-cache", *apt.options, "search", "--names-only", "^linux-image-.*cloud-amd64$"])
    names = [line.split()[0] for line in listed.splitlines() if line]
    return sorted((name for name in names if re.fullmatch(pattern, name)),
                  key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def vouched(row, pattern):
    """Where there are several patterns the last one is the stopgap: nobody vouches for its form of mark_victim."""
    return pattern == row["packages"][0] or pattern != row["packages"][-1]


def on_the_mirror(row, cache, problems):
    """(apt, package, vouched): the newest that matches the first pattern, else the oldest that matches a later one."""
    apts = []
    for suite in row["suites"]:
        try:
            apt = Apt(suite, cache)
            if suite != "configured":
                apt.update()
            elif not kernels(apt, row["packages"][0]):
                try:
                    apt.update()
                except Unavailable as problem:  # of any of its sources; the kernel's may have answered
                    problems.append(str(problem))
            kernels(apt, row["packages"][0])
            apts.append(apt)
        except (Unavailable, Broken) as problem:
            problems.append(f"{suite}: {str(problem).removeprefix(f'{suite}: ')}")
    for pattern in row["packages"]:
        for apt in apts:
            names = kernels(apt, pattern)
            if names:
                return apt, names[-1 if pattern == row["packages"][0] else 0], vouched(row, pattern)
    return None


def of_an_earlier_run(patterns, cache):
    """(package, pattern) of a kernel that is complete in the cache, by the first pattern that has one."""
    for pattern in patterns:
        found = [folder.parent.name for folder in cache.glob("kernels/*/complete")
                 if re.fullmatch(pattern, folder.parent.name)]
        if found:
            return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)]), pattern
    return None


def download(apt, package, cache):
    """The package's file, in a folder of its own."""
    folder = cache / "download"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return apt.download(package, folder)
    except Unavailable:  # the lists may be older than the mirror
        with contextlib.suppress(Unavailable):
            apt.update()
        return apt.download(package, folder)


def unpack_kernel(apt, package, cache):
    folder = cache / "kernels" / package
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    deb = download(apt, package, cache)
    folder.mkdir(parents=True)
    output_of(["dpkg-deb", "-x", deb, folder])
    version = next((folder / "lib/modules").iterdir()).name
    output_of(["/usr/sbin/depmod", "-b", folder, version])
    (folder / "complete").touch()
    return folder


def fetch_kernel(row, cache, newest):
    """The folder with the unpacked kernel package, and whether the list vouches for its mark_victim. Unless the newest
    is asked for, one of the first pattern that an earlier run fetched is taken, and no mirror is asked."""
    problems = []
    known = None if newest else of_an_earlier_run(row["packages"][:1], cache)
    there = None if known else on_the_mirror(row, cache, problems)
    folder = apt = None
    if there:
        apt, package, sure = there
        try:
            folder = unpack_kernel(apt, package, cache)
        except Unavailable as problem:
            problems.append(f"{package}: {problem}")
            apt = None
    if folder is None:
        known = known or of_an_earlier_run(row["packages"], cache)
        if not known:
            raise Unavailable(f"no package {' or '.join(row['packages'])} in {', '.join(row['suites'])}"
                              + "".join(f"; {problem}" for problem in problems))
        folder, sure = cache / "kernels" / known[0], vouched(row, known[1])
    (folder / "no_nvidia_uvm").unlink(missing_ok=True)
    try:
        build_driver(apt, folder, cache)
    except Unavailable as problem:
        for name in DRIVER_MODULES:
            (folder / name).unlink(missing_ok=True)
        (folder / "no_nvidia_uvm").write_text(f"{problem}\n")
    return folder, sure


# ---- the stand-in for nvidia_uvm ----------------------------------------------------------------------------------

def fetch_headers(apt, kernel, cache):
    """Where a module for this kernel is built: the unpacked headers, which know each other by absolute paths."""
    top = kernel / "headers"
    if not (top / "complete").exists():
        if apt is None:
            raise Unavailable("no mirror to take the kernel's headers from")
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        deb = download(apt, kernel.name.replace("linux-image-", "linux-headers-"), cache)
        needed = re.findall(r"linux-headers-\S+-common|linux-kbuild-[\w.+~-]+",
                            output_of(["dpkg-deb", "-f", deb, "Depends"]))
        output_of(["dpkg-deb", "-x", deb, top])
        for package in needed:
            output_of(["dpkg-deb", "-x", download(apt, package, cache), top])
        (top / "complete").touch()
    for makefile in top.glob("usr/src/linux-headers-*/Makefile"):  # each time: the cache may have been moved
        makefile.write_text(re.sub(r"^include /\S*usr/src/", f"include {top}/usr/src/", makefile.read_text(),
                                   flags=re.MULTILINE))
    version = next((kernel / "lib/modules").iterdir()).name
    return top / "usr/src" / f"linux-headers-{version}"


def build_driver(apt, kernel, cache):
    """Makes the modules of tests/vm/driver in the kernel's folder. Unavailable: it cannot be built here."""
    try:
        work = kernel / "driver"
        sources = sorted((HERE / "driver").iterdir())
        if all((work / s.name).exists() and (work / s.name).read_bytes() == s.read_bytes() for s in sources) \
                and all((kernel / name).exists() for name in DRIVER_MODULES):
            return
        headers = fetch_headers(apt, kernel, cache)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(HERE / "driver", work)
        # Without types of its own, as the real driver mostly is; they would take pahole, too.
        output_of(["make", "-C", headers, f"M={work}", "CC=gcc", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
        for name in DRIVER_MODULES:
            shutil.copy2(work / name, kernel / name)
    except (Broken, OSError) as problem:
        raise Unavailable(f"the driver's stand-in cannot be built: {str(problem).replace(str(kernel), '')}") from None


# ---- initramfs ----------------------------------------------------------------------------------------------------

def archive(folder, target):
    """Writes `folder` as an uncompressed cpio archive: unpacking a compressed one is slow in emulation."""
    names = b"\0".join(os.fsencode(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    with open(target, "wb") as out:
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--owner=0:0", "--quiet"], input=names,
                       stdout=out, cwd=folder, check=True)


def libraries_of(*programs):
    found = set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], text=True, capture_output=True).stdout
        if "not found" in listed:
            raise Broken(f"{program} lacks libraries here: {listed}")
        found.update(re.findall(r"(/\S+) \(0x", listed))
    return found


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def copy_python(root):
    """The interpreter and the compiled modules of its library; sources would only take room."""
    shutil.copy2(PYTHON, root / "usr/bin" / PYTHON.name)
    (root / "usr/bin/python3").symlink_to(PYTHON.name)

    def left_out(folder, names):
        return [name for name in names if name in STDLIB_LEFT_OUT or name.startswith("config-")
                or name.endswith(".pyc") and re.search(r"\.opt-\d\.pyc$", name)]
    shutil.copytree(STDLIB, root / "usr/lib" / PYTHON.name, symlinks=False, ignore_dangling_symlinks=True,
                    ignore=left_out)
    for source in (root / "usr/lib" / PYTHON.name).rglob("*.py"):
        compiled = pathlib.Path(importlib.util.cache_from_source(str(source)))
        if compiled.exists():
            compiled.rename(source.with_suffix(".pyc"))
            source.unlink()


def copy_workloads(workloads, target):
    for path in sorted(workloads.iterdir()) if workloads.is_dir() else []:
        if path.is_file() and (os.access(path, os.X_OK) or path.suffix in (".so", ".py")):
            shutil.copy2(path, target / path.name)


def build_userland(cache, oomcast, workloads):
    for tool in ("cpio", "ldd", "strip", "busybox", "dpkg-deb"):
        if not shutil.which(tool):
            raise Unavailable(f"{tool} not found: run scripts/setup")
    if "dynamically" in subprocess.run(["ldd", "/bin/busybox"], text=True, capture_output=True).stdout:
        raise Unavailable("/bin/busybox is not the static one: install busybox-static")
    for path in (PYTHON, STDLIB / "os.py"):
        if not path.exists():
            raise Unavailable(f"no {path}: run scripts/setup")

    root = cache / "userland"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("usr/bin", "usr/sbin", "usr/lib64", "usr/lib/x86_64-linux-gnu", "dev", "proc", "sys", "run", "tmp",
                   "root", "etc", "var/tmp", "var/lib", "tests/workloads", "modules"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")

    shutil.copy2("/bin/busybox", root / "usr/bin/busybox")
    copy_python(root)
    output_of(["strip", "--strip-debug", "-o", root / "usr/bin/oomcast", oomcast])  # a tenth is left
    runc = shutil.which("runc")
    if runc:
        shutil.copy2(runc, root / "usr/sbin/runc")
    for name in TERMINALS:
        for base in ("lib/terminfo", "usr/share/terminfo"):
            if pathlib.Path("/", base, name).exists():
                (root / base / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(pathlib.Path("/", base, name), root / base / name)
                break

    shutil.copytree(REPOSITORY / "tests/e2e", root / "tests/e2e", ignore=shutil.ignore_patterns("__pycache__"))
    output_of([PYTHON, "-m", "compileall", "-q", "-d", "/tests/e2e", root / "tests/e2e"])
    shutil.copytree(HERE / "guest", root / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "guest/init").rename(root / "init")
    (root / "init").chmod(0o755)
    copy_workloads(workloads, root / "tests/workloads")

    programs = [path for path in [*(root / "tests/workloads").iterdir(),
                                  *(root / "usr/lib" / PYTHON.name / "lib-dynload").iterdir(),
                                  oomcast, PYTHON, *([pathlib.Path(runc)] if runc else [])]
                if path.is_file() and is_elf(path)]
    for library in libraries_of(*programs):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(library, target)
    archive(root, cache / "userland.cpio")


def build_initramfs(kernel, cache):
    """The userland with this kernel's modules appended. Returns (kernel image, initramfs)."""
    version = next((kernel / "lib/modules").iterdir()).name
    base = kernel / "lib/modules" / version
    dependencies = dict(line.split(":", 1) for line in (base / "modules.dep").read_text().splitlines())
    built_in = (base / "modules.builtin").read_text()
    order = []
    for name in MODULES:
        path = next((p for p in dependencies if re.fullmatch(rf".*/{name}\.ko(\.xz)?", p)), None)
        if path is None and f"/{name}.ko" not in built_in:
            raise Broken(f"{kernel.name} has no module {name}")
        if path:
            order += [p for p in [*reversed(dependencies[path].split()), path] if p not in order]
    root = cache / "modules" / version
    shutil.rmtree(root, ignore_errors=True)
    (root / "modules").mkdir(parents=True)
    names = []
    for path in order:
        content = (base / path).read_bytes()
        names.append(pathlib.Path(path).name.removesuffix(".xz"))
        (root / "modules" / names[-1]).write_bytes(lzma.decompress(content) if path.endswith(".xz") else content)
    (root / "modules/order").write_text("\n".join(names) + "\n")
    for name in (*DRIVER_MODULES, "no_nvidia_uvm"):  # for the cases that want it
        if (kernel / name).exists():
            shutil.copy2(kernel / name, root / "modules" / name)
    archive(root, cache / f"modules-{version}.cpio")
    initramfs = cache / f"initramfs-{version}.cpio"
    with open(initramfs, "wb") as out:
        for part in (cache / "userland.cpio", cache / f"modules-{version}.cpio"):
            with open(part, "rb") as f:
                shutil.copyfileobj(f, out)
            out.write(b"\0" * (-out.tell() % 4096))
    return kernel / f"boot/vmlinuz-{version}", initramfs
