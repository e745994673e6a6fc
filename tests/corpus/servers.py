"""Healthy servers over days, for the rate of false alarms."""

import math

from series import Curve, DAY, GIB, HOUR, MINUTE, Made, recipe, restarted


@recipe(8)
def server(d):
    """As the real ones are: 85-92 % on average, 3-5 % about it that last an hour, 0.6 % a minute, capped by reclaim,
    whole percents averaged over a minute, holes of hours."""
    limit = 96 * GIB
    c = Curve(d, d.between(5.5, 6.5) * DAY, 60, limit * d.between(0.84, 0.92))
    c.noise(limit * d.between(0.02, 0.04), d.between(40, 110) * MINUTE).noise(limit * d.between(0.005, 0.02), d.between(5, 14) * HOUR)
    high, phase = limit * d.between(0, 0.02), d.random() * 6.28
    c.add(lambda t: high * math.sin(6.2832 * t / DAY + phase)).noise(limit * 0.005, 90)
    cap = limit * d.between(0.974, 0.979)
    c.y = [y if y < cap - limit * 0.01 else cap - limit * 0.01 * math.exp(min(0, (cap - limit * 0.01 - y) / limit * 100)) for y in c.y]
    start = d.between(0.3, 0.7) * c.t[-1]
    return Made("healthy", c, limit, grain=limit / 600, hole=(start, start + d.between(4, 8) * HOUR), missing=d.between(0.005, 0.08))


@recipe(4)
def server_of_jobs(d):
    """A shared box: jobs come, take memory, and go."""
    limit = d.limit()
    c = Curve(d, d.between(5, 7) * DAY, d.one([60], [60, 30]), limit * d.between(0.1, 0.25)).murmur(limit)
    at, running = 0.0, []
    while at < c.t[-1]:
        at += d.expovariate(1 / (d.between(2, 5) * HOUR))
        running = [job for job in running if job[1] > at]
        takes, ends = limit * d.between(0.05, 0.3), at + d.log_between(0.5, 20) * HOUR
        if sum(job[0] for job in running) + takes < 0.62 * limit:
            running.append((takes, ends))
            warm = d.between(2, 15) * MINUTE
            c.shift(at, takes, warm).shift(ends, -takes, 2 * MINUTE)
    return Made("healthy", c, limit)


@recipe(4)
def server_deployed(d):
    """A service that is started anew once or twice a day, warms up, and serves."""
    limit = d.limit()
    level, tau = limit * d.between(0.45, 0.8), d.between(0.3, 1.5) * HOUR
    lives = [d.between(8, 30) * HOUR for _ in range(d.whole(5, 8))]

    def life(c, span):
        return c.shift(0, 0.7 * level, 3 * MINUTE).approach(0.3 * level, tau).murmur(limit).noise(limit * 0.01, HOUR)
    c, _ = restarted(d, limit, lives, 60, 120, life)
    return Made("healthy", c, limit)
