"""Series with more than one column: by process (copy-on-write), by kind (cache)."""

import collections
import math

from series import Curve, GB, HOUR, MB, MINUTE, Made, recipe, steady


# ---- per process: cow ------------------------------------------------------------------------------------------------

PROCESS_HEADER = ["time_s", "pid", "rss_bytes", "pss_bytes", "uss_bytes", "shared_bytes", "shared_file_bytes"]


def workers_over(d, parent_rss, workers, span_s, every_s, private_of, own=6 * MB, parent_leaks=None, before_fork=False):
    """Parent and forked workers; private_of(k, t): the share of the parent's pages that k (0: the parent) has made its
    own at t. PSS as the kernel counts it: what is shared, divided by those who share it. before_fork: the parent is
    seen once while all is its own."""
    lines, pid = [], d.randrange(2000, 4_000_000)
    pids = [pid] + [pid + d.randrange(2, 9) + 9 * k for k in range(workers)]
    files = d.between(15, 25) * MB
    if before_fork:
        lines.append((0, pid, parent_rss, parent_rss, parent_rss - files, files, files))
    for step in range(int(span_s / every_s) + 1):
        t = step * every_s
        grown = parent_leaks(t) if parent_leaks else 0.0
        shares = [min(1.0, max(0.0, private_of(k, t))) for k in range(workers + 1)]
        for k, share in enumerate(shares):
            rss = parent_rss + (grown if k == 0 else 0) + d.gauss(0, 0.2) * MB
            uss = parent_rss * share + own * (1 + 0.05 * d.gauss(0, 1)) + (grown if k == 0 else 0)
            uss = min(uss, rss)
            shared = rss - uss
            lines.append((t, pids[k], rss, uss + shared / (workers + 1), uss, shared, min(shared, files)))
    return lines


def per_process(verdict, limit, lines, **rest):
    return Made(verdict, None, limit, rows=("processes", PROCESS_HEADER, lines, None), **rest)


@recipe(5)
def cow_unshares(d):
    rss, workers, span = d.between(1.5, 4) * GB, d.whole(3, 10), d.between(80, 240)
    done = d.between(0.55, 0.95)
    pace = [d.gauss(1, 0.03) for _ in range(workers + 1)]
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [1, 2]), lambda k, t: done * pace[k] * t / span,
                                    before_fork=True), note="workers read a list, and copy it page by page")


@recipe(5)
def cow_saturates(d):
    rss, workers, span = d.between(1.5, 6) * GB, d.whole(2, 8), d.between(200, 900)
    tau, done = d.between(0.2, 0.4) * span, d.between(0.6, 0.95)
    pace = [d.gauss(1, 0.1) for _ in range(workers + 1)]
    return per_process("cow", 2 * (workers + 1) * rss, workers_over(
        d, rss, workers, span, d.one([1, 2], [2, 5]), lambda k, t: -done * math.expm1(-t * pace[k] / tau)))


@recipe(4)
def cow_uneven(d):
    rss, workers, span = d.between(2, 5) * GB, d.whole(4, 12), d.between(150, 500)
    pace = [0.02] + [d.between(0.3, 0.95) for _ in range(workers)]
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [2]), lambda k, t: pace[k] * t / span),
                       note="the parent does not read, the workers do, each at its pace")


@recipe(4)
def cow_long(d):
    rss, workers, span = d.between(4, 10) * GB, d.whole(2, 6), d.between(2, 6) * HOUR
    done = d.between(0.5, 0.9)
    return per_process("cow", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([10, 30], [20, 30]), lambda k, t: done * (t / span) ** 0.9))


@recipe(4)
def cow_avoided(d):
    rss, workers, span = d.between(1.5, 4) * GB, d.whole(3, 10), d.between(60, 400)
    return per_process("stable", 2 * (workers + 1) * rss,
                       workers_over(d, rss, workers, span, d.one([1], [2]), lambda k, t: 0.003 if k else 0.006,
                                    before_fork=d.random() < 0.5), note="the same with the data set serialised")


@recipe(4)
def parent_leaks(d):
    limit, every = 32 * GB, d.one([2, 5], [5, 10])
    start, workers, rate = d.between(8.5, 9.2) * GB, 20, 600 * MB / MINUTE
    lines = workers_over(d, 400 * MB, workers, 2700, every, lambda k, t: 0.14, own=4 * MB,
                         parent_leaks=lambda t: start - 400 * MB + rate * t + d.gauss(0, 15) * MB)
    private = collections.Counter()
    for t, _, _, _, uss, _, _ in lines:
        private[t] += uss
    end = next(t for t, total in private.items() if total >= limit)
    return Made("leak", None, limit, exhausts=True, leak_starts=0.0,
                rows=("processes", PROCESS_HEADER, [line for line in lines if line[0] <= end], end),
                note="the parent leaks 600 MB a minute, its twenty workers do not")


# ---- by kind: cache --------------------------------------------------------------------------------------------------

KIND_HEADER = ["time_s", "used_bytes", "limit_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "kernel_bytes"]


def by_kind(verdict, limit, anon, files, shmem=None, **rest):
    """used is all of a cgroup's usage; its page cache gives way to the rest."""
    d, lines, end = anon.draw, [], None
    kernel = limit * d.between(0.002, 0.01)
    for i, t in enumerate(anon.t):
        a, s = max(0.0, anon.y[i]), max(0.0, shmem.y[i]) if shmem else 0.0
        f = max(0.0, min(files.y[i], limit * (0.9995 - 0.003 * d.random()) - a - s - kernel))
        used = min(limit, a + s + f + kernel)
        lines.append((t, used, limit, a, f, s, kernel))
        if a + s + kernel >= limit:
            end = t
            break
    return Made(verdict, None, limit, exhausts=end is not None, rows=("kinds", KIND_HEADER, lines, end), **rest)


@recipe(5)
def cache_grows(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    anon = steady(d, every * d.between(600, 2500), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.02).line(limit * d.between(0.2, 0.42) / anon.t[-1]).murmur(limit / 4)
    return by_kind("cache", limit, anon, files, note="reads a data set; droppable")


@recipe(5)
def cache_fills(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    anon = steady(d, every * d.between(600, 2500), every, limit, d.between(0.2, 0.6)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.05).line(limit * d.between(1, 2.5) / anon.t[-1])
    return by_kind("cache", limit, anon, files, note="page cache up to the limit, and no harm in it")


@recipe(4)
def cache_in_bursts(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(800, 2500), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit * 0.05)
    for k in range(7):
        files.shift((0.1 + 0.12 * k + d.between(0, 0.03)) * files.t[-1], limit * d.between(0.05, 0.08), 20 * every)
    return by_kind("cache", limit, anon, files, note="a checkpoint is written now and then")


@recipe(4)
def cache_over_collector(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(800, 2500), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    anon.sawtooth(limit * d.between(0.01, 0.05), every * d.between(6, 40), 0.2)
    files = Curve(d, anon.t[-1], every, limit * 0.04).approach(limit * d.between(0.35, 0.5), 0.5 * anon.t[-1])
    return by_kind("cache", limit, anon, files)


@recipe(4)
def leak_under_cache(d):
    limit, every = d.limit(), d.one([5, 10], [5, 10])
    life = every * d.between(800, 2500)
    anon = Curve(d, 1.3 * life, every, limit * d.between(0.2, 0.4))
    anon.line((limit * 0.994 - anon.y[0]) / life).murmur(limit / 2)
    files = Curve(d, anon.t[-1], every, limit)
    return by_kind("leak", limit, anon, files, leak_starts=0.0, note="usage is at the limit all along; the cache gives way to a leak")


@recipe(3)
def leak_in_shm(d):
    limit, every = d.limit(), d.one([5], [10])
    life = every * d.between(800, 2000)
    anon = steady(d, 1.3 * life, every, limit, d.between(0.2, 0.3)).murmur(limit / 2)
    shmem = Curve(d, 1.3 * life, every).line((limit * 0.99 - anon.y[0]) / life)
    return by_kind("leak", limit, anon, Curve(d, 1.3 * life, every, limit * 0.1), shmem, leak_starts=0.0, note="/dev/shm fills, and cannot be dropped")


@recipe(3)
def cache_steady(d):
    limit, every = d.limit(), d.one([5], [10])
    anon = steady(d, every * d.between(600, 2000), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    return by_kind("stable", limit, anon, Curve(d, anon.t[-1], every, limit * d.between(0.1, 0.3)).murmur(limit / 4))
