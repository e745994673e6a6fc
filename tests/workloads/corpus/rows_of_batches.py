#!/usr/bin/env python3
"""An importer that indexes one row in ten: small objects among those of each batch, which go."""
import itertools
import sys

import said

rows = {}


class Row:
    __slots__ = ("key", "amount", "note")

    def __init__(self, key, amount, note):
        self.key = key
        self.amount = amount
        self.note = note


def parse(batch):
    return [(batch, n, f"{batch * 1000003 + n:012}", n * 0.5 + batch) for n in range(3000)]


def index(parsed):
    for batch, n, text, amount in parsed[::10]:
        row = Row(text + "-k", amount + 1.0, f"{n:06}/{text}")
        rows[row.key] = row
        said.keeps(sys.getsizeof(row) + sys.getsizeof(row.key) + sys.getsizeof(row.amount) + sys.getsizeof(row.note))


def run():
    for batch in itertools.count():
        parsed = parse(batch)
        index(parsed)
        del parsed
        said.step(0.02)


said.ready("index|__init__", holder="rows in __main__")
run()
