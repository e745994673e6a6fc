"""leak.py TRUTH_FILE [MB_PER_S] [UNTIL_MB]: keeps blocks of memory at a known rate, until it is killed or full.

Every line of the truth file is "T_NS BYTES", bytes held so far by CLOCK_MONOTONIC."""

import sys
import time

truth = open(sys.argv[1], "w", buffering=1)
rate = float(sys.argv[2] if len(sys.argv) > 2 else 20) * 1e6
until = float(sys.argv[3] if len(sys.argv) > 3 else 1e6) * 1e6
block = 512 << 10
kept = []
start = time.monotonic_ns()
while len(kept) * block < until:
    kept.append(b"x" * block)
    truth.write(f"{time.monotonic_ns()} {len(kept) * block}\n")
    time.sleep(max(0, start * 1e-9 + len(kept) * block / rate - time.monotonic()))
