"""Packages of Debian, of this machine's suite and of others."""

import pathlib
import subprocess

UPDATE_S, DOWNLOAD_S = 120, 600  # from a mirror that is slow
FROM_MIRROR = ["-oAcquire::Retries=2", "-oAcquire::http::Timeout=20", "-oAcquire::https::Timeout=20",
               "-oAPT::Update::Error-Mode=any"]  # an index that is missing is an error


class Unavailable(Exception):
    """It cannot be had here; says why."""


class Broken(Exception):
    """This checkout lacks something the tests need, or a command fails that should not; says what."""


def output_of(command, **options):
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    except FileNotFoundError as missing:
        raise Unavailable(f"{missing.filename} not found: run scripts/setup") from None
    except subprocess.TimeoutExpired as late:
        raise Broken(f"{' '.join(words[:3])} …: no end after {late.timeout:.0f} s") from None
    if done.returncode != 0:
        raise Broken(f"{' '.join(words[:3])} …: exit {done.returncode}: " + " ".join(done.stdout.split()[-40:]))
    return done.stdout


class Apt:
    """The machine's own apt, or one with its own lists and sources: the machine's mirror, but other suites."""

    def __init__(self, suite, cache):
        self.suite = suite
        self.options = []
        if suite != "configured":
            self.options = self.private_configuration(suite, cache / "apt" / suite)

    @staticmethod
    def private_configuration(suite, folder):
        wanted_security = suite.endswith("-security")
        targets = output_of(["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"])
        mirrors = [uri for release, _, uri in (line.partition(" ") for line in targets.splitlines())
                   if release.endswith("-security") == wanted_security and "debian" in uri]
        if not mirrors:
            raise Unavailable(f"no configured apt source to look for {suite} in")
        for part in ("lists/partial", "cache/archives/partial", "parts"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        keyring = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        signed = f" signed-by={keyring}" if keyring.exists() else ""
        (folder / "sources.list").write_text(f"deb [arch=amd64{signed}] {mirrors[0]} {suite} main\n")
        return [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache",
                f"-oDir::Etc::sourcelist={folder}/sources.list", f"-oDir::Etc::sourceparts={folder}/parts",
                "-oDir::State::status=/dev/null",  # not what is installed here
                "-oAcquire::Check-Valid-Until=false"]

    def _from_mirror(self, *words, **options):
        try:
            output_of(["apt-get", "-q", *words, *FROM_MIRROR, *self.options], **options)
        except Broken as problem:  # what a mirror has, and whether it answers, is no fault of this checkout
            raise Unavailable(f"{self.suite}: {problem}") from None

    def update(self):
        self._from_mirror("update", timeout=UPDATE_S)

    def download(self, package, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self._from_mirror("download", package, "-oAPT::Sandbox::User=root", cwd=folder, timeout=DOWNLOAD_S)
        found = sorted(folder.glob(f"{package}_*.deb"))
        if not found:
            raise Unavailable(f"{self.suite}: apt-get download left no file of {package}")
        return found[0]
