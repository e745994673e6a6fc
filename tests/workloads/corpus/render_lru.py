#!/usr/bin/env python3
"""lru_cache without a size, of a function whose argument is always another one."""
import functools
import string

import said

ROW = string.Template("<tr><td>$name</td><td>$value</td></tr>\n")


@functools.lru_cache(maxsize=None)
def render(user):
    text = "".join(ROW.substitute(name=user, value=value) for value in range(200))
    said.keeps(len(text) + 49)
    return text


def respond(user):
    return ("<table>" + render(user) + "</table>").encode()


respond(0)
said.ready("render")
user = 1
while True:
    respond(user)
    respond(0)
    user += 1
    said.step(0.004)
