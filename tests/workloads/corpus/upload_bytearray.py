#!/usr/bin/env python3
"""An upload that is collected in one bytearray, and never flushed."""
import hashlib
import os

import said

body = bytearray()
CHUNK = os.urandom(20_000)


def receive(chunk):
    body.extend(chunk)
    said.keeps(len(chunk))


def digest(chunk):
    return hashlib.sha256(chunk * 30).hexdigest()


said.ready("receive")
while True:
    digest(CHUNK)
    receive(CHUNK)
    said.step(0.008)
