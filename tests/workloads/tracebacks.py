"""tracebacks.py TRUTH_FILE: exceptions that are kept hold the data of the frames that raised them.

A temporary is made beside the data and goes at once, so that the next data lie in its place: the temporary's line is
the first to touch new pages, and keeps none. Every line of the truth file is "T_NS BYTES", as leak.py writes it."""

import sys
import time

SIZE = 400 << 10
truth = open(sys.argv[1], "w", buffering=1)


class Supervisor:
    def __init__(self):
        self.failures = []

    def run(self, job, n):
        try:
            job(n)
        except ValueError as e:
            self.failures.append(e)  # keeps


def job(n):
    data = b"d" * SIZE
    work = data + b"w"  # temporary
    size = len(work)
    del work
    raise ValueError(f"{n} of {size}")


supervisor = Supervisor()
n = 0
while True:
    supervisor.run(job, n)
    n += 1
    truth.write(f"{time.monotonic_ns()} {n * SIZE}\n")
    time.sleep(0.02)
