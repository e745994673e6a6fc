#!/usr/bin/env python3
"""Tests of tests/vm/hang.py. The consoles are of machines that were made to hang in the ways that are told apart.

Prints `PASS|FAIL vm_hang.NAME` and at the end `END passed failed skipped`; exit code 1 if anything failed."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

from hang import ALIVE_S, ASKED, PROGRESS_S, judge_log, verdict_of_hang  # noqa: E402

UP = ["VM-BEGIN v2 6.1.0-56-cloud-amd64 up 3.14", "PASS premise_kprobes_fire", "VM-TESTS up 3.88"]
ASKED_NOW = f"\n{ASKED} no sign of life for 120 s\n"

SOFT_LOCKUP = """\
[   28.696816] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [insmod:113]
"""
RCU_STALL = """\
[   25.932757] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
"""
ANSWER = """\
[   46.311274] sysrq: Changing Loglevel
[   46.311474] sysrq: Loglevel set to 7
[   48.507383] sysrq: Show backtrace of all active CPUs
[   48.507791] NMI backtrace for cpu 0
[   48.507897] CPU: 0 PID: 113 Comm: insmod Tainted: G           OEL     6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2
[   48.511496] Call Trace:
[   48.516222]  asm_common_interrupt+0x22/0x40
[   48.516507] RIP: 0010:begin+0x21/0x1000 [spin]
[   50.707128] sysrq: Show Blocked State
"""
IDLE_ANSWER = """\
[   55.796826] sysrq: Changing Loglevel
[   57.998074] sysrq: Show backtrace of all active CPUs
[   57.998442] NMI backtrace for cpu 0
[   57.998624] CPU: 0 PID: 0 Comm: swapper/0 Not tainted 6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2
[   58.003083] RIP: 0010:native_safe_halt+0xb/0x10
[   60.200804] sysrq: Show Blocked State
"""
OOMCAST_WAITS = """\
[   59.953280] task:oomcast         state:D stack:0     pid:113   ppid:1      flags:0x00000002
[   59.953576] Call Trace:
[   59.953855]  schedule+0x5a/0xd0
[   59.955204]  kernel_clone+0x2bb/0x430
[   59.955451]  __do_sys_vfork+0x44/0x70
"""
KERNEL_THREAD_WAITS = """\
[   59.953280] task:kworker/0:1     state:D stack:0     pid:13    ppid:2      flags:0x00004000
[   59.953855]  schedule+0x5a/0xd0
"""
NMI_IN_OOMCAST = """\
[   52.825709] Uhhuh. NMI received for unknown reason 21 on CPU 0.
[   52.827246] Kernel panic - not syncing: NMI: Not continuing
[   52.827424] CPU: 0 PID: 113 Comm: oomcast Tainted: G           OE      6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2
[   52.833366] RIP: 0010:begin+0x16/0x1000 [spin]
"""
NMI_ELSEWHERE = NMI_IN_OOMCAST.replace("Comm: oomcast", "Comm: insmod")
NMI_IN_A_PROGRAM = NMI_ELSEWHERE + "[   52.843466]  bpf_prog_6deef7357e7b4530_on_mark_victim+0x24/0x1f8\n"
# Not provoked: as Linux 6.1 and 6.12 print it.
INT3 = """\
[   18.302911] int3: 0000 [#1] PREEMPT SMP NOPTI
[   18.303114] CPU: 0 PID: 141 Comm: oomcast Not tainted 6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2
[   18.304802] Kernel panic - not syncing: Fatal exception
"""
NEWER_INT3 = INT3.replace("int3: 0000", "Oops: int3: 0000")
PANIC = """\
[    4.925657] sysrq: Trigger a crash
[    4.926604] Kernel panic - not syncing: sysrq triggered crash
"""
DEADLOCKED = """\
[    9.519101] Out of memory: Killed process 107 (dd) total-vm:4480kB, anon-rss:1024kB, file-rss:0kB, shmem-rss:0kB
[    9.519548] Kernel panic - not syncing: System is deadlocked on memory
"""


class Hangs(unittest.TestCase):
    def told(self, kind, why, console, results=UP, **options):
        self.assertEqual(verdict_of_hang(console, list(results), **options), (kind, why))

    # -- the emulator's own

    def test_a_soft_lockup_without_oomcast(self):
        self.told("FLAKY", "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [insmod:113]",
                  SOFT_LOCKUP + ASKED_NOW + ANSWER)

    def test_an_rcu_stall_without_oomcast(self):
        self.told("FLAKY", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", RCU_STALL + ASKED_NOW + ANSWER)

    def test_a_thread_of_the_kernel_may_wait_in_one(self):
        self.told("FLAKY", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
                  RCU_STALL + ASKED_NOW + ANSWER + KERNEL_THREAD_WAITS)

    def test_no_answer_but_to_an_nmi(self):
        self.told("FLAKY", "its kernel does not answer, and is not at work for oomcast", ASKED_NOW + NMI_ELSEWHERE)

    def test_no_answer_at_all(self):
        self.told("FLAKY", "its kernel does not answer, and is not at work for oomcast", ASKED_NOW)

    def test_a_breakpoint_of_patched_code_whoever_ran_it(self):
        self.told("FLAKY", "int3: 0000 [#1] PREEMPT SMP NOPTI", INT3, qemu_exit=0)
        self.told("FLAKY", "Oops: int3: 0000 [#1] PREEMPT SMP NOPTI", NEWER_INT3, qemu_exit=0)

    def test_it_never_came_up(self):
        self.told("FLAKY", "it does not come up", ASKED_NOW, [])

    def test_qemu_died(self):
        self.told("FLAKY", "QEMU died, exit -9", "", qemu_exit=-9)

    # -- ours, or the kernel's

    def test_a_soft_lockup_in_oomcast(self):
        console = SOFT_LOCKUP.replace("insmod", "oomcast")
        self.told("FAIL", "oomcast is at work: watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [oomcast:113]",
                  console + ASKED_NOW + ANSWER)

    def test_a_soft_lockup_that_oomcast_waits_for(self):
        self.told("FAIL", "oomcast waits in the kernel", SOFT_LOCKUP + ASKED_NOW + ANSWER + OOMCAST_WAITS)

    def test_a_soft_lockup_that_was_over_before(self):
        self.told("FAIL", "its kernel answers, the tests do not go on after: PASS premise_kprobes_fire",
                  SOFT_LOCKUP + ASKED_NOW + IDLE_ANSWER)

    def test_no_answer_with_oomcast_in_the_kernel(self):
        kind, why = verdict_of_hang(ASKED_NOW + NMI_IN_OOMCAST, UP)
        self.assertEqual((kind, why[:56]), ("FAIL", "oomcast is at work: CPU: 0 PID: 113 Comm: oomcast Tainte"))

    def test_no_answer_with_a_program_of_oomcast_running(self):
        self.told("FAIL", "oomcast is at work: bpf_prog_6deef7357e7b4530_on_mark_victim+0x24/0x1f8",
                  ASKED_NOW + NMI_IN_A_PROGRAM)

    def test_the_tests_stand_still(self):
        self.told("FAIL", "its kernel answers, the tests do not go on after: PASS kills.a",
                  ASKED_NOW + IDLE_ANSWER, [*UP, "PASS kills.a"])

    def test_oomcast_waits(self):
        self.told("FAIL", "oomcast waits in the kernel", ASKED_NOW + IDLE_ANSWER + OOMCAST_WAITS)

    def test_a_panic(self):
        self.told("FAIL", "Kernel panic - not syncing: sysrq triggered crash", PANIC, qemu_exit=0)

    def test_deadlocked_on_memory(self):
        self.told("FAIL", "Kernel panic - not syncing: System is deadlocked on memory", DEADLOCKED, qemu_exit=0)

    def test_a_bug_before_a_lockup(self):
        self.told("FAIL", "BUG: unable to handle page fault for address: ff00",
                  "[    3.1] BUG: unable to handle page fault for address: ff00\n" + SOFT_LOCKUP + ASKED_NOW)

    def test_a_case_had_failed(self):
        self.told("FAIL", "after FAIL kills.a: takes longer than 240 s", SOFT_LOCKUP + ASKED_NOW + ANSWER,
                  [*UP, "FAIL kills.a: takes longer than 240 s"])

    def test_it_stopped_without_a_word(self):
        self.told("FAIL", "the machine stopped without an end and without a word", "", qemu_exit=0)

    # -- limits

    def test_a_case_may_take_its_time(self):
        e2e = HERE.parent / "e2e"
        slow = int(re.search(r"^SLOW = (\d+) ", (e2e / "lib.py").read_text(), re.MULTILINE)[1])
        limits = [int(limit) for file in e2e.glob("*.py")
                  for arguments in re.findall(r"@case\(([^)]*)\)", file.read_text()) if 'vm="never"' not in arguments
                  for limit in re.findall(r"limit_s=(\d+)", arguments)]
        self.assertTrue(limits)
        self.assertGreater(PROGRESS_S, max(limits) * slow + ALIVE_S)


class Warnings(unittest.TestCase):
    def test_what_a_slow_emulator_does(self):
        lines = ["[ 21.0] rcu: INFO: rcu_preempt self-detected stall on CPU",
                 "[240.1] INFO: task jbd2/vda-8:77 blocked for more than 120 seconds.",
                 "[ 28.6] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [python3:113]",
                 "[  9.0] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because",
                 "[  9.1] sched_clock: Marking unstable (9000, 12)<-(9012, 0)",
                 "[  9.2] tsc: Marking TSC unstable due to clocksource watchdog"]
        bad, allowed = judge_log(lines)
        self.assertIsNone(bad)
        self.assertEqual([line for line, _ in allowed], lines)

    def test_what_it_does_not(self):
        for line in ("[  9.0] WARNING: CPU: 0 PID: 113 at kernel/trace/bpf_trace.c:2411 bpf_trace_run3+0x11/0x20",
                     "[  9.0] BUG: sleeping function called from invalid context at mm/slab.h:420",
                     "[240.1] INFO: task oomcast:113 blocked for more than 120 seconds.",
                     "[ 28.6] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [oomcast:113]"):
            self.assertEqual(judge_log(["[ 21.0] rcu: INFO: rcu_sched self-detected stall on CPU", line])[0], line)


class Lines(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0

    def addSuccess(self, test):
        self.passed += 1
        print(f"PASS vm_hang.{test._testMethodName.removeprefix('test_')}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        print(f"FAIL vm_hang.{test._testMethodName.removeprefix('test_')}: {' | '.join(str(error[1]).split(chr(10)))}")

    def addError(self, test, error):
        self.addFailure(test, error)


def main():
    lines = Lines()
    unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]).run(lines)
    print(f"END {lines.passed} {len(lines.failures)} 0")
    return 1 if lines.failures or not lines.passed else 0


if __name__ == "__main__":
    sys.exit(main())
