#!/usr/bin/env python3
"""Writes VERSION-SCENARIO.log and, beside each, the facts in it as .json, from one description of what happened.

The lines are those of dump_header(), mem_cgroup_print_oom_info(), show_mem(), dump_tasks() and oom_kill_process() of
each kernel. The facts come from the description, never from a parser.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = ["3.10", "3.10-el7", "4.4", "4.9", "4.14", "4.19", "5.0", "5.4", "5.10", "5.15", "6.1", "6.6", "6.12",
            "6.18"]
NO_LIMIT = 9007199254740988


def number(version):
    return tuple(int(part) for part in version.split("-")[0].split("."))


def task(pid, comm, rss, vm, *, tgid=None, file=500, shmem=0, uid=0, adj=0, swap=0, tables=40):
    """Pages, `rss` anonymous; page tables in pages."""
    return {"pid": pid, "tgid": tgid or pid, "comm": comm, "anon": rss, "file": file, "shmem": shmem, "vm": vm,
            "uid": uid, "adj": adj, "swap": swap, "tables": tables}


class Writer:
    def __init__(self, version):
        self.version = version
        self.at = number(version)
        self.lines = []
        self.facts = {}

    def add(self, text):
        self.lines.append(text)

    def invoked(self, trigger, gfp, order):
        mask, names = gfp
        text = f"{trigger['comm']} invoked oom-killer: gfp_mask={mask:#x}"
        if self.at >= (4, 6):
            text += f"({names})"
        if (4, 9) <= self.at < (5, 0):
            text += ", nodemask=(null), " if self.at >= (4, 11) else ", nodemask=0"
            text += "" if self.at < (4, 11) else ""
        self.add(f"{text}, order={order}, oom_score_adj={trigger['adj']}".replace("(null), ,", "(null), "))
        if self.at < (5, 0):
            self.add(f"{trigger['comm']} cpuset=/ mems_allowed=0-1")
            self.facts.update(cpuset="/", mems_allowed="0-1")
        uid = " UID: 0" if self.at >= (6, 12) else ""
        self.add(f"CPU: 1{uid} PID: {trigger['pid']} Comm: {trigger['comm']} Not tainted {self.version}.0 #1")
        self.add("Hardware name: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.16.2 04/01/2014")
        self.add("Call Trace:")
        old = [" [<ffffffff81636431>] dump_stack+0x19/0x1b", " [<ffffffff8116d26e>] oom_kill_process+0x24e/0x3b0"]
        new = [" <TASK>", " dump_stack_lvl+0x5d/0x80", " dump_header+0x44/0x18f", " oom_kill_process.cold+0x8/0x87",
               " </TASK>"]
        for line in old if self.at < (4, 10) else new:
            self.add(line)
        self.facts.update(trigger=trigger["comm"], trigger_tid=trigger["pid"], order=order, gfp_mask=mask)

    def memcg(self, limit_cgroup, task_cgroup, usage, limit, v2, stats):
        if self.at < (5, 0):
            self.add(f"Task in {task_cgroup} killed as a result of limit of {limit_cgroup}")
            self.facts.update(task_cgroup=task_cgroup)
        self.add(f"memory: usage {usage}kB, limit {limit}kB, failcnt 125")
        if v2:
            self.add(f"swap: usage 0kB, limit {NO_LIMIT}kB, failcnt 0")
        else:
            self.add(f"memory+swap: usage {usage}kB, limit {NO_LIMIT}kB, failcnt 0")
            self.add(f"kmem: usage 260kB, limit {NO_LIMIT}kB, failcnt 0")
        if self.at < (5, 3):
            words = " ".join(f"{key}:{value // 1024}KB" for key, value in stats)
            self.add(f"Memory cgroup stats for {limit_cgroup}: {words}")
        else:
            self.add(f"Memory cgroup stats for {limit_cgroup}:")
            for key, value in stats:
                self.add(f"{key} {value}")
        self.facts.update(usage=usage * 1024, limit=limit * 1024, stats=dict(stats))

    def machine(self, zones, counts, swap, ram, slabs):
        self.add("Mem-Info:")
        if self.at < (4, 0):
            self.add("Node 0 DMA per-cpu:")
            self.add("CPU    0: hi:    0, btch:   1 usd:   0")
        keys = list(counts)
        for begin in range(0, len(keys), 3):
            self.add((" " if begin else "") + " ".join(f"{key}:{counts[key]}" for key in keys[begin:begin + 3]))
        if self.at >= (4, 8):
            self.add("Node 0 active_anon:8048kB inactive_anon:61709644kB shmem:8856kB shmem_thp: 0kB "
                     "writeback_tmp:0kB kernel_stack:9376kB pagetables:138204kB all_unreclaimable? no")
        for (node, name), z in zones.items():
            boost = f" boost:{0}kB" if self.at >= (5, 14) else ""
            reserved = " reserved_highatomic:2048KB" if self.at >= (5, 9) else ""
            tail = " pages_scanned:0 all_unreclaimable? yes" if self.at < (4, 8) else " free_pcp:0kB local_pcp:0kB"
            self.add(f"Node {node} {name} free:{z['free']}kB{boost} min:{z['min']}kB low:{z['low']}kB "
                     f"high:{z['high']}kB{reserved} active_anon:8048kB inactive_anon:58987228kB active_file:620kB "
                     f"present:{z['managed'] + 1024}kB managed:{z['managed']}kB mlocked:0kB{tail}")
            self.add("lowmem_reserve[]: 0 2901 63847 63847")
        for (node, name), z in zones.items():
            words = " ".join(f"{count}*{4 << order}kB" + (" (UM)" if count else "")
                             for order, count in enumerate(z["blocks"]))
            self.add(f"Node {node} {name}: {words} = {z['free']}kB")
        self.add("Node 0 hugepages_total=0 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB")
        self.add("2711 total pagecache pages")
        self.add("0 pages in swap cache")
        if self.at < (6, 6):
            self.add("Swap cache stats: add 0, delete 0, find 0/0")
        self.add(f"Free swap  = {swap[0]}kB")
        self.add(f"Total swap = {swap[1]}kB")
        self.add(f"{ram[0]} pages RAM")
        self.add("0 pages HighMem/MovableOnly")
        self.add(f"{ram[1]} pages reserved")
        if slabs and self.at >= (4, 15):
            self.add("Unreclaimable slab info:")
            self.add("Name                      Used          Total")
            for name, used, total in slabs:
                self.add(f"{name:<17} {used:10}KB {total:10}KB")
            self.facts.update(slabs=[[name, used * 1024, total * 1024] for name, used, total in slabs])
        self.facts.update(zones={f"{node}/{name}": [z[key] * 1024 for key in ("free", "min", "low", "high")]
                                 for (node, name), z in zones.items()},
                          blocks={f"{node}/{name}": z["blocks"] for (node, name), z in zones.items()},
                          pages=counts, swap=[value * 1024 for value in swap], ram=ram)

    def table(self, tasks):
        if self.at >= (4, 19):
            self.add("Tasks state (memory values in pages):")
        columns = ["uid", "tgid", "total_vm", "rss"]
        if self.at >= (6, 9):
            columns += ["rss_anon", "rss_file", "rss_shmem"]
        if self.at >= (4, 15):
            columns += ["pgtables_bytes"]
        else:
            columns += ["nr_ptes"] + ["nr_pmds"] * (self.at >= (4, 1)) + ["nr_puds"] * (self.at >= (4, 14))
        head = "[  pid  ]" if self.at >= (4, 19) else "[ pid ]"
        self.add(head + "   uid  tgid total_vm      rss " + " ".join(columns[4:]) + " swapents oom_score_adj name")
        rows = []
        for t in tasks:
            rss = t["anon"] + t["file"] + t["shmem"]
            cells = f"{t['uid']:5d} {t['tgid']:5d} {t['vm']:8d} {rss:8d}"
            if self.at >= (6, 9):
                cells += f" {t['anon']:8d} {t['file']:8d} {t['shmem']:9d}"
            if self.at >= (4, 15):
                cells += f" {t['tables'] * 4096:8d}"
            else:
                cells += f" {t['tables']:7d}" + (f" {3:7d}" if self.at >= (4, 1) else "")
                cells += f" {1:7d}" if self.at >= (4, 14) else ""
            pid = f"[{t['pid']:7d}]" if self.at >= (4, 19) else f"[{t['pid']:5d}]"
            self.add(f"{pid} {cells} {t['swap']:8d}         {t['adj']:5d} {t['comm']}")
            rows.append([t["pid"], t["tgid"], t["uid"], t["vm"], rss, t["swap"], t["adj"], t["comm"]])
        self.facts.update(tasks=rows)

    def decision(self, constraint, victim, limit_cgroup, task_cgroup):
        if self.at < (5, 0):
            return
        word = "CONSTRAINT_NONE" if self.at < (5, 1) and constraint == "CONSTRAINT_MEMCG" else constraint
        whose = f"oom_memcg={limit_cgroup}" if limit_cgroup else "global_oom"
        self.add(f"oom-kill:constraint={word},nodemask=(null),cpuset=/,mems_allowed=0-1,{whose},"
                 f"task_memcg={task_cgroup},task={victim['comm']},pid={victim['tgid']},uid={victim['uid']}")
        self.facts.update(task_cgroup=task_cgroup)

    def kill(self, word, victims, group=None):
        first = victims[0]
        if self.at < (5, 1):
            self.add(f"{word}: Kill process {first['pid']} ({first['comm']}) score 998 or sacrifice child")
        facts = []
        repeated = [first] + victims if group else victims
        for index, v in enumerate(repeated):
            anon, file, shmem, vm = (v[key] * 4 for key in ("anon", "file", "shmem", "vm"))
            el7 = "el7" in self.version
            name = f"{v['pid']} ({v['comm']})" + (f", UID {v['uid']}," if el7 else "")
            prefix = f"{word}: " if self.at >= (5, 1) else ""
            text = f"{prefix}Killed process {name} total-vm:{vm}kB, anon-rss:{anon}kB, "
            fact = {"tid": v["pid"], "comm": v["comm"], "vm": vm * 1024, "anon": anon * 1024}
            if self.at < (4, 5) and not el7:
                text += f"file-rss:{file + shmem}kB"
                fact["file"] = (file + shmem) * 1024
            else:
                text += f"file-rss:{file}kB, shmem-rss:{shmem}kB"
                fact.update(file=file * 1024, shmem=shmem * 1024)
            if el7:
                fact["uid"] = v["uid"]
            if self.at >= (5, 4):
                text += f", UID:{v['uid']} pgtables:{v['tables'] * 4}kB oom_score_adj:{v['adj']}"
                fact.update(uid=v["uid"], pgtables=v["tables"] * 4096, adj=v["adj"])
            self.add(text)
            if fact not in facts:
                facts.append(fact)
            if group and index == 0:
                self.add(f"Tasks in {group} are going to be killed due to memory.oom.group set")
                self.facts.update(group=group)
        for v in victims:
            if self.at >= (4, 6):
                self.add(f"oom_reaper: reaped process {v['pid']} ({v['comm']}), now anon-rss:0kB, file-rss:0kB, "
                         "shmem-rss:0kB")
        self.facts.update(victims=facts)

    def save(self, scenario, form):
        log = HERE / f"{self.version}-{scenario}.log"
        text = "".join(form(index, line) + "\n" for index, line in enumerate(self.lines))
        log.write_text(text)
        log.with_suffix(".json").write_text(json.dumps([self.facts], indent=1) + "\n")


def dmesg(index, line):
    return f"[{8123.5 + index / 1e5:12.6f}] {line}"


def with_caller(index, line):
    return f"[{8123.5 + index / 1e5:12.6f}][ T4515] {line}"


def raw(index, line):
    return f"<6>[{8123.5 + index / 1e5:12.6f}] {line}"


def human(index, line):
    return f"[Sat Nov 21 02:03:{4 + index // 60:02d} 2026] {line}"


def iso(index, line):
    return f"2026-11-21T02:03:04,{100000 + index}+00:00 {line}"


def rfc3339(index, line):
    return f"2026-11-21T02:03:04.{100000 + index}+00:00 node kernel: [{8123.5 + index / 1e5:12.6f}] {line}"


FORMS = [dmesg, raw, human, dmesg, iso, with_caller, rfc3339]
STATS = [("cache", 135168), ("rss", 52027392), ("mapped_file", 0), ("pgfault", 1024 * 15)]
STATS_V2 = [("anon", 535658496), ("file", 4096), ("kernel", 7340032), ("shmem", 0), ("pgfault", 153600)]
ZONES = {(0, "DMA"): {"free": 13312, "min": 16, "low": 28, "high": 40, "managed": 15360,
                      "blocks": [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2]},
         (0, "DMA32"): {"free": 245244, "min": 3076, "low": 6044, "high": 9012, "managed": 3063232,
                        "blocks": [63, 52, 40, 21, 17, 12, 8, 6, 4, 1, 56]},
         (1, "Normal"): {"free": 61740, "min": 64480, "low": 126888, "high": 189296, "managed": 62415212,
                         "blocks": [411, 280, 120, 60, 30, 21, 15, 9, 12, 6, 4]}}
COUNTS = {"active_anon": 2012, "inactive_anon": 15427411, "isolated_anon": 0, "active_file": 118,
          "inactive_file": 231, "isolated_file": 0, "slab_reclaimable": 21514, "slab_unreclaimable": 1838611,
          "shmem": 2214, "free": 81204, "free_cma": 0}
SLABS = [("RAWv6", 1024, 1088), ("kmalloc-rnd-04-1k", 7015424, 7015456), ("task_struct", 9376, 9900)]
USER = (0xcc0, "GFP_KERNEL")
MOVABLE = (0x140cca, "GFP_HIGHUSER_MOVABLE|__GFP_COMP")


def main():
    trainer = task(2809156, "python3", 13316915, 13579059, uid=1001, tables=26113)
    small = task(612, "systemd-journal", 200, 72389, adj=-250)
    for index, version in enumerate(VERSIONS):
        form = FORMS[index % len(FORMS)]
        v2 = number(version) >= (5, 10)
        leaker = task(4517, "leaker", 12672, 15192, tgid=4515, file=618, shmem=7, uid=1000, tables=39, swap=12)
        other = task(4600, "a b)c (d", 100, 3236, uid=1000, adj=300)

        w = Writer(version)  # a limit above the victim's cgroup, met by another process; a thread holds the memory
        w.invoked(other, USER, 0)
        w.memcg("/train", "/train/job 1", 51200, 51200, v2, STATS_V2 if v2 else STATS)
        w.table([leaker, other])
        w.decision("CONSTRAINT_MEMCG", leaker, "/train", "/train/job 1")
        w.kill("Memory cgroup out of memory", [leaker])
        w.facts.update(scope="memcg", limit_cgroup="/train")
        w.save("memcg", form)

        w = Writer(version)  # all of the machine's memory
        w.invoked(small, MOVABLE, 3)
        w.machine(ZONES, COUNTS, (0, 2097148), [16645901, 272450], SLABS)
        w.table([small, trainer])
        w.decision("CONSTRAINT_NONE", trainer, None, "/user.slice/user-1001.slice")
        w.kill("Out of memory", [trainer])
        if number(version) >= (5, 0):
            w.facts.update(scope="global")
        w.save("global", form)

        if number(version) >= (4, 19):  # memory.oom.group
            w = Writer(version)
            ranks = [task(900 + rank, f"rank{rank}", 3000 - rank, 4000) for rank in range(4)]
            w.invoked(ranks[2], USER, 0)
            w.memcg("/pods/a", "/pods/a", 49152, 49152, v2, STATS_V2 if v2 else STATS)
            w.table(ranks)
            w.decision("CONSTRAINT_MEMCG", ranks[0], "/pods/a", "/pods/a")
            w.kill("Memory cgroup out of memory", ranks, group="/pods/a")
            w.facts.update(scope="memcg", limit_cgroup="/pods/a")
            w.save("group", form)

    for name, constraint, order in (("cpuset", "CONSTRAINT_CPUSET", 0), ("mempolicy", "CONSTRAINT_MEMORY_POLICY", 0),
                                    ("sysrq", "CONSTRAINT_NONE", -1)):
        w = Writer("6.12")
        w.invoked(task(88, "kworker/1:2", 0, 0, file=0), USER, order)
        w.machine(ZONES, COUNTS, (0, 0), [16645901, 272450], [])
        w.table([small, trainer])
        w.decision(constraint, trainer, None, "/user.slice")
        w.kill("Out of memory", [trainer])
        w.facts.update(scope=name)
        w.save(name, dmesg)


main()
