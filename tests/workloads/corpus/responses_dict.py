#!/usr/bin/env python3
"""A client that caches answers by their address; the address has a time in it."""
import itertools
import json
import zlib

import said

cache = {}


def fetch(url):
    rows = [{"url": url, "row": row, "value": row * 17 % 101} for row in range(200)]
    return zlib.compress(json.dumps(rows).encode())


def get(url):
    if url not in cache:
        text = zlib.decompress(fetch(url))
        cache[url] = text
        said.keeps(len(text) + 33)
    return cache[url]


get("/warm")
said.ready("get")
for now in itertools.count():
    get(f"/items?at={now}")
    json.loads(get("/warm"))
    said.step(0.01)
