"""Files in a directory of another user: root follows none of his links, waits for none of his pipes, and no file of
root's is cut off, written or removed by what he leaves there."""

import os
import sqlite3
import struct
import subprocess
import sys

import lib
import store
from lib import MiB, case

NOBODY = 65534
# Puts a link in the place of a directory, and back, all the time.
SWAP = """
import ctypes, os, sys
os.setgid(65534), os.setuid(65534)
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
while True:
    libc.renameat2(-100, b"d", -100, b"link", 2)
"""


def journal_of(db, names):
    """A rollback journal without pages, which SQLite plays back: it then removes the file that it names."""
    size, page = os.path.getsize(db), struct.unpack(">H", open(db, "rb").read(18)[16:])[0]
    magic, names = bytes([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]), os.fsencode(names)
    head = magic + struct.pack(">IIIII", 0, 0x12345678, size // page, 512, page)
    return (head.ljust(512, b"\0") + struct.pack(">I", 0x40000000 // page + 1) + names
            + struct.pack(">II", len(names), sum(names) & 0xffffffff) + magic)


class Place:
    """A directory of another user's, and a file of root's that nothing in it may lead to."""

    def __init__(self, t):
        self.t = t
        self.folder, secret = t.folder(), t.folder()
        self.precious = secret / "precious"
        self.precious.write_text("as it was")
        os.chown(self.folder, NOBODY, NOBODY)
        os.chmod(self.folder, 0o755)

    def link(self, name, target):
        (self.folder / name).symlink_to(target)
        os.lchown(self.folder / name, NOBODY, NOBODY)

    def check(self, what):
        self.t.check(self.precious.exists() and self.precious.read_text() == "as it was",
                     f"{what}: the file of root's is {self.precious.read_text() if self.precious.exists() else 'gone'!r}")

    def says(self, *words, code=(1, 2), part=""):
        got, out, err = self.t.run_oomcast(*words)
        self.check(words)
        self.t.check(got in code, f"exit code of {words} is {got}")
        self.t.check(part in err, f"{words} says {err!r}, without {part!r}")
        return err


def with_a_kill(t, folder):
    """A store with kills in it, as its owner's."""
    for first in range(0, 10000, 1000):
        store.written_until(t, folder, first, 1)
        if store.listed(t, folder):
            return
    t.premise(False, "no kill was written")


def a_database(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t(a)")
    db.close()


@case(vm="never", limit_s=120, tier="gate")
def a_journal_beside_a_database_removes_nothing(t):
    place = Place(t)
    own = t.folder()
    for folder, refusal in ((place.folder, "belongs to uid 65534"), (own, "oomcast.db-journal is beside it")):
        db = folder / "oomcast.db"
        a_database(db)
        (folder / "oomcast.db-journal").write_bytes(journal_of(db, place.precious))
        if folder == place.folder:
            for part in ("", "-journal"):
                os.chown(f"{db}{part}", NOBODY, NOBODY)
        place.says("trace", "--store", folder, "--for", "1s", code=(0,), part=refusal)
        place.says("run", "--store", folder, "--", "true", code=(0,), part=refusal)
        place.says("history", "--store", folder, code=(0, 1), part="oomcast.db-journal is beside it")
        place.says("report", "--store", folder, part="oomcast.db-journal is beside it")
        place.says("replay", db, part="oomcast.db-journal is beside it")
        place.says("compare", db, db, part="oomcast.db-journal is beside it")
        place.says("record", "-o", db, "--for", "1s", part="exists")
        os.rename(folder / "oomcast.db-journal", folder / "run.db-journal")
        place.says("record", "-o", folder / "run.db", "--for", "1s", part="run.db-journal is beside it")
        t.check(not (folder / "run.db").exists(), "a recording was begun beside a journal")
    # What this would do, so that the case can fail.
    os.rename(own / "run.db-journal", own / "oomcast.db-journal")
    with sqlite3.connect(own / "oomcast.db") as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    db.close()
    t.check(not place.precious.exists(), "the journal has SQLite remove nothing: this shows nothing")


@case(vm="never", limit_s=120, tier="gate")
def a_page_in_another_users_directory_is_written_and_follows_none_of_his_links(t):
    place = Place(t)
    kept = t.folder() / "store"
    with_a_kill(t, kept)
    report = ["report", "--no-kmsg", "--store", kept, "-o"]
    place.link("up", place.precious.parent)
    place.link("page.md", place.precious)
    place.says(*report, place.folder / "up" / "precious", part=f"{place.folder}/up is a link that uid 65534 made")
    place.says(*report, place.folder / "page.md", part="page.md is a link that uid 65534 made")
    place.says("blame", "--for", "1s", "-o", place.folder / "up" / "precious", part="is a link that uid 65534 made")
    place.says("record", "-o", place.folder / "up" / "run.db", "--for", "1s", part="is a link that uid 65534 made")
    t.equal("files beside root's", os.listdir(place.precious.parent), ["precious"])
    # A file of root's with a second name there is not touched by what takes that name.
    os.link(place.precious, place.folder / "name.md")
    place.says(*report, place.folder / "name.md", code=(0,))
    place.says(*report, place.folder / "name.md", code=(0,))
    t.check("OOM" in (place.folder / "name.md").read_text(), "no report was written")
    os.mkfifo(place.folder / "fifo.md")
    os.chown(place.folder / "fifo.md", NOBODY, NOBODY)
    place.says(*report, place.folder / "fifo.md", part="no regular file")
    t.equal("files that were left", [name for name in os.listdir(place.folder) if name.startswith(".")], [])
    place.says("blame", "--for", "1s", "-o", place.folder / "blame.txt", "--pid", os.getpid(), code=(0,))
    t.check((place.folder / "blame.txt").exists(), "blame has written nothing")


@case(vm="never", limit_s=120)
def a_directory_that_is_exchanged_for_a_link_leads_nowhere(t):
    place = Place(t)
    kept = t.folder() / "store"
    with_a_kill(t, kept)
    (place.folder / "d").mkdir()
    os.chown(place.folder / "d", NOBODY, NOBODY)
    place.link("link", place.precious.parent)
    swap = subprocess.Popen([sys.executable, "-c", SWAP, str(place.folder)], stdout=subprocess.PIPE, text=True)
    t.later(swap.kill)
    swap.stdout.readline()
    codes = set()
    for _ in range(30):
        code, _, err = t.run_oomcast("report", "--no-kmsg", "--store", kept, "-o", place.folder / "d" / "precious")
        place.check("report -o")
        t.check(code == 0 or "link" in err or "Not a directory" in err, f"exit code {code}: {err}")
        codes.add(code)
    t.equal("files beside root's", os.listdir(place.precious.parent), ["precious"])


@case(vm="never", limit_s=60, tier="gate")
def a_pipe_of_another_users_is_not_waited_for(t):
    place = Place(t)
    for name in ("log", "oomcast.db", "run.db"):
        os.mkfifo(place.folder / name)
        os.chown(place.folder / name, NOBODY, NOBODY)
    place.says("history", "--from", place.folder / "log", part="no regular file")
    place.says("replay", place.folder / "log", part="no regular file")
    place.says("compare", place.folder / "log", place.folder / "log", part="no regular file")
    place.says("report", "--store", place.folder, part="is no file")
    place.says("report", "--store", place.folder / "run.db", part="is no file")
    place.says("blame", "--diff", place.folder / "log", place.folder / "log", part="no regular file")
    own = t.folder()
    a_database(own / "oomcast.db")
    for part in ("-journal", "-wal", "-shm"):
        os.mkfifo(own / f"oomcast.db{part}")
        place.says("report", "--store", own, part=f"oomcast.db{part}")
        place.says("trace", "--store", own, "--for", "1s", code=(0,), part=f"oomcast.db{part}")
        os.unlink(own / f"oomcast.db{part}")


@case(vm="never", limit_s=60)
def a_recording_in_another_users_directory_is_read_when_it_is_closed(t):
    place = Place(t)
    group = t.cgroup().limit(64 * MiB)
    tracer = t.oomcast("record", "-o", place.folder / "run.db", "--cgroup", group.path, "--json").started()
    t.equal("files meanwhile", sorted(os.listdir(place.folder)), ["run.db", "run.db-wal"])
    tracer.stop()
    t.check_stream(tracer)
    t.equal("files", os.listdir(place.folder), ["run.db"])
    code, _, err = t.run_oomcast("replay", place.folder / "run.db", "--json")
    t.equal(f"exit code of replay, which says {err!r}", code, 0)
