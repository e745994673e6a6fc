"""What the kernel itself says about OOM kills, read without any of oomcast's code: /dev/kmsg and /proc/vmstat."""

import contextlib
import dataclasses
import os
import re
import select
import threading
import time

KILLED = re.compile(
    rb"Killed process (?P<tid>\d+) \((?P<comm>.*)\) total-vm:(?P<total_vm>\d+)kB, anon-rss:(?P<anon>\d+)kB, "
    rb"file-rss:(?P<file>\d+)kB, shmem-rss:(?P<shmem>\d+)kB, UID:(?P<uid>\d+) pgtables:(?P<pgtables>\d+)kB "
    rb"oom_score_adj:(?P<adj>-?\d+)$", re.DOTALL)
CONSTRAINT = re.compile(
    rb"^oom-kill:constraint=CONSTRAINT_(?P<constraint>\w+),nodemask=.*?,cpuset=.*?,mems_allowed=[^,]*,"
    rb"(?:oom_memcg=(?P<limit>.*?)|(?P<machine>global_oom)),task_memcg=(?P<memcg>.*),task=(?P<comm>.*),"
    rb"pid=(?P<pid>\d+),uid=(?P<uid>\d+)$", re.DOTALL)
INVOKED = re.compile(rb"^(?P<comm>.*) invoked oom-killer: gfp_mask=(?P<gfp>[^,]*\)|\S+), order=(?P<order>-?\d+)", re.DOTALL)
ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


@dataclasses.dataclass
class KillLine:
    """A "Killed process" line. Sizes in bytes; `tid` is the marked thread."""
    tid: int
    comm: bytes
    total_vm_bytes: int
    anon_bytes: int
    file_bytes: int
    shmem_bytes: int
    pgtables_bytes: int
    uid: int
    oom_score_adj: int
    text: str
    time_ns: int  # since boot, as the log has it


@dataclasses.dataclass
class ConstraintLine:
    """An "oom-kill:" line; the kernel prints ten of them in five seconds at the most. `pid` is a process."""
    constraint: str
    limit: str | None
    memcg: str
    comm: bytes
    pid: int


def vmstat_oom_kills():
    with open("/proc/vmstat") as f:
        return next((int(line.split()[1]) for line in f if line.startswith("oom_kill ")), None)


def whole_log_to(path):
    """Writes what the kernel still has of its log, so that a failure can be understood where the machine is gone."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(path, "wb") as out, contextlib.closing(os.fdopen(log, "rb", buffering=0)) as records:
        while record := records.read(16384):
            head, _, text = record.partition(b";")
            out.write(b"[%12.6f] %s\n" % (int(head.split(b",")[2]) / 1e6, text.split(b"\n", 1)[0]))


class KernelLog:
    """Collects the kernel's own records from now on, in a thread."""

    def __init__(self):
        self.kills, self.constraints, self.invoked, self.groups, self.texts = [], [], [], [], []
        self.overrun = 0
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)
        self._lock = threading.Condition(threading.RLock())
        self._drained = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        while True:
            poller.poll(20)
            try:
                record = os.read(self._fd, 16384)
            except BrokenPipeError:
                self.overrun += 1
                continue
            except BlockingIOError:
                with self._lock:
                    self._drained += 1
                    self._lock.notify_all()
                continue
            head, _, rest = record.partition(b";")
            if int(head.split(b",")[0]) >> 3 != 0:  # anyone may write there; the kernel's own facility is 0
                continue
            with self._lock:
                self._take(int(head.split(b",")[2]) * 1000, ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), rest.split(b"\n", 1)[0]))
                self._lock.notify_all()

    def _take(self, time_ns, text):
        if match := KILLED.search(text):
            kb = {name: int(match[name]) << 10 for name in ("total_vm", "anon", "file", "shmem", "pgtables")}
            self.kills.append(KillLine(int(match["tid"]), match["comm"], kb["total_vm"], kb["anon"], kb["file"],
                                       kb["shmem"], kb["pgtables"], int(match["uid"]), int(match["adj"]),
                                       text.decode(errors="backslashreplace"), time_ns))
        elif match := CONSTRAINT.match(text):
            limit = match["limit"]
            self.constraints.append(ConstraintLine(match["constraint"].decode(),
                                                   limit.decode(errors="surrogateescape") if limit else None,
                                                   match["memcg"].decode(errors="surrogateescape"), match["comm"],
                                                   int(match["pid"])))
        elif match := INVOKED.match(text):
            self.invoked.append((match["comm"], match["gfp"].decode(), int(match["order"])))
        elif b"are going to be killed due to memory.oom.group set" in text:
            self.groups.append(text.decode(errors="backslashreplace"))
        else:
            return
        self.texts.append(text.decode(errors="backslashreplace"))

    def sync(self, timeout):
        """Returns when everything that the kernel had said so far was read."""
        with self._lock:
            enough = self._drained + 2
            self._lock.wait_for(lambda: self._drained >= enough, timeout)

    def mark(self):
        with self._lock:
            return {"kills": len(self.kills), "constraints": len(self.constraints), "invoked": len(self.invoked),
                    "groups": len(self.groups)}

    def since(self, mark):
        with self._lock:
            return {name: getattr(self, name)[start:] for name, start in mark.items()}

    def wait_for(self, condition, timeout):
        """True once `condition()` holds; tried again whenever a line came."""
        with self._lock:
            return bool(self._lock.wait_for(condition, timeout))

    def wait_for_kill_of(self, mark, tid, timeout):
        return self.wait_for(lambda: any(k.tid == tid for k in self.kills[mark["kills"]:]), timeout)
