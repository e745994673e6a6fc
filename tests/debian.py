"""Packages of Debian, of this machine's suite and of others."""

import pathlib
import subprocess


class Unavailable(Exception):
    """It cannot be had here; says why."""


class Broken(Exception):
    """This machine or checkout lacks something the tests need; says what."""


def output_of(command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise Broken(f"{' '.join(str(word) for word in command[:3])} …: exit {done.returncode}: "
                     + " ".join(done.stdout.split()[-40:]))
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

    def update(self):
        output_of(["apt-get", "-q", "-oAcquire::Retries=3", *self.options, "update"])

    def download(self, package, folder):
        folder.mkdir(parents=True, exist_ok=True)
        output_of(["apt-get", "-q", "-oAcquire::Retries=3", "-oAPT::Sandbox::User=root", *self.options, "download",
                   package], cwd=folder)
        return next(folder.glob(f"{package}_*.deb"))
