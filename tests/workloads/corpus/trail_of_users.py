#!/usr/bin/env python3
"""A service that notes what each user did: small dicts in a list for each, behind words that go with each request and
meet every new page of small objects first."""
import collections
import sys

import said


class Trail:
    of_user = collections.defaultdict(list)

    @classmethod
    def note(cls, user, n):
        entry = {"at": n * 1.5, "what": f"view-{n}", "n": n}
        cls.of_user[user].append(entry)
        said.keeps(sys.getsizeof(entry) + sum(map(sys.getsizeof, entry.values())))


def answer(n):
    words = [f"{n}w{i}" for i in range(50)]
    return len("".join(words))


def run():
    n = 0
    while True:
        for _ in range(120):
            n += 1
            answer(n)
            Trail.note(f"user{n % 40}", n)
        said.step(0.006)


said.ready("note", holder="Trail.of_user[…] in __main__")
run()
