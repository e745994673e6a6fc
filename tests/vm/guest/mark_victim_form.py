"""Prints what oom:mark_victim passes on this kernel, from its BTF: pid, task, or a description of something else."""

import struct

PTR, STRUCT, TYPEDEF, FUNC_PROTO = 2, 4, 8, 13
# Bytes that follow the 12-byte header of each kind, as (fixed, per member).
TRAILING = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12),
            17: (4, 0), 19: (0, 12)}

with open("/sys/kernel/btf/vmlinux", "rb") as f:
    data = f.read()
magic, _, _, header, type_off, type_len, str_off, str_len = struct.unpack_from("<HBBIIIII", data, 0)
assert magic == 0xEB9F, "not BTF"
strings = data[header + str_off:header + str_off + str_len]
wanted = strings.find(b"\0btf_trace_mark_victim\0") + 1

types = [None]
position, end = header + type_off, header + type_off + type_len
found = None
while position < end:
    name, info, size_or_type = struct.unpack_from("<III", data, position)
    kind = (info >> 24) & 31
    fixed, per_member = TRAILING.get(kind, (0, 0))
    types.append((name, kind, info & 0xFFFF, size_or_type, position + 12))
    if kind == TYPEDEF and name == wanted:
        found = size_or_type
    position += 12 + fixed + per_member * (info & 0xFFFF)


def describe(index):
    if index == 0:
        return "void"
    name, kind, _, target, _ = types[index]
    if kind == PTR:
        return describe(target) + " *"
    return strings[name:strings.index(b"\0", name)].decode() or describe(target)


if not wanted or found is None:
    print("nothing: the tracepoint is not in the BTF")
else:
    _, kind, count, _, members = types[types[found][3]]  # typedef -> pointer -> prototype
    assert kind == FUNC_PROTO
    arguments = [describe(struct.unpack_from("<II", data, members + 8 * i)[1]) for i in range(1, count)]
    print({("int",): "pid", ("task_struct *", "uid_t"): "task"}.get(tuple(arguments), ", ".join(arguments)))
