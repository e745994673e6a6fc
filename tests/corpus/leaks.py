"""Series that leak, most of them until their limit."""

import math

from series import Curve, DAY, GB, GIB, HOUR, MB, MIB, MINUTE, Made, recipe, recurring, restarted


def leak(curve, limit, **rest):
    return Made("leak", curve, limit, exhausts=True, leak_starts=rest.pop("leak_starts", 0.0), **rest)


def straight(d, life_s, every_s, limit=None, growth=None):
    """A floor that meets the limit after life_s, on a grid that goes on a little."""
    limit = limit or d.limit()
    growth = limit * (growth or d.between(0.35, 0.85))
    return limit, Curve(d, 1.3 * life_s, every_s, limit - growth).line(growth / life_s)


@recipe(8)
def fuse(d):
    limit, rate = 32 * GB, d.between(560, 640) * MB / MINUTE
    start = d.between(7.5, 9) * GB
    c = Curve(d, 3600, d.one([1, 10], [5, 30, 1]), start).line(rate).murmur(4 * GB)
    if d.random() < 0.5:
        c.sawtooth(d.between(50, 350) * MB, d.between(20, 90), 0.2)
    return leak(c, limit, note="600 MB a minute on 32 GB: forty minutes")


@recipe(5)
def slow_24_40h(d):
    limit, c = straight(d, d.between(24, 40) * HOUR, d.one([10, 60], [30, 60]))
    return leak(c.murmur(limit), limit)


@recipe(5)
def slow_40_60h(d):
    limit, c = straight(d, d.between(40, 60) * HOUR, d.one([30, 60], [20, 60]))
    return leak(c.murmur(limit), limit)


@recipe(3)
def eight_days(d):
    limit, c = straight(d, d.between(7, 9) * DAY, d.one([120], [180]))
    return leak(c.murmur(limit), limit, note="eight days to the kill")


@recipe(5)
def hours(d):
    every = d.one([1, 10], [5, 15])
    limit, c = straight(d, every * d.between(800, 4000), every)
    return leak(c.murmur(limit), limit)


@recipe(4)
def faint(d):
    every = d.one([10, 60], [30, 60])
    limit, c = straight(d, d.between(12, 50) * HOUR, every, growth=d.between(0.08, 0.2))
    return leak(c.noise(limit * d.between(0.001, 0.004), every * d.log_between(2, 20)), limit, note="on a level of 80-92 %")


@recipe(4)
def noisy(d):
    every = d.one([10, 30], [10, 60])
    limit, c = straight(d, every * d.between(2500, 6000), every, growth=d.between(0.4, 0.8))
    return leak(c.noise(limit * d.log_between(0.005, 0.018), every * d.log_between(2, 30)), limit)


@recipe(5)
def staircase(d):
    limit, every = d.one([32 * GB, 61 * GIB], [24 * GIB, 32 * GIB, 61 * GB]), d.one([2, 5], [5, 10])
    period, up = d.between(150, 330), d.between(0.35, 0.9) * GB
    stairs = int(1.2 * (limit - 8 * GB) / up)
    c = Curve(d, stairs * period, every, 8 * GB)
    for k in range(stairs):
        at = (k + d.gauss(0.5, 0.05)) * period
        c.spikes([(at, d.between(10, 30), up * d.between(1.5, 3), "box")]).shift(at, up * d.gauss(1, 0.1), every)
    return leak(c.murmur(6 * GB), limit, shape="spiky", note="validation spikes that do not fully recover")


@recipe(4)
def steps_of_training(d):
    limit, every = d.one([128 * GIB, 192 * GIB], [96 * GIB, 251 * GB]), d.one([10], [5, 15])
    at, up = d.between(60, 300), d.between(2, 4) * GB
    stairs = int(1.3 * limit / up)
    c = Curve(d, stairs * 700, every, 8 * GB)
    for _ in range(stairs):
        c.shift(at, up * d.gauss(1, 0.12), d.between(5, 40))
        at += d.between(560, 700)
    return leak(c.murmur(8 * GB), limit, note="2-4 GB every 100 steps")


@recipe(6)
def leak_in_collector(d):
    every = d.one([5, 10], [2, 10])
    limit, c = straight(d, every * d.between(1500, 5000), every, growth=d.between(0.3, 0.6))
    high = limit * d.between(0.03, 0.15)
    c.y = [y - high for y in c.y]
    c.sawtooth(high, every * d.log_between(5, 60), d.one([0.05, 0.2], [0.1, 0.3]))
    return leak(c.murmur(limit / 2), limit, shape="spiky", note="the collector's floor rises")


@recipe(8)
def leak_under_validation(d):
    limit, every = d.one([32 * GB], [32 * GIB, 30 * GB]), d.one([5, 10], [2, 10])
    life, high = d.between(6, 20) * HOUR, d.between(3.5, 4.5) * GB
    c = Curve(d, 1.3 * life, every, 14 * GB).line((limit - high - 14 * GB) / life).murmur(10 * GB)
    c.spikes(recurring(d, c.t[-1], 5 * MINUTE, high, d.log_between(every, 80), jitter=d.one([0.02, 0.15], [0.05, 0.25]),
                       ragged=d.one([0.01, 0.05], [0.03, 0.08]), forms=d.one([("box",), ("decay",)], [("box",), ("hill",)])))
    return leak(c, limit, shape="spiky", note="14 GB, 4 GB spikes every 5 min, and a leak under them")


@recipe(5)
def leak_under_random_spikes(d):
    every = d.one([5, 10], [10, 30])
    limit, c = straight(d, every * d.between(3500, 7000), every, growth=d.between(0.3, 0.5))
    high = limit * d.between(0.08, 0.2)
    c.y = [y - high for y in c.y]
    c.spikes(recurring(d, c.t[-1], every * d.between(25, 50), high, every * d.log_between(1, 6), ragged=0.08, poisson=True,
                       forms=("box", "hill")))
    return leak(c.murmur(limit / 2), limit, shape="spiky")


@recipe(8)
def long_under_spikes(d):
    every = d.one([30, 60], [20, 60])
    limit, c = straight(d, d.one([d.between(24, 40)], [d.between(40, 60), d.between(24, 40)]) * HOUR, every, growth=d.between(0.3, 0.6))
    high = limit * d.between(0.06, 0.2)
    c.y = [y - high for y in c.y]
    c.spikes(recurring(d, c.t[-1], d.between(15, 60) * MINUTE, high, d.log_between(every, 300), jitter=0.08, ragged=0.05))
    return leak(c.murmur(limit / 2), limit, shape="spiky", note="checkpoints over a leak of days")


@recipe(14)
def pace_wanders(d):
    every = d.one([1, 10], [2, 5])
    limit, growth, life = d.limit(), d.between(0.35, 0.85), every * d.between(250, 1500)
    c = Curve(d, 2.5 * life, every, limit * (1 - growth))
    c.wandering_line(limit * growth / life, d.between(0.08, 0.35), life * d.log_between(0.02, 0.3))
    return leak(c.noise(limit * d.log_between(0.00002, 0.001)), limit, note="its pace follows the load of its machine")


@recipe(8)
def short_program(d):
    every, limit = d.one([0.5], [1]), d.one([2 * GIB, 8 * GB], [4 * GIB, 1 * GB])
    growth, life = d.between(0.5, 0.8), d.between(180, 600)
    c = Curve(d, 2.5 * life, every, limit * (1 - growth))
    c.wandering_line(limit * growth / life, d.between(0.05, 0.25), d.between(20, 90))
    c.sawtooth(limit * d.between(0.002, 0.02), d.between(3, 12), 0.15)
    return leak(c.noise(limit * 0.0003), limit, note="a small program of minutes on a busy machine")


@recipe(5)
def pace_rises_evenly(d):
    limit, every = d.limit(), d.one([1, 10], [2, 30])
    life, growth, more = every * d.between(500, 3000), limit * d.between(0.45, 0.8), d.between(0.3, 0.8)
    c = Curve(d, 1.3 * life, every, limit - growth).line(growth * (1 - more) / life).add(lambda t: growth * more * (t / life) ** 2)
    return leak(c.noise(limit * d.log_between(0.0001, 0.002)), limit, shape="curved", note="more is kept with every step")


@recipe(5)
def restarted_by_hand(d):
    limit, every = d.limit(), d.one([2, 10], [5, 30])
    level, full = limit * d.between(0.12, 0.4), every * d.between(500, 2000)
    births = [0.0]
    for _ in range(d.whole(1, 2)):
        births.append(births[-1] + full * d.between(0.4, 0.75))
    c = Curve(d, births[-1] + 1.3 * full, every, level).line((limit - level) / full)
    for before, birth in zip(births, births[1:]):
        c.shift(birth, -(limit - level) / full * (birth - before))
    return leak(c.noise(limit * 0.0005), limit, leak_starts=births[-1], judge_from=births[-1] + 0.1 * full,
                note="started again at the same level, and leaks again")


@recipe(6)
def accelerates(d):
    limit, every = d.limit(), d.one([5, 30], [10, 60])
    life = every * d.between(1500, 5000)
    growth, power = limit * d.between(0.45, 0.8), d.between(1.3, 2.2)
    c = Curve(d, 1.3 * life, every, limit - growth).add(lambda t: growth * (t / life) ** power)
    return leak(c.murmur(limit), limit, shape="curved", note=f"growth as time to the power {power:.2f}")


@recipe(6)
def decelerates(d):
    limit, every = d.limit(), d.one([5, 30], [10, 60])
    life = every * d.between(1500, 5000)
    growth, power = limit * d.between(0.5, 0.85), d.between(0.5, 0.8)
    c = Curve(d, 1.6 * life, every, limit - growth).add(lambda t: growth * (t / life) ** power)
    return leak(c.murmur(limit / 2), limit, shape="curved", note=f"growth as time to the power {power:.2f}")


@recipe(4)
def starts_late(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life = every * d.between(2000, 6000)
    begin, growth = d.between(0.2, 0.6) * life, limit * d.between(0.35, 0.7)
    c = Curve(d, 1.3 * life, every, limit - growth).line(growth / (life - begin), begin).murmur(limit)
    return leak(c, limit, leak_starts=begin, judge_from=begin + 0.15 * (life - begin))


@recipe(5)
def ramp_then_leak(d):
    limit, every = d.limit(), d.one([5, 10], [2, 30])
    life = every * d.between(1500, 5000)
    start, growth, tau = limit * 0.02, limit * d.between(0.3, 0.5), d.between(0.01, 0.04) * life
    c = Curve(d, 1.3 * life, every, start).approach(limit - growth - start, tau).line(growth / life).murmur(limit)
    return leak(c, limit, judge_from=6 * tau)


@recipe(4)
def leak_by_day_and_night(d):
    limit, c = straight(d, d.between(4, 8) * DAY, d.one([120], [180]), growth=d.between(0.5, 0.8))
    high, phase = limit * d.between(0.01, 0.03), d.random() * 6.28
    c.add(lambda t: high * math.sin(6.2832 * t / DAY + phase))
    return leak(c.murmur(limit), limit, judge_from=1.5 * DAY, shape="curved", note="a leak under the load of the day")


@recipe(4)
def leak_with_shifts(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life = every * d.between(2000, 5000)
    start, growth = limit * d.between(0.05, 0.15), limit * d.between(0.4, 0.55)
    shifts = [d.between(0.1, 0.25) * life, d.between(0.3, 0.42) * life]
    c = Curve(d, 1.3 * life, every, start).line(growth / life)
    for at in shifts:
        c.shift(at, (limit - start - growth) / 2, every)
    return leak(c.murmur(limit), limit, judge_from=shifts[-1] + 0.06 * life, note="a data set and a model copy are loaded on the way")


@recipe(5)
def restarts_that_leak(d):
    limit, every = d.limit(), d.one([10], [10, 30])
    level, full = limit * d.between(0.15, 0.35), every * d.between(1500, 2500)
    lives = [full * d.between(0.15, 0.5) for _ in range(d.whole(1, 3))] + [1.3 * full]

    def life(c, span):
        return c.approach(level, 4 * every).line((limit - level) / full).murmur(limit)
    c, births = restarted(d, limit, lives, every, every * d.whole(1, 5), life)
    return leak(c, limit, leak_starts=births[-1], judge_from=births[-1] + 0.15 * full, note="started again, and leaks again")


@recipe(5)
def limit_moves_leak(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life, at = every * d.between(1500, 4000), d.between(0.2, 0.45)
    after = limit * d.choice([0.85, 1.2, 1.4])
    start = limit * d.between(0.15, 0.3)
    c = Curve(d, 1.3 * life, every, start).line((after - start) / life).murmur(limit)
    return leak(c, limit, limits=[(0.0, limit), (at * life, after)], judge_from=(at + 0.02) * life, note="the limit is changed on the way")


@recipe(3)
def slope_changes(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    life, at = every * d.between(2000, 4500), d.between(0.25, 0.45)
    start, faster = limit * d.between(0.1, 0.3), d.between(2, 4)
    rate = (limit - start) / (life * (at + faster * (1 - at)))
    c = Curve(d, 1.3 * life, every, start).line(rate).line(rate * (faster - 1), at * life).murmur(limit)
    return leak(c, limit, judge_from=(at + 0.1) * life, note="the batch size is raised, and with it the leak")


@recipe(3)
def leak_sampled_badly(d):
    every = d.one([5], [10])
    limit, c = straight(d, every * d.between(2500, 5000), every)
    start = d.between(0.3, 0.4) * c.t[-1]
    return leak(c.murmur(limit), limit, missing=d.between(0.1, 0.3), hole=(start, start + d.between(0.03, 0.08) * c.t[-1]),
                jittered=True, grain=d.choice([4096, MIB]))


@recipe(3)
def leak_percent(d):
    limit, c = straight(d, d.between(10, 50) * HOUR, 60)
    return leak(c.noise(limit * 0.004, 300), limit, grain=limit / 100, note="whole percents")


@recipe(4)
def tokenisation(d):
    limit, every = d.one([61 * GIB], [61 * GB]), d.one([1, 5], [2, 5])
    begin, lasts = d.between(0.5, 3) * HOUR, d.between(4, 10) * MINUTE
    c = Curve(d, begin + 1.5 * lasts, every, 6.4 * GB).murmur(20 * GB).line((limit - 6.4 * GB) / lasts, begin)
    return leak(c, limit, leak_starts=begin, judge_from=begin + 0.5 * lasts, accepts="ramp|step",
                note="a whole data set is tokenised at once: 6.4 GB to the limit within minutes")
