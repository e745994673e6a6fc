#!/usr/bin/env python3
"""Writes the facts in each VERSION-real-WHAT.log beside it as .json: a second reading of logs that kernels wrote.

It may be simple where the parser may not: these logs are whole, of one kill, of kernels since 5.10, and of harmless
names."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ("tgid", "uid", "total_vm", "rss", "swapents", "oom_score_adj")


def kb(text):
    return int(text) * 1024


def facts(lines):
    out, columns, stats = {}, None, False
    for line in lines:
        if "page allocation failure" in line:  # of the dying process: the state of the machine after the kill
            break
        if m := re.match(r"(.{0,15}) invoked oom-killer: gfp_mask=(0x\w+)\(.*\), order=(-?\d+), ", line):
            out.update(trigger=m[1], gfp_mask=int(m[2], 16), order=int(m[3]))
        elif m := re.match(r"CPU: \d+ (?:UID: \d+ )?PID: (\d+) Comm: ", line):
            out["trigger_tid"] = int(m[1])
        elif m := re.match(r"memory: usage (\d+)kB, limit (\d+)kB, ", line):
            out.update(usage=kb(m[1]), limit=kb(m[2]))
        elif line.startswith("Memory cgroup stats for "):
            stats, out["stats"] = True, {}
        elif stats and (m := re.fullmatch(r"(\w+) (\d+)", line)):
            out["stats"][m[1]] = int(m[2])
        elif m := re.match(r"(?:Node (\d+) )?(\w+) free:(\d+)kB .*?min:(\d+)kB low:(\d+)kB high:(\d+)kB", line):
            out.setdefault("zones", {})[f"{m[1]}/{m[2]}"] = [kb(m[i]) for i in (3, 4, 5, 6)]
        elif m := re.match(r"(?:Node (\d+) )?(\w+): (\d+\*.*) = \d+kB", line):
            out.setdefault("blocks", {})[f"{m[1]}/{m[2]}"] = [int(n) for n in re.findall(r"(\d+)\*\d+kB", m[3])]
        elif re.fullmatch(r" ?[a-z_]+:\d+( [a-z_]+:\d+)*", line):
            out.setdefault("pages", {}).update((k, int(v)) for k, v in re.findall(r"(\w+):(\d+)", line))
        elif m := re.fullmatch(r"Free swap  = (\d+)kB", line):
            out["swap"] = [kb(m[1]), None]
        elif m := re.fullmatch(r"Total swap = (\d+)kB", line):
            out["swap"][1] = kb(m[1])
        elif m := re.fullmatch(r"(\d+) pages RAM", line):
            out["ram"] = [int(m[1]), None]
        elif m := re.fullmatch(r"(\d+) pages reserved", line):
            out["ram"][1] = int(m[1])
        elif line.startswith("[  pid  ]"):
            columns, stats = ["pid", *line.split("]")[1].split()], False
        elif columns and (m := re.match(r"\[ *(\d+)\] ", line)):
            row = dict(zip(columns, [m[1], *line.split("]", 1)[1].split(None, len(columns) - 2)]))
            tgid, uid, *rest = (int(row[name]) for name in COLUMNS)
            out.setdefault("tasks", []).append([int(row["pid"]), tgid, uid, *rest, row["name"]])
        elif line.startswith("oom-kill:"):
            at = dict(part.split("=", 1) for part in line[len("oom-kill:"):].split(",") if "=" in part)
            scope = {"CONSTRAINT_MEMCG": "memcg", "CONSTRAINT_CPUSET": "cpuset",
                     "CONSTRAINT_MEMORY_POLICY": "mempolicy", "CONSTRAINT_NONE": "global"}[at["constraint"]]
            out["scope"] = "sysrq" if out["order"] == -1 else scope
            out["task_cgroup"] = at["task_memcg"]
            if "oom_memcg" in at:
                out["limit_cgroup"] = at["oom_memcg"]
        elif m := re.match(r"Tasks in (.*) are going to be killed due to memory.oom.group set", line):
            out["group"] = m[1]
        elif m := re.match(r"(?:Memory cgroup out|Out) of memory: Killed process (\d+) \((.*)\) total-vm:(\d+)kB, "
                           r"anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB, UID:(\d+) pgtables:(\d+)kB "
                           r"oom_score_adj:(-?\d+)", line):
            victim = {"tid": int(m[1]), "comm": m[2], "vm": kb(m[3]), "anon": kb(m[4]), "file": kb(m[5]),
                      "shmem": kb(m[6]), "uid": int(m[7]), "pgtables": kb(m[8]), "adj": int(m[9])}
            victims = out.setdefault("victims", [])
            if victim["tid"] not in [known["tid"] for known in victims]:  # the chosen one of a group is told twice
                victims.append(victim)
    return out


def text_of(line):
    return re.sub(r"^(\[ *[\d.]+\] |[\d,]+-;)", "", line)


for log in sorted(HERE.glob("*-real-*.log")):
    found = facts([text_of(line) for line in log.read_text().splitlines()])
    log.with_suffix(".json").write_text(json.dumps([found], indent=1, ensure_ascii=False) + "\n")
