"""What the kernel log of an emulated machine tells: whether a guest without an end hung by the emulator or by us, and
which of its warnings a slow emulator gives by itself. Text in, verdict out."""

import re

ALIVE_S = 120      # a guest says each second of its clock that it lives
PROGRESS_S = 1100  # longer than any case may take; hang_test.py sees to that
ASKED = "== asked where it stands =="  # in a console: what follows is the answer to sysrq keys, or to an NMI

# It ran a breakpoint of code that is being patched, and found out too late whose.
OF_PATCHING = re.compile(r"\bint3: 0000 \[#\d+\]")
# What a kernel says when it dies.
DIES = re.compile(OF_PATCHING.pattern + r"|Kernel panic|System is deadlocked on memory|\bOops\b|"
                  r"general protection|\bWARNING: |\bBUG: (?!soft lockup|workqueue lockup)")
STALLS = re.compile(r"(?:watchdog: )?BUG: soft lockup|BUG: workqueue lockup|rcu: INFO: rcu_\w+ .*(?:detected|stall)|"
                    r"rcu_\w+ kthread starved")
# oomcast, or a program that it loaded: nobody else loads one in these machines.
OURS = re.compile(r"\bComm: oomcast\b|\[oomcast:\d+\]|\bbpf_prog_[0-9a-f]{16}|\bbpf_trampoline_|\btrace_call_bpf\b|"
                  r"\bbpf_trace_run\d")
WAITS = re.compile(r"task:(.+?)\s+state:D\b.*?ppid:\s*(\d+)")  # threads of the kernel are children of 0 and 2
ANSWERS = re.compile(r"sysrq: (?:Show|Changing)")
IDLE = re.compile(r"NMI backtrace for cpu \d+ skipped: idling|\bComm: swapper/")

# What a slow emulator's kernel says by itself, and why that is no fault of a program in it.
FROM_THE_EMULATOR = [
    (re.compile(r"rcu: INFO: rcu_\w+ |rcu: .*(?:kthread|RCU grace-period)|rcu_\w+ kthread|"
                r"WARNING: .* at kernel/rcu/tree_stall\.h"),
     "a grace period waits for a CPU that the host does not run"),
    (re.compile(r"INFO: task (?!oomcast)\S+ blocked for more than \d+ seconds"),
     "what it waits for is as slow as everything else"),
    (re.compile(r"BUG: soft lockup - CPU#\d+ stuck for \d+s! \[(?!oomcast)"),
     "the guest's clock goes on while the host does not run it"),
    (re.compile(r"clocksource: |WARNING: .* at kernel/time/clocksource\.c"),
     "a timer that comes late makes two clocks differ"),
    (re.compile(r"sched_clock: Marking unstable|Marking TSC unstable|sched: .*clock.* unstable"),
     "an emulated TSC is not a steady clock"),
]


def first_line(pattern, text):
    found = pattern.search(text)
    if not found:
        return None
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    return re.sub(r"^\[ *\d+\.\d+\] ", "", text[start:len(text) if end < 0 else end].strip()).strip()


def verdict_of_hang(console, results, qemu_exit=None):
    """("FLAKY", why): the emulator's own, boot it once more; ("FAIL", why): oomcast, a case or the kernel is at fault.
    `results`: the lines of its results port. `qemu_exit`: how QEMU ended by itself; None: it was ended."""
    itself, _, answer = console.partition(ASKED)
    failed = next((line for line in results if line.startswith("FAIL ")), None)
    if failed:
        return "FAIL", f"after {failed}"
    dies = first_line(DIES, itself)
    if dies:
        return ("FLAKY" if OF_PATCHING.search(dies) else "FAIL"), dies
    if qemu_exit:
        return "FLAKY", f"QEMU died, exit {qemu_exit}"
    if qemu_exit == 0:
        return "FAIL", "the machine stopped without an end and without a word"
    stall = STALLS.search(itself)
    ours = first_line(OURS, (itself[stall.start():] if stall else "") + answer)
    if ours:
        return "FAIL", f"oomcast is at work: {ours}"
    waiting = next((name for name, parent in WAITS.findall(answer) if int(parent) not in (0, 2)), None)
    if waiting:
        return "FAIL", f"{waiting} waits in the kernel"
    if not any(line.startswith("VM-BEGIN ") for line in results):
        return "FLAKY", "it does not come up"
    if not ANSWERS.search(answer):
        return "FLAKY", "its kernel does not answer, and is not at work for oomcast"
    if stall and not IDLE.search(answer):
        return "FLAKY", first_line(STALLS, itself)
    last = next((line for line in reversed(results) if line.startswith(("PASS ", "SKIP "))), "the machine came up")
    return "FAIL", f"its kernel answers, the tests do not go on after: {last}"


def judge_log(lines):
    """What a kernel log has of warnings: (the first that is not the emulator's own or None, [(line, why allowed)])."""
    bad, allowed = None, []
    for line in lines:
        why = next((why for pattern, why in FROM_THE_EMULATOR if pattern.search(line)), None)
        if why:
            allowed.append((line, why))
        elif bad is None:
            bad = line
    return bad, allowed
